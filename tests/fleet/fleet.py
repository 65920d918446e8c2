"""A spool with many mailboxes, and calls on it with one fault each.  For the tests of this directory; no fixture.

Building the spool anew for every fault would take most of the time, so one is used again: `wipe` takes every message
and everything that refers to one out of it, and leaves the mailboxes.
"""

import errno
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from crash.invariants import Reported, check_spool
from maildir_agents.errors import MailError
from maildir_agents.testing import FailingDisk, Killed, MovableClock, TemporarySpool

A_MINUTE = 61  # seconds: a draft that nobody committed is abandoned by then
DAY = 86_400
NOTHING_CHANGED = {"cannot_write", "spool_full", "read_only", "cannot_read"}
STATES = ("new", "cur", "claimed", "acked", "archive", "failed")
ERRORS = {
    "open": (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS),
    "write": (errno.ENOSPC, errno.EIO),
    "fsync": (errno.EIO, errno.ENOSPC),
    "syncfs": (errno.EIO,),
    "link": (errno.ENOSPC, errno.EIO, errno.EROFS),
    "rename": (errno.ENOSPC, errno.EIO, errno.EROFS),
    "mkdir": (errno.ENOSPC, errno.EIO, errno.EROFS),
    "unlink": (errno.EIO, errno.EROFS),
    "rmdir": (errno.EIO, errno.EROFS),
}
LASTING = (errno.ENOSPC, errno.EROFS)


@contextmanager
def memory() -> Iterator[Path]:
    """A directory that is gone afterwards, in memory where the system offers some.

    A sweep makes and removes hundreds of thousands of names; what it proves does not depend on the file system, how
    long it takes does: on a disk it waits for whatever else the disk is busy with.
    """
    shared = "/dev/shm"
    place = shared if os.access(shared, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="agent-mail-fleet-", dir=place) as directory:
        yield Path(directory)


def crew(count: int) -> tuple[str, ...]:
    return tuple(f"r{number:03}" for number in range(count))


class Fleet:
    def __init__(self, place: Path, agents: Sequence[str]) -> None:
        self.root = str(place / "spool")
        self.agents = tuple(agents)
        self.clock = MovableClock()
        for agent in agents:
            read(self.open(), agent)
        self._spare = shutil.copytree(f"{self.root}/ballast", str(place / "ballast"), copy_function=os.link)

    def open(self, disk: FailingDisk | None = None) -> TemporarySpool:
        """The spool as another process opens it."""
        return TemporarySpool(self.root, disk=disk or FailingDisk(), clock=self.clock, durability="full")

    def in_the_past(self, days: float) -> TemporarySpool:
        """The spool as it was opened some days ago.  Its ids are of that day, whatever this process has made since."""
        clock = MovableClock()
        clock.advance(-days * DAY)
        return TemporarySpool(
            self.root, disk=FailingDisk(), clock=clock, durability="full", randomness=partial(os.urandom)
        )

    def box(self, agent: str, *parts: str) -> str:
        return "/".join((self.root, "agents", agent, *parts))

    def wipe(self) -> None:
        """No message, no trace of one, no other mailbox, and the time is now."""
        self.clock = MovableClock()
        for top in ("messages", "dedup", "threads", "trash", "broadcast"):
            empty(f"{self.root}/{top}")
        for agent in os.listdir(f"{self.root}/agents"):
            if agent not in self.agents:
                shutil.rmtree(self.box(agent))
                continue
            for place in ("tmp", *STATES):
                empty(self.box(agent, place))
            for name in set(os.listdir(self.box(agent))) - {"tmp", *STATES}:
                (shutil.rmtree if os.path.isdir(self.box(agent, name)) else os.unlink)(self.box(agent, name))
        for name in set(os.listdir(self._spare)) - set(os.listdir(f"{self.root}/ballast")):
            os.link(f"{self._spare}/{name}", f"{self.root}/ballast/{name}")

    def copies(self) -> Counter[str]:
        """How many names of messages each mailbox has, in all states."""
        agents = os.listdir(f"{self.root}/agents")
        return Counter({agent: sum(1 for _ in names_of(self.box(agent))) for agent in agents})

    def wrong(self, reported: Reported | None = None, **more: Any) -> list[str]:
        return check_spool(self.root, reported=reported, **more)


def empty(directory: str) -> None:
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def names_of(box: str, states: Iterable[str] = STATES) -> Iterator[tuple[str, str]]:
    """(state, file name) of everything in a mailbox's states, dead letters' reasons left out."""
    for state in states:
        for _, _, files in os.walk(f"{box}/{state}"):
            yield from ((state, name) for name in files if not name.endswith(".reason.json"))


def places(root: str) -> Iterator[tuple[str, str, str, str]]:
    """(agent, state, id, subject) of every message in a mailbox."""
    for agent in os.listdir(f"{root}/agents"):
        for state in STATES:
            for directory, _, files in os.walk(f"{root}/agents/{agent}/{state}"):
                for name in files:
                    if not name.endswith(".reason.json"):
                        with open(f"{directory}/{name}", encoding="utf-8") as file:
                            yield agent, state, name[:36], json.load(file)["subject"]


def read(spool: TemporarySpool, agent: str, **how: Any) -> list[dict[str, Any]]:
    """Read an agent's mail and mark it."""
    with spool.read(agent, limit=1000, **how) as batch:
        pass
    if batch.trouble is not None:
        raise batch.trouble
    return batch.messages


def in_one_minute(make: Callable[[], Any]) -> Any:
    """What `make` answers; made once more where it began in one minute and ended in the next.

    What is settled lies by the minute of its id: only so a sweep meets the same calls each time.
    """
    while True:
        begun = time.time() // 60
        made = make()
        if time.time() // 60 == begun:
            return made


class Attempt:
    """A call with a fault: `outcome` is answered, killed, unsure or refused."""

    def __init__(self, act: Callable[[TemporarySpool], Any], spool: TemporarySpool) -> None:
        self.answer: Any = None
        self.error: MailError | None = None
        try:
            self.answer = act(spool)
            self.outcome = "answered"
        except Killed:
            self.outcome = "killed"
        except MailError as error:
            self.error = error
            self.outcome = "unsure" if error.code == "durability_unknown" else "refused"
            if self.outcome == "refused" and error.code not in NOTHING_CHANGED:
                raise AssertionError(f"that is no answer to a fault: {error.code}: {error.sentence}") from error


def counted(fleet: Fleet, act: Callable[[TemporarySpool], Any]) -> list[tuple[str, str]]:
    """What a call without a fault asks of the disk."""
    disk = FailingDisk()
    act(fleet.open(disk))
    assert disk.offences == []
    assert disk.calls, "nothing was counted: a sweep over it would prove nothing"
    return [(name, path.replace(fleet.root, "")) for name, path in disk.calls]


def faults(calls: Sequence[tuple[str, str]], points: Iterable[int] | None = None) -> Iterator[dict[str, int]]:
    """A kill before each call and after the last, and each error that a call can meet; in a long row of equal calls
    one error each, in turn.  (Killed after a call is killed before the next: the disk is the same.)"""
    like = [f"{name} {os.path.dirname(path).split('/')[1:2]} {'/new/' in path}" for name, path in calls]
    for number, (name, _) in enumerate(calls, 1):
        if points is not None and number not in points:
            continue
        yield {"kill_at": number}
        errors = ERRORS[name]
        if len(set(like[max(0, number - 3) : number + 2])) == 1:
            if number % 2:
                yield {"fail_at": number, "error": errors[number // 2 % len(errors)], "lasting": number % 8 == 1}
            continue
        yield from ({"fail_at": number, "error": error} for error in errors)
        yield from ({"fail_at": number, "error": error, "lasting": True} for error in LASTING)
    yield {"kill_after": len(calls)}


def told(fault: dict[str, int], calls: Sequence[tuple[str, str]]) -> str:
    """A fault in words, for a failure's message."""
    kind, number = next(iter(fault.items()))
    what = errno.errorcode[fault["error"]] if "error" in fault else kind.removeprefix("kill_")
    return f"{what}{' from' if fault.get('lasting') else ''} call {number}, {' '.join(calls[number - 1])}"
