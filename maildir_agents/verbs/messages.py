"""messages: what lies in one mailbox or in all, for servers and pages: peeked at, nothing is marked or mended.

Names first: only the messages that are shown are opened.  A broadcast shows once for each mailbox that holds a copy.
Archived mail and dead letters are left out; a file that is no message is passed over.
"""

import heapq
import os

from maildir_agents.disk.listing import names
from maildir_agents.errors import MailError, Malformed
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.message import PUBLIC, belongs, shown
from maildir_agents.mail.name import EVERYBODY, canonical, is_agent, iso_of_stamp
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.reading import as_seen, envelope_at, whole_at
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.mail.threads import envelope_of, members, root_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from maildir_agents.mail.message import Json

    Seen = tuple[str, str, "Mailbox", Found]  # id, agent: unique, and in the order of the ids

LIMIT = 50
ANSWER_BYTES = 8 << 20


def messages(
    spool: SpoolFiles,
    agent: str | None = None,
    *,
    unread_only: bool = False,
    limit: int = LIMIT,
    after: str | None = None,
    bodies: bool = True,
    max_bytes: int = ANSWER_BYTES,
) -> "dict[str, Any]":
    """Messages to `agent` or to all, in the order they were made: `{messages, count, truncated}`.

    Unread ones (never read, and free): the oldest `limit`.  With read, claimed and acknowledged ones: the newest
    `limit`.  `after` an id: the oldest after that one, either way.  Each has the fields of PUBLIC and `archived_at`,
    `mailbox` (whose copy it is) and `state`: unread, read, claimed or acked.  Without `bodies` a body may be None.
    It ends before `max_bytes` of bodies are passed, but never below one message.
    """
    chosen = [agent_name(agent)] if agent is not None else [name for name in names(spool.agents) if is_agent(name)]
    boxes = [Mailbox(spool, name) for name in chosen]
    floor = canonical(after) if after is not None else None
    newest = not unread_only and floor is None
    streams = [_seen(box, unread_only, floor, newest) for box in boxes]
    found, truncated = _open_all(
        heapq.merge(*streams, key=_place, reverse=newest), limit, max_bytes, unread_only, bodies
    )
    if newest:
        found.reverse()
    return {"messages": found, "count": len(found), "truncated": truncated}


def _place(seen: "Seen") -> tuple[str, str]:
    return seen[:2]


def _open_all(
    source: "Iterator[Seen]", limit: int, max_bytes: int, unread_only: bool, bodies: bool
) -> "tuple[list[dict[str, Any]], bool]":
    found: list[dict[str, Any]] = []
    last, size = ("", ""), 0
    for message_id, agent, box, place in source:
        if (message_id, agent) == last:
            continue  # under two names for a moment
        last = (message_id, agent)
        message = _opened(box, place, unread_only, bodies)
        if message is None:
            continue
        size += len((message["body"] or "").encode("utf-8"))
        if len(found) == limit or (found and size > max_bytes):
            return found, True
        found.append(message)
    return found, False


def _opened(box: Mailbox, place: Found, unread_only: bool, bodies: bool) -> "dict[str, Any] | None":
    """The message at a place seen a moment ago, or where it is by now; None: it is none, or is not asked for now."""
    read = whole_at if bodies else envelope_at
    message = read(box.where(place))
    if message is None:
        place = box.find(place.id) or place  # a scan that misses it proves nothing
        if place.directory in ("archive", "failed"):
            return None
        message = read(box.where(place)) or read(box.spool.anchor(place.id))  # that name stays, whoever moves the other
    try:
        if message is not None:
            belongs(message, place.id, box.agent)
    except Malformed:
        return None
    state = box.state_of(place)
    return told_of(box, place, message) if message and not (unread_only and state != "unread") else None


def told_of(box: Mailbox, place: Found, message: "Json") -> "dict[str, Any]":
    """A message as this verb tells it, in the state that its place says."""
    archived = place.name.stamps.get("z")
    return {
        **shown(as_seen(message, place.name), PUBLIC),
        "archived_at": iso_of_stamp(archived) if archived else None,
        "mailbox": box.agent,
        "state": box.state_of(place),
    }


# names, in the order of the ids


def _seen(box: Mailbox, unread_only: bool, floor: str | None, newest: bool) -> "Iterator[Seen]":
    wanted = (found for found in box.owed().values() if not unread_only or box.state_of(found) == "unread")
    standing = sorted(wanted, key=lambda found: found.id, reverse=newest)
    settled = iter(()) if unread_only else box.all_settled("acked", floor or "", newest)
    for found in heapq.merge(settled, standing, key=lambda found: found.id, reverse=newest):
        if floor is None or found.id > floor:
            yield found.id, box.agent, box, found


# one message, one thread


def recipient_of(spool: SpoolFiles, message_id: str, agent: str | None = None) -> str:
    """Whose copy of a message is meant: `agent`, else its recipient.  A broadcast needs `agent`."""
    if agent is not None:
        return agent_name(agent)
    recipient = str(envelope_of(spool, canonical(message_id))["recipient"])
    if recipient == EVERYBODY:
        raise MailError("usage", "this message went to everybody: say whose copy is meant", "add ?agent=NAME")
    return recipient


def message(spool: SpoolFiles, message_id: str, agent: str | None = None) -> "dict[str, Any]":
    """One message as `messages` tells it, archived and failed ones too; raises unknown_id."""
    wanted = canonical(message_id)
    box = Mailbox(spool, recipient_of(spool, wanted, agent))
    for _ in range(3):  # it may be moving
        place = box.find(wanted)
        found = (whole_at(box.where(place)) or whole_at(box.spool.anchor(wanted))) if place else None
        if place and found and found["id"] == wanted:
            return told_of(box, place, found)
    raise MailError("unknown_id", f"{box.agent} has no message {wanted}")


def thread(spool: SpoolFiles, message_id: str) -> "dict[str, Any]":
    """`{thread_id, count, messages}`: the whole thread of a message, oldest first, each as `messages` tells it.

    Of a broadcast `mailbox` and `state` are None: it is in many.
    """
    root = root_of(spool, message_id)
    found = members(spool, root, message_id)
    places: dict[str, tuple[Mailbox, Found]] = {}
    for agent in {m["recipient"] for m in found if m["recipient"] != EVERYBODY}:
        box = Mailbox(spool, agent)
        seen = box.find_all(m["id"] for m in found if m["recipient"] == agent)
        places.update((i, (box, place)) for i, place in seen.items())
    return {"thread_id": root, "count": len(found), "messages": [_in_thread(m, places.get(m["id"])) for m in found]}


def _in_thread(found: "Json", place: "tuple[Mailbox, Found] | None") -> "dict[str, Any]":
    if place is not None:
        return told_of(*place, found)
    mailbox = None if found["recipient"] == EVERYBODY else found["recipient"]
    return {**shown(found, PUBLIC), "token": 0, "archived_at": None, "mailbox": mailbox, "state": None}


def thread_size(spool: SpoolFiles, root_id: str) -> int:
    """How many messages a thread has: one listing, nothing is opened."""
    try:
        return max(1, len(os.listdir(spool.thread_directory(root_id))))
    except OSError:
        return 1
