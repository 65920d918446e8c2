"""What hooks remember of one session of one agent: how often it was held up, and which mail it was told of.

Two small files and a lock in the user's cache directory, outside of every spool: they are no mail, and losing them
costs a reminder.  A file is replaced whole, so a killed hook leaves the old one; a week after its last use it goes.
"""

import os

from maildir_agents.disk.jsonfile import decode, encode, take
from maildir_agents.disk.replacing import replace
from maildir_agents.errors import Malformed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

KEPT_S = 7 * 86400
SWEPT = 500  # files looked at in one sweep
LARGEST = 8 << 20
_MODULUS = 2**127 - 1  # a prime, so every byte of the text counts


def directory(environ: "Mapping[str, str]") -> str:
    """`agent-mail/sessions` in XDG_CACHE_HOME, or in ~/.cache."""
    cache = environ.get("XDG_CACHE_HOME", "")
    if cache[:1] != "/":
        cache = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".cache")
    return f"{cache}/agent-mail/sessions"


class Session:
    """One session of one agent of one spool.  Reading never fails; writing tells whether it worked."""

    def __init__(self, spool: str, agent: str, session: str, environ: "Mapping[str, str]") -> None:
        self._directory = directory(environ)
        meant = int.from_bytes(f"{spool}\0{session}".encode("utf-8", "surrogatepass"), "big") % _MODULUS
        self._stem = f"{self._directory}/{agent}~{meant:x}"

    # the counter

    def recall(self) -> "dict[str, Any]":
        """`{blocks, watch_said}`, what there is of it."""
        try:
            return decode(take(f"{self._stem}.json", LARGEST).data or b"{}")
        except Malformed:
            return {}

    def remember(self, **members: object) -> bool:
        """Keep this and nothing else; False: it could not be kept."""
        return self._replace(".json", encode(members))

    # the mail it was told of

    def told(self) -> set[str]:
        """The unread mail that this session knows of, as `Owed.news` names it."""
        return set((take(f"{self._stem}.told", LARGEST).data or b"").decode("ascii", "replace").split())

    def tell(self, news: "Iterable[str]") -> bool:
        """Note the unread mail this session knows of from now on; what has been read since is forgotten by that."""
        return self._replace(".told", "".join(f"{one}\n" for one in news))

    # the lock of its watch

    @property
    def has_had_a_watch(self) -> bool:
        """Whether a harness has started a watch for this session, and so will again."""
        return os.path.exists(f"{self._stem}.lock")

    def hold(self) -> int | None:
        """A descriptor that holds the session's watch lock until this process ends; None: another does."""
        import fcntl

        self._make_room()
        while True:
            fd = os.open(f"{self._stem}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(fd).st_nlink:  # else it was swept between the opening and the lock
                    os.utime(fd)
                    return fd
            except BlockingIOError:
                os.close(fd)
                return None
            os.close(fd)

    # files

    def _replace(self, ending: str, text: str) -> bool:
        try:
            self._make_room()
            replace(self._stem + ending, text, mode=0o600, durable=False)
        except OSError:
            return False
        return True

    def _make_room(self) -> None:
        """The directory, and nothing in it that is older than a week."""
        if os.path.exists(f"{self._stem}.json"):
            return  # not the session's first file
        os.makedirs(self._directory, 0o700, exist_ok=True)
        import time

        sweep(self._directory, time.time() - KEPT_S)


def sweep(where: str, before_s: float) -> None:
    """Remove what was not touched since; a lock that is held stays, however old."""
    with os.scandir(where) as entries:
        for _, entry in zip(range(SWEPT), entries, strict=False):
            try:
                if entry.stat(follow_symlinks=False).st_mtime < before_s and not _is_held(entry.path):
                    os.unlink(entry.path)
            except OSError:
                continue  # another sweeps too


def _is_held(path: str) -> bool:
    if path[-5:] != ".lock":
        return False
    from maildir_agents.disk.guard import holder

    return holder(path) is not None
