"""How a mailbox stands, from names alone: which ids are unread, which are owed, which are claimed or dead.

An id seen in several states counts where it is furthest; a live claim hides it.  Opens no message, changes nothing.
"""

from maildir_agents.mail.mailbox import Mailbox


class Standing:
    """Sets of message ids.  `unread`: never read, and free.  `unacked`: new, read or claimed.  `live`: under a claim
    that holds.  `claimed`: all in claimed/, also those whose time is over.  `failed` counts dead letters."""

    __slots__ = ("claimed", "failed", "live", "unacked", "unread")

    def __init__(self, box: Mailbox) -> None:
        held = box.owed()
        states = {i: box.state_of(found) for i, found in held.items()}
        self.live = {i for i, state in states.items() if state == "claimed"}
        self.unread = {i for i, state in states.items() if state == "unread"}
        self.unacked = set(held)
        self.claimed = {i for i, found in held.items() if found.directory == "claimed"}
        self.failed = sum(1 for _ in box.regular("failed"))
