"""A reader that cannot get rid of its output has consumed nothing, stops nobody else's mail, and says so."""

import fcntl
import json
import os
import subprocess
import termios
import time

import pytest

from faces.program import Program, until
from maildir_agents import Spool

BIG = 200_000  # bytes of body: more than a pipe takes


@pytest.fixture
def full(quick) -> Program:
    """Bob has mail that no pipe takes in one piece."""
    for number in range(2):
        Spool(quick.spool).send(sender="alice", recipient="bob", subject=str(number), body="x" * BIG)
    return quick


def waiting(pipe) -> int:
    """How many bytes lie in a pipe."""
    answer = fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4)
    return int.from_bytes(answer, "little")


@pytest.fixture
def stuck(full) -> subprocess.Popen:
    """A reader whose output nobody takes."""
    reader = full.start("read", "bob")
    until(lambda: waiting(reader.stdout) >= 1 << 16, "the pipe is full")
    assert reader.poll() is None
    return reader


def unread(mail: Program, agent: str = "bob") -> int:
    return mail.row(agent)["unread"]


def test_a_stuck_reader_holds_up_no_other_mailbox(full, stuck):
    full.send("alice", "carol", subject="for carol")
    assert full("read", "carol").answer["count"] == 1
    assert full("ack", "carol", "--all").answer["count"] == 1
    assert stuck.poll() is None


def test_a_stuck_reader_holds_up_nobody_who_does_not_read_the_same_mailbox(full, stuck):
    sent = full.send("alice", "bob", subject="third")
    assert unread(full) == 3
    assert full("watch", "bob", "--once").answer["count"] == 3
    assert full("read", "bob", "--no-mark-read").answer["count"] == 3
    assert full("trace", sent["id"]).answer["places"][0]["state"] == "new"
    assert full("ack", "bob", sent["id"]).answer["count"] == 1
    assert stuck.poll() is None


def test_another_reader_of_the_mailbox_is_told_who_holds_it_and_to_try_again(full, stuck):
    begun = time.monotonic()
    done = full("read", "bob")
    assert 1.5 < time.monotonic() - begun < 100  # it waits for two seconds, and not for ever
    assert done.status == 75
    assert (done.refusal["code"], done.refusal["holder"]) == ("busy", stuck.pid)
    assert str(stuck.pid) in done.refusal["error"]


def test_a_stuck_reader_that_is_killed_has_consumed_nothing(full, stuck):
    stuck.kill()
    stuck.wait()
    assert unread(full) == 2
    again = full("read", "bob").answer
    assert [len(message["body"]) for message in again["messages"]] == [BIG, BIG]
    assert unread(full) == 0


def test_a_stuck_reader_whose_output_is_taken_after_all_has_consumed_it(full, stuck):
    out, err = stuck.communicate(timeout=100)
    assert (stuck.returncode, err) == (0, b"")
    assert json.loads(out)["count"] == 2
    assert unread(full) == 0


@pytest.mark.parametrize("words", [(), ("--ack",), ("--all",), ("--limit", "1")])
def test_a_reader_whose_output_goes_away_has_consumed_nothing_and_says_so(full, words):
    reader = full.start("read", "bob", *words)
    until(lambda: waiting(reader.stdout) >= 1 << 16, "the pipe is full")
    reader.stdout.close()
    told = json.loads(reader.stderr.read())
    assert (reader.wait(100), told["code"]) == (1, "output_lost")
    row = full.row("bob")
    assert (row["unread"], row["unacked"]) == (2, 2)


@pytest.mark.parametrize("words", [(), ("--ack",)])
@pytest.mark.parametrize("output", ["> /dev/full", ">&-", "> /dev/null 2>&1 < /dev/null >&-", "<&- >&-"])
def test_output_that_cannot_be_written_consumes_nothing(full, output, words):
    if "/dev/full" in output and not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full: a disk that is full")
    script = f'"$0" read bob "$@" {output}'
    done = subprocess.run(
        ["sh", "-c", script, full.command, *words], env=full.environ, capture_output=True, check=False
    )
    assert done.returncode == 1
    if "2>&1" not in output:
        assert json.loads(done.stderr)["code"] == "output_lost"
        assert b"Traceback" not in done.stderr
    row = full.row("bob")
    assert (row["unread"], row["unacked"]) == (2, 2)
    assert full("read", "bob").answer["count"] == 2


def test_with_every_descriptor_closed_nothing_is_consumed_and_no_file_is_written_to(full):
    before = {path: path.read_bytes() for path in full.spool.rglob("*.json")}
    done = subprocess.run(["sh", "-c", '"$0" read bob <&- >&- 2>&-', full.command], env=full.environ, check=False)
    assert done.returncode == 1
    assert unread(full) == 2
    assert {path: path.read_bytes() for path in full.spool.rglob("*.json")} == before
    assert b"{" not in (full.spool / "agents/bob/read.lock").read_bytes()


def test_a_pipe_that_must_not_be_waited_for_gets_all_of_it(full):
    """Some programs hand on pipes that say "try again" instead of waiting."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    process = full.start("read", "bob", stdout=writer)
    os.close(writer)
    with open(reader, "rb") as pipe:
        until(lambda: waiting(pipe) >= 1 << 16 or process.poll() is not None, "the pipe is full")
        out = pipe.read()
    assert process.wait(100) == 0, process.stderr.read()
    assert json.loads(out)["count"] == 2
    assert unread(full) == 0


def test_a_receipt_that_nobody_took_says_that_the_message_was_sent(quick):
    script = '"$0" send --from alice --to bob --subject s > /dev/full'
    done = subprocess.run(["sh", "-c", script, quick.command], env=quick.environ, capture_output=True, check=False)
    told = json.loads(done.stderr)
    assert (done.returncode, told["code"]) == (74, "receipt_lost")
    assert quick("read", "bob").answer["messages"][0]["id"] == told["id"]


def test_an_acknowledgement_that_nobody_heard_of_says_what_was_acknowledged(quick):
    sent = quick.send("alice", "bob")
    script = '"$0" ack bob --all > /dev/full'
    done = subprocess.run(["sh", "-c", script, quick.command], env=quick.environ, capture_output=True, check=False)
    told = json.loads(done.stderr)
    assert (done.returncode, told["code"], told["ids"]) == (74, "receipt_lost", [sent["id"]])
    assert quick.row("bob")["unacked"] == 0
