"""Who is listening: a watch holds an exclusive lock on a file of its own, which the kernel frees at any death.

The file is locked under a dot name first and then renamed into view, so what is visible is locked or its owner is
dead.  Probes take shared locks and cannot fool each other.  The directory comes with an agent's first watch:
without it, it has never watched.
"""

import fcntl
import os

from maildir_agents.disk.moves import Disk, refusal
from maildir_agents.errors import MailError
from maildir_agents.mail.name import EVERYBODY, is_id, ms_of
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ARMING_MS = 60_000  # longer than any watch takes from making its file to showing it
COUNTED = 2000  # messages waiting that a receipt counts; beyond it says so

NEVER, RELEASED, STALE, ARMED = "never", "released", "stale", "armed"


class Presence:
    """`with Presence(spool, agent): …` makes the agent reachable for the block."""

    def __init__(self, spool: SpoolFiles, agent: str) -> None:
        self._disk = spool.disk
        self._directory = f"{spool.box(agent)}/watch"
        self._name = spool.randomness(16).hex()
        self._fd = -1

    def __enter__(self) -> "Presence":
        hidden, visible = f"{self._directory}/.{self._name}", f"{self._directory}/{self._name}.lock"
        try:
            self._lock(hidden)
            while not self._disk.move(hidden, visible):  # so long in between that it was taken for dead
                self._close()
                self._lock(hidden)
        except BaseException:
            self.abandon()
            raise
        return self

    def abandon(self) -> None:
        """Leave nothing of it, however far it came; for whoever has another error to tell of, or a signal."""
        try:
            _sweep(self._disk, f"{self._directory}/{self._name}.lock")
            _sweep(self._disk, f"{self._directory}/.{self._name}")
        finally:
            self._close()  # whatever else there is: who still holds the lock is listening

    def _lock(self, hidden: str) -> None:
        try:
            try:
                self._fd = self._disk.open_lock(hidden, fresh=True)
            except FileNotFoundError:
                self._disk.make_dir(self._directory)
                self._fd = self._disk.open_lock(hidden, fresh=True)
            _held.add(self)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError as error:
            raise refusal(error, hidden) from error

    @property
    def is_visible(self) -> bool:
        """Whether senders can see it: not when the mailbox was replaced meanwhile."""
        return os.path.lexists(f"{self._directory}/{self._name}.lock")

    def renew(self) -> None:
        """Become visible in the mailbox as it is now."""
        self._close()
        self.__enter__()

    def __exit__(self, *_: object) -> None:
        try:
            self._disk.discard(f"{self._directory}/{self._name}.lock")
        finally:
            self._close()

    def _close(self) -> None:
        _held.discard(self)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_held: set[Presence] = set()


def _let_go() -> None:
    for presence in tuple(_held):
        presence._close()


# A child that lives on must not keep its parent's watches alive.
os.register_at_fork(after_in_child=_let_go)


def watch_state(spool: SpoolFiles, agent: str, tidy: bool = False) -> str:
    """armed: another process holds a watch.  stale: one died.  released: there was one.  never.

    `tidy` removes the files of dead watches; a read-only caller leaves them.
    """
    directory = f"{spool.box(agent)}/watch"
    entries = _listed(directory)
    if entries is None:
        return NEVER
    for name in entries if tidy else ():
        if name[0] == ".":
            _sweep_hidden(spool, f"{directory}/{name}")
    states, known = set[str](), set[str]()
    # Listed until nothing is new: a watch may have come before one that was listed went.
    while ARMED not in states and (fresh := _visible(entries) - known):
        states |= {_probe(spool, f"{directory}/{name}", tidy) for name in fresh}
        known |= fresh
        entries = _listed(directory) or []
    return ARMED if ARMED in states else STALE if STALE in states else RELEASED


def _listed(directory: str) -> list[str] | None:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _visible(entries: list[str]) -> set[str]:
    return {name for name in entries if name[0] != "." and name[-5:] == ".lock"}


def armed(spool: SpoolFiles, agent: str, tidy: bool = False) -> bool:
    """Whether mail to this agent wakes anybody now."""
    return watch_state(spool, agent, tidy) == ARMED


def is_dead(spool: SpoolFiles, path: str) -> bool:
    """Whether a visible watch file has nobody behind it."""
    return _probe(spool, path, tidy=False) == STALE


def last_seen_ms(spool: SpoolFiles, agent: str) -> int | None:
    """When the agent last did something here, from its history and its watches; None: never."""
    times = []
    for path in (f"{spool.box(agent)}/history.jsonl", f"{spool.box(agent)}/watch", f"{spool.box(agent)}/read.lock"):
        try:
            times.append(os.stat(path).st_mtime_ns // 1_000_000)
        except OSError:
            pass
    return max(times, default=None)


def _probe(spool: SpoolFiles, path: str, tidy: bool) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return RELEASED  # it went away meanwhile
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return ARMED
    except OSError:
        return STALE
    else:
        if tidy:
            _sweep(spool.disk, path)
        return STALE
    finally:
        os.close(fd)


def _sweep_hidden(spool: SpoolFiles, path: str) -> None:
    """Remove what a watch left that died before it was visible; one that lives is visible within a moment."""
    try:
        age_ms = spool.clock.wall_ms() - os.lstat(path).st_mtime_ns // 1_000_000
    except OSError:
        return
    if age_ms > ARMING_MS:
        _probe(spool, path, tidy=True)


def _sweep(disk: Disk, path: str) -> None:
    try:
        disk.discard(path)
    except MailError:
        pass  # read-only: it stays for doctor


# what a sender may expect


def prospects(spool: SpoolFiles, recipient: str, sender: str | None = None) -> "dict[str, Any]":
    """`{known, watch_state, waiting, oldest_age, did_you_mean}`: is there such an agent, does it listen, what waits.

    To be asked before sending: the message itself may end the watch that it wakes.  `waiting` is a number, or "2000+":
    one bounded listing, never a count of a deep mailbox.  `oldest_age` is seconds.  Of a broadcast only `mailboxes` is
    told, how many there are but the sender's.
    """
    if recipient == EVERYBODY:
        nothing: dict[str, Any] = {"watch_state": None, "waiting": None, "oldest_age": None, "did_you_mean": []}
        mailboxes = sum(name != sender for name in _mailboxes(spool))
        return {"known": mailboxes > 0, **nothing, "mailboxes": mailboxes}
    known = os.path.isdir(spool.box(recipient))
    waiting = _first_ids(f"{spool.box(recipient)}/new")
    counted = len(waiting) <= COUNTED
    oldest = min(map(ms_of, waiting), default=None) if counted else None
    return {
        "known": known,
        "watch_state": watch_state(spool, recipient),
        "waiting": len(waiting) if counted else f"{COUNTED}+",
        "oldest_age": None if oldest is None else max(0, (spool.clock.wall_ms() - oldest) // 1000),
        "did_you_mean": [] if known else namesakes(spool, recipient),
    }


def _first_ids(directory: str) -> list[str]:
    found: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if is_id(entry.name[:36]):
                    found.append(entry.name[:36])
                    if len(found) > COUNTED:
                        break
    except FileNotFoundError:
        pass
    return found


def _mailboxes(spool: SpoolFiles) -> list[str]:
    try:
        return [name for name in os.listdir(spool.agents) if name[0] != "."]
    except FileNotFoundError:
        return []


def never_heard_of(spool: SpoolFiles, agent: str) -> list[dict[str, str]]:
    """A warning for whoever reads under a name that had no mailbox until now, if another name is close."""
    near = namesakes(spool, agent)
    if not near:
        return []
    sentence = f"{agent} had no mailbox until now; did you mean {' or '.join(near)}?"
    return [{"warning": sentence, "code": "new_mailbox", "path": spool.box(agent)}]


def namesakes(spool: SpoolFiles, agent: str) -> list[str]:
    """Known agents that a mistyped name may have meant."""
    from maildir_agents.mail.resemblance import closest

    return closest(agent, _mailboxes(spool))
