"""agent-mail view"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "watch the fleet: who listens, what waits, who writes to whom; changes nothing",
    "about": "q quits, Tab shows the other panel.  Without a terminal, or on a dumb one, it prints one frame.",
    "args": {
        "--once": {"help": "print one frame and return; COLUMNS and LINES set its size"},
        "--interval": {
            "value": "S",
            "type": float,
            "default": 2.0,
            "least": 0.1,
            "most": 3600,
            "help": "look again after S seconds (2) where nothing arrived",
        },
        "--panel": {
            "value": "recent|flow",
            "choices": ("recent", "flow"),
            "default": "recent",
            "help": "the lower half: the last messages, or who writes to whom",
        },
    },
    "output": {"text": "a picture for people; programs ask status"},
    "examples": ("agent-mail view", "agent-mail view --once --panel flow"),
}


def run(call: "Call") -> int:
    from maildir_agents.faces.view import show

    return show(call.spool, once=call["once"], interval=call["interval"], panel=call["panel"], environ=os.environ)
