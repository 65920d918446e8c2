"""news: what has changed since the last look, over all mailboxes and conversations, from names alone.

Listen at `doors`, and when one rings `look`: what came, what changed its state, which conversation moved on.  What is
seen is the difference of two listings, so two changes of one message between two looks are one.  Changes nothing.
"""

import os

from maildir_agents.disk.jsonfile import decode
from maildir_agents.disk.listing import names
from maildir_agents.errors import MailError, Malformed
from maildir_agents.mail import journal
from maildir_agents.mail.conversation import ENDED
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import is_agent, is_id
from maildir_agents.mail.reading import envelope_at
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Event = tuple[str, dict[str, Any]]

_LEFT = ("acked", "archived", "gone")
TAIL = 1 << 16  # bytes of a history that one look reads: what was archived lately


class News:
    """Looks at one spool again and again.  The first look tells nothing: it is what the next is compared with."""

    def __init__(self, spool: SpoolFiles) -> None:
        self._spool = spool
        self._boxes: dict[str, _Box] = {}
        self._talks: dict[str, tuple[str, int]] = {}  # open conversations: state, turns
        self._ended: set[str] = set()  # those that are over for good
        self.look()

    @property
    def doors(self) -> list[str]:
        """The directories where the next news will show, as of the last look."""
        talks = f"{self._spool.root}/conversations"
        of_boxes = [door for box in self._boxes.values() for door in box.doors]
        return [self._spool.agents, talks, *of_boxes, *(f"{talks}/{talk}" for talk in self._talks)]

    def look(self, heard: "list[str] | None" = None) -> "list[Event]":
        """`[(kind, members)]` since the last look; `heard`: only behind these doors, None: behind all.

        message: `{id, mailbox, state, from_agent, to_agent}` arrived as new mail.  state: `{id, mailbox, state}`
        changed: unread, read, claimed, acked, archived, failed or gone.  conversation: `{conversation_id, state,
        members}`.
        """
        events: list[Event] = []
        known, there = set(self._boxes), self._names()
        for name in known - there:
            del self._boxes[name]
        for name in sorted(there):
            fresh = name not in known
            if fresh:
                self._boxes[name] = _Box(self._spool, name)
            if fresh or heard is None or any(door in heard for door in self._boxes[name].doors):
                events += self._boxes[name].look()
        talks = f"{self._spool.root}/conversations"
        if heard is None or any(door.startswith(talks) for door in heard):
            events += self._conversations()
        return events

    def _names(self) -> set[str]:
        return {name for name in names(self._spool.agents) if is_agent(name) and os.path.isdir(self._spool.box(name))}

    def _conversations(self) -> "Iterator[Event]":
        before = self._talks
        told: dict[str, tuple[str, int]] = {}
        for talk in names(f"{self._spool.root}/conversations"):
            if not is_id(talk) or talk in self._ended:
                continue
            try:
                found = journal.read(self._spool, talk)
            except MailError:
                continue
            now = (found.state, len(found.turns))
            if found.state in ENDED:
                self._ended.add(talk)
            else:
                told[talk] = now
            seen = before.get(talk)
            if seen != now and (seen is not None or found.state not in ENDED):
                yield "conversation", {"conversation_id": talk, "state": found.state, "members": list(found.members)}
        self._talks = told


class _Box:
    """One mailbox as it was last seen."""

    def __init__(self, spool: SpoolFiles, agent: str) -> None:
        self._box = Mailbox(spool, agent)
        self._states: dict[str, str] = {}
        self._read_to = self._size()

    @property
    def doors(self) -> tuple[str, str, str]:
        """New mail; dead letters; and the mailbox itself, where every verb adds a line to the history."""
        return f"{self._box.path}/new", f"{self._box.path}/failed", self._box.path

    def look(self) -> "list[Event]":
        before = self._states
        self._states = {i: self._box.state_of(found) for i, found in self._box.owed().items()}
        failed = {found.id for found in self._box.listed("failed")}
        self._states.update((i, "failed") for i in failed)
        for message_id in before.keys() - self._states.keys():
            self._states[message_id] = self._whither(message_id, before[message_id])
        changes = {i: state for i, state in self._states.items() if before.get(i) != state}
        self._states = {i: state for i, state in self._states.items() if state not in _LEFT}
        for message_id in self._archived():
            if message_id not in before and message_id not in self._states:
                changes[message_id] = "archived"
        return [self._event(i, state, i not in before) for i, state in sorted(changes.items())]

    def _whither(self, message_id: str, before: str) -> str:
        """How it stands now that a look did not see it; which proves nothing while its anchor is there."""
        if any(self._box.settled(message_id, "archive")):
            return "archived"
        if any(self._box.settled(message_id, "acked")):
            return "acked"
        if found := self._box.find(message_id):
            return self._box.state_of(found)
        return before if os.path.lexists(self._box.spool.anchor(message_id)) else "gone"

    def _event(self, message_id: str, state: str, fresh: bool) -> "Event":
        told: dict[str, Any] = {"id": message_id, "mailbox": self._box.agent, "state": state}
        envelope = self._envelope(message_id) if fresh and state == "unread" else None
        if envelope is None:
            return "state", told
        return "message", {**told, "from_agent": envelope["sender"], "to_agent": envelope["recipient"]}

    def _envelope(self, message_id: str) -> "dict[str, Any] | None":
        place = self._box.spool.anchor(message_id)
        return envelope_at(place) or envelope_at(f"{self._box.path}/new/{message_id}.json")

    def _size(self) -> int:
        try:
            return os.stat(f"{self._box.path}/history.jsonl").st_size
        except OSError:
            return 0

    def _archived(self) -> list[str]:
        """Ids that the lines added to the history say were put away: acknowledged mail leaves no other mark here."""
        size, start = self._size(), self._read_to
        self._read_to = size
        if size <= start:
            return []
        start = max(start, size - TAIL)
        try:
            with open(f"{self._box.path}/history.jsonl", "rb") as file:
                file.seek(start)
                lines = file.read(size - start).split(b"\n")
        except OSError:
            return []
        return [message_id for line in lines if b'"archived"' in line for message_id in _ids(line)]


def _ids(line: bytes) -> list[str]:
    try:
        event = decode(line)
    except Malformed:
        return []
    ids = event.get("ids")
    return [i for i in ids if isinstance(i, str) and is_id(i)] if isinstance(ids, list) else []
