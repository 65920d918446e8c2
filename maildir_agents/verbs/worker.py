"""Worker: one life of a process that claims message after message for an agent, and keeps the list it works through.

It lists the mailbox once and goes through that list, oldest first; only when it is used up does it list again, so
"nothing there" is always said after a fresh look.  A name that others took meanwhile is simply gone.
"""

from maildir_agents.errors import MailError
from maildir_agents.mail.claim import available, held, take, worker_name
from maildir_agents.mail.claim import release as release_claim
from maildir_agents.mail.claim import renew as renew_claim
from maildir_agents.mail.founding import ensure_mailbox
from maildir_agents.mail.intake import Unread
from maildir_agents.mail.lease import DEFAULT
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.mending import collect, expire
from maildir_agents.mail.message import shown
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.name import handle
from maildir_agents.mail.reading import as_seen
from maildir_agents.mail.settle import settle
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from maildir_agents.mail.message import Json


class Claim:
    """A message held: `message` (its public fields), `handle`, `token`."""

    __slots__ = ("found", "message")

    def __init__(self, found: Found, message: "Json") -> None:
        self.found = found
        self.message: dict[str, Any] = shown(as_seen(message, found.name))

    @property
    def token(self) -> int:
        return self.found.name.token

    @property
    def handle(self) -> str:
        return handle(self.found.id, self.token)


class Worker:
    """Claims for `agent`, `lease_s` seconds at a time (30..3600).  `name` is a label for people."""

    def __init__(self, spool: SpoolFiles, agent: str, *, name: str | None = None, lease_s: int = DEFAULT) -> None:
        self._box = Mailbox(spool, agent_name(agent))
        self._asked, self._lease_s = name, lease_s
        self._list: Iterator[tuple[Found, Json]] = iter(())
        self._mine: set[tuple[str, int]] = set()  # what this worker holds, and does not expire under its own hands
        self.warnings: list[dict[str, str]] = []

    def claim(self) -> Claim | None:
        """The oldest free message, claimed; None when a fresh look finds none."""
        tried: set[tuple[str, str]] = set()
        found = self._next()
        while found is None:
            fresh = [pair for pair in self._look() if pair not in tried]
            if not fresh:
                return None
            tried.update(fresh)
            free = Unread(self._box, mend=True, candidates=fresh)
            self.warnings, self._list = free.warnings, iter(free)
            found = self._next()
        return found

    def _next(self) -> Claim | None:
        label = worker_name(self._box.spool.randomness(6), self._asked)
        for found, message in self._list:
            if taken := take(self._box, found, self._lease_s, label):
                claim = Claim(taken, message)
                self._mine.add((taken.id, claim.token))
                return claim
        return None

    def _look(self) -> list[tuple[str, str]]:
        ensure_mailbox(self._box.spool, self._box.agent)
        collect(self._box)
        expire(self._box, frozenset(self._mine))
        return available(self._box)

    def ack(self, claim: Claim) -> None:
        """Acknowledge, durably.  Raises lease_lost when the claim is no longer held."""
        self._mine.discard((claim.found.id, claim.token))
        settled = settle(self._box, claim.found, claim.token, "ack")
        self._box.sync([settled or claim.found])
        self._box.spool.note(self._box.agent, "acknowledged", ids=[claim.found.id])

    def renew(self, claim: Claim) -> None:
        """Hold it for another `lease_s` seconds from now.  Raises lease_lost."""
        claim.found = renew_claim(self._box, claim.found.id, claim.token, self._lease_s)

    def release(self, claim: Claim) -> None:
        """Give it back, unacknowledged.  Raises lease_lost."""
        self._mine.discard((claim.found.id, claim.token))
        release_claim(self._box, claim.found.id, claim.token)

    def holds(self, claim: Claim) -> bool:
        """Whether the claim is held still: to be asked before what cannot be undone."""
        try:
            held(self._box, claim.found.id, claim.token)
            return True
        except MailError:
            return False
