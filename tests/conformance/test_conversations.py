"""conversation.tsv, row by row, by Python, the command and MCP; the shell tools leave turns alone, which is tried too.

Events that only a listener writes (blocked) are rows of tests/listener.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from conformance.adapters import Mcp, Refused, Tools
from maildir_agents import Spool
from maildir_agents.errors import MailError

SPEC = Path(__file__).parents[2] / "spool"
ROWS = [tuple(line.split("\t")) for line in (SPEC / "conversation.tsv").read_text().splitlines()[1:]]
LED = [row for row in ROWS if "blocked" not in row[:2]]


class Led:
    """A conversation of alice and bob; each event by one face, the state looked up by Python."""

    def __init__(self, face: str, spool: Path, command: str, mcp: "Mcp | None") -> None:
        self.face, self.spool, self.command, self.mcp = face, Spool(spool), command, mcp
        begun = self.spool.start_conversation(sender="alice", recipient="bob", goal="g", body="first")
        self.id, self.flight, self.turn = begun["conversation_id"], begun["message_id"], 1

    def cli(self, *words: str) -> dict:
        done = subprocess.run(
            [self.command, *words],
            env={**os.environ, "AGENT_MAIL_SPOOL": str(self.spool.root)},
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise Refused(json.loads(done.stderr)["code"])
        return json.loads(done.stdout)

    def say(self, kind: str) -> None:
        sender, recipient = (("bob", "alice"), ("alice", "bob"))[self.turn % 2 == 0]
        subject = f"turn {self.turn + 1}"
        if self.face == "command":
            told = self.cli("send", "--from", sender, "--to", recipient, "--subject", subject, "--kind", kind,
                            "--reply-to", self.flight)  # fmt: skip
        elif self.mcp:
            told = self.mcp(
                "send", sender=sender, recipient=recipient, subject=subject, kind=kind, reply_to=self.flight
            )
        else:
            told = self.spool.send(sender=sender, recipient=recipient, subject=subject, kind=kind, reply_to=self.flight)
        self.flight, self.turn = told["id"], self.turn + 1

    def happen(self, event: str) -> None:
        if event in ("task", "result"):
            self.say(event)
        elif event == "resume":  # a person's
            if self.face == "python":
                self.spool.resume_conversation(self.id, "alice")
            else:
                self.cli("conversation", "resume", self.id, "--as", "alice")
        elif self.face == "command":
            self.cli("conversation", event.replace("_", "-"), self.id, "--as", "alice")
        elif self.mcp:
            self.mcp._ask("alice", "conversation", conversation_id=self.id, action=event)
        else:
            self.spool.end_conversation(self.id, event, "alice")

    @property
    def state(self) -> str:
        return str(self.spool.conversation(self.id)["state"])


@pytest.fixture(scope="module", params=["python", "command", "mcp"])
def led(request, command, tmp_path_factory):
    place = tmp_path_factory.mktemp("led")
    Spool(place / "spool", durability="none").init()
    mcp = Mcp(place / "spool", command, place) if request.param == "mcp" else None
    yield lambda: Led(request.param, place / "spool", command, mcp)
    if mcp:
        mcp.close()


@pytest.mark.parametrize(("state", "event", "after"), LED)
def test_an_event_leads_where_the_table_says(led, state, event, after):
    conversation = led()
    if event == "task":
        conversation.say("result")  # a task answers a result
    if state != "active":
        conversation.happen(state)
    assert conversation.state == state
    conversation.happen(event)
    assert conversation.state == after


@pytest.mark.parametrize("state", ["completed", "cancelled"])
@pytest.mark.parametrize("event", ["task", "result", "cancel", "complete", "resume"])
def test_what_is_over_stays_so(led, state, event):
    assert not [row for row in ROWS if row[0] == state]
    conversation = led()
    conversation.happen({"completed": "complete", "cancelled": "cancel"}[state])
    try:
        conversation.happen(event)
    except (Refused, MailError) as error:
        assert error.code == "not_active", error
    assert conversation.state == state


@pytest.mark.needs("dash", "the shell tools run under it")
def test_the_shell_tools_give_a_turn_out_and_leave_its_end_to_others(tmp_path, repository):
    spool = Spool(tmp_path / "spool", durability="none")
    begun = spool.start_conversation(sender="alice", recipient="bob", goal="g")
    tools = Tools(tmp_path / "spool", repository / "tools", "dash")
    [message] = tools("read", agent="bob")["messages"]
    assert (message["id"], message["turn"]) == (begun["message_id"], 1)
    with pytest.raises(Refused) as refused:
        tools("ack", agent="bob", ids=[message["id"]])
    assert refused.value.code == "not_in_flight"
    with pytest.raises(Refused) as refused:
        tools("send", sender="bob", recipient="alice", subject="re", reply_to=message["id"])
    assert refused.value.code == "usage"
    assert spool.conversation(begun["conversation_id"])["state"] == "active"
    assert spool.doctor()["findings"] == []
