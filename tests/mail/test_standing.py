"""What is owed is seen though it moves, also by one who puts a message elsewhere before each place is looked at."""

import os

import pytest

from maildir_agents import Spool
from maildir_agents.mail import mailbox
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.standing import Standing


@pytest.fixture
def box(tmp_path):
    spool = Spool(tmp_path / "spool", durability="none")
    spool.init()
    return Mailbox(spool, "worker")


class Evader:
    """Claims a message when new/ or cur/ is about to be listed and gives it back when claimed/ is, `looks` times."""

    def __init__(self, monkeypatch, box: Mailbox, message_id: str, looks: int) -> None:
        self._spool, self._id, self._left = box.spool, message_id, looks
        self._handle = None
        for name in ("listdir", "scandir"):
            monkeypatch.setattr(os, name, self._before(getattr(os, name)))

    def _before(self, real):
        def listing(path="."):
            place = os.path.basename(os.fspath(path))
            if self._left and place in ("new", "cur", "claimed"):
                self._left -= place == "claimed"
                self._be_elsewhere(place)
            return real(path)

        return listing

    def _be_elsewhere(self, place: str) -> None:
        left, self._left = self._left, 0  # its own listings are no reason to flee
        if place == "claimed" and self._handle:
            self._spool.release("worker", self._handle)
            self._handle = None
        elif place != "claimed" and not self._handle:
            self._handle = self._spool.claim("worker", self._id)["handle"]
        self._left = left


def test_a_message_that_evades_six_looks_is_owed_counted_and_found(box, monkeypatch):
    moving, resting = (box.spool.send(sender="hub", recipient="worker", subject=s)["id"] for s in "mr")
    for ask in (Mailbox.owed, lambda b: Standing(b).unacked, lambda b: b.find_all([moving, resting])):
        with monkeypatch.context() as patch:
            Evader(patch, box, moving, looks=6)
            assert set(ask(box)) == {moving, resting}


def test_one_look_misses_it(box, monkeypatch):
    """The negative control: the evader does evade."""
    moving = box.spool.send(sender="hub", recipient="worker", subject="m")["id"]
    monkeypatch.setattr(mailbox, "LOOKS", 1)
    for ask in (Mailbox.owed, lambda b: Standing(b).unacked, lambda b: b.find_all([moving])):
        with monkeypatch.context() as patch:
            Evader(patch, box, moving, looks=1)
            assert set(ask(box)) == set()


def test_a_mailbox_that_rests_is_looked_at_once(box, monkeypatch):
    box.spool.send(sender="hub", recipient="worker", subject="m")
    os.utime(f"{box.path}/claimed", (1, 1))
    listed = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(os.path.basename(path)) or real(path))
    assert [box.state_of(found) for found in box.owed().values()] == ["unread"]
    assert listed == ["new", "cur", "claimed"]
