"""agent-mail archive"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "put messages away: kept, neither unread nor unacknowledged afterwards",
    "words": {
        "AGENT": {"default": "$AGENT_ID", "help": "whose mail; default AGENT_ID"},
        "ID…": {"many": True, "help": "message ids or claim handles; one that is unknown: nothing is archived"},
    },
    "output": {
        "agent, archived_at, count, message_ids": "what this call put away; put away before is not counted",
        "reachable": "another process holds an armed watch for this agent",
        "next": "commands still outstanding, in the order ack, watch",
    },
    "examples": ("agent-mail archive worker-docs 01a22e46-7f03-77dd-b1c6-1cf7bb29957c",),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs.ack import archive

    call.report(archive(call.spool, call["agent"], [call.meant(text) for text in call["id"]], mine=call.mine))
    return 0
