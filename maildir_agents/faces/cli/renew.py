"""agent-mail renew"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "hold a claim for longer, from now",
    "words": {
        "AGENT": {"default": "$AGENT_ID", "help": "whose mail; default AGENT_ID"},
        "HANDLE": {"help": "the claim, as claim printed it"},
    },
    "args": {
        "--lease": {
            "value": "S",
            "type": int,
            "default": 300,
            "help": "seconds from now (300), 30 to 3600 or the nearest",
        }
    },
    "output": {
        "agent, id, handle, token, claim_expires_at": "the claim now; lease_lost (77) when it is held no longer"
    },
    "examples": ("agent-mail renew worker-docs 01a22e46-7f03-77dd-b1c6-1cf7bb29957c~n1",),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs.claim import renew

    call.report(renew(call.spool, call["agent"], call.meant(call["handle"]), lease_s=call["lease"]))
    return 0
