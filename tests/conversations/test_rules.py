"""The rules of a conversation, without a disk: one table, and who may say what when."""

import itertools
import json
import os
from typing import Any

import pytest

from conversations.dialogue import CONTROLS, ENDS, TURNS, table
from maildir_agents.errors import CODES, MailError
from maildir_agents.mail import conversation as rules
from maildir_agents.mail.conversation import Conversation
from maildir_agents.mail.name import iso, ms_of_iso

CONVERSATION = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"
T0, MINUTE = ms_of_iso("2026-11-30T18:47:12.123Z"), 60_000
STATES = ("active", "completed", "cancelled", "needs_human", "blocked")
LEADS_TO = {"complete": "completed", "cancel": "cancelled", "needs_human": "needs_human", "blocked": "blocked",
            "resume": "active"}  # fmt: skip
INTO = {"active": [], "completed": ["complete"], "cancelled": ["cancel"], "needs_human": ["needs_human"],
        "blocked": ["blocked"]}  # fmt: skip


def message(number: int, sender: str = "bob", **more: Any) -> dict[str, Any]:
    return {
        "id": f"01a22dc8-4ffb-7e11-9d3f-00000000{number:04x}",
        "sender": sender,
        "recipient": "alice" if sender == "bob" else "bob",
        "kind": "result" if sender == "bob" else "task",
        "reply_to": f"01a22dc8-4ffb-7e11-9d3f-00000000{number - 1:04x}" if number > 1 else None,
        "conversation_id": CONVERSATION,
        "turn": number,
        "hops": None,
        "dedup_key": None,
        "created": iso(T0),
        "body": f"turn {number}",
        "headers": {},
    } | more


def opening(max_turns: int = 4, expires_s: int = 3600) -> dict[str, Any]:
    terms = rules.terms("agree", ["alice", "bob"], max_turns, expires_s, T0)
    return message(1, "alice", kind="task", headers={"conversation": terms})


def control(event: str, **more: Any) -> dict[str, Any]:
    return {"id": "x", "control": event, "by": "alice", "created": iso(T0), "conversation_id": CONVERSATION} | more


def standing(state: str = "active", turns: int = 1, **terms: int) -> Conversation:
    """A conversation of so many turns that is in that state."""
    found = Conversation(opening(**terms))
    for number in range(2, turns + 1):
        found.append(message(number, "bob" if number % 2 == 0 else "alice"))
    for event in INTO[state]:
        found.append(control(event))
    return found


def refusal(judge, *given) -> str:
    try:
        judge(*given)
    except MailError as error:
        return error.code
    return ""


# ------------------------------------------------------------------------------------------------ the table


def test_the_published_table_is_the_one_in_the_code():
    assert table() == rules.TABLE


def test_the_table_speaks_of_every_state_and_event_there_is():
    assert {state for state, _ in rules.TABLE} | set(rules.TABLE.values()) == set(STATES)
    assert {event for _, event in rules.TABLE} == {*TURNS, *CONTROLS}


def test_nothing_leaves_an_end_and_only_a_person_leads_back():
    assert [state for state, _ in rules.TABLE if state in ENDS] == []
    back = {event for (state, event), after in rules.TABLE.items() if after == "active" and state != "active"}
    assert back == {"resume"}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(STATES, CONTROLS)))
def test_a_control_is_written_refused_or_already_so_as_the_table_says(state, event):
    found = standing(state)
    if LEADS_TO[event] == state:
        assert rules.judge_control(found, event) is False
    elif (state, event) in table():
        assert rules.judge_control(found, event) is True
        found.append(control(event, max_turns=9, expires_at=iso(T0 + MINUTE)))
        assert found.state == table()[state, event]
        assert found.transitions[-1] == {"state": found.state, "at": iso(T0), "by": "alice"}
    else:
        assert refusal(rules.judge_control, found, event) == "not_active"
        assert found.state == state


@pytest.mark.parametrize(("state", "kind"), list(itertools.product(STATES, TURNS)))
def test_a_turn_is_taken_in_no_state_but_active(state, kind):
    wanted = "" if (state, kind) in table() else "not_active"
    assert refusal(rules.judge_turn, standing(state), message(2, kind=kind), T0) == wanted


# ------------------------------------------------------------------------------------------------ turns


def other(**more: str) -> dict[str, Any]:
    return message(2, **more)


@pytest.mark.parametrize(
    ("turn", "code"),
    [
        (other(), ""),
        (other(kind="task"), ""),
        (other(sender="carol", recipient="alice"), "unknown_conversation"),
        (other(recipient="carol"), "not_in_flight"),
        (other(recipient="bob"), "not_in_flight"),
        (other(sender="alice", recipient="bob"), "not_in_flight"),
        (other(reply_to=None), "not_in_flight"),
        (other(reply_to=CONVERSATION), "not_in_flight"),
        (other(kind="notice"), "not_active"),
    ],
    ids=["the answer", "another task", "a stranger", "to a stranger", "to itself", "by who spoke last", "to nothing",
         "to another message", "a notice"],
)  # fmt: skip
def test_a_turn_answers_the_message_in_flight_and_goes_back_to_its_sender(turn, code):
    assert refusal(rules.judge_turn, standing(), turn, T0) == code


def test_the_last_turn_is_taken_and_the_one_after_it_needs_a_human():
    assert refusal(rules.judge_turn, standing(turns=3), message(4), T0) == ""
    assert refusal(rules.judge_turn, standing(turns=4), message(5, "alice"), T0) == "turn_limit"


def test_the_last_millisecond_counts_and_the_next_needs_a_human():
    found = standing(expires_s=60)
    assert refusal(rules.judge_turn, found, message(2), T0 + MINUTE) == ""
    assert refusal(rules.judge_turn, found, message(2), T0 + MINUTE + 1) == "expired"


def test_an_answered_message_is_told_from_a_wrong_one():
    """Only of an answered one may the claim be settled: its work is done."""
    with pytest.raises(MailError) as answered:
        rules.judge_turn(standing(turns=2), message(2, body="other", reply_to=message(1)["id"]), T0)
    with pytest.raises(MailError) as wrong:
        rules.judge_turn(standing(turns=2), message(3, reply_to=CONVERSATION), T0)
    assert answered.value.detail["answered_by"] == message(2)["id"]
    assert "answered_by" not in wrong.value.detail


@pytest.mark.parametrize(
    ("again", "same"),
    [
        ({}, True),
        ({"dedup_key": "k", "body": "other words"}, True),
        ({"dedup_key": "k2", "body": "other words"}, False),
        ({"body": "other words"}, False),
        ({"reply_to": message(3)["id"]}, False),
        ({"sender": "alice"}, False),
    ],
    ids=["same words", "same key", "other key", "other words", "other message", "other sender"],
)
def test_a_turn_is_known_again_by_its_key_or_by_its_sender_message_and_words(again, same):
    found = standing(turns=3)
    found.turns[1]["dedup_key"] = "k"
    assert (rules.same_turn(found, message(2) | {"id": "new"} | again) is found.turns[1]) == same


# ------------------------------------------------------------------------------------------------ terms and status


@pytest.mark.parametrize(("asked", "given"), [(-1, 2), (0, 2), (2, 2), (8, 8), (20, 20), (21, 20), (10**9, 20)])
def test_turns_are_clamped_to_2_to_20(asked, given):
    assert rules.terms("g", ["a", "b"], asked, 60, T0)["max_turns"] == given


@pytest.mark.parametrize(("asked", "given"), [(-1, 60), (59, 60), (60, 60), (3600, 3600), (86_401, 86_400)])
def test_time_is_clamped_to_a_minute_to_a_day(asked, given):
    assert rules.terms("g", ["a", "b"], 8, asked, T0)["expires_at"] == iso(T0 + 1000 * given)


@pytest.mark.parametrize(
    ("turns", "add", "extend", "late_ms", "result"),
    [
        (4, 1, 0, 0, (5, 3600)),
        (4, 100, 0, 0, (20, 3600)),
        (4, 0, 0, 0, "turn_limit"),
        (2, 0, 60, 0, (4, 3660)),
        (2, 0, 0, 0, (4, 3600)),
        (2, 0, 0, 3_600_000, "expired"),
        (2, 0, 60, 7_200_000, (4, 7260)),
        (2, 0, 10**6, 0, (4, 3600 + 86_400)),
    ],
)
def test_a_resume_raises_what_was_used_up_and_never_beyond_20_turns(turns, add, extend, late_ms, result):
    found = standing("needs_human", turns)
    if isinstance(result, str):
        assert refusal(rules.resumed, found, add, extend, T0 + late_ms) == result
    else:
        assert rules.resumed(found, add, extend, T0 + late_ms) == (result[0], iso(T0 + 1000 * result[1]))


def test_at_20_turns_nothing_resumes():
    assert refusal(rules.resumed, standing("needs_human", 20, max_turns=20), 10, 0, T0) == "turn_limit"


def test_a_resumed_conversation_goes_on_under_its_new_terms():
    found = standing("needs_human", 4)
    found.append(control("resume", max_turns=5, expires_at=iso(T0 + MINUTE)))
    assert (found.state, found.max_turns, found.expires_ms) == ("active", 5, T0 + MINUTE)
    assert refusal(rules.judge_turn, found, message(5, "alice"), T0) == ""
    assert refusal(rules.judge_turn, found, message(5, "alice"), T0 + MINUTE + 1) == "expired"


@pytest.mark.parametrize("state", STATES)
def test_status_tells_how_it_stands_and_neither_goal_nor_words(state):
    told = standing(state, turns=3).status(T0)
    assert list(told) == ["conversation_id", "state", "members", "turn_count", "max_turns", "expires_at",
                          "transitions", "in_flight"]  # fmt: skip
    assert (told["state"], told["turn_count"], told["members"]) == (state, 3, ["alice", "bob"])
    assert told["in_flight"] == (None if state in ENDS else message(3)["id"])
    assert "agree" not in json.dumps(told)
    assert "turn 3" not in json.dumps(told)


def test_status_says_expired_of_an_active_one_only():
    late = T0 + 3600_000 + 1
    assert standing().status(late)["state"] == "expired"
    assert standing("needs_human").status(late)["state"] == "needs_human"
    assert standing("completed").status(late)["state"] == "completed"


@pytest.mark.parametrize("code", ["not_active", "not_in_flight", "turn_limit", "expired", "loop_limit"])
def test_a_refusal_by_the_rules_exits_with_77(code):
    assert CODES[code][0] == 77


def test_an_unknown_conversation_exits_with_66():
    assert CODES["unknown_conversation"][0] == 66


def test_the_rules_ask_neither_the_system_nor_the_disk():
    names = vars(rules).values()
    assert os not in names
    assert not any(getattr(thing, "__module__", "").startswith("maildir_agents.disk") for thing in names)
