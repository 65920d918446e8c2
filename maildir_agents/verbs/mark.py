"""mark: say of one message that it was read, by somebody who was shown it elsewhere (a page, a client of HTTP).

`read` marks what it prints.  A server cannot know whether its answer was taken, so it peeks, and whoever was shown
the message says so by its id.
"""

from maildir_agents.mail.founding import ensure_mailbox
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.mending import expire
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.name import canonical, stamp
from maildir_agents.mail.settle import TRIES, resolve, restless
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def mark_read(spool: SpoolFiles, agent: str, message_id: str) -> "dict[str, Any]":
    """`{agent, id, changed}`; what was read, acknowledged or put away before is no error and stays as it is.

    Raises unknown_id, not_yours, dead_letter, or claimed while another works on it.
    """
    box = Mailbox(spool, agent_name(agent))
    wanted = canonical(message_id)
    ensure_mailbox(spool, agent)
    expire(box)
    for _ in range(TRIES):
        [found] = resolve(box, [(wanted, None)])
        if found.directory != "new":
            return {"agent": box.agent, "id": wanted, "changed": False}
        if _moved(box, found):
            spool.note(box.agent, "read", ids=[wanted])
            return {"agent": box.agent, "id": wanted, "changed": True}
    raise restless(wanted)


def _moved(box: Mailbox, found: Found) -> bool:
    return box.move("read", found, r=stamp(box.spool.clock.wall_ms())) is not None
