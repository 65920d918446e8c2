"""`agent-mail conversation`: what each action answers, refuses and exits with."""

import json

import pytest

from conversations.dialogue import controls, journal

STRANGE = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"
GOAL, WORDS = "a goal that stays between the two", "words that stay between the two"
STATUS = ["conversation_id", "state", "members", "turn_count", "max_turns", "expires_at", "transitions", "in_flight"]
STARTED = ["message_id", "duplicate", "conversation_id", "state", "turn_count", "max_turns", "expires_at"]


def start(mail, *words: str) -> dict:
    begun = mail("conversation", "start", "--from", "alice", "--to", "bob", "--goal", GOAL, "--body", WORDS, *words)
    return begun.answer


def answer(mail, parent: str, sender: str = "bob", kind: str = "result", body: str = "done", *words: str):
    to = "alice" if sender == "bob" else "bob"
    return mail("send", "--from", sender, "--to", to, "--subject", "s", "--body", body, "--kind", kind,
                "--reply-to", parent, *words)  # fmt: skip


def refused(done, status: int, code: str) -> dict:
    told = done.refusal
    assert (done.status, told["code"]) == (status, code)
    return told


def with_environment(mail, **more: str) -> dict:
    return mail.environ | more


def test_start_posts_the_first_task_and_says_what_was_agreed(mail):
    begun = start(mail, "--max-turns", "99", "--expires", "1", "--subject", "first")
    assert list(begun) == STARTED
    assert (begun["state"], begun["turn_count"], begun["max_turns"], begun["duplicate"]) == ("active", 1, 20, False)
    [message] = mail("read", "bob").answer["messages"]
    assert (message["id"], message["kind"], message["turn"]) == (begun["message_id"], "task", 1)
    assert (message["subject"], message["body"]) == ("first", WORDS)
    assert message["conversation_id"] == begun["conversation_id"]


def test_a_start_takes_who_starts_from_the_environment(mail):
    done = mail("conversation", "start", "--to", "bob", "--goal", GOAL, env=with_environment(mail, AGENT_ID="alice"))
    assert mail("conversation", "list").answer["conversations"][0]["members"] == ["alice", "bob"]
    assert done.answer["state"] == "active"


@pytest.mark.parametrize("missing", ["from", "to", "goal"])
def test_a_start_says_what_it_lacks(mail, missing):
    given = {"from": "alice", "to": "bob", "goal": GOAL}
    words = [word for name, value in given.items() if name != missing for word in (f"--{name}", value)]
    assert f"--{missing}" in refused(mail("conversation", "start", *words), 64, "usage")["error"]
    assert mail("conversation", "list").answer["count"] == 0


@pytest.mark.parametrize("action", ["status", "cancel", "complete", "needs-human", "resume"])
def test_an_action_on_one_conversation_needs_its_id(mail, action):
    assert "ID" in refused(mail("conversation", action, "--as", "alice"), 64, "usage")["error"]


@pytest.mark.parametrize("action", ["status", "cancel", "complete", "needs-human"])
def test_who_asks_must_be_said(mail, action):
    begun = start(mail)
    assert "--as" in refused(mail("conversation", action, begun["conversation_id"]), 64, "usage")["error"]
    done = mail("conversation", action, begun["conversation_id"], env=with_environment(mail, AGENT_ID="bob"))
    assert done.status == 0


def test_an_unknown_action_is_a_usage_error(mail):
    refused(mail("conversation", "pause", STRANGE), 64, "usage")


@pytest.mark.parametrize("action", ["status", "cancel", "complete", "needs-human", "resume"])
def test_an_unknown_conversation_exits_with_66(mail, action):
    refused(mail("conversation", action, STRANGE, "--as", "alice", "--extend", "60"), 66, "unknown_conversation")


def test_an_id_in_capitals_is_that_id(mail):
    begun = start(mail)
    told = mail("conversation", "status", begun["conversation_id"].upper(), "--as", "bob").answer
    assert told["conversation_id"] == begun["conversation_id"]


def test_what_is_no_id_is_a_usage_error(mail):
    refused(mail("conversation", "status", "first", "--as", "alice"), 64, "bad_id")


@pytest.mark.parametrize("action", ["status", "cancel", "complete", "needs-human"])
def test_a_stranger_is_told_that_there_is_none_and_changes_nothing(mail, action):
    begun = start(mail)
    told = refused(mail("conversation", action, begun["conversation_id"], "--as", "carol"), 66, "unknown_conversation")
    unknown = refused(mail("conversation", action, STRANGE, "--as", "carol"), 66, "unknown_conversation")
    assert told["error"].replace(begun["conversation_id"], STRANGE) == unknown["error"]
    assert len(journal(mail.spool, begun["conversation_id"])) == 1


def test_status_has_the_same_fields_for_both_and_never_goal_or_words(mail):
    begun = start(mail)
    for member in ("alice", "bob"):
        done = mail("conversation", "status", begun["conversation_id"], "--as", member)
        assert list(done.answer) == STATUS
        assert GOAL not in done.out
        assert WORDS not in done.out
    listed = mail("conversation", "list")
    assert GOAL not in listed.out
    assert WORDS not in listed.out


@pytest.mark.parametrize(
    ("action", "state"), [("complete", "completed"), ("cancel", "cancelled"), ("needs-human", "needs_human")]
)
def test_an_end_answers_the_status_and_said_again_changes_nothing(mail, action, state):
    begun = start(mail)
    first = mail("conversation", action, begun["conversation_id"], "--as", "bob").answer
    assert list(first) == [*STATUS, "changed"]
    assert (first["state"], first["changed"], first["transitions"][-1]["by"]) == (state, True, "bob")
    again = mail("conversation", action, begun["conversation_id"], "--as", "alice").answer
    assert (again["state"], again["changed"]) == (state, False)
    assert len(journal(mail.spool, begun["conversation_id"])) == 2


def test_another_end_exits_with_77(mail):
    begun = start(mail)
    assert mail("conversation", "complete", begun["conversation_id"], "--as", "alice").status == 0
    refused(mail("conversation", "cancel", begun["conversation_id"], "--as", "alice"), 77, "not_active")
    refused(mail("conversation", "resume", begun["conversation_id"], "--add-turns", "2"), 77, "not_active")
    refused(answer(mail, begun["message_id"]), 77, "not_active")


def test_past_the_limit_a_person_resumes_by_the_words_of_the_refusal(mail):
    begun = start(mail, "--max-turns", "2")
    result = answer(mail, begun["message_id"]).answer["id"]
    told = refused(answer(mail, result, "alice", "task", "and now"), 77, "turn_limit")
    command = told["hint"].partition("agent-mail ")[2].replace(" N", " 2").split()
    resumed = mail(*command, "--as", "eve").answer
    assert (resumed["state"], resumed["max_turns"], resumed["transitions"][-1]["by"]) == ("active", 4, "eve")
    assert answer(mail, result, "alice", "task", "and now").status == 0
    assert controls(journal(mail.spool, begun["conversation_id"])) == ["needs_human", "resume"]


def test_a_resume_that_raises_nothing_is_refused_and_one_without_name_is_a_persons(mail):
    begun = start(mail, "--max-turns", "2")
    answer(mail, begun["message_id"])
    refused(mail("conversation", "resume", begun["conversation_id"]), 77, "turn_limit")
    told = mail("conversation", "resume", begun["conversation_id"], "--add-turns", "100").answer
    assert (told["max_turns"], told["transitions"][-1]["by"]) == (20, "person")


def test_a_start_is_known_again_by_its_key(mail):
    first, again = start(mail, "--dedup-key", "k"), start(mail, "--dedup-key", "k")
    assert again == first | {"duplicate": True}


def test_a_turn_is_answered_by_the_handle_that_the_worker_was_given(mail):
    begun = start(mail)
    handle = mail("claim", "bob").answer["handle"]
    refused(answer(mail, begun["message_id"]), 77, "claimed")
    mail.environ = with_environment(mail, AGENT_MAIL_CLAIM=handle)
    sent = answer(mail, begun["message_id"]).answer
    assert sent["acknowledged"] == begun["message_id"]
    again = answer(mail, begun["message_id"]).answer
    assert (again["duplicate"], again["id"]) == (True, sent["id"])


@pytest.mark.parametrize(("hops", "status"), [("0", 0), ("7", 0), ("8", 77), ("20", 77)])
def test_a_worker_starts_a_conversation_only_so_many_hops_from_a_person(mail, hops, status):
    done = mail("conversation", "start", "--from", "alice", "--to", "bob", "--goal", GOAL,
                env=with_environment(mail, AGENT_MAIL_HOPS=hops))  # fmt: skip
    if status:
        refused(done, status, "loop_limit")
        assert mail("conversation", "list").answer["count"] == 0
    else:
        [entry] = journal(mail.spool, done.answer["conversation_id"])
        assert entry["hops"] == int(hops) + 1


def test_list_tells_of_all_or_of_one_agents(mail):
    assert mail("conversation", "list").answer == {"count": 0, "conversations": []}
    one = start(mail)["conversation_id"]
    two = mail("conversation", "start", "--from", "bob", "--to", "carol", "--goal", GOAL).answer["conversation_id"]
    everything = mail("conversation", "list").answer
    assert [row["conversation_id"] for row in everything["conversations"]] == [one, two]
    assert list(everything["conversations"][0]) == STATUS
    for agent, known in {"alice": [one], "bob": [one, two], "carol": [two], "dave": []}.items():
        told = mail("conversation", "list", "--agent", agent).answer
        assert [row["conversation_id"] for row in told["conversations"]] == known


def test_a_damaged_conversation_is_warned_of_and_the_others_are_listed(mail):
    one, two = start(mail)["conversation_id"], start(mail)["conversation_id"]
    (mail.spool / "conversations" / one / "journal" / "0001.json").write_text("{")
    done = mail("conversation", "list")
    assert [row["conversation_id"] for row in done.answer["conversations"]] == [two]
    assert [warning["code"] for warning in done.warnings] == ["cannot_read"]
    refused(mail("conversation", "status", one, "--as", "alice"), 1, "cannot_read")


def test_state_json_tells_a_script_how_it_stands(mail):
    begun = start(mail)
    answer(mail, begun["message_id"])
    told = json.loads((mail.spool / "conversations" / begun["conversation_id"] / "state.json").read_text())
    assert list(told) == [*STATUS, "last_entry"]
    assert told["last_entry"] == journal(mail.spool, begun["conversation_id"])[-1]["id"]


def test_looking_makes_no_spool(mail, tmp_path):
    elsewhere = tmp_path / "nothing"
    assert mail("conversation", "list", "--spool", str(elsewhere)).answer["count"] == 0
    refused(mail("conversation", "status", STRANGE, "--as", "a", "--spool", str(elsewhere)), 66, "unknown_conversation")
    assert not elsewhere.exists()
