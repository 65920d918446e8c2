"""status: how every mailbox stands, from names alone; it opens no message and changes nothing."""

import os

from maildir_agents.disk.guard import holder
from maildir_agents.disk.listing import names
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.name import is_agent, iso, ms_of
from maildir_agents.mail.presence import ARMED, last_seen_ms, watch_state
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.mail.standing import Standing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FIELDS = (
    "agent",
    "unread",
    "unacked",
    "claimed",
    "failed",
    "watching",
    "watch_state",
    "listener",
    "last_seen",
    "oldest_unread",
)


def status(spool: SpoolFiles, agent: str | None = None, *, project: str | None = None) -> "list[dict[str, Any]]":
    """A dict for each mailbox with the keys of FIELDS; [] for an agent nobody wrote to.

    unread: never read, and free or its claim over.  unacked: new, read or claimed.  `listener` is running, disabled or
    none; `last_seen` and `oldest_unread` (since when the oldest unread message waits) are RFC 3339, or None.
    """
    wanted = [agent_name(agent)] if agent is not None else [name for name in names(spool.agents) if is_agent(name)]
    if project is not None:
        agent_name(project)
        wanted = [name for name in wanted if name.startswith(f"{project}:")]
    return [row(Mailbox(spool, name)) for name in wanted if os.path.isdir(spool.box(name))]


def row(box: Mailbox) -> "dict[str, Any]":
    """One mailbox: an id seen in several states counts where it is furthest."""
    standing = Standing(box)
    oldest = min(map(ms_of, standing.unread), default=None)
    state = watch_state(box.spool, box.agent)
    seen = last_seen_ms(box.spool, box.agent)
    return {
        "agent": box.agent,
        "unread": len(standing.unread),
        "unacked": len(standing.unacked),
        "claimed": len(standing.live),
        "failed": standing.failed,
        "watching": state == ARMED,
        "watch_state": state,
        "listener": _listener(box),
        "last_seen": iso(seen) if seen is not None else None,
        "oldest_unread": iso(oldest) if oldest is not None else None,
    }


def _listener(box: Mailbox) -> str:
    if os.path.lexists(f"{box.path}/listener.disabled"):
        return "disabled"
    return "running" if holder(f"{box.path}/listener.lock") is not None else "none"
