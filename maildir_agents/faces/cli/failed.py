"""agent-mail failed"""

from maildir_agents.errors import MailError
from maildir_agents.faces.cli.words import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "dead letters: list them, show one, put it back, delete it",
    "words": {
        "ACTION": {"choices": ("list", "show", "requeue", "purge"), "help": "list, show, requeue or purge"},
        "AGENT": {"optional": True, "help": "whose; list without it shows everybody's"},
        "ID": {"optional": True, "help": "which, for show, requeue and purge"},
    },
    "output": {
        "list: count, failed": "agent, id, file, code, reason, at, attempts, subject",
        "show: message": "the message, or null and text when it is none",
        "requeue: state, token": "back in new/ under the next token",
        "purge: purged": "gone for good",
    },
    "examples": (
        "agent-mail failed list",
        "agent-mail failed requeue worker-docs 01a22e46-7f03-77dd-b1c6-1cf7bb29957c",
    ),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs import failed

    if call["action"] == "list":
        if call["id"]:
            raise MailError("usage", "failed list takes no id", "agent-mail failed show AGENT ID")
        call.emit(failed.listed(call.spool, call["agent"]))
        return 0
    if not call["agent"] or not call["id"]:
        raise MailError("usage", f"failed {call['action']} needs AGENT and ID", usage("failed", ROW))
    act = {"show": failed.show, "requeue": failed.requeue, "purge": failed.purge}[call["action"]]
    tell = call.emit if call["action"] == "show" else call.report
    tell(act(call.spool, call["agent"], call["id"]))
    return 0
