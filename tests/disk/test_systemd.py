"""What a service tells its manager and what it is given by it, with sockets of our own: no systemd is needed."""

import os
import socket
import subprocess
import sys
import time

import pytest

from maildir_agents.disk.systemd import MEANT_FOR_ONE, Service, finding_the_manager, passed_sockets


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """A socket as a manager has one; its address as NOTIFY_SOCKET says it is `.named`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.settimeout(10)
        if request.param == "path":
            address = named = str(tmp_path / "notify")
        else:
            address, named = f"\0agent-mail-{os.getpid()}", f"@agent-mail-{os.getpid()}"
        told.bind(address)
        yield told, {"NOTIFY_SOCKET": named}


def test_what_is_told_arrives_whole_in_one_datagram(manager):
    told, environ = manager
    Service(environ).tell("READY=1\nSTATUS=é")
    assert told.recv(100).decode() == "READY=1\nSTATUS=é"


def test_a_status_is_one_line_and_said_when_it_changes(manager):
    told, environ = manager
    service = Service(environ)
    for text in ("one", "one", "two\nREADY=1", "one"):
        service.status(text)
    assert [told.recv(100) for _ in range(3)] == [b"STATUS=one", b"STATUS=two READY=1", b"STATUS=one"]
    told.setblocking(False)
    with pytest.raises(BlockingIOError):
        told.recv(100)


def test_who_is_ready_has_a_status_at_once(manager):
    told, environ = manager
    service = Service(environ)
    service.ready("no\nwork")
    service.status("no\nwork")
    service.status("work")
    assert [told.recv(100) for _ in range(2)] == [b"READY=1\nSTATUS=no work", b"STATUS=work"]


def test_more_time_to_stop_is_asked_for_in_microseconds(manager):
    told, environ = manager
    Service(environ).stopping()
    Service(environ).stopping(1.5)
    assert [told.recv(100) for _ in range(2)] == [b"STOPPING=1", b"STOPPING=1\nEXTEND_TIMEOUT_USEC=1500000"]


def test_it_pings_at_half_of_the_time_and_not_before(manager):
    told, environ = manager
    service = Service({**environ, "WATCHDOG_USEC": "600000000"})
    assert 0 < service.due - time.monotonic() <= 300
    service.ping()
    told.setblocking(False)
    with pytest.raises(BlockingIOError):
        told.recv(100)
    service.due = time.monotonic()
    service.ping()
    assert told.recv(100) == b"WATCHDOG=1"
    assert 0 < service.due - time.monotonic() <= 300


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": "100000"},
        {"NOTIFY_SOCKET": "/n"},
        {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "0"},
        {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"},
    ],
)
def test_nobody_waits_for_a_ping_that_was_not_asked_of_this_process(environ):
    assert Service(environ).due is None


@pytest.mark.parametrize("address", ["", "/nowhere/at/all", "@nobody-listens-here", "relative"])
def test_a_manager_that_is_not_there_is_no_trouble(address):
    service = Service({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1"})
    service.tell("READY=1")
    service.ping()


# ------------------------------------------------------------------------------------------------ sockets

ACTIVATED = """
import os, sys
from maildir_agents.disk.systemd import passed_sockets
if sys.argv[1] == "self":
    os.environ["LISTEN_PID"] = str(os.getpid())
found = passed_sockets(os.environ)
print(len(found), *(s.getsockname() for s in found), *(s.get_inheritable() for s in found))
print(sorted(name for name in os.environ if name.startswith("LISTEN_")), passed_sockets(os.environ))
for one in found:
    connection, _ = one.accept()
    connection.sendall(b"hello")
    connection.close()
    one.close()
"""


PROMISED = """
import os, sys
from maildir_agents.disk.systemd import passed_sockets
from maildir_agents.errors import MailError
os.closerange(3, 20)
try:
    passed_sockets({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": sys.argv[1]})
except MailError as error:
    print(error.code, error.sentence)
"""


def activated(sockets, whose, count):
    """A process that has the sockets at 3, 4, … as systemd gives them."""
    with_them = f"{' '.join(f'{3 + n}<&{s.fileno()}' for n, s in enumerate(sockets))}"
    script = f'exec "$@" {with_them}'
    return subprocess.Popen(
        ["/bin/bash", "-c", script, "bash", sys.executable, "-c", ACTIVATED, whose],
        pass_fds=[s.fileno() for s in sockets], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "LISTEN_PID": "1", "LISTEN_FDS": count, "LISTEN_FDNAMES": "a:b"},
    )  # fmt: skip


@pytest.fixture
def sockets(tmp_path):
    found = []
    for name in ("one", "two"):
        one = socket.socket(socket.AF_UNIX)
        one.bind(str(tmp_path / name))
        one.listen()
        found.append(one)
    yield found
    for one in found:
        one.close()


def test_the_sockets_that_were_opened_for_it_are_taken_once_and_not_inherited(sockets, tmp_path):
    names = [str(tmp_path / name) for name in ("one", "two")]
    with activated(sockets, "self", "2") as process:
        for name in names:
            with socket.socket(socket.AF_UNIX) as customer:
                customer.settimeout(60)
                customer.connect(name)
                assert customer.recv(10) == b"hello"
        out, _ = process.communicate(timeout=60)
    assert out.splitlines() == [f"2 {names[0]} {names[1]} False False", "[] []"]


def test_sockets_that_were_meant_for_another_process_are_left_alone(sockets):
    with activated(sockets, "other", "2") as process:
        out, _ = process.communicate(timeout=60)
    assert out.splitlines() == ["0", "[] []"]


@pytest.mark.parametrize("count", ["", "0", "-1", "many"])
def test_without_sockets_there_are_none(count):
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": count}
    assert passed_sockets(environ) == []
    assert environ == {}


def test_more_sockets_than_there_are_is_said_and_none_is_kept(sockets):
    with activated(sockets, "self", "3") as process:
        process.communicate(timeout=60)
    assert process.returncode == 1
    told = subprocess.run(
        [sys.executable, "-c", PROMISED, "9"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert told.stdout == "usage LISTEN_FDS says 9, but 3 is no socket: Bad file descriptor\n", told.stderr


def test_the_manager_is_looked_for_where_a_session_would_have_it():
    assert finding_the_manager({"XDG_RUNTIME_DIR": "/mine"})["XDG_RUNTIME_DIR"] == "/mine"
    usual = f"/run/user/{os.getuid()}"
    assert finding_the_manager({}).get("XDG_RUNTIME_DIR") == (usual if os.path.isdir(usual) else None)


def test_what_was_said_to_one_process_is_told_to_no_other():
    from maildir_agents.verbs.listener import own_environment

    environ = dict.fromkeys((*MEANT_FOR_ONE, "AGENT_MAIL_WORKER_UNITS", "AGENT_MAIL_CLAIM", "PATH"), "x")
    assert own_environment(environ) == {"PATH": "x"}
