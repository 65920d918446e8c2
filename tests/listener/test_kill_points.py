"""A listener that dies at any of its system calls: the next one comes to the same end, and tells nobody twice."""

import pytest

from conversations.scene import a_spool
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.testing import FailingDisk, Killed, TemporarySpool
from maildir_agents.verbs.auto import Terms
from maildir_agents.verbs.dispatch import Backlog
from maildir_agents.verbs.inbox import inbox
from maildir_agents.verbs.outcome import conclude

LATER = 3700  # seconds: every lease and every pause is over

#: exit status, attempts allowed -> the state of the conversation, where the message is, how often its sender is told.
#: After 0 a listener that dies before the acknowledgement leaves the message to the human, too: ordinary mail.
ENDS = {
    (0, 3): ("needs_human", "acked", 0),
    (100, 3): ("needs_human", "new", 0),
    (1, 1): ("blocked", "failed", 1),
}


def work(spool: TemporarySpool, status: int, most: int) -> None:
    """Claim, and conclude as if a worker had ended so, until there is nothing to do."""
    box = Mailbox(spool, "bob")
    backlog = Backlog(box)
    for _ in range(9):
        if (job := backlog.next(Terms(("worker",), most), "w")) is None:
            return
        conclude(box, job, status, lost=False, why=f"ended with status {status}")
        spool.clock.advance(LATER)
    raise AssertionError("it goes on for ever")


def begun(spool: TemporarySpool) -> tuple[str, str]:
    spool.init()
    found = spool.start_conversation(sender="alice", recipient="bob", goal="g", expires_s=86_400)
    return found["conversation_id"], found["message_id"]


def stands(spool: TemporarySpool, conversation: str, message: str) -> tuple[str, str, int]:
    [place] = [p for p in spool.trace(message)["places"] if p["agent"] == "bob"]
    return spool.conversation(conversation)["state"], place["state"], len(inbox(spool, "alice")["messages"])


def calls(status: int, most: int) -> int:
    with a_spool() as spool:
        talk, task = begun(spool)
        disk = FailingDisk()
        work(spool.another(disk), status, most)
        assert stands(spool, talk, task) == ENDS[status, most]
        assert [told for told in disk.offences if "state.json" not in told] == []
        return len(disk.calls)


@pytest.mark.parametrize(("status", "most"), ENDS)
def test_the_next_listener_comes_to_the_same_end(status, most):
    wrong, struck = [], 0
    for number in range(1, calls(status, most) + 1):
        for fault in ("kill_at", "kill_after"):
            with a_spool() as spool:
                talk, task = begun(spool)
                disk = FailingDisk(**{fault: number})
                try:
                    work(spool.another(disk), status, most)
                except Killed:
                    struck += 1
                spool.clock.advance(LATER)
                work(spool.another(), status, most)
                found = stands(spool, talk, task)
                if found != ENDS[status, most] and (status, found) != (0, ("needs_human", "new", 0)):
                    wrong.append((fault, number, disk.calls[number - 1], found))
    assert struck > 0, "nothing was hit: that proves nothing"
    assert wrong == []
