"""thread: any member's id gives the whole conversation on one subject, oldest first.  Changes nothing."""

from maildir_agents.mail.message import SENT, shown
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.mail.threads import members, root_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def thread(spool: SpoolFiles, message_id: str) -> "dict[str, Any]":
    """`{thread_id, count, messages}`; the messages as they were sent, with bodies."""
    root = root_of(spool, message_id)
    messages = [shown(message, SENT) for message in members(spool, root, message_id)]
    return {"thread_id": root, "count": len(messages), "messages": messages}
