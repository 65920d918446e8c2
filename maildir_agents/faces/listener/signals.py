"""Signals as something that can be waited for: each makes a descriptor readable, the handlers do nothing else.

SIGTERM, SIGINT and SIGHUP ask to end, SIGCHLD says that a worker may have.  What was installed before is put back, and
what is ignored (under nohup, say) stays ignored.
"""

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signals:
    """`reader` can be read once a signal has come, until `take`."""

    def __init__(self) -> None:
        self._asked = 0  # to end, how often
        self._told = 0

    def __enter__(self) -> "Signals":
        self.reader, self._writer = os.pipe()
        for end in (self.reader, self._writer):
            os.set_blocking(end, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        heard = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._note) for number in (*heard, signal.SIGCHLD)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self.reader)
        os.close(self._writer)

    def _note(self, number: int, _: "FrameType | None") -> None:
        if number in ENDING:
            self._asked += 1

    def take(self) -> bool:
        """Take what has come; whether somebody has asked to end, now or before."""
        try:
            while os.read(self.reader, 4096):
                pass
        except BlockingIOError:
            pass
        return self._asked > 0

    def again(self) -> bool:
        """Whether somebody has asked once more, since this was last asked."""
        told, self._told = self._told, self._asked
        return self._asked > max(told, 1)
