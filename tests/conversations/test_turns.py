"""Turns on a spool: answered once, known again, refused without harm; settling unanswered; ends, limits and resumes."""

import json
import os

import pytest

from conversations.dialogue import Fold, controls, journal, places, turns
from conversations.scene import (
    A_MINUTE,
    a_spool,
    answer,
    code_of,
    dialogue,
    drafts,
    everybody_calls,
    killed_at,
    opened,
    start,
)
from maildir_agents.errors import MailError
from maildir_agents.mail import journal as journals
from maildir_agents.testing import FailingDisk

STRANGE = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"


@pytest.fixture
def spool():
    with a_spool() as made:
        yield made
        assert everybody_calls(made) == []


def state_of(spool, conversation: str) -> str:
    return spool.conversation(conversation)["state"]


def place_of(spool, message: str) -> tuple[str, str]:
    [place] = places(spool.root)[message]
    return place


def held(spool, message: str) -> str:
    return spool.claim("bob", message)["handle"]


# ------------------------------------------------------------------------------------------------ taking turns


def test_a_dialogue_is_one_chain_of_alternating_turns(spool):
    conversation, messages = dialogue(spool, 5)
    told = spool.conversation(conversation, "alice")
    assert (told["state"], told["turn_count"], told["in_flight"]) == ("active", 5, messages[-1])
    assert [turn["id"] for turn in turns(journal(spool.root, conversation))] == messages
    assert spool.thread(messages[3])["thread_id"] == messages[0]


def test_a_turn_acknowledges_what_it_answers_and_says_so(spool):
    begun = start(spool)
    sent = answer(spool, begun["message_id"])
    assert sent["acknowledged"] == begun["message_id"]
    assert place_of(spool, begun["message_id"]) == ("bob", "acked")


def test_kind_and_conversation_come_from_the_message_answered(spool):
    begun = start(spool)
    answer(spool, begun["message_id"])
    turn = turns(journal(spool.root, begun["conversation_id"]))[1]
    assert (turn["kind"], turn["turn"], turn["conversation_id"]) == ("result", 2, begun["conversation_id"])
    assert (turn["reply_to"], turn["thread_id"]) == (begun["message_id"], begun["message_id"])


def test_a_kind_without_a_conversation_is_refused_and_nothing_is_sent(spool):
    plain = spool.send(sender="alice", recipient="bob", subject="s")["id"]
    assert code_of(spool.send, sender="alice", recipient="bob", subject="s", kind="task") == "usage"
    assert code_of(answer, spool, plain) == "usage"
    assert len(places(spool.root)) == 1


def test_a_turn_of_an_unknown_conversation_is_an_error(spool):
    begun = start(spool)
    assert code_of(answer, spool, begun["message_id"], conversation=STRANGE) == "unknown_conversation"
    assert place_of(spool, begun["message_id"]) == ("bob", "new")


def test_a_message_without_kind_is_plain_and_takes_no_turn(spool):
    begun = start(spool)
    spool.send(sender="alice", recipient="bob", subject="by the way")
    told = spool.conversation(begun["conversation_id"])
    assert (told["turn_count"], told["in_flight"]) == (1, begun["message_id"])


def test_a_notice_takes_no_turn_and_is_not_journaled_even_after_the_end(spool):
    conversation, _ = dialogue(spool, 2)
    for _ in range(2):
        spool.send(sender="bob", recipient="alice", subject="n", kind="notice", conversation=conversation)
        spool.send(sender="alice", recipient="bob", subject="n", kind="notice", conversation=conversation)
        assert len(journal(spool.root, conversation)) == 2 + (state_of(spool, conversation) != "active")
        spool.end_conversation(conversation, "complete", "alice")


@pytest.mark.parametrize(("sender", "recipient"), [("carol", "alice"), ("alice", "carol"), ("bob", "*")])
def test_a_notice_is_between_the_members(spool, sender, recipient):
    conversation, _ = dialogue(spool, 1)
    refused = code_of(
        spool.send, sender=sender, recipient=recipient, subject="n", kind="notice", conversation=conversation
    )
    assert refused == "unknown_conversation"


# ------------------------------------------------------------------------------------------------ said again


@pytest.mark.parametrize("key", [None, "k"])
def test_the_same_turn_again_is_a_duplicate_whatever_became_of_the_conversation(spool, key):
    begun = start(spool)
    handle = held(spool, begun["message_id"])
    first = answer(spool, handle, dedup_key=key)
    spool.end_conversation(begun["conversation_id"], "cancel", "alice")
    spool.clock.advance(100_000)
    again = answer(spool, handle, dedup_key=key)
    assert (again["duplicate"], again["id"]) == (True, first["id"])
    assert len(turns(journal(spool.root, begun["conversation_id"]))) == 2


def test_a_known_key_with_other_words_is_told_that_they_differ(spool):
    begun = start(spool)
    first = answer(spool, begun["message_id"], dedup_key="k")
    again = answer(spool, begun["message_id"], "other words", dedup_key="k")
    assert (again["duplicate"], again["content_differs"], again["id"]) == (True, True, first["id"])


def test_a_key_that_was_used_outside_is_known_to_a_turn(spool):
    begun = start(spool)
    plain = spool.send(sender="bob", recipient="alice", subject="s", dedup_key="k")
    again = answer(spool, begun["message_id"], dedup_key="k")
    assert (again["duplicate"], again["id"]) == (True, plain["id"])
    assert len(journal(spool.root, begun["conversation_id"])) == 1


def test_a_retry_after_a_crash_completes_the_turn_and_acknowledges(spool):
    begun = start(spool)
    handle = held(spool, begun["message_id"])
    killed_at(spool, "link", "/journal/0001", lambda dying: answer(dying, handle), after=True)
    assert place_of(spool, begun["message_id"]) == ("bob", "claimed")
    again = answer(spool, handle)
    assert (again["duplicate"], again["acknowledged"]) == (True, begun["message_id"])
    assert place_of(spool, again["id"]) == ("alice", "new")


def test_a_different_answer_to_an_answered_message_is_refused_and_its_claim_is_settled(spool):
    begun = start(spool)
    late = held(spool, begun["message_id"])
    spool.clock.advance(400)  # the lease is over
    killed_at(spool, "rename", "/acked/", lambda dying: answer(dying, begun["message_id"], "first"))
    taken = spool.claim("bob", begun["message_id"])["handle"]
    assert taken != late
    with pytest.raises(MailError) as refused:
        answer(spool, taken, "second")
    assert (refused.value.code, refused.value.exit_status) == ("not_in_flight", 77)
    assert place_of(spool, begun["message_id"]) == ("bob", "acked")
    assert state_of(spool, begun["conversation_id"]) == "active"


def test_a_late_worker_with_other_words_is_told_that_its_claim_is_lost(spool):
    begun = start(spool)
    late = held(spool, begun["message_id"])
    spool.clock.advance(400)
    answer(spool, held(spool, begun["message_id"]), "in time")
    assert code_of(answer, spool, late, "too late") == "lease_lost"
    assert [turn["body"] for turn in turns(journal(spool.root, begun["conversation_id"]))[1:]] == ["in time"]


def test_what_another_worker_holds_is_not_answered_without_its_handle(spool):
    begun = start(spool)
    held(spool, begun["message_id"])
    assert code_of(answer, spool, begun["message_id"]) == "claimed"
    assert len(journal(spool.root, begun["conversation_id"])) == 1


# ------------------------------------------------------------------------------------------------ refused without harm


def test_a_turn_to_the_wrong_agent_is_refused_and_settles_nothing(spool):
    conversation, [task] = dialogue(spool, 1)
    assert code_of(answer, spool, task, recipient="carol") == "not_in_flight"
    assert place_of(spool, task) == ("bob", "new")
    assert state_of(spool, conversation) == "active"


def test_a_turn_that_answers_other_mail_is_refused_and_settles_nothing(spool):
    conversation, [task] = dialogue(spool, 1)
    plain = spool.send(sender="alice", recipient="bob", subject="plain")["id"]
    notice = spool.send(sender="alice", recipient="bob", subject="n", kind="notice", conversation=conversation)["id"]
    for parent in (plain, notice):
        assert code_of(answer, spool, parent, conversation=conversation) == "not_in_flight"
        assert place_of(spool, parent) == ("bob", "new")
    assert state_of(spool, conversation) == "active"
    answer(spool, task)


def test_a_turn_for_another_conversation_than_the_message_is_of_settles_nothing(spool):
    one, [task] = dialogue(spool, 1)
    two, [_] = dialogue(spool, 1)
    assert code_of(answer, spool, task, conversation=two) == "not_in_flight"
    assert place_of(spool, task) == ("bob", "new")
    assert (state_of(spool, one), state_of(spool, two)) == ("active", "active")


def test_who_spoke_last_does_not_speak_again(spool):
    conversation, messages = dialogue(spool, 2)
    assert code_of(answer, spool, messages[0], "more", sender="bob") == "not_in_flight"
    assert code_of(answer, spool, messages[1], "more", sender="bob", recipient="alice") == "not_in_flight"
    assert code_of(spool.send, sender="alice", recipient="bob", subject="s", kind="task", conversation=conversation)
    assert len(journal(spool.root, conversation)) == 2


def test_a_stranger_can_neither_speak_end_nor_look(spool):
    conversation, [task] = dialogue(spool, 1)
    assert code_of(spool.conversation, conversation, "carol") == "unknown_conversation"
    for action in ("complete", "cancel", "needs_human"):
        assert code_of(spool.end_conversation, conversation, action, "carol") == "unknown_conversation"
    refused = code_of(answer, spool, task, sender="carol", recipient="alice")
    assert refused == "unknown_conversation"
    assert len(journal(spool.root, conversation)) == 1


# ------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize("limit", [2, 3])
def test_the_turn_past_the_limit_is_refused_and_the_conversation_needs_a_human(spool, limit):
    conversation, messages = dialogue(spool, limit, max_turns=limit)
    speaker = "bob" if limit % 2 else "alice"
    with pytest.raises(MailError) as refused:
        answer(spool, messages[-1], "one more", speaker)
    assert (refused.value.code, refused.value.exit_status) == ("turn_limit", 77)
    assert state_of(spool, conversation) == "needs_human"
    assert place_of(spool, messages[-1]) == (speaker, "new")
    assert len(turns(journal(spool.root, conversation))) == limit


def test_a_turn_after_the_expiry_is_refused_and_the_conversation_needs_a_human(spool):
    conversation, [task] = dialogue(spool, 1, expires_s=60)
    spool.clock.advance(A_MINUTE)
    assert state_of(spool, conversation) == "expired"
    assert len(journal(spool.root, conversation)) == 1
    assert code_of(answer, spool, task) == "expired"
    assert state_of(spool, conversation) == "needs_human"
    assert place_of(spool, task) == ("bob", "new")


@pytest.mark.parametrize("state", ["needs_human", "blocked"])
def test_a_person_puts_it_back_to_work_and_the_message_in_flight_is_answered(spool, state):
    conversation, messages = dialogue(spool, 2, max_turns=2)
    journals.write_control(spool, conversation, state, "alice")
    assert code_of(spool.resume_conversation, conversation, "eve") == "turn_limit"
    told = spool.resume_conversation(conversation, "eve", add_turns=1)
    assert (told["state"], told["max_turns"], told["changed"]) == ("active", 3, True)
    assert told["transitions"][-1]["by"] == "eve"
    answer(spool, messages[-1], "third", "alice")
    assert spool.conversation(conversation)["turn_count"] == 3


def test_twenty_turns_are_the_end_of_it(spool):
    conversation, messages = dialogue(spool, 20, max_turns=20)
    assert code_of(answer, spool, messages[-1], "21", "alice") == "turn_limit"
    assert code_of(spool.resume_conversation, conversation, "eve", add_turns=10, extend_s=60) == "turn_limit"
    assert spool.conversation(conversation)["turn_count"] == 20


def test_a_person_extends_what_is_over_without_waiting_for_a_refusal(spool):
    """Nobody has written that it needs a human, but a resume must not answer that nothing had to change."""
    conversation, [task] = dialogue(spool, 1, expires_s=60)
    spool.clock.advance(2 * A_MINUTE)
    assert code_of(spool.resume_conversation, conversation, "eve") == "expired"
    told = spool.resume_conversation(conversation, "eve", extend_s=60)
    assert (told["state"], told["changed"]) == ("active", True)
    assert controls(journal(spool.root, conversation)) == ["needs_human", "resume"]
    answer(spool, task)


def test_a_person_raises_a_limit_that_is_reached_without_waiting_for_a_refusal(spool):
    conversation, messages = dialogue(spool, 2, max_turns=2)
    told = spool.resume_conversation(conversation, "eve", add_turns=2)
    assert (told["state"], told["max_turns"], told["changed"]) == ("active", 4, True)
    answer(spool, messages[-1], "third", "alice")


def test_a_resume_of_what_is_at_work_changes_nothing(spool):
    conversation, _ = dialogue(spool, 2)
    told = spool.resume_conversation(conversation, "eve", add_turns=5, extend_s=60)
    assert (told["changed"], told["max_turns"]) == (False, 8)
    assert len(journal(spool.root, conversation)) == 2


# ------------------------------------------------------------------------------------------------ ends


@pytest.mark.parametrize(("action", "state"), [("complete", "completed"), ("cancel", "cancelled")])
def test_an_end_is_one_and_said_again_it_changes_nothing(spool, action, state):
    conversation, [task] = dialogue(spool, 1)
    assert spool.end_conversation(conversation, action, "alice")["changed"] is True
    again = spool.end_conversation(conversation, action, "bob")
    assert (again["changed"], again["state"], again["in_flight"]) == (False, state, None)
    for wrong in {"complete", "cancel", "needs_human"} - {action}:
        assert code_of(spool.end_conversation, conversation, wrong, "bob") == "not_active"
    assert code_of(spool.resume_conversation, conversation, "eve", add_turns=1) == "not_active"
    assert code_of(answer, spool, task) == "not_active"
    assert len(journal(spool.root, conversation)) == 2


def test_what_needs_a_human_can_be_cancelled_and_not_completed(spool):
    conversation, _ = dialogue(spool, 1)
    spool.end_conversation(conversation, "needs_human", "bob")
    assert code_of(spool.end_conversation, conversation, "complete", "bob") == "not_active"
    assert spool.end_conversation(conversation, "cancel", "bob")["state"] == "cancelled"


def test_an_end_leaves_the_mail_where_it_is(spool):
    conversation, [task] = dialogue(spool, 1)
    spool.end_conversation(conversation, "cancel", "alice")
    assert place_of(spool, task) == ("bob", "new")
    spool.ack("bob", [task])
    assert controls(journal(spool.root, conversation)) == ["cancel"]


# ------------------------------------------------------------------------------------------------ settled unanswered


def settle_by(way: str):
    def read_and_ack(spool, task):
        with spool.read("bob", ack=True):
            pass

    return {
        "ack": lambda spool, task: spool.ack("bob", [task]),
        "ack by handle": lambda spool, task: spool.ack("bob", [held(spool, task)]),
        "ack all": lambda spool, task: spool.ack("bob", everything=True),
        "archive": lambda spool, task: spool.archive("bob", [task]),
        "read and ack": read_and_ack,
    }[way]


WAYS = ["ack", "ack by handle", "ack all", "archive", "read and ack"]


@pytest.mark.parametrize("way", WAYS)
def test_settling_the_message_in_flight_unanswered_puts_it_before_a_human_first(spool, way):
    conversation, [task] = dialogue(spool, 1)
    seen = []
    disk = FailingDisk(before=lambda _, name, path: seen.append((name, path)))
    settle_by(way)(spool.another(disk), task)
    assert state_of(spool, conversation) == "needs_human"
    assert place_of(spool, task) == ("bob", "archive" if way == "archive" else "acked")
    committed = seen.index(("link", f"{spool.root}/conversations/{conversation}/journal/0001.json"))
    settled = "/archive/" if way == "archive" else "/acked/"
    moved = next(number for number, (name, path) in enumerate(seen) if name == "rename" and settled in path)
    assert committed < moved
    assert ("fsync", f"{spool.root}/conversations/{conversation}/journal") in seen[committed:moved]


@pytest.mark.parametrize("way", WAYS)
def test_settling_an_answered_message_changes_nothing_in_its_conversation(spool, way):
    conversation, [task] = dialogue(spool, 1)
    answer(spool, task, acknowledge=False)
    settle_by(way)(spool, task)
    assert len(journal(spool.root, conversation)) == 2
    assert state_of(spool, conversation) == "active"


@pytest.mark.parametrize("action", ["needs_human", "blocked", "complete", "cancel"])
def test_settling_what_is_in_flight_of_a_conversation_not_at_work_writes_nothing(spool, action):
    conversation, [task] = dialogue(spool, 1)
    journals.write_control(spool, conversation, action, "alice")
    spool.ack("bob", [task])
    assert controls(journal(spool.root, conversation)) == [action]


def test_what_was_settled_unanswered_can_be_answered_once_a_person_resumes(spool):
    conversation, [task] = dialogue(spool, 1)
    spool.ack("bob", [task])
    assert code_of(answer, spool, task) == "not_active"
    spool.resume_conversation(conversation, "eve")
    answer(spool, task)
    assert spool.conversation(conversation)["turn_count"] == 2


def test_a_spool_without_conversations_reads_no_journal_when_it_acknowledges(spool):
    plain = spool.send(sender="alice", recipient="bob", subject="s")["id"]
    spool.ack("bob", [plain])
    assert os.listdir(f"{spool.root}/conversations") == []


# ------------------------------------------------------------------------------------------------ starts


def test_a_start_is_known_again_by_its_key(spool):
    first = start(spool, dedup_key="k")
    again = start(spool, dedup_key="k", goal="another goal")
    assert again | {"duplicate": False} == first
    assert again["duplicate"] is True
    assert os.listdir(f"{spool.root}/conversations") == [first["conversation_id"]]


def test_a_key_that_started_nothing_starts_nothing(spool):
    spool.send(sender="alice", recipient="bob", subject="s", dedup_key="k")
    assert code_of(start, spool, dedup_key="k") == "bad_key"
    assert os.listdir(f"{spool.root}/conversations") == []


@pytest.mark.parametrize("recipient", ["alice", "*", "broadcast"])
def test_a_conversation_is_between_two_agents(spool, recipient):
    assert code_of(start, spool, recipient=recipient) == "usage"


@pytest.mark.parametrize("goal", ["", " \n\t"])
def test_a_conversation_needs_a_goal(spool, goal):
    assert code_of(start, spool, goal=goal) == "usage"


@pytest.mark.parametrize("goal", ["one\ttwo", "\n\nthird line first\nthen more", "x" * 900, "ü" * 400])
def test_any_text_may_be_a_goal_and_its_first_line_becomes_the_subject(spool, goal):
    begun = start(spool, goal=goal)
    entry = journal(spool.root, begun["conversation_id"])[0]
    assert entry["headers"]["conversation"]["goal"] == goal
    assert entry["body"] == goal
    assert 0 < len(entry["subject"]) <= 200


def test_a_goal_that_does_not_fit_is_refused_and_nothing_is_made(spool):
    assert code_of(start, spool, goal="x" * 5000) == "bad_headers"
    assert os.path.isdir(f"{spool.root}/conversations") is False or os.listdir(f"{spool.root}/conversations") == []


@pytest.mark.parametrize(("hops", "code"), [(0, ""), (8, ""), (9, "loop_limit")])
def test_chains_of_workers_end(spool, hops, code):
    assert code_of(start, spool, hops=hops) == code


@pytest.mark.parametrize(("told", "hops"), [("", 0), ("0", 1), ("7", 8), ("8", 9), ("many", 0), ("-1", 0), ("²", 0)])
def test_the_hops_of_a_start_are_one_more_than_those_of_the_worker(told, hops):
    from maildir_agents.verbs.conversation import hops_of

    assert hops_of({"AGENT_MAIL_HOPS": told}) == hops


# ------------------------------------------------------------------------------------------------ what is left behind


def test_what_a_start_that_never_began_leaves_is_gone_after_the_next_cleanup(spool):
    conversation, _ = dialogue(spool, 1)
    killed_at(spool, "mkdir", "/journal", start, after=True)
    assert len(os.listdir(f"{spool.root}/conversations")) == 2
    assert spool.list_conversations()["count"] == 1
    spool.cleanup(30)
    assert os.listdir(f"{spool.root}/conversations") == [conversation]


def test_control_drafts_that_were_left_are_swept_after_a_minute_committed_or_not(spool):
    conversation, [task] = dialogue(spool, 1)
    killed_at(spool, "link", "/journal/0001", lambda dying: dying.end_conversation(conversation, "complete", "bob"))
    answer(spool, task)
    end = lambda dying: dying.end_conversation(conversation, "cancel", "bob")  # noqa: E731
    killed_at(spool, "link", "/journal/0002", end, after=True)
    assert len([path for path in drafts(spool.root) if "/tmp/" in path]) == 2
    opened(spool.another(), conversation)
    assert len([path for path in drafts(spool.root) if "/tmp/" in path]) == 2
    spool.clock.advance(A_MINUTE)
    spool.conversation(conversation)
    assert len([path for path in drafts(spool.root) if "/tmp/" in path]) == 2, "who only looks changes nothing"
    opened(spool.another(), conversation)
    assert drafts(spool.root) == []
    assert state_of(spool, conversation) == "cancelled"


def test_a_control_whose_draft_is_swept_under_it_is_written_with_a_new_one(spool):
    conversation, _ = dialogue(spool, 1)
    disk = FailingDisk()

    def sweep(_: int, name: str, path: str) -> None:
        if name == "link" and "/journal/0001" in path:
            disk.before = None
            tmp = f"{spool.root}/conversations/{conversation}/tmp"
            for left in os.listdir(tmp):
                os.unlink(f"{tmp}/{left}")

    disk.before = sweep
    assert spool.another(disk).end_conversation(conversation, "complete", "bob")["state"] == "completed"


def test_a_turn_whose_draft_is_collected_under_it_is_sent_under_a_new_id(spool):
    conversation, [task] = dialogue(spool, 1)
    disk = FailingDisk()

    def collect(_: int, name: str, path: str) -> None:
        if name == "link" and "/journal/0001" in path:
            disk.before = None
            tmp = f"{spool.root}/agents/alice/tmp"
            for left in os.listdir(tmp):
                os.unlink(f"{tmp}/{left}")

    disk.before = collect
    sent = answer(spool.another(disk), task)
    assert [turn["id"] for turn in turns(journal(spool.root, conversation))] == [task, sent["id"]]


@pytest.mark.parametrize("damage", [
    b"", b"{", b"[]", b'{"control":"resume"}', b'{"control":"complete"}',
    b'{"control":"resume","by":"a","created":"x"}',
])  # fmt: skip
def test_a_damaged_entry_is_named_and_nothing_is_guessed(damage):
    with a_spool() as spool:
        conversation, [task] = dialogue(spool, 1)
        path = f"{spool.root}/conversations/{conversation}/journal/0001.json"
        with open(path, "wb") as file:
            file.write(damage)
        for call in (
            lambda: spool.conversation(conversation),
            lambda: answer(spool, task),
            lambda: spool.end_conversation(conversation, "cancel", "alice"),
        ):
            with pytest.raises(MailError) as refused:
                call()
            assert (refused.value.code, refused.value.detail["path"]) == ("cannot_read", path)
        assert spool.list_conversations()["count"] == 0
        assert [warning["code"] for warning in spool.list_conversations()["warnings"]] == ["cannot_read"]


@pytest.mark.parametrize("terms", [None, {}, {"expires_at": "soon"}, {"max_turns": "8"}, {"goal": 3}])
def test_an_opening_without_its_terms_is_named_and_nothing_is_guessed(terms):
    with a_spool() as spool:
        conversation, _ = dialogue(spool, 1)
        path = f"{spool.root}/conversations/{conversation}/journal/0000.json"
        [entry] = journal(spool.root, conversation)
        entry["headers"] = {"conversation": terms and entry["headers"]["conversation"] | terms}
        os.unlink(path)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(entry, file)
        assert code_of(spool.conversation, conversation) == "cannot_read"


def test_a_conversation_that_ended_goes_with_its_mail_and_an_open_one_keeps_it(spool):
    done, messages = dialogue(spool, 2)
    spool.end_conversation(done, "complete", "alice")
    spool.ack("alice", [messages[1]])
    still, others = dialogue(spool, 2)
    spool.ack("alice", [others[1]])  # unanswered: it needs a human
    spool.clock.advance(40 * 86_400)
    told = spool.cleanup(30)
    assert (told["threads"], told["conversations"]) == (1, 1)
    assert os.listdir(f"{spool.root}/conversations") == [still]
    assert code_of(spool.conversation, done) == "unknown_conversation"
    assert Fold(journal(spool.root, still)).state == "needs_human"


def test_who_only_looks_writes_nothing(spool):
    conversation, [task] = dialogue(spool, 1)
    killed_at(spool, "link", "/journal/0001", lambda dying: answer(dying, task), after=True)
    disk = FailingDisk()
    looking = spool.another(disk)
    looking.conversation(conversation, "alice")
    looking.list_conversations("bob")
    assert disk.calls == []
