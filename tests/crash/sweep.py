"""Sweeps in process: one run that counts what a verb asks of the disk, then one run for each of these calls and each
way in which it can go wrong.

After every run one further call by somebody, a minute later, has to leave everything as it must be; then everybody
calls once, and nothing at all may be left over.
"""

import errno
import os
import shutil
from pathlib import Path

from crash.invariants import Place, Reported, check_spool
from maildir_agents.errors import MailError
from maildir_agents.testing import FailingDisk, Killed, MovableClock, TemporarySpool

ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.EINTR)
LASTING = (errno.ENOSPC, errno.EIO, errno.EROFS)
NOTHING_CHANGED = {"cannot_write", "spool_full", "read_only"}
SUBJECT, BODY = "under test", "line one\r\nline two, ünïcode\n"


class Scenario:
    """One verb in one situation.  `prepare` runs once; all the rest once for each fault, on a copy."""

    agents: tuple[str, ...] = ("a", "b")
    reasons = 0  # lone reason files that the format leaves to doctor
    later = 0.0  # seconds between the preparation and the act
    never_refused = "/nothing/"  # where a full disk is no reason to refuse: ballast is freed
    drafts = False  # whether an uncommitted broadcast may wait for the next one
    few = ""  # calls on paths that begin so are swept by another scenario: here with four faults instead of eleven

    def prepare(self, spool: TemporarySpool) -> None:
        """Bring a spool into the situation."""

    def act(self, spool: TemporarySpool) -> object:
        """The call under test."""
        raise AssertionError("a scenario has an act")

    def always(self, reported: Reported) -> None:
        """What must hold whatever became of the act."""

    def told(self, reported: Reported, answer) -> None:
        """It returned: what it reported must be there."""

    def unsure(self, reported: Reported, error: MailError) -> None:
        """It said that it was done, and that it may not survive a power cut."""
        raise AssertionError(f"nothing here may answer {error.code}: {error.sentence}")

    def refused(self, reported: Reported) -> None:
        """It said that nothing was changed."""

    def killed(self, reported: Reported) -> None:
        """Nobody was told anything."""

    def further(self, spool: TemporarySpool) -> None:
        """One call by anyone, a minute later."""
        take(spool, "b")

    def also(self, found: list[Place]) -> list[str]:
        """What else must hold after it, a sentence for each fault."""
        return []

    def again(self, spool: TemporarySpool, reported: Reported) -> None:
        """What its caller does that may safely be repeated, if anything."""


def take(spool: TemporarySpool, agent: str) -> list[dict]:
    """Read an agent's mail, and mark it."""
    with spool.read(agent) as batch:
        pass
    if batch.trouble is not None:
        raise batch.trouble
    return batch.messages


# ------------------------------------------------------------------------------------------------ one run


def clone(source: str, target: str) -> None:
    """Copy a spool with its hard links and times.  Ballast is shared: it is never written to, only made and removed."""
    known: dict[int, str] = {}
    for here, directories, files in os.walk(source):
        there = here.replace(source, target, 1)
        if here == source:
            os.mkdir(there, 0o700)
        for name in directories:
            os.mkdir(f"{there}/{name}", 0o700)
        for name in files:
            one, other = f"{here}/{name}", f"{there}/{name}"
            inode = os.lstat(one).st_ino
            if here == f"{source}/ballast":
                os.link(one, other)
            elif inode in known:
                os.link(known[inode], other)
            else:
                shutil.copy2(one, other, follow_symlinks=False)
                known[inode] = other


class Run:
    """One act with one fault, and what is wrong afterwards."""

    def __init__(self, scenario: Scenario, template: Path, place: Path, **fault) -> None:
        self.scenario, self.place = scenario, str(place)
        self.wrong: list[str] = []
        self.clock = MovableClock()
        self.clock.advance(scenario.later)
        self.disk = FailingDisk(**fault)
        self.reported = Reported()
        if template.exists():
            clone(str(template), self.place)
        try:
            self.act()
            if fault and not self.disk.struck:
                self.wrong.append("the fault was never met")
            self.wrong += self.disk.offences
            self.clock.advance(61)
            self.afterwards()
        finally:
            shutil.rmtree(self.place, ignore_errors=True)

    def open(self, disk: FailingDisk | None = None) -> TemporarySpool:
        return TemporarySpool(self.place, disk=disk or FailingDisk(), clock=self.clock, durability="full")

    def act(self) -> None:
        """The act itself, and whether what it answered is an answer at all."""
        scenario = self.scenario
        scenario.always(self.reported)
        try:
            answer = scenario.act(self.open(self.disk))
        except Killed:
            scenario.killed(self.reported)
        except MailError as error:
            self.judge(f"refused with {error.code} ({error.sentence})", self.refused, error)
        except Exception as error:  # a caller catches MailError, and must need nothing else
            self.wrong.append(f"raised {error!r}")
        else:
            self.judge("answered", scenario.told, self.reported, answer)

    def refused(self, error: MailError) -> None:
        if error.code == "durability_unknown":
            return self.scenario.unsure(self.reported, error)
        assert error.code in NOTHING_CHANGED, "that is no answer to a fault of the disk"
        settling = error.code == "spool_full" and self.scenario.never_refused in f"{error.detail.get('path')}/"
        assert not settling or self.disk.lasting, "there is ballast for this"
        self.scenario.refused(self.reported)

    def judge(self, what: str, judgement, *given) -> None:
        try:
            judgement(*given)
        except (AssertionError, LookupError, ValueError) as error:
            self.wrong.append(f"{what}: {error!r}")

    def afterwards(self) -> None:
        scenario = self.scenario
        if not self.healthy("the further call", lambda: scenario.further(self.open())):
            return
        self.check("after one call")
        if type(scenario).again is not Scenario.again:
            self.healthy("the repeated call", lambda: scenario.again(self.open(), self.reported))
            self.check("after a repetition")
        # What a single refusal leaves is what a lasting one or a death leaves, or less.
        if not self.refused_once and self.healthy("everybody's call", self.everybody):
            self.check("after everybody's call", finished=True)

    @property
    def refused_once(self) -> bool:
        return self.disk.fail_at is not None and not self.disk.lasting

    def healthy(self, what: str, call) -> bool:
        try:
            call()
        except (MailError, OSError, AssertionError, LookupError, ValueError) as error:
            self.wrong.append(f"{what} failed: {error!r}")
        return not self.wrong

    def check(self, when: str, finished: bool = False) -> None:
        wrong = check_spool(
            self.place,
            reported=self.reported,
            finished=finished,
            reasons=self.scenario.reasons,
            drafts=self.scenario.drafts and not finished,
            also=self.scenario.also,
        )
        self.wrong += [f"{when}: {sentence}" for sentence in wrong]

    def everybody(self) -> None:
        spool = self.open()
        for agent in self.scenario.agents:
            take(spool, agent)
        if self.scenario.drafts:
            spool.send(sender=self.scenario.agents[0], recipient="*", subject="the last word to all")
        spool.send(sender=self.scenario.agents[0], recipient=self.scenario.agents[-1], subject="the last word")


# ------------------------------------------------------------------------------------------------ all of them


class Sweep:
    """All runs of a scenario: `points` is how many, `wrong` what was found, a line each."""

    def __init__(self, scenario: Scenario, directory: Path, *, until: str = "") -> None:
        """`until`: one sentence to stop at; without one, a dozen of any kind are enough."""
        self.scenario, self.directory, self.until = scenario, directory, until
        self.template = directory / "template"
        self.wrong: list[str] = []
        self.points = 0
        self.calls: list[tuple[str, str]] = []
        scenario.prepare(TemporarySpool(self.template, disk=FailingDisk(), clock=MovableClock(), durability="full"))

    def count(self) -> None:
        """The run without a fault: how many calls there are.  A sweep over nothing would prove nothing."""
        run = Run(self.scenario, self.template, self.directory / "count")
        self.calls = [(name, path.replace(run.place, "")) for name, path in run.disk.calls]
        self.wrong += [f"without a fault: {sentence}" for sentence in run.wrong + synced(self.calls, self.made)]
        if not self.calls:
            self.wrong.append("nothing was counted: the act asks nothing of the disk")

    def faults(self, number: int, path: str) -> list[dict]:
        if path.startswith("/ballast/") and path[-2:] not in ("00", "15"):
            return []  # sixteen files are made one like the other: the first and the last are enough
        return faults(number)[: 4 if self.scenario.few and path.startswith(self.scenario.few) else None]

    def made(self, path: str) -> bool:
        """Whether something was not there before the act."""
        return not os.path.lexists(f"{self.template}{path}")

    def run(self) -> "Sweep":
        self.count()
        for number, (name, path) in enumerate(self.calls, 1):
            for fault in self.faults(number, path):
                if enough(self.wrong, self.until):
                    return self
                run = Run(self.scenario, self.template, self.directory / "run", **fault)
                self.points += 1
                self.wrong += [f"{_told(fault)}, {name} {path}: {sentence}" for sentence in run.wrong]
        return self


def enough(wrong: list[str], until: str) -> bool:
    """Whether a sweep has found what it looks for."""
    return any(until in sentence for sentence in wrong) if until else len(wrong) >= 12


def faults(number: int) -> list[dict]:
    """Everything that may happen at a call."""
    return [
        {"kill_at": number},
        {"kill_after": number},
        *({"fail_at": number, "error": error} for error in ERRORS),
        *({"fail_at": number, "error": error, "lasting": True} for error in LASTING),
    ]


def _told(fault: dict) -> str:
    number = next(iter(fault.values()))
    if "kill_at" in fault:
        return f"killed before {number}"
    if "kill_after" in fault:
        return f"killed after {number}"
    return f"{errno.errorcode[fault['error']]} {'from' if fault.get('lasting') else 'at'} {number}"


# What is durable before it is reported.  Into new/ a message also comes back from a claim, which nobody has to sync.
SYNCED = {"new", "acked", "archive", "failed"}


def synced(calls: list[tuple[str, str]], made) -> list[str]:
    """What a good run did not sync, in the order that the format asks for."""
    wrong = []
    for number, (name, path) in enumerate(calls):
        rest, parent = calls[number + 1 :], os.path.dirname(path).rstrip("/")
        if name == "mkdir" and path and made(path) and not _synced(parent, rest):
            wrong.append(f"made and never synced in its parent: {path}")
        state = path.split("/")[3:4] if path.startswith("/agents/") else []
        given_back = "/new/" in path and "~n" in path and "~q" not in path
        if name == "rename" and SYNCED.intersection(state) and not given_back and not _synced(parent, rest):
            wrong.append(f"reported and not synced: {path}")
        if name == "link" and "/dedup/" in path:
            first = next((i for i, (later, _) in enumerate(rest) if later == "rename"), len(rest))
            if not _synced(parent, rest[:first]):
                wrong.append(f"delivered before its commit was synced: {path}")
    return wrong


def _synced(directory: str, calls: list[tuple[str, str]]) -> bool:
    return ("fsync", directory) in calls or any(name == "syncfs" for name, _ in calls)
