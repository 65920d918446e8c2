"""Many processes on one mailbox: each message is read exactly once, none is lost, a sender's order is kept."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from maildir_agents import Spool

SENDER = """
import json, sys
from maildir_agents import Spool
root, name, count = sys.argv[1:]
spool = Spool(root)
sys.stdin.read(1)
print(json.dumps([spool.send(sender=name, recipient="bob", subject=f"{name} {number}")["id"]
                  for number in range(int(count))]))
"""

# Reads until its standard input has ended and there was nothing left after that.
READER = """
import json, select, sys
from maildir_agents import MailError, Spool
root, acknowledge = sys.argv[1:]
spool, seen, busy, last = Spool(root), [], 0, False
while True:
    last = last or bool(select.select([sys.stdin], [], [], 0)[0])
    try:
        with spool.read("bob", ack=acknowledge == "ack") as batch:
            shown = [(message["sender"], message["id"], message["subject"]) for message in batch.messages]
    except MailError as error:
        assert error.code == "busy", error
        busy += 1
        continue
    assert batch.trouble is None, batch.trouble
    assert batch.warnings == [], batch.warnings
    seen += shown
    if last and not shown:
        break
print(json.dumps([seen, busy]))
"""

# Shows a message before it has made sure that nobody else does: what the readers' lock is for.
CARELESS = (
    """
import fcntl
fcntl.flock = lambda *_: None
"""
    + READER
)


@contextmanager
def running(script: str, arguments: list[list[str]]) -> Iterator[list[subprocess.Popen]]:
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen([sys.executable, "-I", "-c", script, *words], stdin=pipe, stdout=pipe) for words in arguments
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            with process:
                pass


def told(process: subprocess.Popen) -> list:
    out, _ = process.communicate(timeout=200)
    assert process.returncode == 0
    return json.loads(out)


def race(root: str, senders: int, count: int, readers: int, how: str, reader: str = READER) -> tuple[dict, list[list]]:
    """(sender -> its ids in the order of sending, what each reader saw in the order it did)."""
    names = [f"sender-{n}" for n in range(senders)]
    with (
        running(SENDER, [[root, name, str(count)] for name in names]) as writing,
        running(reader, [[root, how]] * readers) as reading,
    ):
        go_all(writing)
        sent = {name: told(process) for name, process in zip(names, writing, strict=True)}
        end_all(reading)
        return sent, [told(process)[0] for process in reading]


def go_all(processes: list[subprocess.Popen]) -> None:
    """Let all that wait for it begin."""
    for process in processes:
        process.stdin.write(b"x")
    end_all(processes)


def end_all(processes: list[subprocess.Popen]) -> None:
    for process in processes:
        process.stdin.close()
        process.stdin = None


@pytest.fixture
def root(tmp_path) -> str:
    spool = Spool(tmp_path / "spool", durability="none")
    spool.send(sender="alice", recipient="bob", subject="so that both mailboxes are there")
    spool.ack("bob", everything=True)
    return spool.root


@pytest.mark.parametrize("how", ["read", "ack"])
def test_eight_senders_and_six_readers_each_message_is_read_exactly_once(root, how):
    count = 500 if how == "read" else 100
    sent, seen = race(root, 8, count, 6, how)
    everything = [message for batch in seen for message in batch]
    times_seen = Counter(message_id for _, message_id, _ in everything)
    assert times_seen == Counter(message_id for ids in sent.values() for message_id in ids)
    assert set(times_seen.values()) == {1}
    assert len(times_seen) == 8 * count
    for sender, ids in sent.items():
        assert ids == sorted(ids)
        subjects = {message_id: subject for name, message_id, subject in everything if name == sender}
        assert [subjects[message_id] for message_id in ids] == [f"{sender} {number}" for number in range(count)]
        for batch in seen:  # no reader sees a later message of one sender before an earlier one
            assert (own := [message_id for name, message_id, _ in batch if name == sender]) == sorted(own)
    [row] = Spool(root).status("bob")
    assert (row["unread"], row["unacked"]) == (0, 8 * count if how == "read" else 0)


def test_the_race_is_one_that_careless_readers_lose(root):
    _, seen = race(root, 4, 100, 6, "read", CARELESS)
    assert max(Counter(message_id for batch in seen for _, message_id, _ in batch).values()) > 1


def test_the_same_is_so_for_the_command(quick):
    quick.send("alice", "bob")
    quick("read", "bob", "--ack")
    script = """
        i=0
        while [ $i -lt 10 ]; do
            i=$((i + 1))
            "$0" send --from "$1" --to bob --subject "$1 $i" || exit 1
        done"""
    senders = [
        subprocess.Popen(["sh", "-c", script, quick.command, f"sender-{n}"], env=quick.environ, stdout=subprocess.PIPE)
        for n in range(4)
    ]
    seen: list[dict] = []
    try:
        while any(process.poll() is None for process in senders):
            readers = [quick.start("read", "bob", "--limit", "3") for _ in range(3)]
            seen += shown_by(readers)
        while more := shown_by([quick.start("read", "bob")]):
            seen += more
    finally:
        for process in senders:
            process.kill()
            process.communicate()
    assert [process.returncode for process in senders] == [0] * 4
    assert sorted(message["subject"] for message in seen) == sorted(
        f"sender-{n} {i}" for n in range(4) for i in range(1, 11)
    )
    for n in range(4):
        own = sorted((m["id"], int(m["subject"].split()[1])) for m in seen if m["sender"] == f"sender-{n}")
        assert [number for _, number in own] == list(range(1, 11))


def shown_by(readers: list[subprocess.Popen]) -> list[dict]:
    """What they were shown, put together.  Who was told that another was reading comes again later."""
    outputs = [(reader.communicate(timeout=200), reader.returncode) for reader in readers]
    assert 0 in {status for _, status in outputs} <= {0, 75}, outputs
    return [message for (out, _), status in outputs if status == 0 for message in json.loads(out)["messages"]]


MEET = """
import sys
from maildir_agents import Spool
root, name = sys.argv[1:]
sys.stdin.read(1)
print(Spool(root, durability="none").send(sender=name, recipient="bob", subject="first", dedup_key="k")["id"])
"""


@pytest.mark.parametrize("same", [True, False], ids=["one sender and key", "ten senders"])
def test_ten_first_sends_at_once_make_one_spool_and_lose_nothing(tmp_path, same):
    root = str(tmp_path / "spool")
    with running(MEET, [[root, "alice" if same else f"sender-{n}"] for n in range(10)]) as processes:
        go_all(processes)
        ids = [process.communicate(timeout=200)[0].decode().strip() for process in processes]
        assert {process.returncode for process in processes} == {0}
    assert len(set(ids)) == (1 if same else 10)
    with Spool(root).read("bob") as batch:
        assert sorted(message["id"] for message in batch.messages) == sorted(set(ids))
    for name in Spool(root).list_agents()["agents"]:
        assert Spool(root).status(name["agent"])


ACK = """
import json, sys
from maildir_agents import Spool
root, *ids = sys.argv[1:]
spool = Spool(root)
sys.stdin.read(1)
print(json.dumps(spool.ack("bob", ids, everything=not ids)["message_ids"]))
"""


@pytest.mark.parametrize("by_id", [True, False], ids=["by id", "all"])
def test_of_several_who_acknowledge_at_once_each_message_is_counted_by_one(root, by_id):
    spool = Spool(root)
    ids = [spool.send(sender="alice", recipient="bob", subject=str(number))["id"] for number in range(60)]
    with running(ACK, [[root, *(ids if by_id else [])] for _ in range(5)]) as processes:
        go_all(processes)
        counted = [message_id for process in processes for message_id in told(process)]
    assert sorted(counted) == sorted(ids)
    assert spool.status("bob")[0]["unacked"] == 0


LOOK = """
import json, select, sys
from maildir_agents import Spool
root, = sys.argv[1:]
spool, troubles, most = Spool(root), [], 0
while not select.select([sys.stdin], [], [], 0)[0]:
    answer = spool.watch("bob", once=True, warn=troubles.append)
    most = max(most, answer["count"])
    spool.status("bob")
    with spool.read("bob", mark=False, everything=True, limit=50):
        pass
print(json.dumps([most, troubles]))
"""


def test_who_only_looks_meanwhile_disturbs_nobody_and_leaves_no_litter(root):
    """Replies too: their roots have more names than others, which a look must not take for a second state."""
    spool = Spool(root)
    with running(LOOK, [[root]] * 3) as looking:
        for number in range(150):
            first = spool.send(sender="alice", recipient="bob", subject=str(number))["id"]
            spool.send(sender="alice", recipient="bob", subject="more", reply_to=first)
            with spool.read("bob", limit=1) as batch:
                assert batch.messages
            spool.ack("bob", everything=True)
        end_all(looking)
        for process in looking:
            most, troubles = told(process)
            assert troubles == []
            assert most <= 2
    assert spool.failed_list()["failed"] == []
    assert os.listdir(f"{spool.box('bob')}/failed") == []
