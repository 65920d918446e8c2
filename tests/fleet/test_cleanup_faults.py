"""cleanup may die or fail at any call, and others may send, retry and read between any two: nothing owed is taken,
nothing refers to what is gone, and the next cleanup goes on."""

import errno
import os

import pytest

from crash.invariants import Reported
from fleet.fleet import A_MINUTE, Attempt, Fleet, counted, faults, in_one_minute, memory, read, told
from maildir_agents.errors import MailError
from maildir_agents.mail import mending, removal
from maildir_agents.mail.deadletter import fail
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.testing import FailingDisk

MOST = 12  # sentences: then it is clear enough that something is wrong
AGENTS = ("ann", "bob", "cat")
KEYED = {"sender": "ann", "recipient": "bob", "subject": "question", "dedup_key": "k"}


@pytest.fixture(scope="module")
def shared():
    with memory() as place:
        yield Fleet(place, AGENTS)


class Situation:
    """Old and settled: a keyed question with its answer, a broadcast, a message alone.  Owed: one of every kind."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        in_one_minute(lambda: self._make(fleet))

    def _make(self, fleet: Fleet) -> None:
        fleet.wipe()
        past = fleet.in_the_past(40)
        self.question = past.send(**KEYED)["id"]
        read(past, "bob")
        self.keyed = {self.question}
        self.answer = past.send(sender="bob", recipient="ann", subject="answer", reply_to=self.question)["id"]
        self.broadcast = past.send(sender="cat", recipient="*", subject="to all", dedup_key="all")["id"]
        self.alone = past.send(sender="cat", recipient="ann", subject="alone")["id"]
        for agent in ("ann", "bob"):
            past.ack(agent, everything=True)
        self.owed: dict[tuple[str, str], set[str]] = {}
        for number, state in enumerate(("new", "cur", "claimed", "archive", "failed", "acked")):
            message_id = past.send(sender="ann", recipient="cat", subject=state)["id"]
            self._bring(past, message_id, state)
            self.owed["cat", message_id] = {state}
            if number == 0:
                self.unread = message_id
        self.owed["cat", self.unread] = {"new", "cur"}
        self.gone = {
            ("bob", self.question),
            ("ann", self.answer),
            ("ann", self.alone),
            ("ann", self.broadcast),
            ("bob", self.broadcast),
        }

    def _bring(self, past, message_id: str, state: str) -> None:
        box = Mailbox(past, "cat")
        if state == "cur":
            box.move("read", box.find(message_id), r="20261001T000000.000Z")
        elif state == "claimed":
            self.fleet.open().claim("cat", message_id, lease_s=3600)
        elif state == "archive":
            past.archive("cat", [message_id])
        elif state == "failed":
            fail(box, box.find(message_id), "worker_failed", "it could not be worked on")
        elif state == "acked":  # but yesterday
            self.fleet.in_the_past(1).ack("cat", [message_id])

    def reported(self, everything_gone: bool) -> Reported:
        reported = Reported()
        reported.present = dict(self.owed)
        if everything_gone:
            reported.gone = set(self.gone)
        reported.at_most_once = {"question", "answer", "to all", "alone", "the reply"}
        return reported


def cleanup(spool):
    return spool.cleanup(30)


def retry(situation: Situation) -> None:
    """The sender of the question, which never saw its receipt, sends it again: told true, and once."""
    answer = situation.fleet.open().send(**KEYED)
    assert answer["duplicate"] == (answer["id"] in situation.keyed)
    situation.keyed.add(answer["id"])
    if not answer["duplicate"]:
        situation.owed["bob", answer["id"]] = {"new", "cur"}
        situation.gone.discard(("bob", answer["id"]))


def reply(situation: Situation) -> None:
    """Somebody answers the question once more, at the last moment."""
    try:
        answer = situation.fleet.open().send(
            sender="bob", recipient="ann", subject="the reply", reply_to=situation.question
        )
    except MailError as refused:
        assert refused.code in ("unknown_id", "in_transit"), refused
        return
    situation.owed["ann", answer["id"]] = {"new", "cur"}


def archive(situation: Situation) -> None:
    """It is put away for good instead, if it is still there."""
    try:
        situation.fleet.open().archive("ann", [situation.alone])
    except MailError as refused:
        assert refused.code in ("unknown_id", "in_transit"), refused
        return
    situation.owed["ann", situation.alone] = {"archive"}
    situation.gone.discard(("ann", situation.alone))


def readers(situation: Situation) -> None:
    for agent in AGENTS:
        read(situation.fleet.open(), agent, everything=True)
    situation.fleet.open().thread(situation.unread)


def judged(situation: Situation, everything_gone: bool) -> list[str]:
    wrong = situation.fleet.wrong(situation.reported(everything_gone))
    if everything_gone:  # and no name anywhere that speaks of it
        ids = {message_id for _, message_id in situation.gone}
        for directory, _, files in os.walk(situation.fleet.root):
            wrong += [f"a name of what is gone: {directory}/{name}" for name in files if name[:36] in ids]
    return wrong


def test_after_any_fault_nothing_owed_is_gone_and_the_next_one_comes_to_the_end(shared):
    calls = counted(Situation(shared).fleet, cleanup)
    wrong = []
    chosen = list(faults(calls))
    assert len(chosen) > 150
    for fault in chosen:
        situation = Situation(shared)
        disk = FailingDisk(**fault)
        attempt = Attempt(cleanup, shared.open(disk))
        said = [*disk.offences, *(["the fault was never met"] if not disk.struck else [])]
        if attempt.outcome == "unsure":
            said.append(f"that is no answer: {attempt.error.code}")
        shared.clock.advance(A_MINUTE)
        cleanup(shared.open())
        said += judged(situation, everything_gone=True)
        wrong += [f"{told(fault, calls)}: {sentence}" for sentence in said]
        if len(wrong) > MOST:
            break
    assert wrong == []


def test_after_any_kill_a_doctor_comes_to_the_end_as_well(shared):
    """What had begun to go is gone, what had not is whole."""
    calls = counted(Situation(shared).fleet, cleanup)
    wrong = []
    for number in range(1, len(calls) + 1):
        if len(wrong) > MOST:
            break
        situation = Situation(shared)
        Attempt(cleanup, shared.open(FailingDisk(kill_at=number)))
        shared.clock.advance(A_MINUTE)
        answer = shared.open().doctor(fix=True)
        said = judged(situation, everything_gone=False)
        if not answer["clean"]:
            said.append(f"doctor was left with {answer['findings']}")
        wrong += [f"killed before call {number}, {' '.join(calls[number - 1])}: {sentence}" for sentence in said]
    assert wrong == []


@pytest.mark.parametrize("beside", [retry, reply, archive, readers])
def test_whoever_calls_between_any_two_of_its_calls_is_told_the_truth(shared, beside):
    calls = counted(Situation(shared).fleet, cleanup)
    wrong = []
    for number in range(1, len(calls) + 1):
        if len(wrong) > MOST:
            break
        situation = Situation(shared)

        def before(now, name, path, number=number, situation=situation):
            if now == number:
                beside(situation)

        cleanup(shared.open(FailingDisk(before=before)))
        said = judged(situation, everything_gone=False)
        cleanup(shared.open())
        said += judged(situation, everything_gone=beside is readers)
        wrong += [f"{beside.__name__} before call {number}, {' '.join(calls[number - 1])}: {s}" for s in said]
    assert wrong == []


def test_a_retry_after_any_kill_is_told_the_truth(shared):
    calls = counted(Situation(shared).fleet, cleanup)
    wrong = []
    for number in range(1, len(calls) + 1):
        if len(wrong) > MOST:
            break
        situation = Situation(shared)
        Attempt(cleanup, shared.open(FailingDisk(kill_at=number)))
        retry(situation)
        retry(situation)
        cleanup(shared.open())
        said = judged(situation, everything_gone=False)
        wrong += [f"killed before call {number}, {' '.join(calls[number - 1])}: {sentence}" for sentence in said]
    assert wrong == []


def test_a_full_disk_does_not_keep_it_from_making_room(shared):
    """Removing needs no new file: only the names move."""
    situation = Situation(shared)
    disk = FailingDisk()

    def before(number, name, path):
        disk.fail_at = number if name in ("open", "write", "mkdir") and not path.endswith(".lock") else None

    disk.before, disk.error = before, errno.ENOSPC
    with pytest.raises(MailError):  # the histories are left for another time
        cleanup(shared.open(disk))
    assert judged(situation, everything_gone=True) == []


# ------------------------------------------------------------------------------------------------ negative controls


def test_the_sweep_sees_an_anchor_that_goes_first_with_a_helper_that_links_from_the_key(shared, monkeypatch):
    """The retry finds the key, and makes the anchor of a message again that nobody has any more."""
    names = removal._index_names
    monkeypatch.setattr(
        removal,
        "_index_names",
        lambda spool, message: sorted(names(spool, message), key=lambda name: "/messages/" not in name),
    )

    def help_from_the_key(spool, original, key):
        spool.disk.publish(key, spool.anchor(original["id"]))

    monkeypatch.setattr(mending, "complete", help_from_the_key)
    with pytest.raises(AssertionError, match="lost: "):
        test_whoever_calls_between_any_two_of_its_calls_is_told_the_truth(shared, retry)


def test_the_sweep_sees_a_removal_that_takes_the_state_last(shared, monkeypatch):
    """Without the trash nothing tells a removal that was cut short from a message that is owed its names."""

    def names_first(box, found):
        path = box.where(found)
        for name in removal._index_names(box.spool, removal.envelope_at(path)):
            box.spool.disk.discard(name)
        return path if box.spool.disk.discard(path) else None

    monkeypatch.setattr("maildir_agents.verbs.cleanup.to_trash", names_first)
    monkeypatch.setattr("maildir_agents.verbs.cleanup.body_to_trash", lambda spool, message_id: True)
    with pytest.raises(AssertionError, match="without its "):
        test_after_any_kill_a_doctor_comes_to_the_end_as_well(shared)
    monkeypatch.undo()


def test_the_sweep_sees_a_cleanup_that_goes_by_the_day_in_the_id(shared, monkeypatch):
    from maildir_agents.mail import retention

    monkeypatch.setattr(retention, "ms_of_stamp", lambda stamp: 0)
    with pytest.raises(AssertionError, match="was told of"):
        test_after_any_fault_nothing_owed_is_gone_and_the_next_one_comes_to_the_end(shared)
