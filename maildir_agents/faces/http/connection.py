"""Connections that cannot be held for nothing: uvicorn's own, with a time limit on a request's head, and an end.

uvicorn bounds the pause between requests and the size of a head, but a client may send a head byte by byte for ever.
And when as many connections are open as the process can have, the one that has been idle longest makes room.
"""

import asyncio
import resource
import socket
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # from connecting, or from the first byte after a pause, to the end of the head
IDLE_SECONDS = 5  # between two requests
HEAD_BYTES = 16 << 10
UNTAKEN_MS = 60_000  # that a client may leave an answer lying; then the kernel ends the connection
SPARE = 128  # descriptors kept for mail
MOST = 900  # connections, however many descriptors there are


def most_connections() -> int:
    """How many connections may be open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(16, min(MOST, soft - SPARE))


class Connection(H11Protocol):
    """One connection; `idle` ones are waiting for a request, oldest first."""

    idle: dict["Connection", None] = {}
    open: int = 0
    most: int = MOST
    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        wire = transport.get_extra_info("socket")
        if wire.family != socket.AF_UNIX:
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNTAKEN_MS)
        Connection.open += 1
        if Connection.open > Connection.most:
            self._make_room()
        self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        Connection.open -= 1
        self._work()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._waits and not self.transport.is_closing():
            self._rest()
        else:
            self._work()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._waits:
            Connection.idle[self] = None  # uvicorn bounds this pause

    @property
    def _waits(self) -> bool:
        """Whether no request is being served: the next head is due."""
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # None at first

    def _rest(self) -> None:
        """The head is not whole yet; the time it has began with its first byte and goes on."""
        Connection.idle.setdefault(self, None)
        if self._limit is None:
            self._limit = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _work(self) -> None:
        Connection.idle.pop(self, None)
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _too_slow(self) -> None:
        self._limit = None
        if self._waits and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()

    def _make_room(self) -> None:
        for other in Connection.idle:
            Connection.idle.pop(other)
            other.transport.abort()
            return
        self.transport.abort()  # all others are being served


def protocol() -> type[Any]:
    """The class for uvicorn, with this process's limit."""
    Connection.most = most_connections()
    return Connection
