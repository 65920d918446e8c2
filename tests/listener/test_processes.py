"""Real listeners, real workers, real signals: nothing done twice while a lease is live, nothing lost, nobody left."""

import json
import os
import signal
import socket
import subprocess
from contextlib import contextmanager

import pytest

import proc
from faces.program import until

ANSWER = (
    '"$mail" send --from "$AGENT_ID" --to %s --subject s --body "$AGENT_MAIL_MESSAGE" --kind %s '
    '--reply-to "$AGENT_MAIL_MESSAGE"'
)
DONE = '"$mail" conversation complete "$AGENT_MAIL_CONVERSATION"  --as "$AGENT_ID"'
HANG = "say begins; exec sleep 600"


def began(scene, count=1):
    until(lambda: len(scene.lines("begins")) >= count, f"{count} workers run")


def the_worker(scene):
    """The process id of the only worker, once it runs; while it becomes another program it shows no environment."""
    began(scene)
    seen = []
    until(lambda: seen.append(scene.workers()) or len(seen[-1]) == 1, "one worker is seen")
    return seen[-1][0]


def test_two_listeners_play_a_conversation_to_its_end_without_a_human(scene):
    """Three tasks, three results, each reviewed; then it is complete."""
    scene.script("bob", f"say works; {ANSWER % ('alice', 'result')}")
    count = f'say reviews; turns=$(grep -c reviews "{scene.diary}")'
    again = ANSWER % ("bob", "task")
    scene.script("alice", f'{count}\nif [ "$turns" -lt 3 ]; then {again}; else {DONE}; fi')
    listeners = [scene.listen("alice"), scene.listen("bob")]
    talk = scene.conversation("alice", "bob", max_turns=6)["conversation_id"]
    until(lambda: scene.later(0).conversation(talk)["state"] == "completed", "the conversation is complete")
    for listener in listeners:
        assert scene.end(listener) == 0
    assert scene.later(0).conversation(talk)["turn_count"] == 6
    assert set(scene.places("alice").values()) | set(scene.places("bob").values()) == {"acked"}
    assert [line.split()[2] for line in scene.lines()] == ["works", "reviews"] * 3
    ended = [entry["outcome"] for agent in ("alice", "bob") for entry in scene.history(agent, "ended")]
    assert sorted(ended) == ["acknowledged"] + ["settled"] * 5
    assert scene.later(0).doctor()["findings"] == []


def test_a_worker_dies_with_its_listener_and_its_task_is_free_when_the_lease_ends(scene):
    scene.script("bob", HANG)
    scene.mailbox("bob")
    task = scene.task("bob")
    listener = scene.listen("bob")
    worker = the_worker(scene)
    scene.end(listener, signal.SIGKILL)
    until(lambda: not proc.runs(worker), "the worker is dead")
    assert scene.places("bob") == {task: "claimed"}
    [row] = scene.later(0).status("bob")
    assert row["listener"] == "none"
    assert scene.mail("listener", "status", "bob").answer["state"] == "dead"
    scene.script("bob", "say again")
    second = scene.listen("bob")
    assert scene.end(second) == 0
    assert scene.lines("again") == [], "the lease of the dead one has not ended yet"
    assert scene.later(200).claim("bob")["message"] is None
    assert scene.later(301).claim("bob")["message"]["id"] == task


def test_a_worker_that_is_killed_is_a_failed_attempt(scene):
    scene.script("bob", HANG)
    scene.mailbox("bob")
    task = scene.task("bob")
    listener = scene.listen("bob")
    worker = the_worker(scene)
    os.kill(worker, signal.SIGKILL)
    until(lambda: scene.history("bob", "ended"), "the end is noted")
    [end] = scene.history("bob", "ended")
    assert (end["id"], end["status"], end["outcome"]) == (task, -signal.SIGKILL, "retry")
    assert scene.end(listener) == 0
    assert scene.later(0).claim("bob")["message"] is None, "the pause is a claim"
    assert scene.later(31).claim("bob")["message"]["id"] == task


def test_when_both_are_killed_the_next_listener_waits_for_the_lease(scene):
    scene.script("bob", HANG)
    scene.mailbox("bob")
    task, other = scene.task("bob"), scene.task("bob")
    listener = scene.listen("bob")
    worker = the_worker(scene)
    os.kill(listener.pid, signal.SIGSTOP)  # or it might see the worker's end, and go on with the other task
    for pid in (worker, listener.pid):
        os.kill(pid, signal.SIGKILL)
    listener.wait()
    scene.script("bob", "say again")
    second = scene.listen("bob")
    until(lambda: scene.lines("again"), "the other task is worked on")
    assert scene.end(second) == 0
    assert scene.lines("again") == [other]
    assert scene.places("bob") == {task: "claimed", other: "acked"}


def test_of_two_listeners_for_one_agent_the_second_does_not_run(scene):
    scene.listen("bob")
    refused = scene.mail("listener", "run", "bob")
    assert refused.status == 75
    assert refused.refusal["code"] == "busy"


def test_of_several_agents_those_that_are_served_already_are_left_out(scene):
    scene.listen("bob")
    second = scene.listen("bob", "carol")
    assert json.loads(second.log.read_text().partition("\n}")[0] + "\n}")["code"] == "busy"
    assert scene.mail("listener", "status", "carol").answer["pid"] == second.pid
    assert scene.mail("listener", "run", "bob", "carol").status == 75


def test_a_disabled_listener_finishes_its_worker_and_starts_nothing_more(scene):
    scene.script("bob", f'say begins; while [ ! -e "{scene.mail.place}/go" ]; do sleep 0.02; done; say ends')
    scene.mailbox("bob")
    first, second = scene.task("bob"), scene.task("bob")
    listener = scene.listen("bob")
    began(scene)
    told = scene.mail("listener", "disable", "bob").answer
    assert (told["state"], told["running"], told["waiting_on"]) == ("disabled", True, first)
    (scene.mail.place / "go").touch()
    assert listener.wait(20) == 0
    assert scene.lines("ends") == [first]
    assert scene.places("bob") == {first: "acked", second: "new"}
    assert scene.mail("listener", "status", "bob").answer == {
        "agent": "bob", "state": "disabled", "enabled": False, "running": False, "pid": None, "waiting_on": None,
    }  # fmt: skip
    assert scene.mail("listener", "run", "bob").status == 0, "it has nothing to do, and that is no failure"


def test_what_is_disabled_and_enabled_while_a_worker_runs_goes_on(scene):
    scene.script("bob", f'say begins; while [ ! -e "{scene.mail.place}/go" ]; do sleep 0.02; done; say ends')
    scene.mailbox("bob")
    tasks = [scene.task("bob"), scene.task("bob")]
    listener = scene.listen("bob")
    began(scene)
    scene.mail("listener", "disable", "bob")
    told = scene.mail("listener", "enable", "bob").answer
    assert (told["pid"], told["state"]) == (listener.pid, "running")
    (scene.mail.place / "go").touch()
    until(lambda: scene.lines("ends") == tasks, "both are done")


def test_enabling_starts_one_listener_however_often_it_is_said(scene):
    scene.script("bob", "say begins; say ends")
    scene.mailbox("bob")
    task = scene.task("bob")
    together = [scene.mail.start("listener", "enable", "bob") for _ in range(4)]
    told = [json.loads(process.communicate(timeout=30)[0]) for process in together]
    assert [answer["running"] for answer in told] == [True] * 4
    pid = scene.mail("listener", "enable", "bob").answer["pid"]
    until(lambda: scene.workers() == [pid], "one listener is left")
    until(lambda: scene.places("bob") == {task: "acked"}, "it works")
    assert "listening" in (scene.box("bob") / "listener.log").read_text()
    assert scene.mail("listener", "disable", "bob").status == 0
    until(lambda: not proc.runs(pid), "it has ended by itself")


def test_a_worker_may_not_stay_longer_than_its_time(scene):
    scene.script("bob", "say begins; exec sleep 600", time_limit_seconds=0.2, max_attempts=1)
    scene.mailbox("bob")
    task = scene.task("bob")
    scene.listen("bob")
    until(lambda: scene.history("bob", "ended"), "the end is noted")
    assert scene.places("bob") == {task: "failed"}
    [end] = scene.history("bob", "ended")
    assert (end["status"], end["why"]) == (-signal.SIGTERM, "its time was over")


def test_what_a_worker_leaves_running_ends_with_it_and_holds_nothing_up(scene):
    scene.script("bob", "say begins; (trap '' TERM HUP; sleep 600) & say ends")
    scene.mailbox("bob")
    tasks = [scene.task("bob") for _ in range(3)]
    listener = scene.listen("bob")
    until(lambda: scene.places("bob") == dict.fromkeys(tasks, "acked"), "all are done")
    until(lambda: scene.workers() == [], "no child of a worker is left")
    assert scene.end(listener) == 0


def test_a_worker_that_prints_without_end_neither_stands_still_nor_fills_the_disk(scene):
    """Eight megabytes a worker, the log keeps its bound; another agent is served meanwhile."""
    half = "head -c 4000000 /dev/zero | tr '\\0' x"
    wait = f'while ! grep -q "^carol .* ends" "{scene.diary}"; do sleep 0.02; done'
    scene.script("bob", f"{half}; {wait}; {half}; say ends")
    scene.script("carol", "say ends")
    scene.mailbox("bob", "carol")
    tasks = [scene.task("bob") for _ in range(6)]
    scene.listen("bob", "carol")
    other = scene.task("carol")
    until(lambda: scene.places("bob") == dict.fromkeys(tasks, "acked"), "all are done")
    until(lambda: scene.places("carol") == {other: "acked"}, "and so is the other's")
    log = scene.box("bob") / "listener.log"
    assert 256 << 10 < log.stat().st_size < (1 << 20) + (300 << 10)
    assert f"({8_000_000 - (256 << 10)} bytes more were not kept)" in log.read_text()


def test_a_worker_need_not_read_its_message(scene):
    scene.script("bob", "exec < /dev/null; say ends")
    scene.mailbox("bob")
    task = scene.task("bob", body="x" * 1_000_000)
    scene.listen("bob")
    until(lambda: scene.places("bob") == {task: "acked"}, "it is done")


def test_sigterm_lets_the_worker_finish_and_starts_nothing_more(scene):
    scene.script("bob", f'say begins; while [ ! -e "{scene.mail.place}/go" ]; do sleep 0.02; done; say ends')
    scene.mailbox("bob")
    first, second = scene.task("bob"), scene.task("bob")
    listener = scene.listen("bob")
    began(scene)
    listener.terminate()
    (scene.mail.place / "go").touch()
    assert listener.wait(20) == 0
    assert scene.places("bob") == {first: "acked", second: "new"}
    assert not (scene.box("bob") / "listener.json").exists(), "it has ended, and did not die"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_second_signal_kills_the_worker(scene, number):
    scene.script("bob", "say begins; trap '' TERM INT; while :; do sleep 60; done")
    scene.mailbox("bob")
    task = scene.task("bob")
    with manager(scene) as told:
        listener = scene.listen("bob", NOTIFY_SOCKET=told.getsockname())
        began(scene)
        listener.send_signal(number)
        while told.recv(200) != b"STOPPING=1":
            pass
        assert scene.end(listener, number) == 0
    until(lambda: scene.workers() == [], "what the worker had started is dead, too")
    assert scene.places("bob") == {task: "claimed"}, "an attempt that failed is tried again after its pause"


@contextmanager
def manager(scene):
    """A socket as a service manager has one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.settimeout(20)
        told.bind(str(scene.mail.place / "notify"))
        yield told


def test_the_service_manager_is_told_when_it_is_ready_alive_and_about_to_end(scene):
    with manager(scene) as told:
        listener = scene.listen("bob", NOTIFY_SOCKET=told.getsockname(), WATCHDOG_USEC="200000")
        assert told.recv(100) == b"READY=1\nSTATUS=listening for 1: no work"
        assert [told.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        listener.terminate()
        while (last := told.recv(100)) == b"WATCHDOG=1":
            pass
        assert last == b"STOPPING=1", "nothing is to be finished, so no more time is asked for"
        assert listener.wait(20) == 0


def test_more_time_to_stop_is_asked_for_when_a_worker_was_promised_more_than_usual(scene):
    scene.script("bob", HANG, time_limit_seconds=7200)
    scene.mailbox("bob")
    scene.task("bob")
    with manager(scene) as told:
        listener = scene.listen("bob", NOTIFY_SOCKET=told.getsockname())
        began(scene)
        listener.terminate()
        while not (last := told.recv(200)).startswith(b"STOPPING=1"):
            pass
        seconds = int(last.removeprefix(b"STOPPING=1\nEXTEND_TIMEOUT_USEC=")) / 1e6
        assert 7200 < seconds < 7300
        assert scene.end(listener) == 0, "a second signal is not asked how long"


def test_all_serves_agents_that_come_later(scene):
    scene.script("bob", "say works")
    listener = scene.listen("--all")
    scene.mailbox("bob")
    task = scene.task("bob")
    until(lambda: scene.lines("works") == [task], "a new agent's task is done")
    assert scene.mail("listener", "status", "bob").answer["pid"] == listener.pid


def test_a_person_who_resumes_a_conversation_wakes_the_listener(scene):
    second_time = f'test "$(grep -c works "{scene.diary}")" -gt 1'
    scene.script("bob", f"say works; {second_time} || exit 100; {ANSWER % ('alice', 'result')}")
    talk = scene.conversation("alice", "bob")
    scene.listen("bob")
    until(lambda: [e["outcome"] for e in scene.history("bob", "ended")] == ["needs_human"], "it needs a human")
    assert scene.mail("conversation", "resume", talk["conversation_id"]).status == 0
    until(lambda: scene.places("bob") == {talk["message_id"]: "acked"}, "it is answered")


def test_a_mailbox_that_is_moved_away_and_made_anew_is_seen(scene):
    scene.script("bob", "say works")
    scene.mailbox("bob")
    scene.listen("bob")
    first = scene.task("bob")
    until(lambda: scene.lines("works") == [first], "the first is done")
    scene.box("bob").rename(scene.root / "agents" / ".away")
    scene.mailbox("bob")
    second = scene.task("bob")
    until(lambda: scene.lines("works") == [first, second], "the second is done")
    assert scene.mail("listener", "run", "bob").status == 75, "the new mailbox has its listener"


@pytest.fixture
def without_inotify():
    """A program that runs another where inotify has no instance."""
    command = ["unshare", "--user", "--map-root-user", "sh", "-c",
               'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"', "sh"]  # fmt: skip
    try:
        done = subprocess.run([*command, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        done = None
    if done is None or done.returncode != 0:
        pytest.skip("needs a user namespace: a listener without inotify")
    return command


def test_without_inotify_it_looks_every_second_and_says_so_once(scene, without_inotify):
    scene.script("bob", "say works")
    scene.mailbox("bob")
    listener = scene.listen("bob", under=without_inotify)
    tasks = [scene.task("bob")]
    until(lambda: scene.lines("works") == tasks, "the first is done")
    tasks.append(scene.task("bob"))
    until(lambda: scene.lines("works") == tasks, "the second is done")
    assert listener.log.read_text().count("fs.inotify.max_user_instances") == 1


def test_status_tells_an_agent_nobody_listens_for_from_one_that_is_served(scene):
    none = {"agent": "bob", "state": "none", "enabled": True, "running": False, "pid": None, "waiting_on": None}
    assert scene.mail("listener", "status", "bob").answer == none
    assert not scene.box("bob").exists(), "looking makes no mailbox"
    listener = scene.listen("bob")
    served = scene.mail("listener", "status", "bob").answer
    assert served == {**none, "state": "running", "running": True, "pid": listener.pid}
    assert scene.mail.row("bob")["listener"] == "running"


@pytest.mark.parametrize(
    "words", [["run"], ["run", "bob", "--all"], ["status"], ["enable", "a", "b"], ["disable", "--all"], ["dance"], []]
)
def test_a_wrong_request_is_refused(scene, words):
    assert scene.mail("listener", *words).status == 64


def test_a_listener_that_is_asked_to_serve_no_agent_name_is_refused(scene):
    assert scene.mail("listener", "run", "../bob").refusal["code"] == "bad_agent"


def test_a_worker_inherits_nothing_but_its_three_descriptors(scene):
    told = scene.mail.place / "told"
    scene.script("bob", f'ls -l /proc/$$/fd > "{told}.tmp"; mv "{told}.tmp" "{told}"')
    scene.mailbox("bob", "carol")
    scene.listen("bob", "carol")
    scene.task("bob")
    until(told.exists, "the worker has told")
    targets = {line.partition(" -> ")[2] for line in told.read_text().splitlines()[1:]}
    targets -= {f"{told}.tmp", str(scene.mail.place / "bob.sh")}  # the shell's own
    assert len(targets) == 2, "its message, and one pipe for all it prints"
    assert {target[:6] for target in targets} == {"/memfd", "pipe:["}


SYSTEMCTL = """#!/bin/sh
echo "$@" >> "{told}"
case "$*" in
*show-environment*) echo "HOME={home}" ;;
*show*) echo "LoadState={state}"; echo 'Environment={environment}' ;;
*start*) {start} ;;
esac
"""


@pytest.fixture
def systemctl(scene, tmp_path):
    """A program of that name that knows a unit or not: what it was asked is `told`, its environment `environ`."""
    home, tools, told = tmp_path / "home", tmp_path / "tools", tmp_path / "told"
    tools.mkdir()

    class Systemctl:
        environ = {**scene.mail.environ, "PATH": f"{tools}:{os.environ['PATH']}"}

        def knows(self, state, environment="", start=f'"{scene.mail.command}" listener run bob > /dev/null 2>&1 &'):
            told.write_text("")
            text = SYSTEMCTL.format(told=told, home=home, state=state, environment=environment, start=start)
            (tools / "systemctl").write_text(text, encoding="utf-8")
            (tools / "systemctl").chmod(0o755)

        def started(self):
            return [line for line in told.read_text().splitlines() if " start " in line]

    return Systemctl()


def enabled_and_ended(scene, environ):
    told = scene.mail("listener", "enable", "bob", env=environ).answer
    assert told["running"]
    assert scene.mail("listener", "disable", "bob").status == 0
    until(lambda: not proc.runs(told["pid"]), "it has ended")


def test_where_the_unit_is_installed_for_this_spool_enabling_starts_that(scene, systemctl):
    systemctl.knows("loaded", f'"AGENT_MAIL_SPOOL={scene.root}" OTHER=1')
    enabled_and_ended(scene, systemctl.environ)
    assert systemctl.started() == ["--user start agent-mail-listener@bob.service"]


@pytest.mark.parametrize(
    ("state", "environment"), [("loaded", ""), ("loaded", "AGENT_MAIL_SPOOL=relative"), ("loaded", '"'),
                               ("not-found", "AGENT_MAIL_SPOOL={root}"), ("masked", "AGENT_MAIL_SPOOL={root}")],
)  # fmt: skip
def test_a_unit_that_is_not_there_or_means_another_spool_is_not_started(scene, systemctl, state, environment):
    systemctl.knows(state, environment.format(root=scene.root), start="exit 1")
    enabled_and_ended(scene, systemctl.environ)
    assert systemctl.started() == []


def test_a_unit_that_fails_is_no_reason_for_a_second_way(scene, systemctl):
    systemctl.knows("loaded", f"AGENT_MAIL_SPOOL={scene.root}", start="echo broken >&2; exit 1")
    refused = scene.mail("listener", "enable", "bob", env=systemctl.environ)
    assert (refused.status, refused.refusal["code"]) == (1, "unit_failed")
    assert "broken" in refused.refusal["error"]
    assert not scene.mail("listener", "status", "bob").answer["running"]
