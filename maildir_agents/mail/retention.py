"""What may be removed: whole threads in which every copy of every message was acknowledged long enough ago.

One listing of every mailbox gives what is still owed, kept or on its way; a thread with one such member stays.  Only
names are read until a thread's members are asked for.
"""

import os

from maildir_agents.disk.listing import names
from maildir_agents.errors import MailError
from maildir_agents.mail import journal
from maildir_agents.mail.conversation import ENDED
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import EVERYBODY, is_agent, is_id, ms_of, ms_of_stamp, parse
from maildir_agents.mail.reading import envelope_at
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from maildir_agents.mail.message import Json

BROADCAST_KEPT_MS = 7 * 86_400_000  # a mailbox made later still gets those of the last week
_OWED = ("tmp", "new", "cur", "claimed", "failed")


class Census:
    """Every message of a spool by id: `settled` long enough ago and where, or `kept` for any other reason."""

    def __init__(self, spool: SpoolFiles, cutoff_ms: int) -> None:
        self.spool = spool
        self.cutoff_ms = cutoff_ms
        self.settled: dict[str, list[tuple[Mailbox, Found]]] = {}
        self.kept: set[str] = set()
        broadcasts = f"{spool.root}/broadcast"
        for text in os.listdir(broadcasts) if os.path.isdir(broadcasts) else ():
            if text.endswith(".todo") or text[0] == ".":
                self.kept.add(text.lstrip(".")[:36])
        # After the todo directories, for that is the order of life: a copy delivered meanwhile is met in its mailbox.
        for agent in names(spool.agents):
            if is_agent(agent):
                self._count(Mailbox(spool, agent))

    def _count(self, box: Mailbox) -> None:
        for _ in box.looks("failed"):  # a release or a requeue takes back
            self.kept.update(text[:36] for directory in _OWED for text in names(f"{box.path}/{directory}"))
        self.kept.update(found.id for found in box.all_settled("archive"))
        for found in box.all_settled("acked"):
            if ms_of_stamp(found.name.stamps["a"]) < self.cutoff_ms if "a" in found.name.stamps else False:
                self.settled.setdefault(found.id, []).append((box, found))
            else:
                self.kept.add(found.id)

    def removable(self) -> "Iterator[list[str]]":
        """The ids of each thread that may go."""
        done: set[str] = set()
        for message_id in sorted(self.settled):
            if message_id in done:
                continue
            members = self._thread(message_id)
            done.update(members)
            if members and all(self._may_go(member) for member in members):
                yield sorted(members)

    def _thread(self, message_id: str) -> set[str]:
        envelope = self._envelope(message_id)
        if envelope is None:
            return set()
        root = envelope["thread_id"] or message_id
        linked = {text[:36] for text in names(self.spool.thread_directory(root)) if is_id(text[:36])}
        anchored = {root} if os.path.lexists(self.spool.anchor(root)) else set()
        return linked | anchored | {message_id}

    def _envelope(self, message_id: str) -> "Json | None":
        box, found = self.settled[message_id][0]
        return envelope_at(self.spool.anchor(message_id)) or envelope_at(box.where(found))

    def _may_go(self, message_id: str) -> bool:
        if message_id in self.kept or message_id not in self.settled:
            return False
        envelope = self._envelope(message_id)
        if envelope is None or self._in_open_conversation(envelope):
            return False
        young = ms_of(message_id) > self.spool.clock.wall_ms() - BROADCAST_KEPT_MS
        return envelope["recipient"] != EVERYBODY or not young

    def _in_open_conversation(self, envelope: "Json") -> bool:
        if not envelope["conversation_id"]:
            return False
        try:
            return journal.read(self.spool, envelope["conversation_id"]).state not in ENDED
        except MailError as error:
            return error.code != "unknown_conversation"  # a damaged one is a person's to judge

    def bodies(self) -> list[str]:
        """The broadcasts of which no mailbox has a copy that is kept; asked again when the copies are gone."""
        oldest = min(self.cutoff_ms, self.spool.clock.wall_ms() - BROADCAST_KEPT_MS)
        found = (parse(text) for text in names(f"{self.spool.root}/broadcast"))
        return [
            n.id for n in found if n and n.id not in self.kept and n.id not in self.settled and ms_of(n.id) < oldest
        ]
