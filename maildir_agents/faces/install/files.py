"""Reading and replacing one settings file: a link is followed, the mode stays, and nobody ever sees half of it.

What other programs wrote after the file was read is not undone: the file is compared once more under a lock on its
directory, which all who write this way take.
"""

import fcntl
import os
import stat
import time

from maildir_agents.disk.moves import refusal
from maildir_agents.disk.replacing import replace
from maildir_agents.errors import MailError

LARGEST = 16 << 20
PATIENCE_S = 5.0  # for another who writes there


def read(path: str) -> str | None:
    """The text, line ends as they are; None: there is no file.  Raises broken_settings, cannot_read."""
    try:
        data = _content(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MailError("cannot_read", f"cannot read {path}: {error.strerror}", path=path) from error
    if data is None:
        raise broken(path, "no regular file")  # /dev/null, say: a link to it says "none of that, please"
    if len(data) > LARGEST:
        raise broken(path, f"larger than {LARGEST} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise broken(path, f"not UTF-8 at byte {error.start}") from None


def _content(path: str) -> bytes | None:
    """The first bytes of a file, more than LARGEST if it has more; None: it is a device, a pipe or the like."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        return file.read(LARGEST + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else None


def broken(path: str, why: str) -> MailError:
    return MailError(
        "broken_settings", f"{path} was left as it is: {why}", "mend the file, then repeat the command", path=path
    )


def write(path: str, before: str | None, after: str | None) -> None:
    """Replace what was read as `before` by `after`; None removes it, and the directory that was made for it.

    Raises `busy` when something else stands there by now.
    """
    real = os.path.realpath(path)
    try:
        if after is not None:
            os.makedirs(os.path.dirname(real), exist_ok=True)
        turn = _turn(os.path.dirname(real))
        try:
            _exchange(path, real, before, after)
        finally:
            os.close(turn)
        if after is None:
            _drop_own_directory(os.path.dirname(path))
    except OSError as error:
        raise refusal(error, path) from error


def _turn(directory: str) -> int:
    """A descriptor that holds the directory's lock, if that can be had: a home on NFS has none to give."""
    fd, deadline = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            break
    return fd


def _exchange(path: str, real: str, before: str | None, after: str | None) -> None:
    if read(real) != before:
        raise MailError("busy", f"{path} was changed by another program meanwhile", "repeat the command", path=path)
    if after is None:
        os.unlink(real)
    else:
        _replace(real, after)


def _replace(real: str, text: str) -> None:
    try:
        there: os.stat_result | None = os.stat(real)
    except FileNotFoundError:
        there = None  # its mode is as the umask has it
    replace(real, text, mode=0o666, like=there)


def _drop_own_directory(directory: str) -> None:
    # `.claude` and its like; never a directory that people name themselves.
    if os.path.basename(directory)[:1] == ".":
        try:
            os.rmdir(directory)
        except OSError:
            pass  # something else is in it
