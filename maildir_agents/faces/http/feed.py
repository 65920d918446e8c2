"""The feed: one ear for the whole spool, and a stream of events for each client that listens.

A thread sleeps on one doorbell (one inotify instance, however many streams) and tells the loop what changed.  A stream
has a short queue; a client that does not keep up, or comes back after too long, is told to look at everything again
(`resync`) instead of being told half.
"""

import asyncio
import json
import logging
import os
import secrets
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from maildir_agents.disk.doorbell import Doorbell
from maildir_agents.errors import MailError
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs.news import News

KEPT = 1000  # events that a client that comes back is told, and that a stream is behind at most
MOST = 256  # streams
BEAT_S = 15.0  # a line at least this often, so that both sides notice a dead connection
STUCK_S = 30.0  # that a client may take to take what it was sent
QUIET_S = 0.05  # rings closer together than this are one look
LOOK_S = 30.0  # a claim ends by the clock, and no directory tells
RETRY_MS = 2000  # after which a browser connects again

log = logging.getLogger("maildir_agents.http")

Wanted = Callable[[dict[str, Any]], bool]
Holds = Callable[[], bool]


class Told:
    """One event: its number, its members, and the lines of the stream that say it."""

    __slots__ = ("lines", "members", "number")

    def __init__(self, number: int, name: str, kind: str, members: dict[str, Any]) -> None:
        self.number, self.members = number, members
        self.lines = f"id: {name}\nevent: {kind}\ndata: {json.dumps(members)}\n\n"


class Feed:
    """What has been told lately, and who listens.  Lives on the loop."""

    def __init__(self) -> None:
        self._epoch = secrets.token_hex(6)  # numbers of another life of this server mean nothing
        self._number = 0
        self._kept: deque[Told] = deque(maxlen=KEPT)
        self.streams: set[Stream] = set()
        self.begun = asyncio.Event()  # from here on something is told, be it that nobody knows
        self.told = 0
        self.closed = False

    def publish(self, events: Iterable[tuple[str, dict[str, Any]]]) -> None:
        self.begun.set()
        for kind, members in events:
            self._number += 1
            self.told += 1
            event = Told(self._number, f"{self._epoch}-{self._number}", kind, members)
            self._kept.append(event)
            for stream in self.streams:
                stream.offer(event)

    def lose(self) -> None:
        """Nobody knows what happened: every stream is told to look at everything again."""
        self.begun.set()
        self._kept.clear()
        self._number += 1  # so that who comes back with the last number is not taken for one who missed nothing
        for stream in self.streams:
            stream.lose()

    def open(self, last: str | None, wanted: Wanted, holds: Holds = lambda: True) -> "Stream":
        if len(self.streams) >= MOST:
            raise MailError("busy", f"{MOST} clients are listening", "try again in a moment")
        stream = Stream(self, wanted, holds)
        if last is not None:
            self._catch_up(stream, last)
        self.streams.add(stream)
        return stream

    def _catch_up(self, stream: "Stream", last: str) -> None:
        epoch, _, text = last.rpartition("-")
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else -1
        oldest = self._kept[0].number if self._kept else self._number + 1
        missed = [event for event in self._kept if event.number > number]
        if epoch != self._epoch or not oldest - 1 <= number <= self._number:
            stream.lose()
            return
        for event in missed:
            stream.offer(event)

    def resync(self) -> str:
        return f"id: {self._epoch}-{self._number}\nevent: resync\ndata: {{}}\n\n"

    def close(self) -> None:
        """Let every stream end; clients connect again when there is a server."""
        self.closed = True
        self.begun.set()
        for stream in self.streams:
            stream.wake.set()


class Stream(Response):
    """The answer to one client that listens, as long as what let it in `holds`."""

    media_type = "text/event-stream"

    def __init__(self, feed: Feed, wanted: Wanted, holds: Holds) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._feed, self._wanted, self._holds = feed, wanted, holds
        self._queue: deque[Told] = deque()
        self._lost = False
        self.wake = asyncio.Event()

    def offer(self, event: Told) -> None:
        if not self._wanted(event.members):
            return
        if len(self._queue) >= KEPT:
            self.lose()
        else:
            self._queue.append(event)
            self.wake.set()

    def lose(self) -> None:
        self._queue.clear()
        self._lost = True
        self.wake.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(self._until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._say(send, f"retry: {RETRY_MS}\n\n")
            while not gone.done() and not self._feed.closed:
                told = await self._next()
                if not self._holds():
                    break
                await self._say(send, told)
            if not gone.done():
                await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            pass  # it takes nothing any more: the connection ends with this answer
        finally:
            self._feed.streams.discard(self)
            gone.cancel()

    async def _next(self) -> str:
        """What to say next: events, the word that some were lost, or a beat."""
        try:
            async with asyncio.timeout(BEAT_S):
                await self.wake.wait()
        except TimeoutError:
            return ": still here\n\n"
        self.wake.clear()
        lines = [self._feed.resync()] if self._lost else []
        self._lost = False
        while self._queue:
            lines.append(self._queue.popleft().lines)
        return "".join(lines)

    async def _say(self, send: Send, text: str) -> None:
        if text:
            async with asyncio.timeout(STUCK_S):
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.wake.set()


class Ear:
    """The thread that listens to the spool for a feed, from `start` to `stop`."""

    def __init__(
        self, open_spool: Callable[[], SpoolFiles], tell: Callable[[list[Any]], None], lose: Callable[[], None]
    ) -> None:
        self._open, self._tell, self._lose = open_spool, tell, lose
        self._thread = threading.Thread(target=self._run, name="ear of agent-mail serve", daemon=True)

    def start(self) -> None:
        self._rope, self._hangup = os.pipe()
        self._thread.start()

    def stop(self) -> None:
        os.close(self._rope)
        self._thread.join()
        os.close(self._hangup)

    def _run(self) -> None:
        anew = False
        while True:
            try:
                self._listen(anew)
                return
            except Exception as error:
                log.error("listening to the spool failed, beginning anew: %s", type(error).__name__)
                self._lose()
                anew = True
                if self._is_over_within(1):
                    return

    def _is_over_within(self, seconds: float) -> bool:
        """Rest; True, and at once, when the rope is let go."""
        ready = select.poll()
        ready.register(self._hangup, 0)
        return bool(ready.poll(seconds * 1000))

    def _listen(self, anew: bool) -> None:
        spool = self._open()
        silent = spool.settings.get("file_system", {}).get("inotify") is False
        news = News(spool)
        doors = news.doors
        with Doorbell(doors, hangup=self._hangup, poll_only=silent) as bell:
            if bell.reason:
                log.warning("events may come a second late: %s", bell.reason)
            self._tell(news.look())  # what came while it was being armed
            if anew:  # and before that, since the last loss was told, what nobody heard
                self._lose()
            while (why := bell.wait(LOOK_S)) != "hangup":
                began = time.monotonic()
                events = news.look(bell.heard() if why == "rung" else None)
                while news.doors != doors:  # behind a new door something may stand already
                    doors = news.doors
                    bell.cover(doors)
                    events += news.look()
                if events:
                    self._tell(events)
                # Deep mailboxes take their time: requests have four fifths of it all the same.
                if self._is_over_within(max(QUIET_S, 4 * (time.monotonic() - began))):
                    return
