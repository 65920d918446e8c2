"""agent-mail cleanup"""

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "delete threads that were acknowledged long ago; never unread, owed, failed or archived mail",
    "args": {
        "--older-than": {"value": "DAYS", "type": float, "help": "acknowledged more than DAYS ago"},
        "--as-configured": {"help": "go by retention_days in config.json"},
        "--dry-run": {"help": "only count"},
    },
    "output": {
        "older_than_days, dry_run": "as asked or configured; null: everything is kept",
        "threads, messages, broadcasts, conversations": "what went (messages: a copy a mailbox)",
    },
    "examples": ("agent-mail cleanup --older-than 30 --dry-run", "agent-mail cleanup --older-than 30"),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs.cleanup import cleanup

    if (call["older_than"] is None) != call["as_configured"]:
        raise MailError(
            "usage", "one of --older-than and --as-configured says what goes", "agent-mail cleanup --older-than DAYS"
        )
    call.report(cleanup(call.spool, call["older_than"], dry_run=call["dry_run"]))
    return 0
