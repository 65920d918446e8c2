"""News while the screen sleeps: a thread listens to the doorbell and rings a pipe that can be slept on beside the keys.

A ring says "look again", never what came.  Without a doorbell the clock does it, only later.
"""

import os
import signal
import threading
import time
from collections.abc import Sequence

QUIET_SECONDS = 0.05  # rings closer together than this are one


class Bell:
    """Rings `reader` after arrivals in the directories it was told to listen to."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        for fd in (self.reader, self._writer):
            os.set_blocking(fd, False)
        self._directories: tuple[str, ...] = ()
        self._thread: threading.Thread | None = None
        self._rope = -1  # closing it ends the thread

    def listen(self, directories: Sequence[str]) -> None:
        """Listen to these from now on; nothing happens where they are the same as before."""
        if tuple(directories) == self._directories:
            return
        self._hush()
        self._directories = tuple(directories)
        self._rope, hangup = os.pipe()
        thread = threading.Thread(target=self._run, args=(self._directories, hangup), daemon=True)
        # A signal that ended this call half way would leave a thread that cannot be joined: it comes a moment later.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            thread.start()
            self._thread = thread
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def close(self) -> None:
        self._hush()
        os.close(self.reader)
        os.close(self._writer)

    def _hush(self) -> None:
        rope, self._rope = self._rope, -1  # a signal may interrupt the join, and then this runs again
        if rope >= 0:
            os.close(rope)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, directories: tuple[str, ...], hangup: int) -> None:
        from maildir_agents.disk.doorbell import Doorbell

        try:
            with Doorbell(directories, hangup=hangup) as bell:
                self._ring()  # what came while it was being armed
                while bell.wait(None) != "hangup":
                    self._ring()
                    time.sleep(QUIET_SECONDS)
        except OSError:
            pass  # no descriptor left: the clock has to do
        finally:
            os.close(hangup)

    def _ring(self) -> None:
        try:
            os.write(self._writer, b"!")
        except BlockingIOError:  # a full pipe has rung enough
            pass
