"""A mailbox is made whole, with the last week's broadcasts, whatever part of it stands there already."""

import os

import pytest

from maildir_agents import Spool
from maildir_agents.errors import MailError
from maildir_agents.mail import founding
from maildir_agents.mail.broadcast import help_myself
from maildir_agents.mail.founding import MAILBOX_DIRS, make_mailbox


@pytest.fixture
def spool(tmp_path):
    spool = Spool(tmp_path / "spool", durability="none")
    spool.send(sender="ann", recipient="bob", subject="to one")
    return spool


@pytest.fixture
def broadcast(spool) -> str:
    return spool.send(sender="ann", recipient="*", subject="to all")["id"]


def new_mail(spool: Spool, agent: str) -> list[str]:
    return sorted(name.removesuffix(".json") for name in os.listdir(f"{spool.box(agent)}/new"))


def is_whole(spool: Spool, agent: str) -> bool:
    here = set(os.listdir(spool.box(agent)))
    return here >= set(MAILBOX_DIRS) and not os.path.lexists(f"{spool.agents}/.{agent}")


@pytest.mark.parametrize("part", ["watch", "acked/2026-11-30/1847", "claimed"])
def test_where_a_part_of_one_stands_the_rest_is_made_and_the_broadcasts_come(spool, broadcast, part):
    spool.disk.make_dir(f"{spool.box('zed')}/{part}")
    assert make_mailbox(spool, "zed")
    assert is_whole(spool, "zed")
    assert new_mail(spool, "zed") == [broadcast]
    assert os.path.isdir(f"{spool.box('zed')}/{part}")
    assert not make_mailbox(spool, "zed")
    assert spool.doctor()["findings"] == []


def test_a_part_that_appears_at_the_last_moment_is_no_obstacle(spool, broadcast, monkeypatch):
    """As a verb makes it whose mailbox is moved away while it makes a directory in it."""
    real = os.rename

    def rename(source, target):
        if os.fspath(target) == spool.box("zed"):
            os.makedirs(f"{target}/acked/2026-11-30")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    assert make_mailbox(spool, "zed")
    monkeypatch.undo()
    assert is_whole(spool, "zed")
    assert new_mail(spool, "zed") == [broadcast]


def test_a_mailbox_that_lost_its_new_is_not_given_what_it_has(spool, broadcast):
    with spool.read("bob"):
        pass
    second = spool.send(sender="ann", recipient="*", subject="to all again")["id"]
    os.unlink(f"{spool.box('bob')}/new/{second}.json")
    os.rmdir(f"{spool.box('bob')}/new")
    assert make_mailbox(spool, "bob")
    assert new_mail(spool, "bob") == [second]
    with spool.read("bob", everything=True, mark=False) as batch:
        assert [message["id"] for message in batch.messages].count(broadcast) == 1


def test_a_file_in_its_place_is_refused(spool):
    with open(spool.box("zed"), "w", encoding="utf-8"):
        pass
    with pytest.raises(MailError, match="zed"):
        make_mailbox(spool, "zed")
    assert os.path.isfile(spool.box("zed"))


def test_a_part_of_one_that_a_broadcast_meets_first_lacks_none_of_the_earlier(spool, broadcast):
    spool.disk.make_dir(f"{spool.box('zed')}/watch")
    second = spool.send(sender="ann", recipient="*", subject="to all again")["id"]
    make_mailbox(spool, "zed")
    assert is_whole(spool, "zed")
    assert new_mail(spool, "zed") == [broadcast, second]


def test_a_mailbox_taken_away_while_its_copy_is_handed_over_is_made_whole(spool, broadcast, monkeypatch):
    """By its recipient, who fetches it without the lock."""
    second = spool.send(sender="ann", recipient="*", subject="to all again")["id"]
    todo = f"{spool.root}/broadcast/{broadcast}.todo"
    spool.disk.make_dir(todo)
    os.rename(f"{spool.box('bob')}/new/{broadcast}.json", f"{todo}/bob.json")
    real = os.rename

    def rename(source, target):
        if os.path.dirname(os.fspath(target)) == f"{spool.box('bob')}/new" and os.path.isdir(spool.box("bob")):
            real(spool.box("bob"), f"{spool.root}/aside")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    help_myself(spool, "bob")
    monkeypatch.undo()
    make_mailbox(spool, "bob")
    assert is_whole(spool, "bob")
    assert new_mail(spool, "bob") == [broadcast, second]


def test_mail_that_is_sent_while_one_is_completed_does_not_pass_for_its_new(spool, broadcast, monkeypatch):
    """Where its sender finds a tmp/, it needs no more to deliver."""
    spool.disk.make_dir(f"{spool.box('zed')}/watch")
    real, sent = os.rename, []

    def rename(source, target):
        if os.fspath(target) == f"{spool.box('zed')}/new":
            monkeypatch.setattr(os, "rename", real)
            with pytest.raises(MailError, match="held by process"):  # it would make the mailbox, and waits for us
                monkeypatch.setattr(founding, "LOCK_MS", 0)
                spool.send(sender="ann", recipient="zed", subject="hello")
            sent.append(True)
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    make_mailbox(spool, "zed")
    assert sent and is_whole(spool, "zed")
    assert new_mail(spool, "zed") == [broadcast]


def test_where_a_sender_finds_a_tmp_and_no_new_the_mailbox_is_made(spool, broadcast):
    spool.disk.make_dir(f"{spool.box('zed')}/tmp")
    plain = spool.send(sender="ann", recipient="zed", subject="hello")["id"]
    assert is_whole(spool, "zed")
    assert new_mail(spool, "zed") == [broadcast, plain]


def test_a_part_of_one_is_made_whole_before_its_agent_answers_a_broadcast(spool, broadcast):
    spool.disk.make_dir(f"{spool.box('zed')}/watch")
    told = spool.send(sender="zed", recipient="ann", subject="Re: all", reply_to=broadcast)
    assert told["acknowledged"] == broadcast
