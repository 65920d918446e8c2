"""Something to sleep on that any thread may ring; rings not taken yet are one."""

import os
import sys


class Chime:
    """`reader` can be read once it has rung, until `drain`."""

    __slots__ = ("_writer", "reader")

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self.reader = self._writer = os.eventfd(0)
        else:
            self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def ring(self) -> None:
        try:
            os.write(self._writer, (1).to_bytes(8, sys.byteorder))
        except BlockingIOError:  # a full pipe has rung enough
            pass

    def drain(self) -> None:
        os.read(self.reader, 65536)

    def close(self) -> None:
        for fd in {self.reader, self._writer}:
            os.close(fd)
