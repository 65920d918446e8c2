"""agents: the mailboxes there are, and the conventions for naming one.  Changes nothing."""

from maildir_agents.disk.listing import names
from maildir_agents.mail.name import is_agent
from maildir_agents.mail.presence import watch_state
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONVENTIONS = {
    "worker-<repository>": "a session that works in a repository",
    "state-hub": "one fixed name for a hub that keeps the overview",
    "<project>:<name>": "where projects share a spool",
    "*": "everybody but the sender (broadcast means the same)",
}


def agents(spool: SpoolFiles) -> "dict[str, Any]":
    """`{spool, agents: [{agent, watch_state}], conventions}`."""
    known = [name for name in names(spool.agents) if is_agent(name)]
    return {
        "spool": spool.root,
        "agents": [{"agent": name, "watch_state": watch_state(spool, name)} for name in known],
        "conventions": CONVENTIONS,
    }
