"""One message for each sender and key, for as long as it is kept, and whoever else asks finds that one."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maildir_agents import Spool
from maildir_agents.errors import MailError
from maildir_agents.mail.dedup import key_path, winner
from maildir_agents.mail.spool import SpoolFiles

words = st.text(st.characters(codec="utf-8"), max_size=8)


@pytest.fixture
def spool(tmp_path) -> Spool:
    return Spool(tmp_path / "spool", durability="none")


def send(spool: Spool, sender: str = "a", key: str | None = "k", **more: str) -> dict:
    return spool.send(**{"sender": sender, "recipient": "b", "subject": "s", "body": "x", "dedup_key": key} | more)


def unread(spool: Spool) -> int:
    return spool.status("b")[0]["unread"]


@given(words, words, words, words)
def test_two_pairs_of_sender_and_key_never_share_a_name(sender, key, other_sender, other_key):
    spool = SpoolFiles("/nowhere")
    same = (sender, key) == (other_sender, other_key)
    assert (key_path(spool, sender, key) == key_path(spool, other_sender, other_key)) == same


def test_the_border_between_sender_and_key_counts(spool):
    one = send(spool, "a", "bc")
    other = send(spool, "ab", "c")
    assert (one["duplicate"], other["duplicate"]) == (False, False)
    assert one["id"] != other["id"]
    assert unread(spool) == 2


def test_a_repeat_is_answered_with_the_first_and_nothing_is_sent(spool):
    first = send(spool)
    again = send(spool)
    assert again | {"duplicate": False} == first | {"delivery": {"known": True}}
    assert again["duplicate"] is True
    assert "content_differs" not in again
    assert unread(spool) == 1


@pytest.mark.parametrize("change", [{"body": "y"}, {"subject": "t"}, {"recipient": "c"}])
def test_a_repeat_that_says_something_else_is_told_so(spool, change):
    first = send(spool)
    again = send(spool, **change)
    assert (again["id"], again["recipient"], again["subject"]) == (first["id"], "b", "s")
    assert (again["duplicate"], again["content_differs"]) == (True, True)


def test_the_key_of_another_sender_is_another_key(spool):
    assert send(spool, "a")["id"] != send(spool, "c")["id"]
    assert unread(spool) == 2


@pytest.mark.parametrize("done", ["read", "ack"])
def test_a_key_is_known_as_long_as_its_message_is_kept(spool, done):
    first = send(spool)
    with spool.read("b", ack=done == "ack") as batch:
        assert batch.messages
    assert send(spool)["id"] == first["id"]
    assert unread(spool) == 0


def test_a_key_is_free_again_when_its_message_was_deleted_for_good(spool):
    first = send(spool)
    box = Path(spool.box("b"))
    os.rename(box / f"new/{first['id']}.json", box / f"failed/{first['id']}.json")
    spool.failed_purge("b", first["id"])
    assert winner(spool, "a", "k") is None
    assert send(spool)["duplicate"] is False
    assert unread(spool) == 1


def test_the_winner_of_a_key_is_the_message_itself(spool):
    told = send(spool)
    assert winner(spool, "a", "k")["id"] == told["id"]
    assert os.path.samefile(key_path(spool, "a", "k"), spool.anchor(told["id"]))
    assert winner(spool, "a", "other") is None


def test_a_damaged_key_stops_its_sender_and_sends_nothing(spool):
    path = Path(key_path(spool, "a", "k"))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"torn")
    with pytest.raises(MailError) as refused:
        send(spool)
    assert refused.value.code == "cannot_read"
    assert [row for row in spool.status("b") if row["unread"]] == []
    assert not os.listdir(f"{spool.box('b')}/tmp")
