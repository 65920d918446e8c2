"""What starts work, and what a worker's end means: the rules alone, without a process or a disk."""

import pytest

from maildir_agents.mail.conversation import Conversation
from maildir_agents.mail.name import iso
from maildir_agents.verbs.dispatch import ANSWERED, LATE, LEAVE, SPENT, START, verdict
from maildir_agents.verbs.outcome import DEAD, DONE, HUMAN, LOST, RETRY, outcome, pause_s

NOW = 1_800_000_000_000


def message(number: int, sender: str, recipient: str, kind: str | None, conversation: str | None = "c") -> dict:
    return {"id": f"m{number}", "sender": sender, "recipient": recipient, "kind": kind, "conversation_id": conversation,
            "created": iso(NOW)}  # fmt: skip


TASK, RESULT, NEXT = message(1, "a", "b", "task"), message(2, "b", "a", "result"), message(3, "a", "b", "task")


def dialogue(*turns: dict, end: str | None = None, expires: int = NOW + 1000) -> Conversation:
    terms = {"goal": "g", "members": ["a", "b"], "max_turns": 8, "expires_at": iso(expires)}
    found = Conversation({**turns[0], "turn": 1, "hops": 0, "headers": {"conversation": terms}})
    for turn in turns[1:]:
        found.append(turn)
    if end:
        found.append({"control": end, "created": iso(NOW), "by": "a"})
    return found


@pytest.mark.parametrize(
    ("what", "of", "agent", "said"),
    [
        (TASK, dialogue(TASK), "b", START),
        (RESULT, dialogue(TASK, RESULT), "a", START),  # a review, by who began it
        (NEXT, dialogue(TASK, RESULT, NEXT), "b", START),
        (TASK, dialogue(TASK, RESULT), "b", ANSWERED),
        (TASK, dialogue(TASK, RESULT, end="complete"), "b", ANSWERED),  # only its acknowledgement got lost
        (RESULT, dialogue(TASK, RESULT, end="complete"), "a", LEAVE),
        (TASK, dialogue(TASK, end="cancel"), "b", LEAVE),
        (TASK, dialogue(TASK, end="needs_human"), "b", LEAVE),
        (TASK, dialogue(TASK, end="blocked"), "b", LEAVE),
        (TASK, dialogue(TASK, expires=NOW - 1), "b", LATE),
        (TASK, dialogue(TASK, end="cancel", expires=NOW - 1), "b", LEAVE),
        (message(9, "a", "b", "task"), dialogue(TASK), "b", LEAVE),  # its journal knows nothing of it
        (TASK, None, "b", LEAVE),  # a conversation that nobody knows
        (message(9, "x", "b", "task", None), None, "b", START),
        (message(9, "x", "b", "result", None), None, "b", LEAVE),
        (message(9, "x", "*", "task", None), None, "b", LEAVE),  # to everybody: nobody's work
        (message(9, "a", "b", "notice"), dialogue(TASK), "b", LEAVE),
        (message(9, "a", "b", None, None), None, "b", LEAVE),
        (message(2, "a", "b", "result"), dialogue(TASK, message(2, "a", "b", "result")), "b", LEAVE),
    ],
)
def test_work_is_what_an_active_conversation_waits_for_and_a_task_without_one(what, of, agent, said):
    assert verdict(what, of, agent, 0, 3, NOW) == said


@pytest.mark.parametrize(("tried", "said"), [(0, START), (2, START), (3, SPENT), (4, SPENT)])
def test_what_was_tried_as_often_as_allowed_is_not_tried_again(tried, said):
    assert verdict(TASK, dialogue(TASK), "b", tried, 3, NOW) == said
    blocked = dialogue(TASK, end="blocked")
    assert verdict(TASK, blocked, "b", tried, 3, NOW) == (SPENT if said == SPENT else LEAVE), "giving up is completed"


@pytest.mark.parametrize(
    ("status", "lost", "attempt", "said"),
    [
        (0, False, 1, DONE),
        (0, False, 3, DONE),
        (100, False, 1, HUMAN),
        (100, False, 3, HUMAN),
        (1, False, 1, RETRY),
        (-9, False, 2, RETRY),
        (127, False, 3, DEAD),
        (-9, False, 3, DEAD),
        (1, False, 7, DEAD),  # fewer attempts are allowed than were
        (0, True, 1, LOST),
        (1, True, 3, LOST),
    ],
)
def test_the_exit_status_decides_unless_the_claim_was_lost(status, lost, attempt, said):
    assert outcome(status, lost, attempt, 3) == said


def test_pauses_double_from_half_a_minute_to_an_hour():
    assert [pause_s(attempt) for attempt in (1, 2, 3, 7, 8, 9, 10**6)] == [30, 60, 120, 1920, 3600, 3600, 3600]
