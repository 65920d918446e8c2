"""agent-mail uninstall"""

from maildir_agents.faces.cli.install import ARGS, TOOLS, change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "take out what `install` put in: a coding agent's settings, unit files",
    "about": "A file that install made goes when nothing else is in it.  Mail stays where it is.",
    "words": {"TOOL": {"choices": TOOLS, "help": "claude, codex, gemini, cursor, opencode; or systemd"}},
    "args": {"--agent": {"value": "AGENT", "help": "only what is there for this one; default: whoever it is"}, **ARGS},
    "output": {
        "tool, scope": "from where",
        "files": "a path each, and whether it was changed, removed or is unchanged",
        "then": "systemd: what is left for you to do",
        "text": "with --dry-run: a unified diff, and nothing else",
    },
    "examples": ("agent-mail uninstall claude",),
}


def run(call: "Call") -> int:
    return change(call, "uninstall")
