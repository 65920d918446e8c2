"""The units beside the listeners: what is started by a connection, by a timer, and what a machine's own units add."""

import os
import shutil
import sys

import pytest

from maildir_agents.faces.cli import VERBS
from maildir_agents.verbs.units import install_units

SOCKET = "/run/user/0/agent-mail.sock"
ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as customer:
    customer.settimeout(30)
    customer.connect(sys.argv[1])
    customer.sendall(b"GET / HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n")
    print(customer.recv(100).decode().splitlines()[0])
"""
# What `serve` does, as small as it can be: it takes the socket, says that it is ready, answers, stays.
SERVER = """
import os, signal, sys
from maildir_agents.disk.systemd import Service, passed_sockets
service, (listening,) = Service(os.environ), passed_sockets(os.environ)
service.tell("READY=1")
signal.signal(signal.SIGTERM, lambda *_: (service.stopping(), sys.exit(0)))
while True:
    connection, _ = listening.accept()
    connection.recv(1000)
    connection.sendall(f"HTTP/1.0 200 {os.getpid()}\\r\\n\\r\\n".encode())
    connection.close()
"""


def ask(there):
    done = there(sys.executable, "-c", ASK, SOCKET)
    assert done.status == 0, done.err + there.report()
    return done.out.strip()


@pytest.fixture(params=["a service of ours", *(["agent-mail serve"] if "serve" in VERBS else [])])
def served(there, request):
    """The socket is there, and nothing behind it yet; with the real `serve` once there is one."""
    if request.param == "a service of ours":
        server = there.place / "server.py"
        server.write_text(SERVER, encoding="utf-8")
        there.drop_in("agent-mail-serve.service", "ExecStart=", f"ExecStart={sys.executable} -I {server}")
    there.systemctl("start", "agent-mail-serve.socket")
    assert there.one("agent-mail-serve.service", "ActiveState") == "inactive"
    return there


def test_the_first_connection_starts_the_service_and_is_answered(served):
    assert served("stat", "--format=%a", SOCKET).out.strip() == "600"
    assert ask(served).startswith("HTTP/1.")
    assert served.one("agent-mail-serve.service", "ActiveState") == "active"
    pid = served.one("agent-mail-serve.service", "MainPID")
    ask(served)
    assert served.one("agent-mail-serve.service", "MainPID") == pid, "the same process answers"


def test_a_service_that_was_stopped_is_started_by_the_next_connection(served):
    ask(served)
    pid = served.one("agent-mail-serve.service", "MainPID")
    served.systemctl("stop", "agent-mail-serve.service")
    assert served.one("agent-mail-serve.service", "Result") == "success"
    assert ask(served).startswith("HTTP/1.")
    assert served.one("agent-mail-serve.service", "MainPID") not in (pid, "0")


# ------------------------------------------------------------------------------------------------ tidy


def test_tidying_up_deletes_what_config_allows_and_mends(there):
    sent = there.mail("send", "--from", "ann", "--to", "bob", "--subject", "s", "--body", "b")
    there.mail("ack", "bob", sent["id"])
    there.systemctl("start", "agent-mail-tidy.service")
    assert there.place_of("bob", sent["id"]) == "acked", "as it is made, config.json keeps everything"
    config = there.spool / "config.json"
    config.write_text('{"auto": {}, "retention_days": 0.000001}', encoding="utf-8")
    there.systemctl("start", "agent-mail-tidy.service")
    assert there.one("agent-mail-tidy.service", "Result") == "success"
    assert there.place_of("bob", sent["id"]) == "nowhere"


def test_what_cannot_be_mended_fails_the_unit(there):
    there.mail("init")
    (there.spool / "agents/bob").mkdir(parents=True)
    (there.spool / "agents/bob/new").symlink_to("/nowhere")
    assert there("systemctl", "--user", "start", "agent-mail-tidy.service").status != 0
    assert there.one("agent-mail-tidy.service", "Result") == "exit-code"


def test_the_timer_is_daily_and_makes_up_for_a_day_it_missed(there):
    there.systemctl("enable", "--now", "agent-mail-tidy.timer")
    assert there.one("agent-mail-tidy.timer", "ActiveState") == "active"
    assert "00:00:00" in there.one("agent-mail-tidy.timer", "TimersCalendar")
    assert there.one("agent-mail-tidy.timer", "Persistent") == "yes"


# ------------------------------------------------------------------------------------------------ units of the system


@pytest.fixture
def machine(bare_manager, command):
    """The system's units, all restrictions on, under a manager that is root's; only the user they name is not there."""
    there = bare_manager
    spool, home = "/var/spool/agent-mail", "/var/lib/agent-mail"
    for place in (os.path.dirname(spool), os.path.dirname(home)):
        there.do("mount", "-t", "tmpfs", "none", place)
    # What is hidden is covered by these; a system's manager makes them there, a user's elsewhere.
    there.do("cp", "-a", f"{there.environ['XDG_RUNTIME_DIR']}/systemd/inaccessible", "/run/systemd/")
    there.do("mkdir", "-m", "700", spool, home)
    there.environ["AGENT_MAIL_SPOOL"] = spool
    install_units({}, scope="system", program=command, root=str(there.place / "machine"))
    shutil.copytree(there.place / "machine/etc/systemd/system", there.units, dirs_exist_ok=True)
    # The tests and Python itself may lie in /tmp or in a home, which these units do not see.
    seen = ["User=", "Group=", f"BindReadOnlyPaths={there.place} {sys.prefix}", "ProtectHome=read-only"]
    for unit in ("agent-mail-listener@.service", "agent-mail-tidy.service"):
        there.drop_in(unit, *seen)
    return there


WORKER = """#!/bin/sh
cat /proc/self/status > /var/lib/agent-mail/status
agent-mail send --to hub --subject s --body done --kind result --reply-to "$AGENT_MAIL_MESSAGE"
"""


def test_a_listener_of_the_system_works_in_its_sandbox_and_its_worker_outside(machine):
    worker = machine.place / "worker"
    worker.write_text(WORKER, encoding="utf-8")
    worker.chmod(0o755)
    machine.mail("init")
    config = '{"auto": {"bob": {"command": ["%s"]}}}' % worker
    machine.do("sh", "-c", 'umask 077; printf %s "$1" > /var/spool/agent-mail/config.json', "sh", config)
    machine.systemctl("start", "agent-mail-listener@bob.service")
    pid = machine.one("agent-mail-listener@bob.service", "MainPID")
    confined = machine.status_of(pid)
    assert (confined["NoNewPrivs"], confined["Seccomp"], int(confined["CapEff"], 16)) == ("1", "2", 0)
    view = ["nsenter", f"--target={pid}", "--mount"]
    assert machine(*view, "touch", "/usr/agent-mail-test").status != 0
    assert machine(*view, "touch", "/var/lib/agent-mail/x").status != 0
    assert machine(*view, "rm", "/var/spool/agent-mail/config.json").status == 0, "the spool it may change"
    machine.do("sh", "-c", 'umask 077; printf %s "$1" > /var/spool/agent-mail/config.json', "sh", config)
    told = machine.mail("conversation", "start", "--from", "hub", "--to", "bob", "--goal", "g")
    done = f"find /var/spool/agent-mail/agents/bob/acked -name '{told['message_id']}*' | grep -q ."
    machine.soon(lambda: machine("sh", "-c", done).status == 0, "it is done")
    free = dict(line.split(":\t", 1) for line in machine.do("cat", "/var/lib/agent-mail/status").splitlines())
    assert (free["NoNewPrivs"], free["Seccomp"]) == ("0", "0")
    machine.systemctl("stop", "agent-mail-listener@bob.service")
    assert machine.one("agent-mail-listener@bob.service", "Result") == "success"


def test_the_system_is_tidied_up_in_the_sandbox_too(machine):
    machine.mail("init")
    machine.systemctl("start", "agent-mail-tidy.service")
    assert machine.one("agent-mail-tidy.service", "Result") == "success"
