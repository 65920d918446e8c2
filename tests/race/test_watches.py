"""Watches: all that wait wake, none outlives the one it was to tell, and its death is seen."""

import json
import os
import signal
import subprocess

import pytest

from faces.program import armed, until


@pytest.fixture
def known(quick):
    """Bob has a mailbox, and nothing in it."""
    quick("read", "bob")
    return quick


def told(watch: subprocess.Popen) -> dict:
    out, err = watch.communicate(timeout=100)
    assert (watch.returncode, err) == (0, b"")
    return json.loads(out)


def watches(mail) -> list[str]:
    return os.listdir(mail.spool / "agents/bob/watch")


def test_two_watches_both_wake_for_one_message(known):
    one, other = known.start("watch", "bob"), known.start("watch", "bob")
    until(
        lambda: sum(name[0] != "." for name in watches(known)) == 2 if armed(known.spool, "bob") else 0,
        "both are armed",
    )
    sent = known.send("alice", "bob")
    assert sent["delivery"]["watch_state"] == "armed"
    for watch in (one, other):
        answer = told(watch)
        assert [message["id"] for message in answer["messages"]] == [sent["id"]]
        assert answer["timeout"] is False
    assert watches(known) == []


def test_a_watch_of_one_agent_does_not_wake_for_another(known):
    watch = known.watching("bob")
    known.send("alice", "carol")
    other = known.watching("carol") if not known.row("carol")["unread"] else None
    assert other is None
    sent = known.send("alice", "bob")
    assert [message["id"] for message in told(watch)["messages"]] == [sent["id"]]


def test_a_watch_whose_reader_went_away_ends_and_is_armed_no_longer(known):
    watch = known.watching("bob")
    watch.stdout.close()
    assert watch.wait(100) == 141
    assert watch.stderr.read() == b""
    assert known.row("bob")["watch_state"] == "released"


def test_a_watch_that_writes_to_a_file_stays(known, tmp_path):
    with (tmp_path / "out").open("wb") as out:
        watch = known.watching("bob", stdout=out)
        sent = known.send("alice", "bob")
        assert watch.wait(100) == 0
    assert json.loads((tmp_path / "out").read_bytes())["messages"][0]["id"] == sent["id"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_watch_that_is_ended_is_seen_to_be_gone(known, number):
    watch = known.watching("bob")
    watch.send_signal(number)
    _, err = watch.communicate(timeout=100)
    assert watch.returncode in (-number, 130)
    assert err == b""
    answer = known("read", "bob", "--no-mark-read").answer
    assert answer["reachable"] is False
    assert "agent-mail watch bob" in answer["next"]
    assert known.row("bob")["watch_state"] in ("stale", "released")
    known("read", "bob")
    assert watches(known) == []


def test_a_stopped_watch_wakes_when_it_goes_on(known):
    watch = known.watching("bob")
    watch.send_signal(signal.SIGSTOP)
    sent = known.send("alice", "bob")
    watch.send_signal(signal.SIGCONT)
    assert [message["id"] for message in told(watch)["messages"]] == [sent["id"]]


def test_a_watch_ends_empty_when_its_time_is_over(known):
    answer = known("watch", "bob", "--timeout-minutes", "0.003").answer
    assert (answer["messages"], answer["count"], answer["timeout"], answer["reachable"]) == ([], 0, True, False)
    assert answer["next"] == ["agent-mail watch bob"]
    assert watches(known) == []


def test_while_one_watch_waits_the_answers_of_others_say_so(known):
    with_watch = known.watching("bob")
    assert known("read", "bob").answer["reachable"] is True
    assert known("read", "bob").answer["next"] == []
    assert known.row("bob")["watching"] is True
    sent = known.send("alice", "bob")
    told(with_watch)
    assert known("ack", "bob", sent["id"]).answer["reachable"] is False


def test_mail_that_was_there_before_is_told_at_once(known):
    sent = known.send("alice", "bob")
    assert known("watch", "bob").answer["messages"][0]["id"] == sent["id"]


def test_mail_that_arrives_in_any_moment_of_arming_is_told(known):
    """A sender that never looks, watches that come and go: no message is slept through."""
    for _ in range(10):
        watch = known.start("watch", "bob", "--timeout-minutes", "1")
        sent = known.send("alice", "bob")
        answer = told(watch)
        assert [message["id"] for message in answer["messages"]] == [sent["id"]]
        known("ack", "bob", sent["id"])
