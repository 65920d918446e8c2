"""One real client on a stage of its own: a repository, a HOME, a spool, a mock model, and no network but loopback.

    stage.py SCENARIO CLIENT AGENT-MAIL PLACE

Prints one JSON object of what was seen.  Started by test_real_clients.py inside a new network namespace.
"""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from mock_models import Model

NEWS = "Mail for worker-x"
KEY = "sk-ant-none-000000000000000000000000"
SOON = 60.0


class Stage:
    def __init__(self, client: str, mail: str, place: Path) -> None:
        self.client, self.mail, self.place = client, mail, place
        self.repository = place / "repository"
        (self.repository / ".git").mkdir(parents=True)
        self.home = place / "home"
        self.home.mkdir()
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        self.environ = {
            **keep,
            "PATH": f"{Path(mail).parent}:{keep['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(place),
            "TERM": "xterm-256color",
            "AGENT_MAIL_SPOOL": str(place / "spool"),
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }

    def call(self, *words: str) -> str:
        done = subprocess.run(
            [self.mail, *words], cwd=self.repository, env=self.environ, check=True, capture_output=True, text=True
        )
        return done.stdout

    def status(self, agent: str) -> dict:
        [row] = json.loads(self.call("status", "--agent", agent))
        return row

    def send(self, subject: str) -> str:
        return json.loads(self.call("send", "--from", "peer", "--to", "worker-x", "--subject", subject))["id"]

    def run(self, *words: str, seconds: float = 60) -> subprocess.CompletedProcess:
        """Run the client to its end; a status of None: it did not come to one."""
        command = [self.client, *words]
        with subprocess.Popen(
            command,
            cwd=self.repository,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as client:
            status = None
            try:
                out, err = client.communicate(timeout=seconds)
                status = client.returncode
            except subprocess.TimeoutExpired:
                os.killpg(client.pid, signal.SIGKILL)
                out, err = client.communicate()
        return subprocess.CompletedProcess(command, status, out, err)

    # Claude Code

    def claude(self, model: Model) -> None:
        """Settings that a person would have after the first start."""
        self.environ |= {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": KEY}
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(self.repository): trusted},
        }
        (self.home / ".claude.json").write_text(json.dumps(state))
        (self.home / ".claude").mkdir()
        (self.home / ".claude/settings.json").write_text(json.dumps({"enableAllProjectMcpServers": True}))

    # Codex

    def codex(self, model: Model) -> None:
        own = self.home / ".codex"
        own.mkdir()
        (own / "config.toml").write_text(
            'model = "gpt-5"\nmodel_provider = "mock"\napproval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
            f'[model_providers.mock]\nname = "mock"\nbase_url = "{model.url}/v1"\nwire_api = "responses"\n'
            'env_key = "MOCK_KEY"\n'
            f'[projects."{self.repository}"]\ntrust_level = "trusted"\n'
        )
        self.environ["MOCK_KEY"] = "none"

    # Gemini CLI

    def gemini(self, model: Model) -> None:
        own = self.home / ".gemini"
        own.mkdir()
        (own / "settings.json").write_text(
            json.dumps({
                "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
                "privacy": {"usageStatisticsEnabled": False},
                "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
            })
        )  # fmt: skip
        self.environ |= {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": model.url, "GEMINI_SANDBOX": "false"}


class Terminal:
    """An interactive client on a terminal of its own, whose output is read and forgotten but for the last bytes."""

    def __init__(self, stage: Stage, *words: str) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(stage.repository)
            os.execve(stage.client, [stage.client, *words], stage.environ)
        self.seen = b""
        self._stop = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while not self._stop.is_set():
            if select.select([self._fd], [], [], 0.1)[0]:
                try:
                    self.seen = (self.seen + os.read(self._fd, 1 << 16))[-200_000:]
                except OSError:
                    return

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())
        time.sleep(0.5)
        os.write(self._fd, b"\r")

    def end(self, how: int = signal.SIGKILL) -> None:
        try:
            os.kill(self.pid, how)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)
        self._stop.set()
        self._reader.join()
        os.close(self._fd)


def until(condition, what: str, seconds: float = SOON) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.05)


# ------------------------------------------------------------------------------------------------ scenarios


def claude_turn(stage: Stage) -> dict:
    """A headless turn with two messages waiting: what the model is told, and how often the end is held up."""
    with Model() as model:
        stage.claude(model)
        stage.call("install", "claude", "--agent", "worker-x")
        stage.send("first")
        stage.send("second")
        done = stage.run("-p", "hello", "--output-format", "json", "--model", "claude-sonnet-5")
        return _seen(done, model)


def claude_tools(stage: Stage) -> dict:
    """The model fetches its mail by MCP and acknowledges it; then nothing holds the turn up."""
    with Model() as model:
        stage.claude(model)
        stage.call("install", "claude", "--agent", "worker-x")
        sent = stage.send("by tool")
        model.rules += [
            {"sees": "hello", "tool": "mcp__agent-mail__get_messages", "input": {}},
            {"sees": "by tool", "tool": "mcp__agent-mail__mark_read", "input": {"message_ids": [sent]}},
        ]
        # So that the tools are offered at once, and the first request waits for their server.
        stage.environ |= {"ENABLE_TOOL_SEARCH": "false", "MCP_CONNECTION_NONBLOCKING": "false", "MCP_TIMEOUT": "60000"}
        done = stage.run("-p", "hello", "--model", "claude-sonnet-5", "--allowedTools", "mcp__agent-mail")
        return _seen(done, model) | {"unacked": stage.status("worker-x")["unacked"]}


def claude_rewake(stage: Stage) -> dict:
    """An interactive session that nobody types into: mail wakes it, again after a turn, and its watch ends with it."""
    seen: dict = {}
    with Model() as model:
        stage.claude(model)
        stage.call("install", "claude", "--agent", "worker-x")
        stage.call("init")
        terminal = Terminal(stage, "--model", "claude-sonnet-5")
        try:
            _watched(stage, terminal, "the session arms a watch")
            seen["before"] = len(model.texts())
            for number in (1, 2):
                begun = time.monotonic()
                stage.send(f"wake {number}")
                told = f"{number} unread"
                until(lambda told=told: any(told in text for text in model.texts()), f"the session is woken: {told}")
                seen[f"woken_{number}_s"] = round(time.monotonic() - begun, 2)
                _let_go(model)
                _watched(stage, terminal, "the watch is armed again")
            seen["texts"] = model.texts()
        except TimeoutError as error:
            seen["failed"] = str(error)
            seen["screen"] = terminal.seen[-3000:].decode(errors="replace")
            seen["texts"] = model.texts()
        finally:
            terminal.end()
        until(lambda: not stage.status("worker-x")["watching"], "the watch ends with its session", 10)
        seen["watching_after"] = stage.status("worker-x")["watching"]
    return seen


def claude_plugin(stage: Stage) -> dict:
    """The plugin, from its own marketplace: its monitor turns mail into a turn of an idle session."""
    seen: dict = {}
    with Model() as model:
        stage.claude(model)
        stage.environ["AGENT_ID"] = "worker-x"
        plugin = json.loads(stage.call("install", "claude", "--plugin"))["plugin"]
        validated = stage.run("plugin", "validate", "--strict", plugin)
        seen["validated"] = validated.returncode
        added = stage.run("plugin", "marketplace", "add", str(Path(plugin).parent))
        put = stage.run("plugin", "install", "agent-mail@maildir-agents")
        seen["added"], seen["installed"] = added.returncode, put.returncode
        seen["said"] = (added.stdout + added.stderr + put.stdout + put.stderr)[-1500:]
        stage.call("init")
        stage.send("before")
        terminal = Terminal(stage, "--model", "claude-sonnet-5")
        try:
            until(lambda: any(NEWS in text for text in model.texts()), "the monitor speaks of waiting mail")
            _watched(stage, terminal, "the monitor is an armed watch")
            before = len(model.texts())
            stage.call("read", "worker-x", "--ack")
            _let_go(model)
            stage.send("while idle")
            until(lambda: len(model.texts()) > before, "the monitor wakes the idle session")
            _let_go(model)
        except TimeoutError as error:
            seen["failed"] = str(error)
            seen["screen"] = terminal.seen[-3000:].decode(errors="replace")
        finally:
            terminal.end()
        seen["texts"] = model.texts()
        seen["tools"] = sorted({name for request in model.requests for name in request["tools"]})
        until(lambda: not stage.status("worker-x")["watching"], "the monitor ends with its session", 10)
    return seen


def codex_turn(stage: Stage) -> dict:
    """A headless turn with mail waiting: session start and prompt tell of it, the end is held up three times."""
    with Model() as model:
        stage.codex(model)
        stage.call("install", "codex", "--agent", "worker-x")
        stage.send("first")
        done = stage.run("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", "hello")
        return _seen(done, model)


def codex_tools(stage: Stage) -> dict:
    """The model fetches its mail by MCP and acknowledges it; then nothing holds the turn up."""
    with Model() as model:
        stage.codex(model)
        stage.call("install", "codex", "--agent", "worker-x")
        sent = stage.send("by tool")
        model.rules += [
            {"sees": "hello", "tool": "get_messages", "input": {}},
            {"sees": "by tool", "tool": "mark_read", "input": {"message_ids": [sent]}},
        ]
        done = stage.run("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", "hello")
        return _seen(done, model) | {"unacked": stage.status("worker-x")["unacked"]}


def gemini_turn(stage: Stage) -> dict:
    """A headless turn with mail waiting."""
    with Model() as model:
        stage.gemini(model)
        stage.call("install", "gemini", "--agent", "worker-x")
        stage.send("first")
        return _seen(stage.run("-p", "hello", "-m", "gemini-2.5-pro", "-o", "json"), model)


def gemini_tools(stage: Stage) -> dict:
    """The model fetches its mail by MCP and acknowledges it; then nothing holds the turn up."""
    with Model() as model:
        stage.gemini(model)
        stage.call("install", "gemini", "--agent", "worker-x")
        sent = stage.send("by tool")
        model.rules += [
            {"sees": "hello", "tool": "get_messages", "input": {}},
            {"sees": "by tool", "tool": "mark_read", "input": {"message_ids": [sent]}},
        ]
        done = stage.run("-p", "hello", "-m", "gemini-2.5-pro", "-o", "json", "--approval-mode", "yolo")
        return _seen(done, model) | {"unacked": stage.status("worker-x")["unacked"]}


def _seen(done: subprocess.CompletedProcess, model: Model) -> dict:
    tools = model.requests[-1]["tools"] if model.requests else []
    said = {"out": done.stdout[-2000:], "err": done.stderr[-2000:]}
    return {"status": done.returncode, "texts": model.texts(), "tools": tools, **said}


def _watched(stage: Stage, terminal: Terminal, what: str) -> None:
    def armed() -> bool:
        rows = json.loads(stage.call("status", "--agent", "worker-x"))
        return bool(rows) and rows[0]["watching"]

    until(armed, what)


def _let_go(model: Model) -> None:
    """Wait until the session has been quiet for a while: the turn is over, and all that it was held up for."""
    last, since = len(model.requests), time.monotonic()
    while time.monotonic() - since < 4:
        if len(model.requests) != last:
            last, since = len(model.requests), time.monotonic()
        time.sleep(0.1)


SCENARIOS = {
    function.__name__: function
    for function in (
        claude_turn,
        claude_tools,
        claude_rewake,
        claude_plugin,
        codex_turn,
        codex_tools,
        gemini_turn,
        gemini_tools,
    )
}


def main() -> None:
    scenario, client, mail, place = sys.argv[1:]
    stage = Stage(client, mail, Path(place))
    print(json.dumps(SCENARIOS[scenario](stage)))
    shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
