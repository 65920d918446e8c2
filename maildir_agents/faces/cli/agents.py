"""agent-mail agents"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "the mailboxes there are, and how agents are named; changes nothing",
    "output": {"spool, agents, conventions": "agents: agent and watch_state"},
    "examples": ("agent-mail agents",),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs.agents import agents

    call.emit(agents(call.spool))
    return 0
