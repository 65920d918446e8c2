"""The installed command on a spool of its own, run as a person or a harness would run it.  For tests; no fixture."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT = 60.0  # seconds that a command may take before it counts as hanging
SOON = 60.0  # seconds that something may take to become true


class Done:
    """A command that has ended."""

    def __init__(self, status: int, out: bytes, err: bytes) -> None:
        self.status, self.out, self.err = status, out.decode(), err.decode()

    @property
    def answer(self) -> Any:
        assert self.status == 0, f"exit status {self.status}: {self.err or self.out}"
        return json.loads(self.out)

    @property
    def refusal(self) -> dict[str, Any]:
        """The JSON of an error: a sentence, a code, and nothing on standard output."""
        assert self.status not in (0, 2), f"exit status {self.status}: {self.out}"
        assert self.out == ""
        told = json.loads(self.err)
        assert told["error"]
        assert told["code"]
        return told

    @property
    def warnings(self) -> list[dict[str, Any]]:
        """The JSON objects on standard error, one after another."""
        decoder, text, found = json.JSONDecoder(), self.err.strip(), []
        while text:
            value, end = decoder.raw_decode(text)
            found.append(value)
            text = text[end:].strip()
        return found


class Program:
    def __init__(self, command: str, place: Path, **environ: str) -> None:
        self.command, self.place = command, place
        self.spool = place / "spool"
        self.environ = os.environ | {"AGENT_MAIL_SPOOL": str(self.spool)} | environ
        self._running: list[subprocess.Popen] = []

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()

    def __call__(
        self, *words: str | bytes, stdin: bytes | None = None, under: tuple[str, ...] = (), **rest: Any
    ) -> Done:
        """Run one command to its end; `under` is a program that runs it."""
        rest.setdefault("env", self.environ)
        fed = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        done = subprocess.run(
            [*under, self.command, *words], check=False, capture_output=True, timeout=LIMIT, **fed, **rest
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str, **rest: Any) -> subprocess.Popen:
        """A command in the background; killed at the end if it still runs."""
        for stream in ("stdout", "stderr"):
            rest.setdefault(stream, subprocess.PIPE)
        rest.setdefault("stdin", subprocess.DEVNULL)
        rest.setdefault("env", self.environ)
        self._running.append(subprocess.Popen([self.command, *words], **rest))
        return self._running[-1]

    def send(self, sender: str, recipient: str, *words: str, subject: str = "s", body: str = "b") -> dict[str, Any]:
        done = self("send", "--from", sender, "--to", recipient, "--subject", subject, "--body", body, *words)
        return done.answer

    def row(self, agent: str) -> dict[str, Any]:
        """The line of one agent in status."""
        [row] = self("status", "--agent", agent).answer
        return row

    def watching(self, agent: str, *words: str, **rest: Any) -> subprocess.Popen:
        """A watch that is armed."""
        process = self.start("watch", agent, *words, **rest)
        until(lambda: process.poll() is not None or armed(self.spool, agent), f"a watch of {agent} is armed")
        assert process.poll() is None, process.communicate()
        return process

    def follow(self, agent: str, steps: list[str], rounds: int = 8) -> list[list[str]]:
        """Do what `next` says, to the letter, until it says nothing but to watch; what it said each time.

        The state must not oscillate: more than `rounds` rounds is a loop.
        """
        said = [steps]
        while work := [step for step in said[-1] if " watch " not in step]:
            assert len(said) <= rounds, f"next goes round in circles: {said}"
            said.append(self(*work[0].split()[1:]).answer["next"])
        return said


def armed(spool: Path, agent: str) -> bool:
    from maildir_agents.mail.presence import armed as is_armed
    from maildir_agents.mail.spool import SpoolFiles

    return is_armed(SpoolFiles(spool), agent)


def until(condition: Callable[[], object], what: str, seconds: float = SOON) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.003)
