"""The server as a process: what stands on its pipes, how it ends, and when it does not start."""

import json
import shlex
import subprocess
from typing import Any

import pytest

from faces.mcp.seat import LIMIT, waits
from faces.program import Program, until


class Wire:
    """A server without a client's library in between: one JSON-RPC message a line."""

    def __init__(self, mail: Program, agent: str) -> None:
        self.process = mail.start("mcp", "--agent", agent, stdin=subprocess.PIPE)
        self.tell(
            "initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "0"}
        )
        assert self.hear()["result"]["protocolVersion"] == "2025-06-18"
        self.tell("notifications/initialized")

    def tell(self, method: str, number: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number else {})
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        return protocol(self.process.stdout.readline())

    def hang_up(self) -> tuple[int, bytes, bytes]:
        """Its exit status after the end of its input, long before a call that waits is over, and what it still said."""
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


def protocol(line: bytes) -> dict[str, Any]:
    said = json.loads(line)
    assert said["jsonrpc"] == "2.0"
    return said


def test_nothing_but_protocol_on_standard_output_and_an_end_with_the_input(quick):
    quick.send("hub", "crew")
    (quick.spool / "agents/crew/new/foreign.json").write_text("no message", encoding="utf-8")
    wire = Wire(quick, "crew")
    wire.tell("tools/call", 2, name="get_messages", arguments={})
    assert wire.hear()["result"]["structuredContent"]["count"] == 1
    wire.tell("tools/call", 3, name="no_such_tool", arguments={})
    wire.tell("tools/call", 4, name="get_messages", arguments={"limit": "many"})
    wire.tell("no/such/method", 5)
    assert sorted(wire.hear()["id"] for _ in range(3)) == [3, 4, 5]
    status, out, err = wire.hang_up()
    assert status == 0
    assert out == b""
    assert b"Traceback" not in err


def test_the_end_of_input_ends_a_wait_too(quick):
    wire = Wire(quick, "crew")
    wire.tell("tools/call", 2, name="get_messages", arguments={"wait_seconds": 30})
    until(lambda: waits(wire.process.pid), "the call waits")
    status, out, err = wire.hang_up()
    assert status == 0
    for line in out.splitlines():
        protocol(line)
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [((), "usage", 64), (("--agent", ""), "usage", 64), (("--agent", "Not A Name"), "bad_agent", 64)],
)
def test_without_an_identity_it_does_not_start(quick, words, code, status):
    done = quick("mcp", *words)
    assert (done.refusal["code"], done.status) == (code, status)


def test_a_place_that_is_no_spool_is_told_at_the_start(quick):
    (quick.spool / "spool.json").write_text("{}", encoding="utf-8")
    assert quick("mcp", "--agent", "crew").refusal["code"] in ("not_a_spool", "newer_format")


def test_the_identity_may_come_from_the_environment(quick):
    quick.environ["AGENT_ID"] = "crew"
    process = quick.start("mcp", stdin=subprocess.PIPE)
    out, _ = process.communicate(b"", timeout=LIMIT)
    assert (process.returncode, out) == (0, b"")


def test_without_its_extra_it_says_what_to_install(quick, tmp_path):
    absent = tmp_path / "absent" / "mcp"
    absent.mkdir(parents=True)
    (absent / "__init__.py").write_text("raise ModuleNotFoundError('none', name='mcp')\n", encoding="utf-8")
    quick.environ["PYTHONPATH"] = str(absent.parent)
    refusal = quick("mcp", "--agent", "crew").refusal
    assert refusal["code"] == "missing_extra"
    python, *rest = shlex.split(refusal["hint"])
    assert rest == ["-m", "pip", "install", "maildir-agents[mcp]"]
    asked = [python, "-c", "import maildir_agents; print(maildir_agents.__file__)"]
    assert "maildir_agents" in subprocess.run(asked, capture_output=True, text=True, check=True).stdout, "the one here"
    assert quick("status").answer is not None, "the other commands need no extra"
