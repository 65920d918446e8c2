"""watch --follow: one line a message, each once, for as long as somebody reads it; the agent is reachable meanwhile."""

import json
import os
import signal
import threading
import unicodedata

import pytest

from faces.program import until
from maildir_agents import Spool

HARMFUL = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
ODD = "a\u202eb\u2066c\u200bd\u00ade\u2068f\U000e0041g\u061ch 漢字"


class Followed:
    """A `watch --follow` and the lines it has written so far."""

    def __init__(self, mail, agent: str, *words: str, stderr: int | None = None) -> None:
        self.place = mail.place / f"{agent}.lines"
        with open(self.place, "wb") as out:
            self.process = mail.watching(agent, "--follow", *words, stdout=out, stderr=stderr)

    @property
    def raw(self) -> bytes:
        return self.place.read_bytes()

    @property
    def lines(self) -> list[dict]:
        """The whole lines; each is one JSON object."""
        return [json.loads(line) for line in self.raw.splitlines(keepends=True) if line.endswith(b"\n")]

    @property
    def ids(self) -> list[str]:
        return [line["id"] for line in self.lines]

    def has(self, count: int) -> None:
        until(lambda: len(self.lines) >= count, f"{count} lines, now {len(self.lines)}")


def test_every_message_is_told_once_whoever_reads_meanwhile(mail):
    waiting = [mail.send("ann", "bob", subject=f"before {number}")["id"] for number in range(3)]
    followed = Followed(mail, "bob")
    followed.has(3)
    assert followed.ids == waiting, "what lay there comes first, the oldest first"
    spool, sent = Spool(mail.spool), list(waiting)
    for number in range(40):
        sent.append(spool.send(sender="ann", recipient="bob", subject=f"number {number}")["id"])
        if number % 7 == 3:
            with spool.read("bob"):
                pass
        if number % 7 == 5:
            spool.ack("bob", everything=True)
    until(
        lambda: len(spool.read("bob", mark=False).__enter__().messages) == 0 or spool.ack("bob", everything=True),
        "all is settled",
    )
    last = spool.send(sender="ann", recipient="bob", subject="the last")["id"]
    until(lambda: last in followed.ids, "the last one is told")
    assert len(followed.ids) == len(set(followed.ids))
    assert set(followed.ids) <= {*sent, last}
    assert followed.ids == sorted(followed.ids)


def test_what_nobody_takes_away_is_told_completely_and_once(mail):
    """Three senders at once, a burst larger than one look, and nobody reads."""
    followed = Followed(mail, "bob")
    spool = Spool(mail.spool)
    sent = set()
    for sender in ("ann", "cat", "dan"):
        sent |= set(spool.send_many([{"recipient": "bob", "subject": f"{n}"} for n in range(250)], sender)["ids"])
    followed.has(750)
    assert sorted(followed.ids) == sorted(sent)
    assert all("body" not in line for line in followed.lines)
    with spool.read("bob", mark=False, limit=1000) as batch:
        assert len(batch.messages) == 750, "nothing is marked by being told"


def test_plain_lines_are_harmless_whatever_the_subject_says(mail):
    """A subject may hold what reorders or hides a line; a file's name and text may hold anything."""
    terminal, end = os.openpty()
    followed = Followed(mail, "bob", "--plain", stderr=end)
    os.close(end)
    mail.send("ann", "bob", subject=ODD)
    box = mail.spool / "agents" / "bob"
    for name, subject in (
        ("01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02.json", "\x1b]0;owned\x07\x1b[2J"),
        ("01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f03~\x1b[2J\x9b31m\u202e.json", "s"),
    ):
        message = {
            "id": name[:36],
            "sender": "ann",
            "recipient": "bob",
            "subject": subject,
            "created": "2026-11-30T18:47:12.123Z",
            "body": "",
        }
        (box / "tmp" / "x").write_text(json.dumps(message), encoding="utf-8")
        os.rename(box / "tmp" / "x", box / "new" / name)
    last = mail.send("ann", "bob", subject="last")["id"]
    until(lambda: last.encode() in followed.raw, "the last line")
    shown = followed.raw.decode()
    assert len(shown.splitlines()) == 2
    assert [c for c in shown if c != "\n" and unicodedata.category(c) in HARMFUL] == []
    assert "漢字" in shown
    complaints = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert "failed/" in complaints
    assert {c for c in complaints if unicodedata.category(c) in HARMFUL} <= {"\n", "\r"}


def test_it_ends_quietly_when_nobody_reads_its_lines_any_more(mail):
    process = mail.watching("bob", "--follow")
    mail.send("ann", "bob")
    assert json.loads(process.stdout.readline())["sender"] == "ann"
    process.stdout.close()
    until(lambda: process.poll() is not None, "it has ended")
    assert process.returncode in (0, 141)
    assert process.stderr.read() == b""
    assert mail.row("bob")["watch_state"] == "released"
    assert os.listdir(mail.spool / "agents" / "bob" / "watch") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_agent_is_reachable_while_it_runs_and_not_afterwards(mail, number):
    process = mail.watching("bob", "--follow")
    assert mail.row("bob")["watching"]
    assert mail("read", "bob").answer["reachable"]
    assert mail("send", "--from", "ann", "--to", "bob", "--subject", "s").answer["delivery"]["watch_state"] == "armed"
    process.send_signal(number)
    process.wait()
    assert mail.row("bob")["watch_state"] in ("released", "stale")
    assert not mail("read", "bob").answer["reachable"]


def test_it_goes_on_when_its_mailbox_is_replaced(mail, monkeypatch):
    """Somebody puts the mailbox aside, and the next message makes a new one.

    Nothing tells a watch of that; it looks once a minute, here sooner.
    """
    monkeypatch.setattr("maildir_agents.disk.doorbell.CHECK_SECONDS", 0.02)
    spool, told, over = Spool(mail.spool), [], threading.Event()

    def follow():
        for envelope in Spool(mail.spool).follow("bob"):
            told.append(envelope["subject"])
            if envelope["subject"] == "the end":
                return over.set()

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        spool.send(sender="ann", recipient="bob", subject="first")
        until(lambda: told == ["first"], "the first is told")
        for number in range(2):
            os.rename(mail.spool / "agents" / "bob", mail.place / f"aside{number}")
            spool.send(sender="ann", recipient="bob", subject=f"replaced {number}")
            until(lambda number=number: told[-1] == f"replaced {number}", "what came into the new mailbox is told")
            until(lambda: spool.status("bob")[0]["watching"], "senders see that somebody listens")
    finally:
        spool.send(sender="ann", recipient="bob", subject="the end")
        thread.join()
    assert told == ["first", "replaced 0", "replaced 1", "the end"]
    assert over.is_set()
    assert spool.doctor()["findings"] == []


def test_after_its_time_it_ends_as_a_watch_does(mail):
    done = mail("watch", "bob", "--follow", "--timeout-minutes", "0.001")
    assert (done.status, done.out, done.err) == (0, "", "")


def test_a_full_pipe_does_not_lose_a_line(mail):
    """Its reader is slow: what does not fit waits, and comes whole."""
    process = mail.watching("bob", "--follow")
    Spool(mail.spool).send_many([{"recipient": "bob", "subject": "x" * 400} for _ in range(600)], "ann")
    told = [json.loads(process.stdout.readline())["id"] for _ in range(600)]
    assert len(set(told)) == 600


def test_plain_without_follow_is_refused(mail):
    assert mail("watch", "bob", "--plain").refusal["code"] == "usage"


def test_the_library_yields_each_once_and_ends_with_its_time(mail):
    spool = Spool(mail.spool)
    sent = [spool.send(sender="ann", recipient="bob", subject=str(number))["id"] for number in range(3)]
    assert [envelope["id"] for envelope in spool.follow("bob", timeout_s=0.0)] == sent
    assert [envelope["id"] for envelope in spool.follow("bob", timeout_s=0.0)] == sent, "it marks nothing"


def test_nothing_but_lines_comes_out(mail):
    """For a plugin's monitor: one object a line, no indentation, no summary."""
    mail.send("ann", "bob", subject="one line")
    done = mail("watch", "bob", "--follow", "--timeout-minutes", "0.002")
    assert (done.status, done.err) == (0, "")
    assert [set(json.loads(line)) >= {"id", "subject", "sender"} for line in done.out.splitlines()] == [True]
