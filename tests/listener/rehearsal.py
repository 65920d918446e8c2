"""A listener in this process, turn by turn, on a clock that is moved: hours of back-off pass at once.  No fixture.

The clock stands still in between, so a machine that is slow changes nothing of what is due.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maildir_agents.disk.jsonfile import encode
from maildir_agents.faces.listener.duty import Duty
from maildir_agents.faces.listener.loop import Loop
from maildir_agents.mail.history import events
from maildir_agents.testing import MovableClock, TemporarySpool, temporary_spool
from maildir_agents.verbs.inbox import inbox


class StandingClock(MovableClock):
    """Time passes when it is moved, and then only."""

    def __init__(self) -> None:
        super().__init__()
        self._wall, self._boot_at = super().wall_ms(), super().boot_ms()

    def wall_ms(self) -> int:
        return self._wall + self._wall_shift

    def boot_ms(self) -> int:
        return self._boot_at + self._boot_shift


class Rehearsal:
    def __init__(self, spool: TemporarySpool) -> None:
        self.spool = spool
        self.said: list[dict[str, Any]] = []
        self.loop: Loop | None = None
        self.auto: dict[str, Any] = {}
        spool.init()

    def allow(self, agent: str, script: str, **terms: Any) -> None:
        """Let mail to `agent` start a shell script."""
        self.auto[agent] = {"command": ["/bin/sh", "-c", script], **terms}
        self.configure(encode({"auto": self.auto}))

    def configure(self, text: str) -> None:
        path = f"{self.spool.root}/config.json"
        with open(f"{path}~", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(f"{path}~", path)

    def open(self, *agents: str) -> None:
        """A listener for these agents; the one before ends."""
        self.close()
        self.loop = Loop(self.spool, agents, self.said.append, os.environ)
        self.loop.open()

    def close(self) -> None:
        if self.loop is not None:
            self.loop.close()
            self.loop = None

    def duty(self, agent: str) -> Duty:
        return self.loop.duties[agent]

    def play(self) -> int | None:
        """Turns until no worker runs and nothing is due; when something will be, in seconds from now."""
        while True:
            due = self.loop.turn()
            running = [duty.run.worker.pid for duty in self.loop.duties.values() if duty.run and duty.run.worker]
            if running:
                os.waitid(os.P_PID, running[0], os.WEXITED | os.WNOWAIT)
            elif due is None or due > self.spool.clock.boot_ms():
                return None if due is None else round((due - self.spool.clock.boot_ms()) / 1000)

    def start(self) -> None:
        """One turn: a worker is started and not waited for."""
        self.loop.turn()
        assert any(duty.run for duty in self.loop.duties.values())

    # what has happened

    def state(self, agent: str, message_id: str) -> str:
        [place] = [p for p in self.spool.trace(message_id)["places"] if p["agent"] == agent]
        return place["state"]

    def of(self, conversation_id: str) -> str:
        return self.spool.conversation(conversation_id)["state"]

    def outcomes(self, agent: str) -> list[str]:
        return [entry["outcome"] for entry in events(self.spool, agent) if entry["event"] == "ended"]

    def mail(self, agent: str) -> list[dict[str, Any]]:
        """The unread mail of an agent, marked by nothing."""
        return inbox(self.spool, agent)["messages"]


@contextmanager
def rehearsal() -> Iterator[Rehearsal]:
    with temporary_spool(durability="none", clock=StandingClock()) as spool:
        stage = Rehearsal(spool)
        try:
            yield stage
        finally:
            stage.close()
