"""The desk: where a request becomes one call to a verb, on a thread of a bounded number.

A verb waits for the disk, so none runs on the loop; when all threads are taken, requests wait their turn.  Those that
change something may have to wait for a lock, so they have threads of their own: who looks is answered meanwhile.
"""

from collections.abc import Callable
from typing import TypeVar

import anyio
from starlette.requests import Request

from maildir_agents.faces.http.door import Asked
from maildir_agents.faces.http.feed import Feed
from maildir_agents.mail.spool import SpoolFiles

LOOKING, CHANGING = 8, 12  # threads

Answer = TypeVar("Answer")


class Desk:
    """A spool, as this server serves it."""

    def __init__(self, open_spool: Callable[[], SpoolFiles]) -> None:
        self.open_spool = open_spool
        self.feed = Feed()
        self.ended: set[str] = set()  # conversations that are over for good
        self._lookers = anyio.CapacityLimiter(LOOKING)
        self._changers = anyio.CapacityLimiter(CHANGING)

    async def ask(self, verb: Callable[[SpoolFiles], Answer]) -> Answer:
        """Call a verb that only looks, with the spool, opened as it is now."""
        return await anyio.to_thread.run_sync(lambda: verb(self.open_spool()), limiter=self._lookers)

    async def change(self, verb: Callable[[SpoolFiles], Answer]) -> Answer:
        """The same for a verb that changes something."""
        return await anyio.to_thread.run_sync(lambda: verb(self.open_spool()), limiter=self._changers)


def desk_of(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def asked_of(request: Request) -> Asked:
    asked: Asked = request.scope["state"]["asked"]
    return asked
