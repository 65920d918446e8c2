"""agent-mail release"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "give a claimed message back, unacknowledged",
    "words": {
        "AGENT": {"default": "$AGENT_ID", "help": "whose mail; default AGENT_ID"},
        "HANDLE": {"help": "the claim, as claim printed it"},
    },
    "output": {"agent, id, handle, token, state": "new, or cur when it had been read; lease_lost (77) when not held"},
    "examples": ("agent-mail release worker-docs 01a22e46-7f03-77dd-b1c6-1cf7bb29957c~n1",),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs.claim import release

    call.report(release(call.spool, call["agent"], call.meant(call["handle"])))
    return 0
