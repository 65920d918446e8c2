"""The server process: its socket, its limits, and its end.

It binds first and says where it is when it answers.  Told to stop it ends the streams, lets what is being answered
finish, and is gone within seconds.
"""

import logging
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any

import uvicorn

from maildir_agents.disk.systemd import Service, passed_sockets
from maildir_agents.errors import MailError
from maildir_agents.faces.http import connection
from maildir_agents.faces.http.app import build
from maildir_agents.faces.http.desk import Desk
from maildir_agents.faces.http.door import LOCAL, Door, local_hosts
from maildir_agents.faces.http.keys import Keys, usual_place
from maildir_agents.mail.spool import SpoolFiles

BACKLOG = 512  # connections that wait to be taken
PARTING_S = 3  # that answers may take to end, once the server has to stop


def serve(
    open_spool: Callable[[], SpoolFiles],
    *,
    host: str,
    port: int,
    path: str | None,
    names: list[str],
    no_auth: bool,
    key_file: str | None,
    environ: MutableMapping[str, str],
    say: Callable[[dict[str, Any]], None],
) -> None:
    """Serve until a signal.  `path`: a Unix socket in place of host and port; `names`: further values of Host.

    Sockets that systemd has opened come before all of these.  `environ` is os.environ: what systemd said is taken out.
    """
    if path == "":
        raise MailError("usage", "--socket needs a path", "leave it out to listen at a port")
    local = path is not None or is_loopback(host)
    if no_auth and not local:
        raise MailError("usage", f"--no-auth would open the mail to whoever reaches {host}", "leave out one of the two")
    keys = None if no_auth else Keys.founded(key_file or usual_place(environ))
    passed = passed_sockets(environ)
    if no_auth and not all(map(_is_local, passed)):
        raise MailError("usage", "--no-auth needs a socket on the loopback interface", "leave out --no-auth")
    listening = passed or [_tcp(host, port) if path is None else _unix(path)]
    mine = None if passed or path is None else _identity(path)
    try:
        hosts, address = _names(listening, names)
        door = Door(keys, hosts, _cookie(address))
        guard, desk = build(open_spool, door)
        service = Service(environ)
        told = {"serving": address, "keys": keys.path if keys else None}
        Server(_config(guard), desk, service, lambda: say(told)).run(listening)
    finally:
        for one in listening:
            one.close()
        if path is not None and mine is not None and _identity(path) == mine:  # not the one of who came after
            with suppress(FileNotFoundError):
                os.unlink(path)


def _config(app: Any) -> uvicorn.Config:
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s", level=logging.WARNING)
    return uvicorn.Config(
        app, http=connection.protocol(), ws="none", loop="asyncio", lifespan="on", log_config=None, access_log=False,
        proxy_headers=False, server_header=False, timeout_keep_alive=connection.IDLE_SECONDS, backlog=BACKLOG,
        timeout_graceful_shutdown=PARTING_S, h11_max_incomplete_event_size=connection.HEAD_BYTES,
    )  # fmt: skip


class Server(uvicorn.Server):
    """uvicorn's, which says when it answers, and ends the streams before it waits for answers to end."""

    def __init__(self, config: uvicorn.Config, desk: Desk, service: Service, say: Callable[[], None]) -> None:
        super().__init__(config)
        self._desk, self._service, self._say = desk, service, say

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A signal ends it, and it ends well: uvicorn would raise the signal once more when all is done."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._service.tell("READY=1")
            self._say()

    async def on_tick(self, counter: int) -> bool:
        self._service.ping()  # here, so that a loop that hangs is silent
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.stopping()
        self._desk.feed.close()
        await super().shutdown(sockets)


# sockets


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _tcp(host: str, port: int) -> socket.socket:
    try:
        [family, kind, _, _, address] = socket.getaddrinfo(
            "127.0.0.1" if host == "localhost" else host, port, type=socket.SOCK_STREAM
        )[0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)  # at once: until then a second server could bind it, too
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "this is no name of a host"
        raise MailError(
            "cannot_write", f"{host}:{port} cannot be listened at: {why}", "another --port, or 0 for any"
        ) from None
    return listening


def _unix(path: str) -> socket.socket:
    """A socket that only its owner can connect to.  One that a server left behind is replaced; one in use is not."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if _is_left_behind(path):
            os.unlink(path)
        before = os.umask(0o177)
        try:
            listening.bind(path)
        finally:
            os.umask(before)
        listening.listen(BACKLOG)  # at once: one that does not listen looks left behind
    except OSError as error:
        listening.close()
        raise MailError("cannot_write", f"{path} cannot be listened at: {error.strerror or error}", None) from None
    return listening


def _identity(path: str) -> tuple[int, int] | None:
    try:
        seen = os.lstat(path)
    except OSError:
        return None
    return seen.st_dev, seen.st_ino


def _is_left_behind(path: str) -> bool:
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(path) != 0


def _is_local(listening: socket.socket) -> bool:
    return listening.family == socket.AF_UNIX or is_loopback(listening.getsockname()[0])


def _cookie(address: str) -> str:
    """The name of the page's cookie: with the port, as cookies do not tell ports apart."""
    port = address.rpartition(":")[2].strip("/")
    return f"agent-mail-{port if port.isdecimal() else 'unix'}"


def _names(listening: list[socket.socket], names: list[str]) -> tuple[frozenset[str], str]:
    """(the values of Host that mean this server, its address for people: a browser's, where there is one)."""
    told = [_names_of(one, names) for one in listening]
    address = next((address for _, address in told if address.startswith("http")), told[0][1])
    return frozenset().union(*(hosts for hosts, _ in told)), address


def _names_of(listening: socket.socket, names: list[str]) -> tuple[frozenset[str], str]:
    if listening.family == socket.AF_UNIX:
        return frozenset(LOCAL) | frozenset(name.lower() for name in names), f"unix:{listening.getsockname()}"
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    own = {f"{name.lower()}:{port}" for name in (shown, *names)} | {name.lower() for name in names}
    if port == 80:
        own.add(shown)
    return frozenset(own) | local_hosts(port), f"http://{shown}:{port}/"
