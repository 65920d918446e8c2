"""Two at once: what somebody else does before one call of a read, for every call of it."""

import os

from crash.invariants import Reported, check_spool
from crash.scenarios import age, killed_at, sent
from crash.sweep import SUBJECT, clone, take
from maildir_agents.mail.message import check
from maildir_agents.mail.publish import publish
from maildir_agents.testing import FailingDisk, MovableClock, TemporarySpool


class Meeting:
    """A read by b, and what somebody else does before one of its calls; what `other` answers is done afterwards."""

    def __init__(self, memory, prepare, other) -> None:
        self.memory, self.other = memory, other
        self.template = memory / "template"
        prepare(TemporarySpool(self.template, disk=FailingDisk(), clock=MovableClock(), durability="full"))
        self.points = 0

    def at(self, call: int) -> list[str]:
        """What is wrong when they meet before this call (0: not at all, the other one comes afterwards)."""
        place = f"{self.memory}/{call}"
        clone(str(self.template), place)
        spool = TemporarySpool(place, disk=FailingDisk(), clock=MovableClock(), durability="full")
        reported, rest = Reported(), []

        def meet(number: int, name: str, path: str) -> None:
            if number == call:
                rest.append(self.other(spool.another(), reported))

        spool.disk.before = meet
        take(spool, "b")
        self.points = max(self.points, len(spool.disk.calls))
        for go_on in rest or [self.other(spool.another(), reported)]:
            if go_on is not None:
                go_on()
        spool.clock.advance(61)
        take(spool.another(), "b")
        return [f"met before {call}: {sentence}" for sentence in check_spool(place, reported=reported, finished=True)]

    def sweep(self) -> list[str]:
        wrong = self.at(0)
        return wrong + [sentence for call in range(1, self.points + 1) for sentence in self.at(call)]


def wake(spool: TemporarySpool, reported: Reported):
    """A sender that slept for minutes before its commit does that; then it is its turn again, and it goes on."""
    names = os.listdir(f"{spool.root}/agents/b/tmp")
    message_id = names[0][:36] if names else ""
    draft = f"{spool.root}/agents/b/tmp/{message_id}.json"
    if not os.path.lexists(draft):  # collected: it begins again, under another id
        reported.unsent.add(SUBJECT)
        return None
    assert spool.disk.publish(draft, spool.anchor(message_id)) == "done"
    reported.once[SUBJECT] = {"b"}
    reported.present["b", message_id] = {"new", "cur"}
    return lambda: finish(spool, message_id)


def wake_and_go_on(spool: TemporarySpool, reported: Reported) -> None:
    if go_on := wake(spool, reported):
        go_on()


def finish(spool: TemporarySpool, message_id: str) -> None:
    publish(spool, "b", check({"id": message_id, "sender": "a", "recipient": "b", "subject": SUBJECT,
                               "created": "2026-11-30T18:47:12.123Z", "body": ""}))  # fmt: skip


def abandoned(spool: TemporarySpool) -> None:
    sent(spool)
    killed_at(spool, "link", "messages", lambda dying: sent(dying, SUBJECT))
    [name] = os.listdir(f"{spool.root}/agents/b/tmp")
    age(f"{spool.root}/agents/b/tmp/{name}")


def committed(spool: TemporarySpool) -> None:
    sent(spool)
    killed_at(spool, "link", "messages", lambda dying: sent(dying, SUBJECT), after=True)
