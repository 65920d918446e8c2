"""agent-mail install"""

import os
import sys

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

TOOLS = ("claude", "codex", "gemini", "cursor", "opencode", "systemd")
ARGS: "dict[str, Any]" = {
    "--project": {"help": "the settings of this repository (default)"},
    "--user": {"help": "your own settings, for all repositories; needs --agent"},
    "--system": {"help": "systemd: the units of the machine; otherwise those of your own manager"},
    "--dry-run": {"help": "show the difference, write nothing"},
}
ROW: "dict[str, Any]" = {
    "summary": "write hooks, MCP entry and session protocol into a coding agent's settings; unit files for systemd",
    "about": "Everything else in those files stays byte for byte; `uninstall` takes it out again.  A file that "
    "can't be read is left alone, and then nothing is written at all.",
    "words": {"TOOL": {"choices": TOOLS, "help": "claude, codex, gemini, cursor, opencode; or systemd"}},
    "args": {
        "--agent": {"value": "AGENT", "help": "who the sessions are; default worker-REPOSITORY"},
        **ARGS,
        "--command": {"value": "NAME", "help": "how settings name this program; default: its absolute path"},
        "--plugin": {"help": "claude: write nothing, say where the plugin lies and how it is added"},
    },
    "output": {
        "tool, agent, scope": "for whom",
        "files": "a path each, and whether it was made, changed, removed or is unchanged",
        "then": "what is left for you to do",
        "text": "with --dry-run: a unified diff, and nothing else",
    },
    "examples": (
        "agent-mail install claude --agent worker-docs",
        "agent-mail install codex --user --agent me --dry-run",
        "agent-mail install systemd --dry-run",
    ),
}


def run(call: "Call") -> int:
    if call["plugin"]:
        return _plugin(call)
    return change(call, "install")


def change(call: "Call", verb: str) -> int:
    """Carry out `verb`, or show what it would do."""
    from maildir_agents.faces.install import work
    from maildir_agents.faces.install.tools import Words
    from maildir_agents.mail.name import agent as agent_name
    from maildir_agents.mail.spool import locate

    if call["tool"] == "systemd":
        return _units(call, verb)
    if call["system"]:
        raise MailError("usage", "--system is for systemd", "give --project or --user")
    if call["project"] and call["user"]:
        raise MailError("usage", "--project and --user are two places", "give one of them")
    scope, top = "user" if call["user"] else "project", _top(bool(call["user"]))
    agent = agent_name(call["agent"]) if call["agent"] is not None else None
    if verb == "install" and agent is None:
        if scope == "user":
            raise MailError("usage", "all your sessions would be one agent", "with --user, name it: --agent NAME")
        agent = agent_name(work.default_agent(top))
    spool, source = locate(call["spool"], os.environ)
    program = work.program(sys.argv[0], call.arguments.get("command"))
    words = Words(agent, program, None if source == "default" else spool)
    planned = work.changes(verb, call["tool"], scope, top, words, os.environ)
    if call["dry_run"]:
        from maildir_agents.faces.cli import write

        write(1, "".join(work.difference(planned)).encode("utf-8"))
        return 0
    work.carry_out(planned)
    then = {"then": work.THEN[call["tool"]]} if verb == "install" else {}
    named = {"agent": agent} if agent else {}
    call.emit({"tool": call["tool"], **named, "scope": scope, "files": work.told(planned), **then})
    return 0


def _top(user: bool) -> str:
    """The repository that we stand in; "" where its directory is gone and none is needed."""
    from maildir_agents.faces.install import work

    try:
        return work.top_of(os.getcwd())
    except FileNotFoundError:
        if user:
            return ""
        raise MailError("usage", "the current directory is gone", "go to the repository, or give --user") from None


def _units(call: "Call", verb: str) -> int:
    from maildir_agents.faces.install import work
    from maildir_agents.faces.install.plan import Change
    from maildir_agents.verbs import units

    for name in ("project", "agent", "command", "plugin"):
        if call.arguments.get(name):
            raise MailError("usage", f"--{name} says nothing to systemd", f"agent-mail {verb} systemd [--system]")
    scope = "system" if call["system"] else "user"
    if call["dry_run"]:
        planned = units.planned(os.environ, scope=scope, remove=verb == "uninstall")
        from maildir_agents.faces.cli import write

        write(1, "".join(work.difference([Change(*files) for files in planned])).encode("utf-8"))
        return 0
    carry_out = units.install_units if verb == "install" else units.uninstall_units
    done = carry_out(os.environ, scope=scope)
    call.emit({"tool": "systemd", "scope": scope, "files": done["files"], "then": done["next"]})
    return 0


def _plugin(call: "Call") -> int:
    from importlib.resources import files

    if call["tool"] != "claude":
        raise MailError("usage", "the plugin is Claude Code's", "agent-mail install claude --plugin")
    from maildir_agents.faces.cli import quoted

    place = str(files("maildir_agents") / "_plugin")
    call.emit(
        {
            "tool": "claude",
            "plugin": f"{place}/agent-mail",
            "then": [
                "say who the sessions are: AGENT_ID in the environment, or under env in .claude/settings.json",
                f"for one session: claude --plugin-dir {quoted(f'{place}/agent-mail')}",
                f"for all: claude plugin marketplace add {quoted(place)}",
                "and then: claude plugin install agent-mail@maildir-agents",
            ],
        }
    )
    return 0
