"""owed: what an agent still owes its mailbox, in numbers.  Reads names, opens a few messages, changes nothing.

It is asked before every turn of a session, mostly for nothing, so a mailbox without mail costs three listings.
Numbers and times only: nothing that a message says.
"""

from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.name import life, ms_of
from maildir_agents.mail.spool import SpoolFiles

OPENED = 20  # the oldest of each kind are looked into; what lies behind them is counted by name, as `watch` does


class Owed:
    """`unread`: never read and free.  `kept`: read, not acknowledged, free.  `oldest_s`: age of the oldest unread in
    seconds, None without any.  `names`: the file names of the unread ones."""

    __slots__ = ("kept", "names", "oldest_s", "unread")

    def __init__(self, unread: int, kept: int, oldest_s: int | None, names: list[str]) -> None:
        self.unread = unread
        self.kept = kept
        self.oldest_s = oldest_s
        self.names = names

    @property
    def news(self) -> list[str]:
        """Each unread message as a piece of news: mail that a worker gave back is news again."""
        return [life(text) for text in self.names]

    def __bool__(self) -> bool:
        return bool(self.unread or self.kept)


def owed(spool: SpoolFiles, agent: str) -> Owed:
    """What `agent` could read or acknowledge now; claims that hold are their holders' and count for nothing.

    What is no message, or cannot be read, is not owed: no command of the agent would make it go away.
    """
    box = Mailbox(spool, agent_name(agent))
    # All of it as it stood then: what moved on before it was opened counts where it was seen, and nowhere else.
    places = sorted(box.owed().values(), key=lambda found: found.id)
    if not places:
        return Owed(0, 0, None, [])
    from maildir_agents.mail.intake import Unread, is_mail

    free = [(found.directory, found.name.text) for found in places if box.state_of(found) == "unread"]
    unread = Unread(box, mend=False, candidates=free)
    met = []
    for found, _ in unread:
        met.append(found.id)
        if unread.admitted >= OPENED:
            break
    met += [text[:36] for _, text in unread.gone]
    read = [found for found in places if box.state_of(found) == "read"]
    kept = sum(is_mail(box, found) for found in read[:OPENED]) + max(0, len(read) - OPENED)
    age = max(0, (spool.clock.wall_ms() - ms_of(min(met))) // 1000) if met else None
    return Owed(len(met) + unread.left, kept, age, [text for _, text in free])
