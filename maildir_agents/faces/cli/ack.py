"""agent-mail ack"""

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "say that messages have been dealt with",
    "words": {
        "AGENT": {"default": "$AGENT_ID", "help": "whose mail; default AGENT_ID"},
        "ID…": {"many": True, "help": "message ids or claim handles; one that is unknown: nothing is acknowledged"},
    },
    "args": {"--all": {"help": "everything outstanding but other workers' live claims"}},
    "output": {
        "agent, acked_at, count, message_ids": "what this call settled; settled before is no error and not counted",
        "reachable": "another process holds an armed watch for this agent",
        "next": "commands still outstanding, in the order ack, watch",
    },
    "examples": ("agent-mail ack worker-docs 01a22e46-7f03-77dd-b1c6-1cf7bb29957c", "agent-mail ack worker-docs --all"),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs.ack import ack

    ids = [call.meant(text) for text in call["id"]]
    answer = ack(call.spool, call["agent"], ids, everything=call["all"], mine=call.mine, warn=call.warn)
    try:
        call.emit(answer)
    except OSError as error:
        raise MailError(
            "receipt_lost",
            f"{answer['count']} acknowledged, but the answer could not be written: {error.strerror}",
            "they are acknowledged: acknowledging them again is harmless",
            ids=answer["message_ids"],
        ) from None
    return 0
