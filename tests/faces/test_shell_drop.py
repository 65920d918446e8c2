"""A shell script's `mv` into new/ is ordinary mail from then on, in every verb."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from faces.program import Program, until
from maildir_agents import Spool

# Nothing of this project's: a draft beside new/, and one rename.  Arguments: spool, id, sender, recipient, more JSON.
DROP = r"""
set -eu
box=$1/agents/$4
printf '{"id":"%s","sender":"%s","recipient":"%s","subject":"dropped"%s,' "$2" "$3" "$4" "$5" >"$box/tmp/$2.json"
printf '"created":"2026-11-30T18:47:12.000Z","body":"by sh"}\n' >>"$box/tmp/$2.json"
mv "$box/tmp/$2.json" "$box/new/$2.json"
"""
IDS = [f"01a22dc8-4ffb-7e11-9d3f-{number:012x}" for number in range(10)]
ID = IDS[0]


@pytest.fixture(params=["dash", "sh"])
def shell(request, needs) -> str:
    return needs(request.param, "a script that delivers with mv")


@pytest.fixture
def boxes(quick) -> Program:
    """Mailboxes of bob and carol, empty."""
    quick("read", "bob")
    quick("read", "carol")
    return quick


def drop(mail: Program, message_id: str = ID, sender: str = "cron", recipient: str = "bob", more: str = "",
         shell: str = "sh") -> None:  # fmt: skip
    words = [shell, "-c", DROP, "drop", str(mail.spool), message_id, sender, recipient, more]
    subprocess.run(words, check=True, capture_output=True)


def ids(answer: dict) -> list[str]:
    return [message["id"] for message in answer["messages"]]


def places(mail: Program, message_id: str = ID) -> list[str]:
    return [place["state"] for place in mail("trace", message_id).answer["places"]]


def test_it_is_unread_then_read_then_acknowledged(boxes, shell):
    drop(boxes, shell=shell)
    assert (boxes.row("bob")["unread"], boxes.row("bob")["unacked"]) == (1, 1)
    [message] = boxes("read", "bob").answer["messages"]
    assert (message["id"], message["sender"], message["subject"], message["body"]) == (ID, "cron", "dropped", "by sh")
    assert (message["refs"], message["thread_id"], message["token"]) == ([], None, 0)
    assert (boxes.row("bob")["unread"], boxes.row("bob")["unacked"]) == (0, 1)
    assert boxes("ack", "bob", ID).answer["message_ids"] == [ID]
    assert boxes("ack", "bob", ID).answer["count"] == 0
    assert boxes.row("bob")["unacked"] == 0


@pytest.mark.parametrize("words", [["bob", ID], ["bob", "--all"]])
def test_it_can_be_acknowledged_without_having_been_read(boxes, words):
    drop(boxes)
    assert boxes("ack", *words).answer["message_ids"] == [ID]
    assert places(boxes) == ["acked"]
    assert boxes("thread", ID).answer["count"] == 1
    assert boxes("read", "bob", "--all").answer["messages"][0]["acked_at"]


@pytest.mark.parametrize("before", [[], ["read", "bob"], ["watch", "bob", "--once"]], ids=["fresh", "read", "seen"])
def test_a_reply_joins_its_thread_and_acknowledges_it(boxes, before):
    drop(boxes)
    if before:
        boxes(*before)
    receipt = boxes.send("bob", "carol", "--reply-to", ID)
    assert receipt["acknowledged"] == ID
    assert places(boxes) == ["acked"]
    thread = boxes("thread", ID).answer
    assert (thread["thread_id"], ids(thread)) == (ID, [ID, receipt["id"]])
    assert thread["messages"][1]["reply_to"] == ID
    assert boxes("thread", receipt["id"]).answer == thread


def test_it_is_a_thread_and_has_a_trace_before_anybody_opened_it(boxes):
    drop(boxes)
    thread = boxes("thread", ID).answer
    assert (thread["thread_id"], ids(thread)) == (ID, [ID])
    assert places(boxes) == ["new"]
    assert boxes("trace", ID).answer["sender"] == "cron"
    assert boxes.row("bob")["unread"] == 1


def test_a_dropped_reply_joins_the_thread_of_what_it_answers(boxes):
    root = boxes.send("bob", "carol")["id"]
    drop(boxes, more=f',"reply_to":"{root}","thread_id":"{root}"')
    boxes("read", "bob")
    assert ids(boxes("thread", root).answer) == sorted([root, ID])
    assert boxes("thread", ID).answer["thread_id"] == root
    assert ids(boxes("read", "bob", "--all", "--thread", root).answer) == [ID]
    answer = boxes.send("bob", "carol", "--reply-to", ID)
    assert ids(boxes("thread", root).answer) == sorted([root, ID, answer["id"]])


def test_what_stands_behind_the_body_counts_as_well(boxes):
    root = boxes.send("bob", "carol")["id"]
    more = {"reply_to": root, "thread_id": root}
    message = {"id": ID, "sender": "cron", "recipient": "bob", "subject": "s", "body": "first",
               "created": "2026-11-30T18:47:12.000Z", **more}  # fmt: skip
    (boxes.spool / f"agents/bob/new/{ID}.json").write_text(json.dumps(message))
    boxes("read", "bob")
    assert boxes("thread", ID).answer["thread_id"] == root
    assert boxes.send("bob", "carol", "--reply-to", ID)["acknowledged"] == ID
    assert boxes("thread", ID).answer["count"] == 3


def test_it_wakes_a_watch(boxes, shell):
    watch = boxes.watching("bob")
    drop(boxes, shell=shell)
    out, err = watch.communicate(timeout=30)
    assert (watch.returncode, err) == (0, b"")
    assert ids(json.loads(out)) == [ID]


def test_mail_of_both_kinds_keeps_the_order_of_its_ids(boxes):
    for message_id in (IDS[3], IDS[1], IDS[2]):
        drop(boxes, message_id)
    sent = boxes.send("alice", "bob")["id"]
    assert ids(boxes("read", "bob").answer) == sorted([*IDS[1:4], sent])


@pytest.mark.parametrize("done", ["read", "ack"])
def test_the_same_message_dropped_again_is_no_new_mail(boxes, done):
    drop(boxes)
    boxes("read", "bob")
    if done == "ack":
        boxes("ack", "bob", ID)
    before = places(boxes)
    drop(boxes)
    later = boxes.send("alice", "bob")["id"]
    assert ids(boxes("read", "bob").answer) == [later]
    assert places(boxes) == before
    assert boxes("failed", "list").answer["count"] == 0


def test_another_message_under_a_known_id_is_a_dead_letter_and_the_first_one_stays(boxes):
    drop(boxes)
    boxes("read", "bob")
    drop(boxes, sender="mallory")
    assert boxes("read", "bob").answer["messages"] == []
    [letter] = boxes("failed", "list").answer["failed"]
    assert (letter["id"], letter["code"]) == (ID, "id_clash")
    assert boxes("thread", ID).answer["messages"][0]["sender"] == "cron"
    assert ids(boxes("read", "bob", "--all").answer) == [ID]


def test_one_id_dropped_to_two_agents_is_the_first_ones(boxes):
    drop(boxes)
    drop(boxes, recipient="carol")
    assert ids(boxes("read", "bob").answer) == [ID]
    assert ids(boxes("read", "carol").answer) == []
    assert boxes("failed", "list").answer["failed"][0]["agent"] == "carol"


def test_a_message_to_everybody_may_be_dropped_to_each(boxes):
    for recipient in ("bob", "carol"):
        path = boxes.spool / f"agents/{recipient}/new/{ID}.json"
        path.write_text(json.dumps({"id": ID, "sender": "cron", "recipient": "*", "subject": "s", "body": "b",
                                    "created": "2026-11-30T18:47:12.000Z"}))  # fmt: skip
    for recipient in ("bob", "carol"):
        assert ids(boxes("read", recipient).answer) == [ID]
    assert boxes("failed", "list").answer["count"] == 0


def test_a_thousand_dropped_files_are_acknowledged_in_one_call(boxes):
    new = boxes.spool / "agents/bob/new"
    for number in range(1000):
        message_id = f"01a22dc8-4ffb-7e11-9d3f-{number:012x}"
        (new / f"{message_id}.json").write_text(json.dumps({
            "id": message_id, "sender": "cron", "recipient": "bob", "subject": "s", "body": "b",
            "created": "2026-11-30T18:47:12.000Z"}))  # fmt: skip
    assert boxes("ack", "bob", "--all").answer["count"] == 1000
    assert os.listdir(new) == []


def test_a_draft_that_was_never_moved_is_no_mail_and_is_swept_when_it_is_old(boxes):
    draft = boxes.spool / f"agents/bob/tmp/{ID}.json"
    draft.write_text("{}")
    assert boxes("read", "bob").answer["count"] == 0
    assert draft.exists()
    os.utime(draft, (draft.stat().st_mtime - 120,) * 2)
    assert boxes("read", "bob").answer["count"] == 0
    assert not draft.exists()


def test_an_acknowledgement_by_mv_is_one(boxes):
    sent = boxes.send("alice", "bob")["id"]
    time = "20261130T190000.000Z"
    where = Path(Spool(boxes.spool).settled("bob", "acked", sent))
    script = 'mkdir -p "$2" && mv "$1" "$2/$3"'
    words = [str(boxes.spool / f"agents/bob/new/{sent}.json"), str(where), f"{sent}~r{time}~a{time}.json"]
    subprocess.run(["sh", "-c", script, "ack", *words], check=True)
    assert boxes.row("bob")["unacked"] == 0
    assert places(boxes, sent) == ["acked"]
    assert boxes("ack", "bob", sent).answer["count"] == 0
    assert boxes("read", "bob", "--all").answer["messages"][0]["acked_at"] == "2026-11-30T19:00:00.000Z"
    until(lambda: boxes("read", "bob").answer["count"] == 0, "nothing is unread")
