"""Replacing a file that is no mail: settings, units, keys, what a hook remembers.  Whole, or as it was before.

Mail never goes this way: a message is linked and moved, see moves.py.
"""

import os

_SAFE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def replace(path: str, text: str, *, mode: int, like: os.stat_result | None = None, durable: bool = True) -> None:
    """Put a file of exactly `text` (UTF-8) in the place of `path`, whose directory exists.

    `mode` as for open(2); owner and mode as in `like` where that is given.  On OSError, which is passed on, the old
    file stands and no draft is left; who is killed leaves the old file or the new, and may leave a hidden draft.
    """
    directory, name = os.path.split(path)
    draft = os.path.join(directory, f".{name[:180]}.{os.urandom(6).hex()}.agent-mail")
    # Of a file that few may read no draft is ever readable by more.
    fd = os.open(draft, _SAFE, mode if like is None else 0o600)
    try:
        with open(fd, "wb") as file:
            if like is not None:
                _make_alike(fd, like)
            file.write(text.encode("utf-8"))
            file.flush()
            if durable:
                os.fsync(fd)
        os.rename(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _make_alike(fd: int, there: os.stat_result) -> None:
    """Owner, then mode: root that helps somebody does not take their settings away from them."""
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (there.st_uid, there.st_gid):
        try:
            os.fchown(fd, there.st_uid, there.st_gid)
        except PermissionError:
            pass  # a file of another whose directory is ours
    os.fchmod(fd, there.st_mode & 0o7777)
