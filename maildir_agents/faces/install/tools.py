"""Which files of which tool say what: a table of the five tools, in their own forms.

A part is one file and what belongs into it.  The forms are those of the tools' documentation; docs/reference/hooks.md
says with which versions they were tried.
"""

import os

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Json = dict[str, Any]

TOOLS = ("claude", "codex", "gemini", "cursor", "opencode")
HOOK_TIMEOUT_S = 10
REWAKE_TIMEOUT_S = 86400  # a day; the next turn starts it again
STARTUP_S = 30  # loading the MCP library takes a second or two, and much longer on a busy machine
SERVER = "agent-mail"
"""The name of the MCP entry in every tool's settings."""


class Words:
    """What is written: the agent, the program as a list of words, and the spool where it is not the usual one.

    `whose` is None where it is to be taken out whoever's it is.
    """

    def __init__(self, agent: str | None, program: list[str], spool: str | None) -> None:
        self.whose, self.program, self.spool = agent, program, spool
        self.agent = agent or "nobody"

    def command(self, *words: str) -> str:
        """A command line for a shell."""
        import shlex

        spool = ["--spool", self.spool] if self.spool else []
        return shlex.join([*self.program, *words, *spool])

    def hook(self, event: str, tool: str) -> str:
        dialect = [] if tool == "claude" else ["--dialect", tool]
        return self.command("hook", event, "--agent", self.agent, *dialect)

    @property
    def environment(self) -> dict[str, str]:
        return {"AGENT_ID": self.agent} | ({"AGENT_MAIL_SPOOL": self.spool} if self.spool else {})

    @property
    def server(self) -> "Json":
        return {"command": self.program[0], "args": [*self.program[1:], "mcp"], "env": self.environment}


class Entry:
    """`key: value` in the object at `path`, or (key None) `value` as an element of the array there.

    `beside`: only put in together with what is at that path, and taken out with it.
    """

    def __init__(self, path: tuple[str, ...], key: str | None, value: "Any", beside: str | None = None) -> None:
        self.path, self.key, self.value, self.beside = path, key, value, beside


class Part:
    """One file.  `form` is json, jsonc, toml or markdown; `entries` for the first two, `text` for the others."""

    def __init__(self, path: str, form: str, entries: "list[Entry] | None" = None, text: str = "") -> None:
        self.path, self.form, self.entries, self.text = path, form, entries or [], text


def parts(tool: str, scope: str, top: str, words: Words, environ: "Mapping[str, str]") -> list[Part]:
    """The files of a tool, in the repository at `top` or for the user."""
    home = environ.get("HOME") or os.path.expanduser("~")
    builders = {"claude": _claude, "codex": _codex, "gemini": _gemini, "cursor": _cursor, "opencode": _opencode}
    return builders[tool](scope == "user", top, home, words, environ)


def _hooks(events: "Mapping[str, str]", shape: "Callable[[str], dict[str, Any]]") -> list[Entry]:
    """Our entry for each of a tool's events, by our name of the event."""
    return [Entry(("hooks", name), None, shape(event)) for name, event in events.items()]


def _claude(user: bool, top: str, home: str, words: Words, environ: "Mapping[str, str]") -> list[Part]:
    own = environ.get("CLAUDE_CONFIG_DIR") or f"{home}/.claude"
    beside = environ.get("CLAUDE_CONFIG_DIR") or home
    rewake = {
        "type": "command",
        "command": words.hook("rewake", "claude"),
        "asyncRewake": True,
        "timeout": REWAKE_TIMEOUT_S,
    }
    events = {"SessionStart": "session-start", "UserPromptSubmit": "prompt", "Stop": "stop"}

    def shape(event: str) -> "dict[str, Any]":
        hook = {"type": "command", "command": words.hook(event, "claude"), "timeout": HOOK_TIMEOUT_S}
        return {"hooks": [hook, *([] if event == "prompt" else [rewake])]}

    hooks = _hooks(events, shape)
    return [
        Part(f"{own}/settings.json" if user else f"{top}/.claude/settings.json", "json", hooks),
        Part(f"{beside}/.claude.json" if user else f"{top}/.mcp.json", "json", [_server("mcpServers", words.server)]),
        Part(f"{own}/CLAUDE.md" if user else f"{top}/CLAUDE.md", "markdown", text="CLAUDE.md"),
    ]


def _codex(user: bool, top: str, home: str, words: Words, environ: "Mapping[str, str]") -> list[Part]:
    own = (environ.get("CODEX_HOME") or f"{home}/.codex") if user else f"{top}/.codex"
    events = {"SessionStart": "session-start", "UserPromptSubmit": "prompt", "Stop": "stop"}

    def shape(event: str) -> "dict[str, Any]":
        return {"hooks": [{"type": "command", "command": words.hook(event, "codex"), "timeout": HOOK_TIMEOUT_S}]}

    hooks = _hooks(events, shape)
    return [
        Part(f"{own}/hooks.json", "json", hooks),
        Part(f"{own}/config.toml", "toml", text=_toml(words)),
        Part(f"{own}/AGENTS.md" if user else f"{top}/AGENTS.md", "markdown", text="AGENTS.md"),
    ]


def _gemini(user: bool, top: str, home: str, words: Words, environ: "Mapping[str, str]") -> list[Part]:
    own = f"{home}/.gemini" if user else f"{top}/.gemini"
    events = {"SessionStart": "session-start", "BeforeAgent": "prompt", "AfterAgent": "stop"}

    def shape(event: str) -> "dict[str, Any]":
        hook = {
            "name": f"agent-mail {event}",
            "type": "command",
            "command": words.hook(event, "gemini"),
            "timeout": HOOK_TIMEOUT_S * 1000,  # milliseconds here
        }
        return {"hooks": [hook]}

    hooks = _hooks(events, shape)
    return [
        Part(f"{own}/settings.json", "jsonc", [*hooks, _server("mcpServers", words.server)]),
        Part(f"{own}/GEMINI.md" if user else f"{top}/GEMINI.md", "markdown", text="AGENTS.md"),
    ]


def _cursor(user: bool, top: str, home: str, words: Words, environ: "Mapping[str, str]") -> list[Part]:
    own = f"{home}/.cursor" if user else f"{top}/.cursor"
    events = {"sessionStart": "session-start", "beforeSubmitPrompt": "prompt", "stop": "stop"}

    def shape(event: str) -> "dict[str, Any]":
        return {"command": words.hook(event, "cursor")} | ({"loop_limit": 3} if event == "stop" else {})

    hooks = _hooks(events, shape)
    version = Entry((), "version", 1, beside="hooks")
    found = [
        Part(f"{own}/hooks.json", "json", [*hooks, version]),
        Part(f"{own}/mcp.json", "json", [_server("mcpServers", words.server)]),
    ]
    # For all of a user's sessions Cursor keeps such text in its own settings, in no file.
    return found if user else [*found, Part(f"{top}/AGENTS.md", "markdown", text="AGENTS.md")]


def _opencode(user: bool, top: str, home: str, words: Words, environ: "Mapping[str, str]") -> list[Part]:
    own = f"{environ.get('XDG_CONFIG_HOME') or f'{home}/.config'}/opencode" if user else top
    settings = f"{own}/opencode.jsonc" if os.path.exists(f"{own}/opencode.jsonc") else f"{own}/opencode.json"
    server = {
        "type": "local",
        "command": [*words.program, "mcp"],
        "environment": words.environment,
        "enabled": True,
    }
    return [
        Part(settings, "jsonc", [_server("mcp", server)]),
        Part(f"{own}/AGENTS.md", "markdown", text="AGENTS.md"),
    ]


def _server(container: str, value: "Json") -> Entry:
    return Entry((container,), SERVER, value)


def _toml(words: Words) -> str:
    def quoted(text: str) -> str:
        import json

        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

    arguments = ", ".join(map(quoted, [*words.program[1:], "mcp"]))
    variables = ", ".join(f"{name} = {quoted(value)}" for name, value in words.environment.items())
    return (
        f"[mcp_servers.{SERVER}]\ncommand = {quoted(words.program[0])}\nargs = [{arguments}]\nenv = {{ {variables} }}\n"
        f"startup_timeout_sec = {STARTUP_S}\n"
    )


# whose is what stands there


def is_our_hook(handler: object, whose: str | None = None) -> bool:
    """Whether a hook runs this program's `hook`, for the agent `whose` if that is given."""
    command = handler.get("command") if isinstance(handler, dict) else None
    words = _words(command) if isinstance(command, str) else []
    named = words[words.index("--agent") + 1 :][:1] if "--agent" in words else []
    return _runs(words, "hook") and whose in (None, *named)


def is_our_server(entry: object, whose: str | None = None) -> bool:
    """Whether an MCP entry runs this program's `mcp`, for the agent `whose` if that is given."""
    if not isinstance(entry, dict):
        return False
    command, arguments = entry.get("command"), entry.get("args", [])
    words = command if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else [])]
    variables = entry.get("env") or entry.get("environment")
    named = [variables.get("AGENT_ID")] if isinstance(variables, dict) else []
    return all(isinstance(word, str) for word in words) and _runs(words, "mcp") and whose in (None, *named)


def _words(command: str) -> list[str]:
    import shlex

    try:
        return shlex.split(command)
    except ValueError:
        return []


def _runs(words: list[str], verb: str) -> bool:
    if words[1:3] == ["-m", "maildir_agents"]:
        return words[3:4] == [verb]
    return bool(words) and os.path.basename(words[0]) == "agent-mail" and words[1:2] == [verb]


def slug(name: str) -> str:
    """A directory's name as part of an agent's.  Raises bad_agent when nothing is left of it."""
    allowed = "abcdefghijklmnopqrstuvwxyz0123456789._-"
    words = "".join(c if c in allowed else " " for c in name.lower()).split()
    text = "-".join(words).strip("-._")[:90].rstrip("-._")
    if not text:
        raise MailError("bad_agent", f"{name!r} makes no agent name", "give one: --agent NAME")
    return text
