"""Claims: a worker's exclusive hold on a message, kept in the message's own name.

One rename from the exact name that was read takes it, with a token that only grows; whoever still has the old name
finds nothing.  The handle (id and token) is the claim, the worker's name is a label for people.
"""

import os
import time

from maildir_agents.errors import MailError
from maildir_agents.mail.intake import Unread
from maildir_agents.mail.lease import LONGEST, SHORTEST
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import handle, stamp
from maildir_agents.mail.settle import LOOKS_MS, TRIES, judge, look_again, restless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from maildir_agents.mail.message import Json

MAX_WORKER = 48
_WORKER = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_lives: dict[int, str] = {}
os.register_at_fork(after_in_child=_lives.clear)  # in another namespace a child may have its parent's number


def worker_name(spool_randomness: bytes, asked: str | None = None) -> str:
    """The label of a claim's worker: what was asked for, or one of this life of this process (another after fork)."""
    if asked is not None:
        if not 0 < len(asked) <= MAX_WORKER or not _WORKER.issuperset(asked):
            raise MailError("usage", f"{asked!r} is no worker name", f"1 to {MAX_WORKER} of a-z 0-9 . _ -")
        return asked
    pid = os.getpid()
    if pid not in _lives:
        _lives.clear()
        _lives[pid] = f"{pid}-{spool_randomness.hex()}"
    return _lives[pid]


def lease(box: Mailbox, seconds: int) -> dict[str, str]:
    """The stamps of a lease from now: its end on the wall clock and on the boot clock.  Clamped to 30..3600 seconds."""
    length = 1000 * min(max(seconds, SHORTEST), LONGEST)
    spool = box.spool
    return {
        "x": stamp(spool.clock.wall_ms() + length),
        "b": f"{spool.boot}-{spool.clock.boot_ms() + length}",
    }


def take(box: Mailbox, found: Found, seconds: int, worker: str) -> Found | None:
    """Claim a free message under the name that was read; None: another was faster."""
    token = str(found.name.token + 1)
    return box.move("claim", found, n=token, w=worker, **lease(box, seconds))


def claim_oldest(box: Mailbox, seconds: int, worker: str) -> "tuple[Found, Json, list[dict[str, str]]]":
    """Claim the oldest message that is free, new or read; raises LookupError when there is none.

    The third is a warning for each file that was passed over.  What was lost to another may be free again under its
    next name (a reader marks it, a worker gives it back): that there is nothing is only said of a fresh listing.
    """
    tried: set[tuple[str, str]] = set()
    warnings: list[dict[str, str]] = []
    candidates = available(box)
    while candidates:
        free = Unread(box, mend=True, candidates=candidates)
        for found, message in free:
            if taken := take(box, found, seconds, worker):
                return taken, message, warnings + free.warnings
        warnings += free.warnings
        tried.update(candidates)
        candidates = [pair for pair in available(box) if pair not in tried]
    raise LookupError(warnings)


def available(box: Mailbox) -> list[tuple[str, str]]:
    """(directory, file name) of what may be claimed, new or read, oldest first; names only."""
    live = {found.id for found in box.listed("claimed")}
    free = [(directory, text) for directory in ("new", "cur") for text in box.texts(directory)]
    return sorted((pair for pair in free if pair[1][:36] not in live), key=lambda pair: pair[1])


def claim_one(box: Mailbox, message_id: str, seconds: int, worker: str) -> "tuple[Found, Json]":
    """Claim that message; raises claimed, dead_letter, unknown_id, or not_yours, and `settled` when it is done."""
    for _ in range(TRIES):
        found = box.find(message_id) or look_again(box, message_id)
        judge(box, found, None)
        if found.directory in ("acked", "archive"):
            raise MailError("settled", f"message {message_id} is settled: there is nothing to work on")
        if found.directory == "claimed":
            box.move("expire", found)
            continue
        for place, message in Unread(box, mend=True, candidates=[(found.directory, found.name.text)]):
            if taken := take(box, place, seconds, worker):
                return taken, message
    raise restless(message_id)


def held(box: Mailbox, message_id: str, token: int) -> Found:
    """The claim that a handle names, under its exact name now; `lease_lost` when it is held no longer.

    A listing may miss a name that is just being renewed: it is lost when it is seen elsewhere, or missed again.
    """
    for pause in LOOKS_MS:
        time.sleep(pause / 1000)
        for found in box.listed("claimed"):
            if found.id == message_id and found.name.token == token:
                return found
        seen = box.find(message_id)
        if seen is not None and (seen.directory, seen.name.token) == ("claimed", token):
            return seen
        if seen is not None:
            break
    raise lost(message_id, token)


def lost(message_id: str, token: int) -> MailError:
    return MailError(
        "lease_lost",
        f"the claim {handle(message_id, token)} is no longer held",
        "stop working on it: it may be another worker's by now",
    )


def renew(box: Mailbox, message_id: str, token: int, seconds: int) -> Found:
    """Give a claim a new lease from now, under the same token; raises lease_lost and changes nothing.

    Who is overtaken by a renewal that lasts as long has what was asked for.
    """
    wanted = lease(box, seconds)
    found = held(box, message_id, token)
    for _ in range(TRIES):
        if renewed := box.move("renew", found, **wanted):
            return renewed
        found = held(box, message_id, token)
        if _end(found.name.stamps) >= _end(wanted):
            return found
    raise restless(message_id)


def _end(stamps: "Mapping[str, str]") -> tuple[str, int]:
    return stamps.get("x", ""), int(stamps.get("b", "-0").partition("-")[2])


def release(box: Mailbox, message_id: str, token: int) -> Found:
    """Give a claimed message back, unacknowledged; raises lease_lost and changes nothing."""
    for _ in range(TRIES):
        if released := box.move("release", held(box, message_id, token)):
            return released
    raise restless(message_id)
