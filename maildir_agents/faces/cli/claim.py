"""agent-mail claim"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "take a message to work on, so that no other worker of the agent does",
    "words": {
        "AGENT": {"default": "$AGENT_ID", "help": "whose mail; default AGENT_ID"},
        "ID": {
            "optional": True,
            "help": "that message; without it the oldest that is free; a handle renews that claim",
        },
    },
    "args": {
        "--lease": {
            "value": "S",
            "type": int,
            "default": 300,
            "help": "seconds it is held (300), 30 to 3600 or the nearest",
        },
        "--worker": {"value": "W", "default": "$AGENT_MAIL_WORKER", "help": "a label for people; made up if left out"},
    },
    "output": {
        "message": "the message, null when none is free",
        "handle, token, claim_expires_at, worker": "the claim: give the handle wherever an id is taken",
        "next": "the exact renew, release and ack commands",
    },
    "examples": ("agent-mail claim worker-docs", "agent-mail claim worker-docs --lease 900"),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs.claim import claim

    wanted = call.meant(call["id"]) if call["id"] is not None else None
    answer = claim(call.spool, call["agent"], wanted, lease_s=call["lease"], worker=call["worker"], mine=call.mine)
    for warning in answer.pop("warnings"):
        call.warn(warning)
    call.report(answer)
    return 0
