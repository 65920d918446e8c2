"""cleanup: delete what was settled long ago, whole threads with everything that refers to them.

Never unread, unacknowledged, claimed, failed or archived mail.  With `failed purge` the only thing that deletes mail.
Killed anywhere it leaves an unfinished removal in trash/, with which the next one goes on.
"""

import os

from maildir_agents.disk.guard import Guard
from maildir_agents.disk.jsonfile import read_settings
from maildir_agents.disk.listing import names
from maildir_agents.errors import MailError
from maildir_agents.mail.history import trim
from maildir_agents.mail.name import is_agent
from maildir_agents.mail.removal import (
    body_to_trash,
    conversation_to_trash,
    ended_conversations,
    finish_removals,
    to_trash,
)
from maildir_agents.mail.retention import Census
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DAY_MS = 86_400_000
MOST_DAYS = 10_000
LOCK_MS = 10_000


def cleanup(spool: SpoolFiles, older_than_days: float | None, *, dry_run: bool = False) -> "dict[str, Any]":
    """Delete threads acknowledged more than `older_than_days` ago; None: as config.json says (retention_days).

    Answers `{older_than_days, dry_run, threads, messages, broadcasts, conversations}`;
    `messages` counts copies, one a mailbox.  `dry_run` only counts.  No spool is a zero, and so is a config.json that
    keeps everything (`older_than_days` is None then).
    """
    if older_than_days is None:
        older_than_days = retention_days(spool)
    if older_than_days is not None and not 0 < older_than_days <= MOST_DAYS:  # so that "not a number" is refused, too
        raise MailError(
            "usage", f"--older-than is a number of days above 0, at most {MOST_DAYS}, not {older_than_days:g}"
        )
    nothing = dict.fromkeys(("threads", "messages", "broadcasts", "conversations"), 0)
    answer = {"older_than_days": older_than_days, "dry_run": dry_run, **nothing}
    if not spool.exists or older_than_days is None:
        return answer
    cutoff = spool.clock.wall_ms() - int(older_than_days * DAY_MS)
    if dry_run:
        return {**answer, **_counted(Census(spool, cutoff))}
    with Guard(spool.disk, f"{spool.root}/upkeep.lock", LOCK_MS):
        try:
            finish_removals(spool)
            answer.update(_remove(spool, Census(spool, cutoff)))
            answer["broadcasts"] = _remove_bodies(spool, cutoff)
            answer["conversations"] = len([i for i in ended_conversations(spool) if conversation_to_trash(spool, i)])
            finish_removals(spool)
            _tidy(spool, cutoff)
        except MailError as error:
            if error.code == "busy":
                raise
            raise MailError(
                "cannot_write",
                f"cleanup did not come to its end: {error.sentence}",
                "nothing that is owed was touched: repeat the command, it goes on from here",
            ) from error
    return answer


def retention_days(spool: SpoolFiles) -> float | None:
    """How long the owner keeps settled mail, by config.json; None: for ever."""
    path = f"{spool.root}/config.json"
    found = (read_settings(path) or {}).get("retention_days")
    if found is not None and (type(found) not in (int, float) or not 0 < found <= MOST_DAYS):
        raise MailError(
            "bad_field",
            f"{path}: retention_days is neither null nor a number of days above 0, at most {MOST_DAYS}",
            "nothing is deleted until that is mended; --older-than DAYS does not ask it",
        )
    return None if found is None else float(found)


def _counted(census: Census) -> dict[str, int]:
    threads = list(census.removable())
    copies = sum(len(census.settled[i]) for thread in threads for i in thread)
    gone = {i for thread in threads for i in thread}
    for message_id in gone:
        del census.settled[message_id]
    return {
        "threads": len(threads),
        "messages": copies,
        "broadcasts": len(census.bodies()),
        "conversations": len(ended_conversations(census.spool, gone)),
    }


def _remove(spool: SpoolFiles, census: Census) -> dict[str, int]:
    threads = messages = 0
    for thread in census.removable():
        threads += 1
        for message_id in thread:
            # By the exact name that was judged: what moved meanwhile stays.
            messages += sum(to_trash(box, found) is not None for box, found in census.settled[message_id])
        finish_removals(spool)
    return {"threads": threads, "messages": messages}


def _remove_bodies(spool: SpoolFiles, cutoff: int) -> int:
    """Bodies of which no mailbox has a copy any more, under the lock that making a mailbox takes."""
    with Guard(spool.disk, f"{spool.root}/broadcast.lock", LOCK_MS):
        gone = sum(body_to_trash(spool, message_id) for message_id in Census(spool, cutoff).bodies())
        finish_removals(spool)
    return gone


def _tidy(spool: SpoolFiles, cutoff: int) -> None:
    """Remove directories that are empty now, and old lines of histories."""
    for agent in names(spool.agents):
        if is_agent(agent):
            for state in ("acked", "archive"):
                _drop_empty(spool, f"{spool.box(agent)}/{state}", 2)
            trim(spool, agent, cutoff)
    for directory in ("messages", "threads", "dedup"):
        _drop_empty(spool, f"{spool.root}/{directory}", 1)
    _drop_empty(spool, f"{spool.root}/conversations", 2)  # whose starter died before its commit


def _drop_empty(spool: SpoolFiles, top: str, depth: int) -> None:
    for name in names(top):
        path = f"{top}/{name}"
        if os.path.isdir(path):
            if depth > 1:
                _drop_empty(spool, path, depth - 1)
            spool.disk.drop_dir(path)
