"""agent-mail trace"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "one message's whole life and where it is now; changes nothing",
    "words": {"ID": {"help": "its id"}},
    "output": {
        "id, sender, recipient, subject": "the message",
        "places": "agent, state and file name, now",
        "events": "at, event, agent; a line each",
    },
    "examples": ("agent-mail trace 01a22e46-7f03-77dd-b1c6-1cf7bb29957c",),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs.trace import trace

    call.emit(trace(call.spool, call["id"]))
    return 0
