"""Much mail, many agents: each message handled once, in one process that does not tick while nothing happens."""

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter

import pytest

import proc
from faces.program import SOON, until
from listener.stage import LONG

ARRIVALS = 20_000 if LONG else 2_000
ONE_IN = 1 if LONG else 5  # arrivals that are work
AGENTS = 1_000 if LONG else 200
IDLE = 30.0 if LONG else 2.0  # seconds that are looked at
REST = 1.0  # seconds without a stir that are taken for rest: a busy machine may keep it waiting
PING = 60.0 if LONG else 1.0  # seconds after which a service manager would take it for dead, half of it between pings
pytestmark = pytest.mark.timeout(3600 if LONG else 300)
OURS = (3_000 + 5 * AGENTS) << 10  # private bytes beyond those of a process that only loads watchdog and portalocker


def soon(condition, what: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def test_what_came_while_it_was_stopped_is_handled_once_each(scene):
    """More than an inotify queue holds, with AGENT_MAIL_LONG; the kernel then says only that something was lost."""
    scene.allow("bob", ["/bin/sh", "-c", f'echo "$AGENT_ID $AGENT_MAIL_MESSAGE works" >> "{scene.diary}"'])
    scene.mailbox("bob")
    listener = scene.listen("bob")
    os.kill(listener.pid, signal.SIGSTOP)
    every = [scene.task("bob", kind="task" if number % ONE_IN == 0 else None) for number in range(ARRIVALS)]
    os.kill(listener.pid, signal.SIGCONT)
    tasks = every[::ONE_IN]
    soon(lambda: len(scene.history("bob", "ended")) == len(tasks), "all are done", len(tasks) / 4)
    assert scene.end(listener) == 0
    assert scene.lines("works") == tasks, "each once, the oldest first"
    assert scene.places("bob") == dict.fromkeys(every, "new") | dict.fromkeys(tasks, "acked")


def test_many_agents_in_one_process_cost_one_inotify_instance_and_no_tick(scene):
    agents = [f"agent-{number:04}" for number in range(AGENTS)]
    scene.mailbox(*agents)
    for agent in agents:
        scene.auto[agent] = {
            "command": ["/bin/sh", "-c", f'echo "$AGENT_ID $AGENT_MAIL_MESSAGE works" >> "{scene.diary}"']
        }
    scene.configure({"auto": scene.auto})
    listener = scene.listen("--all")
    task = scene.task(agents[AGENTS // 2])
    until(lambda: scene.lines("works") == [task], "one of them works")
    until(lambda: scene.places(agents[AGENTS // 2]) == {task: "acked"}, "and is done")
    assert proc.inotify_instances(listener.pid) == 1
    assert len(proc.threads(listener.pid)) <= 4
    assert proc.private_bytes(listener.pid) < private_bytes_of_the_packages() + OURS
    until(lambda: woken(listener.pid, REST) == 0, "it has come to rest")
    assert wakings(listener.pid, IDLE) <= 1, "it wakes though nothing has happened"
    burst = [scene.task(agent) for agent in agents[:50] for _ in range(2)]
    soon(lambda: len(scene.lines("works")) == 101, "all are done", 60)
    assert Counter(scene.lines("works")) == Counter([task, *burst])
    assert scene.end(listener) == 0


def test_a_service_of_many_agents_wakes_for_its_manager_and_nothing_else(scene):
    """Pings at half of WatchdogSec, and once a minute a look at its directories: no other wake-up."""
    agents = [f"agent-{number:04}" for number in range(AGENTS)]
    scene.mailbox(*agents)
    scene.configure({"auto": {agent: {"command": ["/bin/true"]} for agent in agents}})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(scene.mail.place / "notify"))
        listener = scene.listen(
            "--all", NOTIFY_SOCKET=manager.getsockname(), WATCHDOG_USEC=str(round(PING * 1e6)), WATCHDOG_PID=""
        )
        heard = []
        status = b"STATUS=listening for %d: no work" % AGENTS
        until(lambda: heard.extend(told(manager)) or status in b"".join(heard), "all is read")
        until(lambda: woken(listener.pid, min(REST, PING / 4)) == 0, "it has come to rest")
        begun = time.monotonic()
        told(manager)
        count = wakings(listener.pid, IDLE)
        pings = told(manager)
        assert count <= len(pings) + 1, "it wakes though nothing has happened"
        manager.settimeout(PING + SOON)
        times = []
        for _ in range(4):
            pings.append(manager.recv(1000))
            times.append(time.monotonic())
        assert set(pings) == {b"WATCHDOG=1"}
        # On a busy machine one may be late, so those after it are: fewer come, never more.
        assert len(pings) - 1 <= (times[-1] - begun) / (PING / 2), "it pings no more often than it should"
        assert min(later - sooner for sooner, later in itertools.pairwise(times)) < PING * 0.75, "and no later"
        assert scene.end(listener) == 0


def told(manager: socket.socket) -> list[bytes]:
    """What has come to a service manager since it was last asked."""
    found = []
    while True:
        try:
            found.append(manager.recv(1000, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return found


def woken(pid: int, seconds: float) -> int:
    """How often it wakes up within so long; that nothing happens takes time to see."""
    before = proc.switches(pid)
    time.sleep(seconds)
    return proc.switches(pid) - before


def wakings(pid: int, seconds: float) -> int:
    """How many times it wakes up within so long: a look at a thousand directories is one, though it waits for them."""
    count, asleep, end = 0, True, time.monotonic() + seconds
    while time.monotonic() < end:
        stirred = woken(pid, 0.2) > 0
        count += stirred and asleep
        asleep = not stirred
    return count


def private_bytes_of_the_packages() -> int:
    bare = "import sys, watchdog.observers.inotify_c, portalocker; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", bare], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        return proc.private_bytes(process.pid)


def test_of_all_only_mailboxes_are_served_and_what_cannot_be_is_said_once(scene, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    scene.mailbox("bob", "broken")
    (scene.root / "agents/linked").symlink_to(tmp_path / "elsewhere")
    (scene.root / "agents/file").touch()
    (scene.root / "agents/broken/listener.lock").mkdir()
    scene.allow("carol", ["/bin/sh", "-c", f'echo "$AGENT_ID $AGENT_MAIL_MESSAGE works" >> "{scene.diary}"'])
    listener = scene.listen("--all")
    for agent in ("dora", "emil", "carol"):
        scene.mailbox(agent)  # each makes it look who is there
    task = scene.task("carol")
    until(lambda: scene.lines("works") == [task], "who came later is served")
    assert scene.end(listener) == 0
    told = listener.log.read_text()
    assert told.count("agents/broken/listener.lock") == 1
    assert "linked" not in told and "agents/file" not in told
    assert list((tmp_path / "elsewhere").iterdir()) == []
