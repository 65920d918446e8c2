"""agent-mail read"""

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "show unread messages, oldest first, and mark them read once the output was taken",
    "words": {"AGENT": {"default": "$AGENT_ID", "help": "whose mail; default AGENT_ID"}},
    "args": {
        "--all": {"help": "everything kept, not only unread: the newest N, oldest first"},
        "--unacked": {"help": "what is not acknowledged yet, read or not: for whoever takes up again"},
        "--from": {"value": "AGENT", "help": "only from this sender"},
        "--thread": {"value": "ID", "help": "only the thread of this message"},
        "--limit": {"value": "N", "type": int, "least": 1, "default": 20, "help": "at most N messages (20)"},
        "--fields": {"value": "A,B", "help": "only these fields of each message"},
        "--no-mark-read": {"help": "look only: change nothing"},
        "--ack": {"help": "acknowledge what is shown; only where reading is the work"},
        "--max-bytes": {
            "value": "N",
            "type": int,
            "least": 1,
            "help": "stop before the bodies exceed N bytes (one is always shown)",
        },
    },
    "output": {
        "agent, messages, count": "the messages shown",
        "reachable": "another process holds an armed watch for this agent",
        "next": "commands still outstanding, in the order read, ack, watch",
    },
    "examples": ("agent-mail read worker-docs", "agent-mail read worker-docs --all --fields id,sender,subject"),
}


def run(call: "Call") -> int:
    from maildir_agents.mail.message import PUBLIC, fields
    from maildir_agents.verbs.read import Reading

    chosen = fields(call["fields"]) if call["fields"] is not None else PUBLIC
    with Reading(
        call.spool,
        call["agent"],
        everything=call["all"],
        unacked=call["unacked"],
        sender=call["from"],
        thread=call["thread"],
        limit=call["limit"],
        fields=chosen,
        mark=not call["no_mark_read"],
        ack=call["ack"],
        max_bytes=call["max_bytes"],
        mine=call.mine,
    ) as batch:
        try:
            call.emit(batch.answer)
        except OSError as error:
            raise MailError(
                "output_lost",
                f"the output could not be written ({error.strerror}); nothing was marked read",
                f"agent-mail read {call['agent']} shows it again",
            ) from None
    for warning in batch.warnings:
        call.warn(warning)
    if batch.trouble is None:
        return 0
    if call["ack"]:
        raise MailError(
            "shown_not_acknowledged",
            f"shown, but not acknowledged: {batch.trouble.sentence}",
            f"agent-mail ack {call['agent']} --all",
        )
    call.warn(
        {
            "warning": f"shown, but not marked read (it will be shown again): {batch.trouble.sentence}",
            "code": batch.trouble.code,
        }
    )
    return 0
