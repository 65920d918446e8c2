"""agent-mail status"""

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "how the mailboxes stand; changes nothing",
    "args": {
        "--agent": {"value": "AGENT", "help": "only this one; [] when nobody wrote to it yet"},
        "--project": {"value": "NAME", "help": "only agents called NAME:…"},
        "--fields": {"value": "A,B", "help": "only these fields"},
    },
    "output": {
        "agent, unread, unacked, claimed, failed": "counts; unacked = unread + read but not acknowledged + claimed",
        "watching, watch_state": "armed, released, stale (it died) or never",
        "listener, last_seen, oldest_unread": "running, disabled or none; a time; since when it waits",
    },
    "examples": ("agent-mail status", "agent-mail status --agent worker-docs --fields agent,unread"),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs.status import FIELDS, status

    chosen = tuple(part.strip() for part in call["fields"].split(",")) if call["fields"] is not None else FIELDS
    for field in chosen:
        if field not in FIELDS:
            raise MailError("bad_field", f"{field!r} is no field of status", f"fields are {', '.join(FIELDS)}")
    rows = status(call.spool, call["agent"], project=call["project"])
    call.emit([{field: row[field] for field in chosen} for row in rows])
    return 0
