"""Conservation: every message is in exactly one state, and everything that refers to it is itself.

From the anchors: an anchored message that no scan sees is lost only when no name but its index names is left, counted
by its links, for a scan proves nothing while renames run.  A spool restored without its hard links is re-linked first,
and nothing is put back in that run.
"""

import os
from functools import partial

from maildir_agents.disk.listing import names
from maildir_agents.disk.moves import DONE, same_file
from maildir_agents.errors import MailError
from maildir_agents.mail import deadletter, mending
from maildir_agents.mail.belonging import is_anchor, is_key, too_open
from maildir_agents.mail.bookkeeping import without_journal
from maildir_agents.mail.dedup import key_path
from maildir_agents.mail.finding import Finding
from maildir_agents.mail.founding import ensure_mailbox
from maildir_agents.mail.history import about
from maildir_agents.mail.inspection import damage
from maildir_agents.mail.lifecycle import SETTLED, STATES
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import EVERYBODY, Name, is_agent
from maildir_agents.mail.publish import join_thread, same_message
from maildir_agents.mail.reading import envelope_at
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from maildir_agents.mail.message import Json

PUT_BACK_ABOVE = 1000  # tokens above any that its history knows


class Conservation:
    """One look over all messages.  `boxes`: every mailbox; `seen`: agent -> id -> names, nearest state first."""

    def __init__(self, spool: SpoolFiles) -> None:
        self.spool = spool
        boxes = (Mailbox(spool, agent) for agent in names(spool.agents) if is_agent(agent))
        self.boxes = [box for box in boxes if box.exists]
        self.seen: dict[str, dict[str, list[Found]]] = {box.agent: _census(box) for box in self.boxes}
        self.restored = False

    def findings(self) -> "Iterator[Finding]":
        """Doubled and damaged names, anchors and indexes that lie, and messages that are nowhere."""
        for box in self.boxes:
            for places in self.seen[box.agent].values():
                yield from self._doubled(box, places)
                for found in places:
                    if mending.is_file(path := box.where(found)):
                        yield from too_open(path)
                    yield from damage(box, found)
                yield from self._unanchored(box, places[-1])
        yield from self._indexes()
        for message_id in self._anchored():
            yield from self._index_of(message_id)
            yield from self._lost(message_id)

    def _doubled(self, box: Mailbox, places: list[Found]) -> "Iterator[Finding]":
        """Two names of one id: the furthest counts; a nearer one is free, and its name is never used again."""
        furthest = box.where(places[-1])
        for found in places[:-1]:
            path = box.where(found)
            # Asked in this order: one message that moved on while it was listed is no longer under its earlier name.
            if not (os.path.lexists(furthest) and os.path.lexists(path)):
                continue
            same = same_message(path, furthest)
            sentence = f"{found.id} of {box.agent} is in {found.directory}/ and in {places[-1].directory}/"
            if found.directory == "claimed" and box.claim_left_ms(found) > 0:
                yield Finding("doubled", path, sentence, "its claim must end first")
            elif same:
                yield Finding(
                    "doubled", path, sentence, "the nearer name is removed", partial(self.spool.disk.discard, path)
                )
            elif os.path.lexists(furthest) and os.path.lexists(path):
                yield Finding(
                    "doubled",
                    path,
                    f"{sentence}, with different text",
                    "the nearer becomes a dead letter",
                    partial(deadletter.fail, box, found, "id_clash", sentence, by="doctor"),
                )

    def _unanchored(self, box: Mailbox, found: Found) -> "Iterator[Finding]":
        path, anchor = box.where(found), self.spool.anchor(found.id)
        envelope = envelope_at(path)
        if found.directory == "failed" or envelope is None or envelope["id"] != found.id:
            return  # `damage` speaks of it
        if same_file(path, anchor) or not os.path.lexists(path):
            return
        if not os.path.lexists(anchor):
            yield Finding(
                "no_anchor",
                path,
                f"{found.id} of {box.agent} has no anchor",
                "it is linked again",
                partial(self.spool.disk.publish, path, anchor),
            )
        elif envelope_at(anchor) is None and mending.is_file(anchor):
            yield Finding(
                "damaged",
                anchor,
                f"the anchor of {found.id} is no message, and the message of {box.agent} is whole",
                "it is linked again",
                partial(self._replace, path, anchor),
            )
        elif not same_message(path, anchor):
            yield Finding(
                "id_clash",
                path,
                f"{found.id} of {box.agent} and its anchor are different messages",
                "beyond mending here: compare both files",
            )
        elif envelope["recipient"] != EVERYBODY or self._first_copy(box.agent, found.id):
            self.restored = True
            yield Finding(
                "restored",
                path,
                f"{found.id} of {box.agent} and its anchor are two files",
                "they are linked again",
                partial(self._relink, path, envelope),
            )

    def _first_copy(self, agent: str, message_id: str) -> bool:
        return agent == next((name for name, seen in self.seen.items() if message_id in seen), agent)

    def _relink(self, path: str, envelope: "Json") -> None:
        """Make every index name of a restored message the state name's inode, one atomic rename each."""
        for name in (*_index_names(self.spool, envelope), self._body(envelope["id"])):
            if os.path.lexists(name) and not same_file(path, name) and same_message(path, name):
                self._replace(path, name)

    def _replace(self, path: str, name: str) -> None:
        aside = f"{os.path.dirname(name)}/.{os.path.basename(name)}"
        self.spool.disk.discard(aside)
        if self.spool.disk.publish(path, aside) == DONE:
            self.spool.disk.move(aside, name)

    def _indexes(self) -> "Iterator[Finding]":
        """Keys, threads and bodies of broadcasts: damaged, without their anchor, or under a name that is not theirs."""
        for path, envelope in self._index_files():
            if envelope is None:
                yield Finding("damaged", path, f"{path} is no message", "remove it, or restore it from a backup")
                continue
            anchor = self.spool.anchor(envelope["id"])
            if not os.path.lexists(anchor):
                sentence = f"{envelope['id']} has no anchor"
                yield Finding(
                    "no_anchor", path, sentence, "it is linked again", partial(self.spool.disk.publish, path, anchor)
                )
            if path not in (*_index_names(self.spool, envelope), self._body(envelope["id"])):
                sentence = f"{path} is the message {envelope['id']}, whose name that is not"
                yield Finding("misnamed", path, sentence, "it is removed", partial(self._unname, path, anchor))

    def _index_files(self) -> "Iterator[tuple[str, Json | None]]":
        root = self.spool.root
        places = [(f"{root}/dedup/{name}", is_key) for name in names(f"{root}/dedup")]
        places += [(f"{root}/threads/{name}", is_anchor) for name in names(f"{root}/threads")]
        for directory, belongs in (*places, (f"{root}/broadcast", is_anchor)):
            for path in (f"{directory}/{text}" for text in names(directory) if belongs(text)):
                envelope = envelope_at(path)
                if envelope is not None or mending.is_file(path):
                    yield path, envelope

    def _unname(self, path: str, anchor: str) -> None:
        """Remove a name that lies, but never the last one of a message."""
        if not same_message(path, anchor):
            raise MailError("id_clash", f"{path} and {anchor} are different messages", "compare both files")
        self.spool.disk.discard(path)

    def _body(self, message_id: str) -> str:
        return f"{self.spool.root}/broadcast/{message_id}.json"

    def _thread(self, root: str, message_id: str) -> str:
        return self.spool.thread_name(root, message_id)

    def _anchored(self) -> "Iterator[str]":
        for day in names(f"{self.spool.root}/messages"):
            for text in names(f"{self.spool.root}/messages/{day}"):
                path = f"{self.spool.root}/messages/{day}/{text}"
                if is_anchor(text) and self.spool.anchor(text[:36]) == path:
                    yield text[:36]

    def foreign(self) -> "Iterator[Finding]":
        for day in names(f"{self.spool.root}/messages"):
            for text in names(f"{self.spool.root}/messages/{day}"):
                path = f"{self.spool.root}/messages/{day}/{text}"
                if is_anchor(text) and self.spool.anchor(text[:36]) != path:
                    yield Finding("foreign", path, f"{text} is no anchor of that day", "move it elsewhere")

    def _index_of(self, message_id: str) -> "Iterator[Finding]":
        anchor = self.spool.anchor(message_id)
        envelope = envelope_at(anchor)
        if envelope is None or envelope["id"] != message_id:
            if os.path.lexists(anchor):
                yield Finding("damaged", anchor, f"the anchor of {message_id} is damaged", "restore it from a backup")
            return
        root = envelope["thread_id"]
        if self._is_in_flight(envelope):
            return
        rootless = root and os.path.lexists(self.spool.anchor(root)) and not os.path.lexists(self._thread(root, root))
        if root and (rootless or not os.path.lexists(self._thread(root, message_id))):
            yield Finding(
                "not_in_thread",
                anchor,
                f"{message_id} is missing in its thread",
                "it is linked again",
                partial(join_thread, self.spool, anchor, envelope),
            )
        places = self.seen.get(envelope["recipient"], {}).get(message_id)
        if envelope["turn"] is not None and places and places[-1].directory not in SETTLED:
            yield from without_journal(self.spool, envelope)

    def _is_in_flight(self, envelope: "Json") -> bool:
        """Whether its draft is still there: then whoever sends or collects it gives it the rest of its names."""
        drafts = (self.spool.draft, self.spool.parked)
        return any(os.path.lexists(draft(envelope["recipient"], envelope["id"])) for draft in drafts)

    def _lost(self, message_id: str) -> "Iterator[Finding]":
        anchor = self.spool.anchor(message_id)
        envelope = envelope_at(anchor)
        if envelope is None or envelope["id"] != message_id:
            return
        if envelope["recipient"] == EVERYBODY:
            return (yield from self._bodiless(message_id))
        box = Mailbox(self.spool, envelope["recipient"])
        if message_id in self.seen.get(box.agent, {}) or box.find(message_id) or not self._nowhere(envelope):
            return
        if self.restored:
            yield Finding(
                "nowhere",
                anchor,
                f"{message_id} of {box.agent} is in no state",
                "hard links were missing: run doctor --fix again when they are mended",
            )
            return
        yield Finding(
            "nowhere",
            anchor,
            f"{message_id} of {box.agent} is in no state",
            "it is put back into new/",
            partial(self._put_back, box, message_id, envelope),
        )

    def _bodiless(self, message_id: str) -> "Iterator[Finding]":
        """A broadcast whose body is gone: a mailbox made later would not get it, and nobody could remove it."""
        anchor, body = self.spool.anchor(message_id), self._body(message_id)
        if not os.path.lexists(body) and os.path.lexists(anchor):
            mend = partial(self.spool.disk.publish, anchor, body)
            yield Finding("no_body", anchor, f"the broadcast {message_id} has no body", "it is linked again", mend)

    def _nowhere(self, envelope: "Json") -> bool:
        """No name but index names is left: they are counted first, the links read afterwards."""
        anchor = self.spool.anchor(envelope["id"])
        known = sum(same_file(anchor, name) for name in set(_index_names(self.spool, envelope)))
        try:
            return os.lstat(anchor).st_nlink <= known
        except OSError:
            return False

    def _put_back(self, box: Mailbox, message_id: str, envelope: "Json") -> None:
        if not self._nowhere(envelope) or box.find(message_id):
            return  # it was on its way
        tokens = [int(e["token"]) for e in about(self.spool, box.agent, message_id) if type(e.get("token")) is int]
        token = str(max(tokens, default=0) + PUT_BACK_ABOVE)
        found = Found("new", Name(message_id, {"n": token, "q": token}))
        ensure_mailbox(self.spool, box.agent)
        self.spool.disk.publish(self.spool.anchor(message_id), box.where(found))
        box.sync([found])
        self.spool.note(box.agent, "put back", id=message_id)


def _census(box: Mailbox) -> dict[str, list[Found]]:
    """Every message of a mailbox: its names, in the order of life."""
    seen: dict[str, list[Found]] = {}
    for directory in STATES:
        listed = box.all_settled(directory) if directory in SETTLED else box.listed(directory)
        for found in listed:
            seen.setdefault(found.id, []).append(found)
    return {message_id: _of_one(box, places) for message_id, places in seen.items()}


def _of_one(box: Mailbox, places: list[Found]) -> list[Found]:
    """Without dead letters that are other messages: a clash of ids has put them there."""
    alive = [found for found in places if found.directory != "failed"]
    if not alive:
        return places
    return [found for found in places if found in alive or same_file(box.where(found), box.where(alive[-1]))]


def _index_names(spool: SpoolFiles, envelope: "Json") -> list[str]:
    key = [key_path(spool, envelope["sender"], envelope["dedup_key"])] if envelope["dedup_key"] else []
    message_id = envelope["id"]
    threads = [spool.thread_name(envelope["thread_id"] or message_id, message_id)]
    return [spool.anchor(message_id), *key, *threads, *_journal_names(spool, envelope)]


def _journal_names(spool: SpoolFiles, envelope: "Json") -> list[str]:
    if not envelope["conversation_id"]:
        return []
    journal = f"{spool.root}/conversations/{envelope['conversation_id']}/journal"
    return [f"{journal}/{text}" for text in names(journal)]
