"""Every verb, failed and killed at every call it makes to the disk.  See `sweep` for the harness and `scenarios` for
the situations; `test_a_wrong_order_is_caught` shows that the harness would notice.
"""

import os

import pytest

from crash.invariants import check_spool
from crash.meetings import Meeting, abandoned, committed, finish, wake, wake_and_go_on
from crash.scenarios import SCENARIOS, sent
from crash.sweep import BODY, SUBJECT, Scenario, Sweep, take
from maildir_agents.errors import MailError
from maildir_agents.testing import FailingDisk, Killed, temporary_spool


def report(wrong: list[str]) -> str:
    return "\n".join(wrong)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_whatever_fails_or_dies_one_further_call_leaves_all_in_order(scenario, memory):
    sweep = Sweep(scenario(), memory).run()
    assert not sweep.wrong, report(sweep.wrong)
    assert sweep.points >= 4 * len({name for name, _ in sweep.calls})


def test_a_sweep_over_nothing_fails(memory):
    class Nothing(Scenario):
        def prepare(self, spool):
            sent(spool)

        def act(self, spool):
            return spool.status()

    assert any("nothing was counted" in sentence for sentence in Sweep(Nothing(), memory).run().wrong)


# --------------------------------------------------------------------------------------- somebody else, just then


@pytest.mark.parametrize("sender", [wake, wake_and_go_on])
def test_a_sender_that_wakes_up_while_its_draft_is_collected_has_sent_it_or_knows_that_it_has_not(memory, sender):
    meeting = Meeting(memory, abandoned, sender)
    assert meeting.sweep() == []
    assert meeting.points >= 4


def test_a_sender_and_its_helper_deliver_one_message_once(memory):
    def go_on(spool, reported):
        for name in os.listdir(f"{spool.root}/agents/b/tmp"):
            finish(spool, name[:36])
        reported.once[SUBJECT] = {"b"}

    meeting = Meeting(memory, committed, go_on)
    assert meeting.sweep() == []
    assert meeting.points >= 4


def test_two_helpers_deliver_one_message_once(memory):
    def look(spool, reported):
        spool.watch("b", once=True)
        reported.once[SUBJECT] = {"b"}

    meeting = Meeting(memory, committed, look)
    assert meeting.sweep() == []
    assert meeting.points >= 4


# ------------------------------------------------------------------------------------------------ locks, short writes


def test_whoever_dies_holding_a_lock_holds_it_no_longer():
    with temporary_spool() as spool:
        sent(spool)
        for call in range(2, 5):  # the first one opens the lock
            message_id = sent(spool, f"before call {call}")
            with pytest.raises(Killed), spool.another(FailingDisk(kill_at=call)).read("b"):
                pass
            take(spool.another(), "b")  # or `busy`, after two seconds
            assert spool.ack("b", [message_id])["count"] == 1


def test_a_lock_that_the_kernel_refuses_is_not_held(monkeypatch):
    with temporary_spool() as spool:
        message_id = sent(spool)

        def no_locks(fd, operation):
            raise OSError(37, "No locks available")

        monkeypatch.setattr("maildir_agents.disk.guard.fcntl.flock", no_locks)
        with pytest.raises(MailError, match="No locks available"), spool.read("b"):
            pass
        monkeypatch.undo()
        assert [message["id"] for message in take(spool, "b")] == [message_id]


@pytest.mark.parametrize("most", [1, 7, 100])
def test_short_writes_are_completed(most):
    with temporary_spool() as spool:
        sent(spool)
        sent(spool.another(FailingDisk(most_bytes=most)), "in pieces")
        messages = take(spool.another(), "b")
        assert [(message["subject"], message["body"]) for message in messages] == [
            ("earlier", BODY),
            ("in pieces", BODY),
        ]
        assert check_spool(spool.root, finished=True) == []


def test_a_write_that_takes_nothing_is_refused_and_ends():
    with temporary_spool() as spool:
        sent(spool)
        with pytest.raises(MailError) as refused:
            sent(spool.another(FailingDisk(most_bytes=0)), "never")
        assert refused.value.code == "cannot_write"
        assert check_spool(spool.root, finished=True) == []
