"""To be the only one for long: listener, serve, relay, doctor --fix.  Short locks are `guard`'s.

An exclusive flock on a file that is never deleted and never emptied before the lock is held.  The lock alone is the
truth and dies with its holder; what the file says (process id, start time) is a label for people.
The only module that imports portalocker, and only to become the only one: asking who is costs no import.
"""

import fcntl
import os
import time

from maildir_agents.disk.jsonfile import decode, encode
from maildir_agents.disk.moves import refusal
from maildir_agents.errors import MailError, Malformed

UNKNOWN = 0
# In seconds.  Whoever asks for the holder takes a shared lock for microseconds, but a busy machine may stop it there:
# that is no holder, and is waited for longer than one.
_PATIENCE = 0.05
_LONGEST = 5.0
_PAUSE = 0.002


class Sole:
    """`with Sole(path): …` is the only one at `path` on this machine for the block, or raises `busy` at once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> "Sole":
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise refusal(error, self._path) from error
        try:
            self._acquire()
        except BaseException:
            os.close(self._fd)
            raise
        self._pid = os.getpid()
        self._introduce()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if os.getpid() == self._pid:  # a forked child shares the lock and only lets go of its descriptor
                self._release()
        finally:
            os.close(self._fd)

    def _acquire(self) -> None:
        _load()
        from portalocker import AlreadyLocked, LockException, LockFlags, lock

        began = time.monotonic()
        while True:
            try:
                lock(self._fd, LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING)
                return
            except AlreadyLocked:
                waited = time.monotonic() - began
                if waited >= _LONGEST or (waited >= _PATIENCE and _is_held(self._fd)):
                    raise self._busy() from None
            except LockException as error:
                cause = error.__cause__
                raise (refusal(cause, self._path) if isinstance(cause, OSError) else error) from error
            time.sleep(_PAUSE)

    def _release(self) -> None:
        from portalocker import unlock

        self._label(b"")
        unlock(self._fd)  # not left to close: a child that inherited the descriptor would keep the lock

    def _introduce(self) -> None:
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._label(encode({"pid": self._pid, "started": started}).encode() + b"\n")

    def _label(self, text: bytes) -> None:
        try:
            os.pwrite(self._fd, text, 0)  # readers take the first line: at no moment is there half of one
            os.ftruncate(self._fd, len(text))
        except OSError:
            pass  # a full disk takes the label, not the lock

    def _busy(self) -> MailError:
        pid = _labelled(self._fd)
        return MailError(
            "busy",
            f"{self._path} is held by process {pid or 'unknown'}",
            "stop that process first, or leave the work to it",
            holder=pid or None,
            path=self._path,
        )


def _load() -> None:
    """Import portalocker, which looks for a usable temporary directory as it loads: a full disk has none."""
    try:
        import portalocker
    except FileNotFoundError:
        import tempfile

        tempfile.tempdir = os.sep  # only to be named, nothing is made there
        try:
            import portalocker  # noqa: F401
        finally:
            tempfile.tempdir = None


def holder(path: str) -> int | None:
    """The process id of whoever is the only one at `path`; None: nobody is; UNKNOWN: somebody, who left no name."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MailError("cannot_read", f"cannot read {path}: {error.strerror}", path=path) from error
    try:
        return _holder(fd)
    finally:
        os.close(fd)


def _holder(fd: int) -> int | None:
    deadline = time.monotonic() + _PATIENCE
    while _is_held(fd):
        pid = _labelled(fd)
        if pid != UNKNOWN or time.monotonic() >= deadline:
            return pid
        time.sleep(_PAUSE)
    return None


def _is_held(fd: int) -> bool:
    """Whether somebody is the only one there; who only asks keeps nobody from asking."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def _labelled(fd: int) -> int:
    try:
        pid = decode(os.pread(fd, 256, 0).partition(b"\n")[0]).get("pid")
    except Malformed:
        return UNKNOWN
    return pid if type(pid) is int else UNKNOWN
