"""Listeners and scripted workers on a spool of their own.  For the tests of this directory; no fixture.

A worker is a shell script; what it did it says by lines in `diary`, appended by one write each.  When the stage is left
every process that belongs to its spool must be gone by itself: what is not is killed, and named.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import proc
from faces.program import SOON, Program, until
from maildir_agents import Spool
from maildir_agents.mail.history import events
from maildir_agents.mail.name import Ids, iso
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.testing import MovableClock

LONG = bool(os.environ.get("AGENT_MAIL_LONG"))
STATES = ("new", "cur", "claimed", "acked", "archive", "failed")
_ids = Ids(os.urandom)

Entry = dict[str, Any]


class Stage:
    def __init__(self, mail: Program) -> None:
        self.mail, self.root, self.diary = mail, mail.spool, mail.place / "diary"
        self.diary.touch()
        Spool(self.root, durability="none").init()
        self.auto: dict[str, Entry] = {}

    # what is configured

    def script(self, agent: str, text: str, **terms: Any) -> None:
        """Let `agent`'s mail start a shell script; `say WORD` in it writes a line into the diary."""
        path = self.mail.place / f"{agent.replace(':', '-')}.sh"
        say = f'say() {{ echo "$AGENT_ID $AGENT_MAIL_MESSAGE $*" >> "{self.diary}"; }}\n'
        path.write_text(f"#!/bin/sh\n{say}mail={self.mail.command}\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        self.allow(agent, [str(path)], **terms)

    def allow(self, agent: str, command: Sequence[str], **terms: Any) -> None:
        self.auto[agent] = {"command": list(command), **terms}
        self.configure({"auto": self.auto})

    def configure(self, settings: Any) -> None:
        draft = self.root / ".config.json"
        draft.write_text(settings if isinstance(settings, str) else json.dumps(settings), encoding="utf-8")
        draft.chmod(0o600)
        draft.rename(self.root / "config.json")

    # mail

    def task(self, agent: str, subject: str = "task", **fields: Any) -> str:
        """Put a task into a mailbox as a script does: a whole file, one rename."""
        now = time.time_ns() // 1_000_000
        message = {"id": _ids.next(now), "sender": "hub", "recipient": agent, "subject": subject, "kind": "task",
                   "created": iso(now), "body": "do it", **fields}  # fmt: skip
        draft = self.box(agent) / "tmp" / ".dropped"
        draft.write_text(json.dumps(message), encoding="utf-8")
        draft.chmod(0o600)
        draft.rename(self.box(agent) / "new" / f"{message['id']}.json")
        return str(message["id"])

    def mailbox(self, *agents: str) -> None:
        for agent in agents:
            with Spool(self.root).read(agent):
                pass

    def conversation(self, sender: str, recipient: str, goal: str = "a goal", **more: Any) -> Entry:
        return Spool(self.root).start_conversation(sender=sender, recipient=recipient, goal=goal, **more)

    # listeners

    def listen(self, *words: str, under: Sequence[str] = (), **environ: str) -> subprocess.Popen:
        """A listener that is ready; `under` is a program that runs it."""
        log = open(self.mail.place / f"listener.{time.monotonic_ns()}", "wb")  # noqa: SIM115 - the process's own
        with log:
            process = subprocess.Popen(
                [*under, self.mail.command, "listener", "run", *words], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, env={**self.mail.environ, **environ},
            )  # fmt: skip
        process.log = Path(log.name)
        self.mail._running.append(process)
        until(lambda: process.poll() is not None or "listening" in process.log.read_text(), "the listener is ready")
        return process

    def end(self, process: subprocess.Popen, number: int = signal.SIGTERM) -> int:
        process.send_signal(number)
        return process.wait(20)

    # what has happened

    def box(self, agent: str) -> Path:
        return self.root / "agents" / agent

    def lines(self, word: str = "") -> list[str]:
        """The diary, or the messages in the lines that say `word`."""
        told = self.diary.read_text(encoding="utf-8").splitlines()
        return [line.split()[1] for line in told if line.split()[2:] == word.split()] if word else told

    def history(self, agent: str, event: str) -> list[Entry]:
        return [entry for entry in events(SpoolFiles(self.root), agent) if entry["event"] == event]

    def places(self, agent: str) -> dict[str, str]:
        """id -> the furthest state that it is seen in."""
        found: dict[str, str] = {}
        for state in STATES:
            for path in (self.box(agent) / state).rglob("*.json"):
                if not path.name.startswith(".") and not path.name.endswith(".reason.json"):
                    found[path.name[:36]] = state
        return found

    def later(self, seconds: float) -> Spool:
        """The spool as it will be seen in that many seconds."""
        clock = MovableClock()
        clock.advance(seconds)
        return Spool(self.root, clock=clock)

    def workers(self) -> list[int]:
        """Every process that was given this spool, but the listeners and commands this test has started itself."""
        own = {process.pid for process in self.mail._running}
        return [pid for pid in proc.of_spool(self.root) if pid not in own]


@contextmanager
def stage(mail: Program) -> Iterator[Stage]:
    place = Stage(mail)
    yield place
    for process in mail._running:
        if process.poll() is None:
            process.terminate()
    for process in mail._running:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    end = time.monotonic() + SOON
    while (left := proc.of_spool(place.root)) and time.monotonic() < end:
        time.sleep(0.02)
    for pid in left:
        proc.kill(pid)
    shutil.rmtree(place.root)
    assert left == [], "workers or listeners were left behind"
