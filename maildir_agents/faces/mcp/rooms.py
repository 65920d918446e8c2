"""MCP over HTTP: an application for another face to mount, with a room for each agent that comes.

Who the agent is was decided before (`agent` in the scope's state): a room serves that agent and no other.  Requests
stand alone, so a client may come back after the server was started anew.  Claims belong to the room: two clients with
one agent's key are one worker.  When there are many, one that nobody is in and that holds no claim makes room.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.abc
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from maildir_agents.errors import MailError
from maildir_agents.faces.mcp.desk import Desk
from maildir_agents.faces.mcp.server import build
from maildir_agents.mail.spool import SpoolFiles

MOST = 256  # rooms


class _Room:
    """`inside`: requests that are being served."""

    def __init__(self, desk: Desk, manager: StreamableHTTPSessionManager) -> None:
        self.desk, self.manager, self.inside = desk, manager, 0
        self.over = anyio.Event()

    @property
    def is_free(self) -> bool:
        return not self.inside and not self.desk.mine


class Rooms:
    """An ASGI application; its requests are judged before they come here.  Lives inside `open`."""

    def __init__(self, open_spool: Callable[[], SpoolFiles], largest: int) -> None:
        self._open, self._largest = open_spool, largest
        self._rooms: dict[str, _Room] = {}  # the one that was used last comes last
        self._tasks: anyio.abc.TaskGroup | None = None
        self._lock = anyio.Lock()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                self._rooms.clear()
                tasks.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        room = await self._enter(scope["state"]["agent"])
        try:
            await room.manager.handle_request(scope, receive, send)
        finally:
            room.inside -= 1

    async def _enter(self, agent: str) -> _Room:
        async with self._lock:
            room = self._rooms.pop(agent, None) or await self._opened(agent)
            self._rooms[agent] = room
            room.inside += 1
            return room

    async def _opened(self, agent: str) -> _Room:
        if len(self._rooms) >= MOST:
            self._make_room()
        if self._tasks is None or len(self._rooms) >= MOST:
            raise MailError("busy", "no room is left for another agent", "try again in a moment")
        room: _Room = await self._tasks.start(self._serve, agent)
        return room

    def _make_room(self) -> None:
        for agent, room in self._rooms.items():
            if room.is_free:
                del self._rooms[agent]
                room.over.set()
                return

    async def _serve(self, agent: str, *, task_status: anyio.abc.TaskStatus[_Room]) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("AGENT_MAIL_CLAIM")}
        desk = Desk(self._open, agent, environ)
        server = build(desk)
        server.streamable_http_app(
            stateless_http=True,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=self._largest,
        )
        room = _Room(desk, server.session_manager)
        async with room.manager.run():
            task_status.started(room)
            await room.over.wait()
