"""Reading histories: append-only lines of what happened, for trace and dashboards; never the truth.

A line may be missing (a full disk) or torn (a power cut): what does not parse is passed over.
"""

import os

from maildir_agents.disk.jsonfile import decode, encode
from maildir_agents.errors import Malformed
from maildir_agents.mail.name import iso
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from maildir_agents.mail.message import Json


def events(spool: SpoolFiles, agent: str) -> "Iterator[Json]":
    """The lines of one agent's history, oldest first: `{at, event, …}`."""
    try:
        with open(f"{spool.box(agent)}/history.jsonl", "rb", opener=_open) as file:
            for line in file:
                try:
                    event = decode(line)
                except Malformed:
                    continue
                if isinstance(event.get("at"), str) and isinstance(event.get("event"), str):
                    yield event
    except OSError:
        return


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)  # no link followed, no FIFO waited for


def about(spool: SpoolFiles, agent: str, message_id: str) -> "Iterator[Json]":
    """The lines that name one message, without the other ids of their batch."""
    for event in events(spool, agent):
        ids = event.get("ids")
        if event.get("id") == message_id or (isinstance(ids, list) and message_id in ids):
            unread = event.get("unread")
            kept = {key: value for key, value in event.items() if key not in ("id", "ids", "unread")}
            if isinstance(unread, list) and message_id in unread:
                kept["event"] = f"{kept['event']} unread"
            yield kept


def trim(spool: SpoolFiles, agent: str, cutoff_ms: int) -> bool:
    """Drop the lines older than a time from a history; False: there were none.

    A line written meanwhile may be lost.  The caller holds upkeep.lock.
    """
    path, oldest = f"{spool.box(agent)}/history.jsonl", iso(cutoff_ms)
    draft = f"{spool.box(agent)}/.history.jsonl"
    spool.disk.discard(draft)  # of one who died of it
    kept = [encode(event) for event in events(spool, agent) if event["at"] >= oldest]
    if len(kept) == sum(1 for _ in events(spool, agent)):
        return False
    spool.disk.write_new(draft, "".join(f"{line}\n" for line in kept).encode("utf-8"))
    return spool.disk.move(draft, path)
