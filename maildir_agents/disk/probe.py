"""What the file system under a spool can do, by trying it once, and what that means.

Run when a spool is made and by doctor; the result is stored in spool.json for people.
"""

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What a file system says that cannot do it; a full disk or a bad one says something else.
_CANNOT = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.EMLINK)
_MEMORY = ("tmpfs", "ramfs")
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "virtiofs")


def probe(root: str) -> "dict[str, Any]":
    """`{type, hard_links, atomic_rename, directory_fsync, inotify, verdict}` of the file system that holds `root`.

    One at a time: whoever makes a spool or examines it holds a lock.  Raises OSError when the disk is full or fails.
    verdict: ok · volatile (lost at reboot) · poll (no events, one host writes) · refused (no hard links or rename).
    """
    one, two = f"{root}/.probe", f"{root}/.probe-2"
    kind = _type(root)
    _clear(one, two)  # what one left that was killed
    try:
        links = _works(_link, one, two)
        found = {
            "type": kind,
            "hard_links": links,
            "atomic_rename": _works(_rename, one, two),
            "directory_fsync": _works(_sync, root, two),
            "inotify": sys.platform == "linux" and kind not in _NETWORK,
        }
    finally:
        _clear(one, two)
    return {**found, "verdict": _verdict(found)}


def _clear(*paths: str) -> None:
    for path in paths:
        if os.path.lexists(path):
            os.unlink(path)


def _verdict(found: "dict[str, Any]") -> str:
    if not (found["hard_links"] and found["atomic_rename"]):
        return "refused"
    if found["type"] in _MEMORY:
        return "volatile"
    return "ok" if found["inotify"] else "poll"


def _works(act: "Any", one: str, two: str) -> bool:
    try:
        return bool(act(one, two))
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        return False


def _link(one: str, two: str) -> bool:
    os.close(os.open(one, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    os.link(one, two)
    same = os.stat(one).st_ino == os.stat(two).st_ino and os.stat(one).st_nlink == 2
    os.unlink(two)
    return same


def _rename(one: str, two: str) -> bool:
    os.rename(one, two)
    return os.path.lexists(two) and not os.path.lexists(one)


def _sync(root: str, _: str) -> bool:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    return True


def _type(root: str) -> str:
    """The file system's name by the longest mount point above `root`; "unknown" where there is no /proc."""
    best, kind, real = "", "unknown", os.path.realpath(root) + "/"
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                point, name = line.split()[1:3]
                if real.startswith(point.rstrip("/") + "/") and len(point) >= len(best):
                    best, kind = point, name
    except OSError:
        pass
    return kind
