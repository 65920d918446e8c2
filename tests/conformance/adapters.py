"""The implementations under one set of verbs: Python, the command, the shell tools, MCP, and any third program.

A verb takes keywords and answers a dict; a refusal is `Refused` with its code.  `verbs` names those that an
implementation has.  What a verb did to the files is not asked of it: the tests look.
"""

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from faces.mcp.seat import Seat
from faces.program import Program
from maildir_agents import Spool
from maildir_agents.errors import MailError

LIMIT = 200.0  # seconds a verb may take before it counts as hanging
CORE = frozenset(("send", "read", "claim", "renew", "release", "ack"))
Answer = dict[str, Any]


class Refused(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Implementation:
    verbs = CORE

    def __init__(self, spool: Path) -> None:
        self.spool = spool

    def __call__(self, verb: str, **request: Any) -> Answer:
        """Carry out a verb; see docs/how-to/prove-an-implementation.md for requests and answers."""
        assert verb in self.verbs, verb
        answer: Answer = getattr(self, verb)(**request)
        return answer

    def close(self) -> None:
        pass


class Python(Implementation):
    verbs = CORE | {"archive", "requeue"}

    def __call__(self, verb: str, **request: Any) -> Answer:
        try:
            return super().__call__(verb, **request)
        except MailError as error:
            raise Refused(error.code) from error

    @property
    def opened(self) -> Spool:
        return Spool(self.spool)

    def send(self, **request: Any) -> Answer:
        return self.opened.send(**request)

    def read(self, agent: str) -> Answer:
        with self.opened.read(agent, limit=1000) as batch:
            pass
        return batch.answer

    def claim(self, agent: str, id: str) -> Answer:
        return self.opened.claim(agent, id)

    def renew(self, agent: str, handle: str) -> Answer:
        return self.opened.renew(agent, handle)

    def release(self, agent: str, handle: str) -> Answer:
        return self.opened.release(agent, handle)

    def ack(self, agent: str, ids: list[str]) -> Answer:
        return {"ids": self.opened.ack(agent, ids)["message_ids"]}

    def archive(self, agent: str, ids: list[str]) -> Answer:
        return {"ids": self.opened.archive(agent, ids)["message_ids"]}

    def requeue(self, agent: str, id: str) -> Answer:
        return self.opened.failed_requeue(agent, id)


class Command(Implementation):
    verbs = CORE | {"archive", "requeue"}

    def __init__(self, spool: Path, command: str) -> None:
        super().__init__(spool)
        self._command = command

    def _run(self, *words: str, body: str | None = None) -> Answer:
        done = subprocess.run(
            [self._command, *words],
            env={**os.environ, "AGENT_MAIL_SPOOL": str(self.spool)},
            input=(body or "").encode(),
            capture_output=True,
            check=False,
            timeout=LIMIT,
        )
        if done.returncode:
            raise Refused(json.loads(done.stderr)["code"])
        answer: Answer = json.loads(done.stdout)
        return answer

    def send(self, sender: str, recipient: str, subject: str, body: str = "", **rest: Any) -> Answer:
        words = ["send", "--from", sender, "--to", recipient, "--subject", subject, "--body-file", "-"]
        for name, value in rest.items():
            for each in value if name == "refs" else [value]:
                words += ["--ref" if name == "refs" else f"--{name.replace('_', '-')}", each]
        return self._run(*words, body=body)

    def read(self, agent: str) -> Answer:
        return self._run("read", agent, "--limit", "1000")

    def claim(self, agent: str, id: str) -> Answer:
        return self._run("claim", agent, id)

    def renew(self, agent: str, handle: str) -> Answer:
        return self._run("renew", agent, handle)

    def release(self, agent: str, handle: str) -> Answer:
        return self._run("release", agent, handle)

    def ack(self, agent: str, ids: list[str]) -> Answer:
        return {"ids": self._run("ack", agent, *ids)["message_ids"]}

    def archive(self, agent: str, ids: list[str]) -> Answer:
        return {"ids": self._run("archive", agent, *ids)["message_ids"]}

    def requeue(self, agent: str, id: str) -> Answer:
        return self._run("failed", "requeue", agent, id)


class Tools(Implementation):
    """The shell tools, under one of the shells."""

    def __init__(self, spool: Path, tools: Path, *shell: str) -> None:
        super().__init__(spool)
        self._tools, self._shell = tools, shell

    def _run(self, tool: str, *words: str, body: str = "") -> list[str]:
        done = subprocess.run(
            [*self._shell, str(self._tools / f"spool-{tool}"), *words],
            env={**os.environ, "AGENT_MAIL_SPOOL": str(self.spool)},
            input=body.encode(),
            capture_output=True,
            check=False,
            timeout=LIMIT,
        )
        if done.returncode:
            raise Refused(done.stderr.decode().splitlines()[-1].split(": ")[1])
        return done.stdout.decode().splitlines() if tool != "read" else done.stdout.decode().split("\n")[:-1]

    def send(self, sender: str, recipient: str, subject: str, body: str = "", **rest: Any) -> Answer:
        words = ["--from", sender, "--to", recipient, "--subject", subject, "--body-file", "-"]
        for name, value in rest.items():
            for each in value if name == "refs" else [value]:
                words += ["--ref" if name == "refs" else f"--{name.replace('_', '-')}", each]
        [sent] = self._run("send", *words, body=body)
        return {"id": sent}

    def read(self, agent: str) -> Answer:
        return {"messages": [json.loads(line) for line in self._run("read", "--json", "--limit", "1000", agent)]}

    def claim(self, agent: str, id: str) -> Answer:
        return self._claim(*self._run("claim", agent, id))

    def renew(self, agent: str, handle: str) -> Answer:
        return self._claim(*self._run("renew", "--as", agent, handle))

    def _claim(self, path: str) -> Answer:
        message_id, *stamps = Path(path).name.removesuffix(".json").split("~")
        return {"handle": f"{message_id}~{next(stamp for stamp in stamps if stamp[0] == 'n')}"}

    def release(self, agent: str, handle: str) -> Answer:
        self._run("release", "--as", agent, handle)
        return {}

    def ack(self, agent: str, ids: list[str]) -> Answer:
        return {"ids": [Path(path).name[:36] for path in self._run("ack", "--as", agent, *ids)]}


class Mcp(Implementation):
    """One server an agent.  Its `get_messages` marks nothing, and it knows claims by their ids."""

    verbs = frozenset(("send", "look", "claim", "release", "ack", "archive"))

    def __init__(self, spool: Path, command: str, place: Path) -> None:
        super().__init__(spool)
        self._stack = ExitStack()
        self._program = Program(command, place)
        self._program.spool = spool
        self._program.environ["AGENT_MAIL_SPOOL"] = str(spool)
        self._seats = {agent: self._stack.enter_context(Seat(self._program, agent)) for agent in ("alice", "bob")}

    def close(self) -> None:
        self._stack.close()

    def _ask(self, agent: str, tool: str, **words: Any) -> Answer:
        seat = self._seats[agent]
        result = seat.begin(tool, **words).result(LIMIT)
        if result.is_error:
            text = result.content[0].text
            raise Refused(json.loads(text[text.index("{") :])["code"])
        return seat.taken(tool, result)

    def send(self, sender: str, recipient: str, subject: str, body: str = "", **rest: Any) -> Answer:
        return self._ask(sender, "send_message", to_agent=recipient, subject=subject, body=body, **rest)

    def look(self, agent: str) -> Answer:
        found = self._ask(agent, "get_messages", limit=100)["messages"]
        names = {"from_agent": "sender", "to_agent": "recipient", "created_at": "created"}
        return {"messages": [{names.get(key, key): value for key, value in one.items()} for one in found]}

    def claim(self, agent: str, id: str) -> Answer:
        return self._ask(agent, "claim_message", message_id=id)

    def release(self, agent: str, handle: str) -> Answer:
        return self._ask(agent, "release_message", message_id=handle[:36])

    def ack(self, agent: str, ids: list[str]) -> Answer:
        return {"ids": self._ask(agent, "mark_read", message_ids=[text[:36] for text in ids])["acknowledged"]}

    def archive(self, agent: str, ids: list[str]) -> Answer:
        return self._ask(agent, "archive_message", message_id=ids[0])


class Third(Implementation):
    """A program of anybody's: `PROGRAM VERB` takes a JSON object on standard input and answers one."""

    def __init__(self, spool: Path, program: str) -> None:
        super().__init__(spool)
        self._program = program

    @classmethod
    def asked(cls, program: str) -> frozenset[str]:
        """The verbs that the program says it has."""
        return frozenset(cls(Path("/nowhere"), program)._run("verbs")["verbs"])

    def _run(self, verb: str, **request: Any) -> Answer:
        done = subprocess.run(
            [self._program, verb],
            env={**os.environ, "AGENT_MAIL_SPOOL": str(self.spool)},
            input=json.dumps(request).encode(),
            capture_output=True,
            check=False,
            timeout=LIMIT,
        )
        if done.returncode:
            raise Refused(json.loads(done.stderr)["code"])
        answer: Answer = json.loads(done.stdout)
        return answer

    def __call__(self, verb: str, **request: Any) -> Answer:
        return self._run(verb, **request)
