"""An agent's seat at its MCP server: a client with a server process of its own.  For tests; no fixture."""

import asyncio
import json
import threading
from concurrent.futures import Future
from typing import Any

import jsonschema
from mcp import Client, StdioServerParameters

import proc
from faces.program import Program

LIMIT = 60.0  # seconds that an answer may take before it counts as none


class Seat:
    """The session lives on a thread with a loop of its own, so a test is plain code and several calls can be open."""

    def __init__(self, mail: Program, agent: str, mode: str = "auto", **environ: str) -> None:
        self.agent, self._mode = agent, mode
        self._server = StdioServerParameters(
            command=mail.command,
            args=["mcp", "--agent", agent],
            env={"AGENT_MAIL_SPOOL": str(mail.spool)} | environ,
            cwd=mail.place,
        )
        self._ready: Future[Client] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._sit()), name=f"seat of {agent}")

    def __enter__(self) -> "Seat":
        before = servers()
        self._thread.start()
        self.client = self._ready.result(LIMIT)
        [self.pid] = servers() - before
        self.tools = {tool.name: tool for tool in self._wait(self.client.list_tools()).tools}
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._leave.set)
        self._thread.join(LIMIT)
        assert not self._thread.is_alive(), f"the seat of {self.agent} is still taken"

    async def _sit(self) -> None:
        self._loop, self._leave = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with Client(self._server, mode=self._mode) as client:
                self._ready.set_result(client)
                await self._leave.wait()
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    def _wait(self, answer: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(answer, self._loop).result(LIMIT)

    def begin(self, tool: str, **arguments: Any) -> "Future[Any]":
        """A call that is under way; cancelling it tells the server."""
        return asyncio.run_coroutine_threadsafe(self.client.call_tool(tool, arguments), self._loop)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.taken(tool, self.begin(tool, **arguments).result(LIMIT))

    def taken(self, tool: str, result: Any) -> dict[str, Any]:
        """The structured answer, as the tool's schema promises it, and the same as text for older clients."""
        assert not result.is_error, result.content[0].text
        jsonschema.validate(result.structured_content, self.tools[tool].output_schema)
        assert json.loads(result.content[0].text) == result.structured_content
        return result.structured_content

    def refused(self, tool: str, **arguments: Any) -> str:
        """The code of the refusal, which the model reads in the text with a sentence and a hint."""
        result = self.begin(tool, **arguments).result(LIMIT)
        assert result.is_error, result.structured_content
        text = result.content[0].text
        told = json.loads(text[text.index("{") :])
        assert told["error"]
        assert "Traceback" not in text
        return told["code"]

    def read(self, uri: str) -> dict[str, Any]:
        [content] = self._wait(self.client.read_resource(uri)).contents
        assert content.mime_type == "application/json"
        return json.loads(content.text)


def servers() -> set[int]:
    """The processes of this test run that are MCP servers."""
    return {pid for pid in proc.children() if {"mcp", "--agent"} <= set(proc.words(pid))}


def waits(pid: int) -> int:
    """How many calls wait for mail in that server: each has a doorbell, an inotify descriptor."""
    return proc.inotify_instances(pid)
