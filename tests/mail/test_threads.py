"""Threads: the id of any member gives all of it, in order, whoever's mailboxes they are in."""

import os

import pytest

from maildir_agents import Spool
from maildir_agents.errors import MailError


@pytest.fixture
def spool(tmp_path) -> Spool:
    return Spool(tmp_path / "spool", durability="none")


def send(spool: Spool, sender: str, recipient: str, reply_to: str | None = None) -> str:
    told = spool.send(
        sender=sender, recipient=recipient, subject="s", body=f"{sender} to {recipient}", reply_to=reply_to
    )
    return told["id"]


@pytest.fixture
def talk(spool) -> list[str]:
    """Four messages among three agents: root, reply, reply to the reply, second reply to the root by its sender."""
    root = send(spool, "a", "b")
    first = send(spool, "b", "a", root)
    second = send(spool, "a", "b", first)
    return [root, first, second, send(spool, "a", "c", root)]


def test_any_member_gives_the_whole_thread_oldest_first(spool, talk):
    answers = [spool.thread(member) for member in talk]
    assert [message["id"] for message in answers[0]["messages"]] == talk
    assert (answers[0]["thread_id"], answers[0]["count"]) == (talk[0], 4)
    assert all(answer == answers[0] for answer in answers)


def test_every_reply_carries_the_roots_id_and_what_it_answers(spool, talk):
    messages = spool.thread(talk[2])["messages"]
    assert [message["thread_id"] for message in messages] == [None, talk[0], talk[0], talk[0]]
    assert [message["reply_to"] for message in messages] == [None, talk[0], talk[1], talk[0]]


def test_a_thread_is_the_same_whatever_became_of_its_messages(spool, talk):
    before = spool.thread(talk[0])
    for agent in "abc":
        with spool.read(agent):
            pass
        spool.ack(agent, everything=True)
    assert spool.thread(talk[0]) == before


def test_a_message_without_replies_is_a_thread_of_one_and_makes_no_directory(spool):
    alone = send(spool, "a", "b")
    told = spool.thread(alone.upper())
    assert [message["id"] for message in told["messages"]] == [alone]
    assert told["thread_id"] == alone
    assert os.listdir(f"{spool.root}/threads") == []


def test_threads_do_not_mix(spool, talk):
    other = send(spool, "a", "b")
    reply = send(spool, "b", "a", other)
    assert [message["id"] for message in spool.thread(reply)["messages"]] == [other, reply]
    assert spool.thread(talk[0])["count"] == 4


def test_looking_at_a_thread_changes_nothing(spool, talk):
    def tree() -> dict[str, tuple[int, int]]:
        found = (os.path.join(place, name) for place, _, names in os.walk(spool.root) for name in names)
        return {path: (os.stat(path).st_mtime_ns, os.stat(path).st_nlink) for path in found}

    before = tree()
    spool.thread(talk[1])
    assert tree() == before


@pytest.mark.parametrize(
    ("message_id", "code", "status"),
    [("01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02", "unknown_id", 66), ("../../x", "bad_id", 64), ("*", "bad_id", 64)],
)
def test_an_unknown_member_is_said_to_be_unknown(spool, message_id, code, status):
    with pytest.raises(MailError) as refused:
        spool.thread(message_id)
    assert (refused.value.code, refused.value.exit_status) == (code, status)


def test_reading_one_thread_leaves_the_others_unread(spool, talk):
    send(spool, "a", "b")
    with spool.read("b", thread=talk[2]) as batch:
        assert {message["thread_id"] or message["id"] for message in batch.messages} == {talk[0]}
    with spool.read("b") as batch:
        assert [message["thread_id"] for message in batch.messages] == [None]
