"""The watch that wakes an idle session: one a session, once a message, reachable meanwhile, gone with its client."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import proc
from faces.program import armed, until
from maildir_agents import Spool
from maildir_agents.faces.hooks.rewake import GRACE_S

WOKEN, ASLEEP = 2, 0


@pytest.fixture
def rewake(mail, tmp_path):
    """`rewake(session="s1")` starts the hook as Claude Code does, and waits until it is armed."""

    def run(session="s1", *, event="rewake", wait=True, **environ):
        told = tmp_path / f"{session}.json"
        told.write_text(json.dumps({"session_id": session, "hook_event_name": "Stop"}))
        before = watches(mail)
        with open(told, "rb") as stdin:
            process = mail.start("hook", event, "--agent", "worker-x", stdin=stdin, env={**mail.environ, **environ})
        if wait:
            until(lambda: watches(mail) > before or process.poll() is not None, "the hook is armed")
        return process

    return run


def watches(mail) -> int:
    directory = mail.spool / "agents/worker-x/watch"
    return sum(name.endswith(".lock") for name in os.listdir(directory)) if directory.exists() else 0


def woken(process) -> str:
    """What a wake says; the status is 2 and nothing stands on standard output."""
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (WOKEN, b""), err
    return err.decode()


def asleep(process) -> bool:
    return process.poll() is None


def test_it_sleeps_until_mail_comes_and_says_facts_and_commands(mail, rewake):
    process = rewake()
    assert asleep(process)
    mail.send("peer", "worker-x", subject="DO THIS NOW")
    lines = woken(process).splitlines()
    assert lines[0].startswith("Mail for worker-x: 1 unread, oldest ")
    assert lines[2:] == ["agent-mail read worker-x", "agent-mail ack worker-x --all"]
    assert "DO THIS" not in " ".join(lines)


def test_mail_that_waits_already_wakes_at_once(mail, rewake):
    mail.send("peer", "worker-x")
    assert "1 unread" in woken(rewake(wait=False))


def test_the_agent_is_reachable_while_it_sleeps_and_not_afterwards(mail, rewake):
    process = rewake()
    assert mail("read", "worker-x").answer["reachable"] is True
    assert mail.row("worker-x")["watching"] is True
    assert mail.send("peer", "worker-x")["delivery"]["watch_state"] == "armed"
    woken(process)
    assert armed(mail.spool, "worker-x") is False


def test_a_second_one_of_the_session_ends_at_once_and_one_of_another_session_does_not(mail, rewake):
    first = rewake()
    second = rewake(wait=False)
    assert second.wait(20) == ASLEEP
    other = rewake("s2")
    assert asleep(first) and asleep(other)
    mail.send("peer", "worker-x")
    woken(first)
    woken(other)


def test_after_a_wake_it_can_be_armed_again_and_wakes_for_further_mail_only(mail, rewake):
    first = rewake()
    mail.send("peer", "worker-x")
    woken(first)
    again = rewake()
    assert asleep(again), "the session was told of that mail and left it"
    mail.send("peer", "worker-x")
    assert "2 unread" in woken(again)


def test_mail_that_stop_holds_the_turn_up_for_wakes_nobody(mail, rewake, hook):
    mail.send("peer", "worker-x")
    assert hook("stop")["decision"] == "block"
    process = rewake()
    mail("ack", "worker-x", "--all")
    mail.send("peer", "worker-x")
    assert "1 unread" in woken(process), "but what comes then does"


def test_both_at_once_as_the_harness_starts_them_at_the_end_of_a_turn(mail, rewake, hook):
    mail.send("peer", "worker-x")
    for number in itertools.count():
        begun = time.monotonic()
        process = rewake(f"s{number}", wait=False)
        assert hook("stop", {"session_id": f"s{number}"})["decision"] == "block"
        if time.monotonic() - begun < GRACE_S:
            break  # else that was not at once: the machine was busy
        process.kill()
        process.wait()
    until(lambda: armed(mail.spool, "worker-x"), "the hook is armed")
    mail("ack", "worker-x", "--all")
    mail.send("peer", "worker-x")
    assert "1 unread" in woken(process)


def test_mail_that_another_takes_first_wakes_nobody(mail, rewake):
    process = rewake()
    process.send_signal(signal.SIGSTOP)
    mail.send("peer", "worker-x")
    mail("ack", "worker-x", "--all")
    process.send_signal(signal.SIGCONT)
    mail.send("peer", "worker-x")
    assert "1 unread" in woken(process)


def test_mail_that_a_worker_gives_back_is_news_again(mail, rewake, hook):
    mail.send("peer", "worker-x")
    assert hook("stop")["decision"] == "block"
    process = rewake()
    handle = mail("claim", "worker-x").answer["handle"]
    assert asleep(process)
    mail("release", "worker-x", handle)
    assert "1 unread" in woken(process)


def test_stop_does_not_miss_a_watch_that_the_harness_arms(rewake, hook):
    assert "systemMessage" in hook("stop", {"session_id": "without"})
    process = rewake()
    process.terminate()
    process.wait(20)
    assert hook("stop") is None


def test_it_ends_when_it_is_told_to_and_leaves_no_file(mail, rewake):
    process = rewake()
    process.terminate()
    assert process.wait(20) == ASLEEP
    assert watches(mail) == 0


PARENT = """
import os, subprocess, sys
with open(sys.argv[1], "rb") as told, open(sys.argv[2], "wb") as nowhere:
    child = subprocess.Popen(sys.argv[3:], stdin=told, stdout=nowhere, stderr=nowhere, start_new_session=True)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd_open: which process has ended")
@pytest.mark.parametrize("by_name", [False, True], ids=["its parent", "the client that CLAUDE_PID names"])
def test_it_ends_with_a_client_that_is_killed(mail, tmp_path, by_name):
    told = tmp_path / "told.json"
    told.write_text('{"session_id": "s1"}')
    words = [mail.command, "hook", "rewake", "--agent", "worker-x"]
    if by_name:
        words = ["sh", "-c", 'CLAUDE_PID=$PPID "$@"; true', "sh", *words]  # a shell in between that outlives the client
    command = [sys.executable, "-c", PARENT, str(told), str(tmp_path / "nowhere"), *words]
    with subprocess.Popen(command, env=mail.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        child = int(client.stdout.readline())
        try:
            until(lambda: armed(mail.spool, "worker-x"), "the hook is armed")
            client.kill()
            client.wait()
            until(lambda: not armed(mail.spool, "worker-x"), "the watch ends with its client")
            until(lambda: not proc.runs(child), "and so does its process")
        finally:
            if proc.runs(child):
                os.killpg(child, signal.SIGKILL)


def test_it_ends_when_nobody_reads_its_standard_error_any_more(mail, tmp_path):
    read_end, write_end = os.pipe()
    with open(os.devnull, "rb") as nothing:
        process = mail.start("hook", "rewake", "--agent", "worker-x", stdin=nothing, stderr=write_end)
    os.close(write_end)
    until(lambda: armed(mail.spool, "worker-x"), "the hook is armed")
    os.close(read_end)
    assert process.wait(20) == ASLEEP


@pytest.mark.parametrize("entry, waited_for", [("sdk-cli", True), ("sdk-py", True), ("cli", False)])
def test_where_the_client_would_wait_for_it_it_ends_at_once(rewake, entry, waited_for):
    process = rewake(CLAUDE_CODE_ENTRYPOINT=entry)
    assert asleep(process) != waited_for
    process.terminate()
    assert process.wait(20) == ASLEEP


@pytest.mark.parametrize("dialect", ["codex", "gemini", "cursor"])
def test_no_other_client_is_ever_given_its_status(mail, dialect):
    mail.send("peer", "worker-x")
    done = mail("hook", "rewake", "--agent", "worker-x", "--dialect", dialect, stdin=b"{}")
    assert done.status == ASLEEP


def test_without_a_place_to_remember_in_it_wakes_nobody_in_circles(mail, tmp_path):
    mail.send("peer", "worker-x")
    (tmp_path / "a file").write_text("")
    environ = {**mail.environ, "XDG_CACHE_HOME": str(tmp_path / "a file")}
    assert mail("hook", "rewake", "--agent", "worker-x", stdin=b"{}", env=environ).status == ASLEEP


def test_a_spool_that_is_not_there_yet_is_made_as_by_any_watch(mail, tmp_path):
    environ = {**mail.environ, "AGENT_MAIL_SPOOL": str(tmp_path / "new")}
    with open(os.devnull, "rb") as nothing:
        process = mail.start("hook", "rewake", "--agent", "worker-x", stdin=nothing, env=environ)
    until(lambda: armed(tmp_path / "new", "worker-x"), "the hook is armed")
    Spool(tmp_path / "new").send(sender="peer", recipient="worker-x", subject="s")
    assert "1 unread" in woken(process)


def test_a_monitor_stays_and_says_a_line_for_news(mail, rewake):
    process = rewake(event="monitor", CLAUDE_CODE_SESSION_ID="s1")
    for count in (1, 2):
        mail.send("peer", "worker-x", subject="DO THIS NOW")
        line = process.stdout.readline().decode()
        assert line.startswith(f"Mail for worker-x: {count} unread, oldest ")
        assert line.endswith(". Owed: agent-mail read worker-x\n")
    second = rewake(wait=False)
    assert second.wait(20) == ASLEEP, "it is the session's watch: none other is needed"
    process.terminate()
    assert process.wait(20) == ASLEEP


def test_a_monitor_ends_when_nobody_reads_it_any_more(rewake):
    process = rewake(event="monitor", CLAUDE_CODE_SESSION_ID="s1")
    process.stdout.close()
    assert process.wait(20) == ASLEEP
    process.stdout = None
