"""What pages and servers look at: nothing is missed, doubled or invented while others move the mail."""

import threading

import pytest

from maildir_agents import Spool
from maildir_agents.verbs import conversation, mark, messages
from maildir_agents.verbs.news import News


@pytest.fixture
def spool(tmp_path):
    spool = Spool(tmp_path / "spool", durability="none")
    spool.init()
    return spool


def test_a_message_that_is_claimed_and_released_in_a_loop_is_listed_once_and_never_gone(spool):
    resting = [spool.send(sender="hub", recipient="worker", subject=f"{n}")["id"] for n in range(50)]
    moving, over = resting[0], threading.Event()

    def fidget() -> None:
        own = Spool(spool.root, durability="none", history=False)
        while not over.is_set():
            own.release("worker", own.claim("worker", moving)["handle"])

    worker = threading.Thread(target=fidget)
    worker.start()
    try:
        news = News(spool)
        for _ in range(300):
            found = [m["id"] for m in messages.messages(spool, "worker", limit=500)["messages"]]
            assert found == resting
            told = [members for kind, members in news.look() if members.get("state") == "gone" or kind == "message"]
            assert told == []
    finally:
        over.set()
        worker.join()


def test_an_answer_ends_before_too_many_bytes_of_bodies_and_says_so(spool):
    ids = [spool.send(sender="hub", recipient="worker", subject="s", body="é" * 500)["id"] for _ in range(5)]

    def told(**ask):
        found = messages.messages(spool, "worker", **ask)
        return [ids.index(m["id"]) for m in found["messages"]], found["truncated"]

    assert told(max_bytes=3000) == ([2, 3, 4], True)
    assert told(max_bytes=3000, unread_only=True) == ([0, 1, 2], True)
    assert told(max_bytes=3000, after=ids[1]) == ([2, 3, 4], False)
    assert told(max_bytes=10) == ([4], True)
    assert told() == ([0, 1, 2, 3, 4], False)


def test_the_first_look_tells_nothing_and_each_later_one_what_changed(spool):
    first = spool.send(sender="hub", recipient="worker", subject="before")["id"]
    news = News(spool)
    assert news.look() == []
    second = spool.send(sender="hub", recipient="worker", subject="after")["id"]
    [(kind, members)] = news.look()
    assert (kind, members["id"], members["mailbox"]) == ("message", second, "worker")
    mark.mark_read(spool, "worker", first)
    spool.ack("worker", [second])
    assert {(m["id"], m["state"]) for _, m in news.look()} == {(first, "read"), (second, "acked")}
    spool.archive("worker", [second])
    assert [(m["id"], m["state"]) for _, m in news.look()] == [(second, "archived")]
    assert news.look() == []


def test_only_the_doors_that_rang_are_looked_behind(spool):
    news_of = {}
    for agent in ("one", "two"):
        spool.send(sender="hub", recipient=agent, subject="s")
    news = News(spool)
    for agent in ("one", "two"):
        news_of[agent] = spool.send(sender="hub", recipient=agent, subject="s")["id"]
    root = spool.root
    assert [m["id"] for _, m in news.look([f"{root}/agents/two/new"])] == [news_of["two"]]
    assert [m["id"] for _, m in news.look([f"{root}/agents/one"])] == [news_of["one"]]


def test_who_marks_read_says_so_once_and_moves_one_file(spool):
    message = spool.send(sender="hub", recipient="worker", subject="s")["id"]
    assert mark.mark_read(spool, "worker", message)["changed"] is True
    assert mark.mark_read(spool, "worker", message.upper())["changed"] is False
    assert messages.message(spool, message)["state"] == "read"
    assert spool.trace(message)["events"][-1]["event"] == "read"


def test_what_waits_for_a_person_is_told_and_what_has_ended_is_not_read_again(spool):
    talks = [
        conversation.start(spool, sender="ann", recipient="ben", goal=f"goal {n}")["conversation_id"] for n in range(3)
    ]
    conversation.control(spool, talks[0], "needs_human", "ben")
    conversation.control(spool, talks[1], "cancel", None)
    ended: set[str] = set()
    [row] = conversation.waiting(spool, ended)
    assert (row["conversation_id"], row["subject"], row["by"]) == (talks[0], "goal 0", "ben")
    assert ended == {talks[1]}
    assert conversation.status(spool, talks[1])["transitions"][-1]["by"] == "person"
