"""Whatever is wrong with the input, the spool, a message or the pipes: exit status 0, and never a turn held up."""

import json
import os
import subprocess
import time

import pytest

from harness.conftest import WITHOUT_PRIVILEGES

EVENTS = ["session-start", "prompt", "stop"]
BROKEN = {
    "nothing": b"",
    "half an object": b'{"session_id": "s',
    "a list": b"[1]",
    "a number": b"7",
    "not UTF-8": b'{"session_id": "\xff\xfe"}',
    "binary": bytes(range(256)) * 40,
    "the same key twice": b'{"session_id": "a", "session_id": "b"}',
    "half of a surrogate pair": b'{"session_id": "s", "prompt": "\\ud83d"}',
    "deep": b'{"a":' * 100_000,
    "huge": b'{"session_id": "s", "prompt": "' + b"x" * (9 << 20) + b'"}',
    "NaN": b'{"a": NaN}',
}


ODD = {
    "no session": {},
    "a numbered session": {"session_id": 7},
    "a session like a path": {"session_id": "../../../x"},
    "a long session": {"session_id": "é" * 5000},
    "a word for a flag": {"stop_hook_active": "yes"},
    "a word for a count": {"loop_count": "many"},
    "a list for a status": {"status": ["x"]},
    "an object for a prompt": {"prompt": {"a": 1}},
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_broken_input_holds_no_turn_up(mail, event, data):
    mail.send("peer", "worker-x")
    done = mail("hook", event, "--agent", "worker-x", stdin=data)
    assert done.status == 0
    assert ("1 unread" in done.out) == (event != "stop"), "what is owed can be told all the same"


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("told", ODD.values(), ids=ODD)
def test_members_of_another_kind_are_no_trouble(mail, hook, event, told):
    mail.send("peer", "worker-x")
    assert hook(event, told) is not None
    assert {path.name for path in mail.place.iterdir()} <= {"spool", "cache"}, "no id leads out of the directory"
    assert all(path.is_file() for path in mail.place.glob("cache/agent-mail/sessions/*"))


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("agent", ["Not A Name", "../x", "", "*"])
def test_a_wrong_agent_is_no_trouble_for_the_session(mail, event, agent):
    done = mail("hook", event, "--agent", agent, stdin=b"{}")
    assert (done.status, done.out) == (0, "")
    assert done.warnings[0]["code"] == "hook", "whoever debugs the hook finds the reason on standard error"


@pytest.mark.parametrize("event", EVENTS)
def test_a_damaged_or_foreign_spool_is_no_trouble_for_the_session(mail, event):
    (mail.spool / "spool.json").write_text("{")
    done = mail("hook", event, "--agent", "worker-x", stdin=b'{"session_id": "s"}')
    assert (done.status, done.out) == (0, "")
    relative = mail("hook", event, "--agent", "worker-x", "--spool", "here", stdin=b"{}")
    assert (relative.status, relative.out) == (0, "")


@pytest.mark.needs("setpriv", "a process for which permission bits count")
@pytest.mark.parametrize("event", EVENTS)
def test_mail_that_cannot_be_read_is_not_owed(mail, event):
    sent = mail.send("peer", "worker-x")["id"]
    path = mail.spool / f"agents/worker-x/new/{sent}.json"
    path.chmod(0)
    probe = subprocess.run([*WITHOUT_PRIVILEGES, "cat", str(path)], capture_output=True, check=False)
    assert probe.returncode != 0, "the negative control: the file can't be read"
    done = mail("hook", event, "--agent", "worker-x", stdin=b'{"session_id": "s"}', under=WITHOUT_PRIVILEGES)
    assert done.status == 0
    assert "unread" not in done.out
    mail.send("peer", "worker-x")
    done = mail("hook", event, "--agent", "worker-x", stdin=b'{"session_id": "s"}', under=WITHOUT_PRIVILEGES)
    assert "1 unread" in done.out, "the mail behind it counts"


@pytest.mark.needs("setpriv", "a process for which permission bits count")
@pytest.mark.parametrize("event", EVENTS)
def test_a_mailbox_that_cannot_be_opened_is_no_trouble_for_the_session(mail, event):
    mail.send("peer", "worker-x")
    (mail.spool / "agents/worker-x/new").chmod(0)
    try:
        done = mail("hook", event, "--agent", "worker-x", stdin=b'{"session_id": "s"}', under=WITHOUT_PRIVILEGES)
    finally:
        (mail.spool / "agents/worker-x/new").chmod(0o700)
    assert (done.status, done.out) == (0, "")
    assert done.warnings


@pytest.mark.parametrize("event", EVENTS)
def test_what_is_no_message_is_not_owed(mail, hook, event):
    mail.watching("worker-x")
    new = mail.spool / "agents/worker-x/new"
    (new / "notes.txt").write_text("a foreign file")
    (new / "01a22e55-4163-70f7-b806-8603b71b593f.json").write_text("no message")
    (new / "01a22e55-4163-70f7-b806-8603b71b593e.json").mkdir()
    (new / "01a22e55-4163-70f7-b806-8603b71b593d.json").symlink_to("/dev/zero")
    os.mkfifo(new / "01a22e55-4163-70f7-b806-8603b71b593c.json")
    assert hook(event) is None
    assert len(list(new.iterdir())) == 5, "a hook puts nothing aside; the next read does"


PIPES = {
    "closed standard output": '"$0" hook stop --agent worker-x >&-; echo $? > status',
    "a full disk behind it": '"$0" hook stop --agent worker-x > /dev/full; echo $? > status',
    "a reader that went away": '{ sleep 0.2; "$0" hook stop --agent worker-x; echo $? > status; } | true',
    "closed standard input": '"$0" hook stop --agent worker-x <&-; echo $? > status',
    "nothing at all": '"$0" hook stop --agent worker-x <&- >&- 2>&-; echo $? > status',
}


@pytest.mark.parametrize("line", PIPES.values(), ids=PIPES)
def test_pipes_that_are_closed_or_full_are_no_trouble(mail, line):
    mail.send("peer", "worker-x")
    subprocess.run(["sh", "-c", line, mail.command], env=mail.environ, cwd=mail.place, timeout=20,
                   input=b'{"session_id": "s"}', capture_output=True, check=False)  # fmt: skip
    assert (mail.place / "status").read_text() == "0\n"


def test_a_harness_that_keeps_the_pipe_open_is_waited_for_a_few_seconds_only(mail):
    mail.send("peer", "worker-x")
    begun = time.monotonic()
    process = mail.start("hook", "prompt", "--agent", "worker-x", stdin=subprocess.PIPE)
    process.stdin.write(b'{"session_id": "s"}')
    process.stdin.flush()
    out, _ = process.communicate(timeout=20) if process.wait(20) == 0 else (b"", b"")
    assert time.monotonic() - begun > 4, "the negative control: it did wait"
    assert b"1 unread" in out


def test_a_harness_that_writes_without_end_is_heard_for_a_few_seconds_only(mail):
    mail.send("peer", "worker-x")
    with open("/dev/zero", "rb") as endless:
        process = mail.start("hook", "prompt", "--agent", "worker-x", stdin=endless)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert b"1 unread" in out


def test_without_a_place_to_count_in_nothing_is_held_up(mail):
    mail.send("peer", "worker-x")
    blocked = mail.place / "a file"
    blocked.write_text("")
    done = mail("hook", "stop", "--agent", "worker-x", stdin=b'{"session_id": "s"}',
                env={**mail.environ, "XDG_CACHE_HOME": str(blocked)})  # fmt: skip
    assert (done.status, done.out) == (0, "")


def test_what_cannot_be_remembered_leaves_no_drafts(mail, hook):
    mail.send("peer", "worker-x")
    assert hook("stop") is not None
    sessions = mail.place / "cache/agent-mail/sessions"
    for path in list(sessions.iterdir()):
        path.unlink()
        path.mkdir()
    before = sorted(path.name for path in sessions.iterdir())
    assert [hook("stop") for _ in range(3)] == [None] * 3, "what could not be counted holds nothing up"
    assert sorted(path.name for path in sessions.iterdir()) == before


def test_a_wrong_command_line_is_refused_but_never_with_the_status_that_blocks(mail):
    for words in (
        ["hook"],
        ["hook", "pause"],
        ["hook", "stop", "--dialect", "morse"],
        ["hook", "stop", "--agnet", "x"],
    ):
        assert mail(*words, stdin=b"{}").refusal["code"] == "usage"


def test_a_signal_or_a_person_can_end_it(mail):
    process = mail.start("hook", "stop", "--agent", "worker-x", stdin=subprocess.PIPE)
    process.terminate()
    assert process.wait(10) not in (0, 2)
    assert json.loads(mail("status", "--agent", "worker-x").out)
