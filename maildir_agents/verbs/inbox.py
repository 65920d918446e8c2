"""inbox: what an agent could work on now, peeked at: nothing is marked, mail stays until it is acknowledged.

The form that servers use, who can't tell whether their answer was taken.  Mail under another worker's live claim is
not available and not shown.
"""

from maildir_agents.mail.founding import ensure_mailbox
from maildir_agents.mail.intake import Unread
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.mending import collect, expire
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.reading import as_seen, whole_at
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from maildir_agents.mail.message import Json

    Claims = frozenset[tuple[str, int]]  # (id, token)

LIMIT = 20


def inbox(
    spool: SpoolFiles,
    agent: str,
    *,
    unread_only: bool = True,
    limit: int = LIMIT,
    sender: str | None = None,
    max_bytes: int | None = None,
    mine: "Claims" = frozenset(),
) -> "dict[str, Any]":
    """Available messages to `agent`, oldest first: `{messages, cursor, count, truncated, warnings}`.

    The oldest that are not acknowledged, or with `unread_only=False` the newest of these and of the acknowledged ones;
    archived ones never.  `cursor` is the last id shown or None; `truncated` says that there is more (by `limit`, or by
    `max_bytes` of bodies, never below one message).  Each message carries `owned_by_current_worker`: it is under a
    claim in `mine`.
    """
    box = Mailbox(spool, agent_name(agent))
    ensure_mailbox(spool, agent)
    collect(box)
    expire(box, mine)
    live = {found.id: found for found in box.listed("claimed")}
    own = [found for found in live.values() if (found.id, found.name.token) in mine]
    free = [pair for directory in ("new", "cur") for pair in _texts(box, directory) if pair[1][:36] not in live]
    pairs = free + [("claimed", found.name.text) for found in own]
    unread = Unread(box, mend=True, candidates=sorted(pairs, key=lambda pair: pair[1]))
    admitted = _wherever(box, unread, mine)
    source = admitted if unread_only else _newest_first(box, admitted)
    shown, truncated = _take(source, limit, sender, max_bytes)
    if not unread_only:
        shown.reverse()
    for message in shown:
        message["owned_by_current_worker"] = (message["id"], message["token"]) in mine
    return {
        "messages": shown,
        "cursor": shown[-1]["id"] if shown else None,
        "count": len(shown),
        "truncated": truncated,
        "warnings": unread.warnings,
    }


def _texts(box: Mailbox, directory: str) -> list[tuple[str, str]]:
    return [(directory, text) for text in box.texts(directory)]


def _take(
    source: "Iterator[tuple[Found, Json]]", limit: int, sender: str | None, max_bytes: int | None
) -> "tuple[list[Json], bool]":
    shown: list[Json] = []
    size = 0
    for _, message in source:
        if sender is not None and message["sender"] != sender:
            continue
        size += len(str(message["body"]).encode("utf-8"))
        if len(shown) >= limit or (shown and max_bytes is not None and size > max_bytes):
            return shown, True
        shown.append(message)
    return shown, False


def _wherever(box: Mailbox, unread: Unread, mine: "Claims") -> "Iterator[tuple[Found, Json]]":
    """What is there, oldest first, also under the name that a reader or a renewal has just given it."""
    for found, message in unread:
        yield from _moved(box, unread, mine, found.id)
        yield found, message
    yield from _moved(box, unread, mine)


def _moved(box: Mailbox, unread: Unread, mine: "Claims", met: str = "") -> "Iterator[tuple[Found, Json]]":
    gone = {text[:36] for _, text in unread.gone} - {met}
    unread.gone.clear()
    for message_id, place in sorted(box.find_all(gone).items()) if gone else ():
        own = place.directory == "claimed" and (message_id, place.name.token) in mine
        if (own or place.directory in ("new", "cur")) and (message := whole_at(box.spool.anchor(message_id))):
            yield place, as_seen(message, place.name)


def _newest_first(box: Mailbox, unread: "Iterator[tuple[Found, Json]]") -> "Iterator[tuple[Found, Json]]":
    """Available and acknowledged mail together; what is acknowledged is opened only when its turn comes."""
    available = {found.id: (found, message) for found, message in unread}
    settled = {found.id: found for found in box.all_settled("acked")}
    for message_id in sorted(available.keys() | settled.keys(), reverse=True):
        if message_id in available:
            yield available[message_id]
        elif (message := whole_at(box.where(settled[message_id]))) is not None:
            yield settled[message_id], as_seen(message, settled[message_id].name)
