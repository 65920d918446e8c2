"""Short locks of the hot path: an exclusive flock on a file that is never deleted.

Tried every 1-2 ms (longer back-off starves beside busy holders) until a deadline, then refused with the
holder's process id.  flock dies with the open file: a killed holder frees it.  The content is a label for people.
"""

import fcntl
import os
import time

from maildir_agents.disk.moves import Disk, refusal
from maildir_agents.errors import MailError

_PAUSE = 0.0015


class Guard:
    """`with Guard(disk, path, wait_ms): …` holds the lock at `path` for the block, or raises `busy`."""

    def __init__(self, disk: Disk, path: str, wait_ms: int = 2000) -> None:
        self._disk, self._path, self._wait_ms = disk, path, wait_ms
        self._fd = -1

    def __enter__(self) -> "Guard":
        try:
            self._fd = self._disk.open_lock(self._path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise refusal(error, self._path) from error
        try:
            self._acquire()
        except OSError as error:  # the kernel has no lock to give: then this caller has none
            self.__exit__()
            raise refusal(error, self._path) from error
        except BaseException:
            self.__exit__()
            raise
        try:
            os.pwrite(self._fd, f"{os.getpid():>10}\n".encode("ascii"), 0)
        except OSError:
            pass  # a label only: a full disk must not stop a reader
        return self

    def _acquire(self) -> None:
        deadline = time.monotonic() + self._wait_ms / 1000
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise self._busy() from None
            time.sleep(_PAUSE)

    def _busy(self) -> MailError:
        holder = os.pread(self._fd, 16, 0).decode("ascii", "replace").strip() or "unknown"
        return MailError(
            "busy",
            f"{self._path} is held by process {holder}",
            "try again in a moment",
            holder=int(holder) if holder.isdigit() else None,
        )

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def holder(path: str) -> int | None:
    """Whether a lock is held, without disturbing its holder: the process id in it (0 if that is not known), or None."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        digits = "".join(c for c in os.pread(fd, 64, 0).decode("ascii", "replace") if c.isdigit() or c == ",")
        return int(digits.split(",")[0] or 0)
    finally:
        os.close(fd)
