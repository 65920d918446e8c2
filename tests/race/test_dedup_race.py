"""One sender and key, many processes at once: one message, delivered once, and one id told to all of them.

Each process writes down what it was told; some are killed at a random moment, so nobody knows how far they came.
"""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from maildir_agents.errors import MailError
from maildir_agents.faces.python import Spool
from maildir_agents.testing import MovableClock
from race.test_torture import FastClock, Lives, lives, where

LONG = bool(os.environ.get("AGENT_MAIL_LONG"))
SEED = int(os.environ["TEST_SEED"])
SENDERS = 20
ROUNDS = 40 if LONG else 6
CLEANED_S = 20 if LONG else 4
CLEANED = 5  # how often the message of a key has to go meanwhile, however long that takes

pytestmark = pytest.mark.timeout(600)


class Told:
    """The receipts that processes got, one appended line each.

    All lines are as long as a part of a page, so that none lies on two: between two pages a kill may end a write.
    """

    LENGTH = 128

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def add(self, receipt: dict) -> None:
        line = json.dumps({key: receipt[key] for key in ("id", "duplicate")}).ljust(self.LENGTH - 1) + "\n"
        assert len(line) == self.LENGTH
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, line.encode())
        os.close(fd)

    def all(self) -> list[dict]:
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()]


@pytest.fixture
def root(tmp_path) -> str:
    Spool(tmp_path / "spool", durability="none").init()
    return str(tmp_path / "spool")


def send(root: str, key: str, body: str = "b", sender: str = "alice", **how: object) -> dict:
    """Again as long as it is told to try again: at the thousandfold pace of a clock drafts are collected soon."""
    while True:
        try:
            return Spool(root, **how).send(sender=sender, recipient="bob", subject=key, body=body, dedup_key=key)
        except MailError as error:
            if error.code != "busy":
                raise


def at_once(those: Lives, count: int, work: Callable[[int], None]) -> list[int]:
    """`count` processes that all begin when the last of them is there."""
    gate, opener = os.pipe()

    def wait_and_work(number: int) -> None:
        os.close(opener)
        os.read(gate, 1)  # until nobody holds the other end
        work(number)

    pids = [those.start(lambda number=number: wait_and_work(number)) for number in range(count)]
    os.close(gate)
    os.close(opener)
    return pids


def acknowledge_until(root: str, stop: Path, done: Path, **how: object) -> None:
    """The recipient: acknowledges whatever comes, and writes down what it acknowledged."""
    spool = Spool(root, **how)
    fd = os.open(done, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    last = False
    while not last:
        last = stop.exists()
        with spool.read("bob", ack=True, limit=100) as batch:
            ids = [message["id"] for message in batch.messages]
        os.write(fd, "".join(f"{i}\n" for i in ids).encode())


def test_twenty_senders_of_one_key_send_one_message(root, tmp_path, say):
    dice = random.Random(SEED)
    stop, done = tmp_path / "stop", tmp_path / "done"
    killed = survived = 0
    with lives() as those:
        recipient = those.start(lambda: acknowledge_until(root, stop, done))
        for number in range(ROUNDS):
            told = Told(tmp_path / f"told.{number}")
            key = f"key {number}"
            pids = at_once(those, SENDERS, lambda n, key=key, told=told: told.add(send(root, key, f"body {n % 2}")))
            for pid in dice.sample(pids, SENDERS // 3):
                time.sleep(dice.random() * 0.004)
                those.kill(pid)
                killed += 1
            assert [those.wait(pid) for pid in pids if pid in those.running] == [0] * (SENDERS - SENDERS // 3)
            receipts = told.all()
            survived += len(receipts)
            again = send(root, key, "body 0")
            assert again["duplicate"] is True
            assert {receipt["id"] for receipt in receipts} == {again["id"]}
            assert sum(not receipt["duplicate"] for receipt in receipts) <= 1
        stop.touch()
        assert those.wait(recipient) == 0
    acknowledged = Counter(done.read_text("utf-8").split())
    assert set(acknowledged.values()) == {1}, "one was shown to its reader twice"
    places = where(root)
    assert len(places) == ROUNDS, "one message for each key"
    assert {i for i, names in places.items() if [state for state, _ in names] != ["acked"]} == set()
    assert set(places) == set(acknowledged)
    later = MovableClock()
    later.advance(61)  # by then what a killed sender did not commit is litter
    with Spool(root, clock=later).read("bob") as batch:
        assert batch.messages == []
    assert os.listdir(f"{root}/agents/bob/tmp") == []
    say(f"one key: {ROUNDS} rounds of {SENDERS} senders, {killed} killed, {survived} receipts")


def test_a_sender_that_is_killed_is_completed_by_the_next(root, tmp_path, say):
    """One after the other, each killed a little later than the last, until one gets through; then once more."""
    found = Counter()
    with lives() as those:
        for number, delay in enumerate(step / (40_000 if LONG else 8_000) for step in range(400 if LONG else 80)):
            pid = those.start(lambda key=f"key {number}": send(root, key))
            time.sleep(delay)
            those.kill(pid)
            receipt = send(root, f"key {number}")
            found["committed" if receipt["duplicate"] else "not committed"] += 1
            assert send(root, f"key {number}") == receipt | {"duplicate": True, "delivery": {"known": True}}
    with Spool(root).read("bob", limit=1000) as batch:
        subjects = Counter(message["subject"] for message in batch.messages)
    assert subjects == {f"key {number}": 1 for number in range(sum(found.values()))}
    say(f"killed senders: {dict(found)}")


def test_sender_and_key_are_two_words_and_not_one(root):
    ids = {send(root, "bc", sender="a")["id"], send(root, "c", sender="ab")["id"], send(root, "abc", sender="a")["id"]}
    assert len(ids) == 3
    assert send(root, "bc", sender="a")["duplicate"] is True


@pytest.mark.parametrize(
    ("changed", "differs"),
    [({}, None), ({"body": "other"}, True), ({"subject": "other"}, True), ({"refs": ["r"]}, True)],
)
def test_a_key_that_stood_for_other_words_says_so(root, changed, differs):
    order = {"sender": "alice", "recipient": "bob", "subject": "s", "body": "b", "dedup_key": "k"}
    first = Spool(root).send(**order)
    again = Spool(root).send(**order | changed)
    assert (again["id"], again["duplicate"]) == (first["id"], True)
    assert again.get("content_differs") is differs
    with Spool(root).read("bob") as batch:
        assert [message["body"] for message in batch.messages] == ["b"]


def test_a_key_is_remembered_as_long_as_its_message(root):
    clock = FastClock(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    spool = Spool(root, clock=clock)
    first = send(root, "k", clock=clock)
    spool.ack("bob", [first["id"]])
    assert send(root, "k", clock=clock)["id"] == first["id"]
    clock.wall += 2 * 86_400_000
    assert spool.cleanup(1)["messages"] == 1
    second = send(root, "k", clock=clock)
    assert second["duplicate"] is False
    assert second["id"] != first["id"]


def test_whatever_is_cleaned_up_meanwhile_every_id_told_is_true(root, tmp_path, say):
    """Days pass in a fraction of a second, so that a key is forgotten and given anew under its senders' hands."""
    clock, dice = FastClock(time.clock_gettime_ns(time.CLOCK_BOOTTIME)), random.Random(SEED)
    stop, done, told = tmp_path / "stop", tmp_path / "done", Told(tmp_path / "told")
    day = 20 / 86_400  # twenty seconds of the clock, twenty milliseconds of ours

    def sending() -> None:
        while not stop.exists():
            told.add(send(root, "one key", clock=clock))

    def cleaning() -> None:
        spool = Spool(root, clock=clock)
        while not stop.exists():
            spool.cleanup(day)

    with lives() as those:
        steady = [those.start(lambda: acknowledge_until(root, stop, done, clock=clock)), those.start(cleaning)]
        senders = [those.start(sending) for _ in range(4)]
        end, killed = time.monotonic() + CLEANED_S, 0
        while time.monotonic() < end or len({receipt["id"] for receipt in told.all()}) <= CLEANED:
            time.sleep(dice.random() * 0.05)
            those.kill(senders.pop(dice.randrange(len(senders))))
            senders.append(those.start(sending))
            killed += 1
        stop.touch()
        assert [those.wait(pid) for pid in (*senders, *steady)] == [0] * 6
    with Spool(root).read("bob", ack=True, limit=1000) as batch:
        rest = [message["id"] for message in batch.messages]
    seen = Counter([*done.read_text("utf-8").split(), *rest])
    receipts = told.all()
    assert set(seen.values()) == {1}, "one message was delivered twice"
    assert {receipt["id"] for receipt in receipts} - set(seen) == set(), "an id was told that nobody ever got"
    firsts = Counter(receipt["id"] for receipt in receipts if not receipt["duplicate"])
    assert max(firsts.values(), default=0) <= 1, "two senders were told that they were the first"
    assert len(seen) > CLEANED
    say(f"cleaned up meanwhile: {len(receipts)} receipts, {len(seen)} messages, {killed} senders killed")
