"""Settling: acknowledging or putting away exactly what the caller may, found again when it moved meanwhile.

Without a handle only free mail is settled; with one, exactly that claim.  Nothing is settled when one of several ids
is unknown or another's.
"""

import time

from maildir_agents.errors import MailError
from maildir_agents.mail import journal
from maildir_agents.mail.intake import adopt_all, is_mail
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.mending import collect
from maildir_agents.mail.name import EVERYBODY, handle, iso_of_stamp, stamp
from maildir_agents.mail.reading import envelope_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set

LOOKS_MS = (0, 1, 2, 4, 8)
TRIES = 20
MOVED_ON = frozenset(("claimed", "dead_letter", "unknown_id", "in_transit"))
"""The refusals that say what became of a message that was free when it was seen."""


def resolve(box: Mailbox, wanted: list[tuple[str, int | None]]) -> list[Found]:
    """Where each (id, token) is, and that the caller may settle it; already settled ones included.

    Raises unknown_id, not_yours, in_transit, claimed, lease_lost or dead_letter; nothing was changed then.
    """
    seen = held_claims(box, {pair for pair in wanted if pair[1] is not None})
    seen |= box.find_all(message_id for message_id, _ in wanted if message_id not in seen)
    answer = []
    for message_id, token in wanted:
        found = _mail(box, seen.get(message_id) or look_again(box, message_id))
        judge(box, found, token)
        answer.append(found)
    return answer


def held_claims(box: Mailbox, handles: "Set[tuple[str, int | None]]") -> dict[str, Found]:
    """Those of these claims that hold, by id: a live claim hides every other name, which need not be looked for."""
    listed = box.listed("claimed") if handles else ()
    return {f.id: f for f in listed if (f.id, f.name.token) in handles and box.claim_left_ms(f) > 0}


def _mail(box: Mailbox, found: Found) -> Found:
    """The same place, if what lies there is a message; else where it went when it was refused, or unknown_id."""
    if found.directory not in ("new", "cur") or adopt_all(box, [found]):
        return found
    refused = box.find(found.id)
    if refused is None or refused.directory in ("new", "cur"):
        raise MailError("unknown_id", f"{box.where(found)} is no message", f"agent-mail read {box.agent} says why")
    return refused


def look_again(box: Mailbox, message_id: str) -> Found:
    """A scan that misses an id proves nothing: ask the anchor, complete what is half delivered, look again."""
    anchored = envelope_at(box.spool.anchor(message_id))
    if anchored is None:
        raise MailError(
            "unknown_id", f"{box.agent} has no message {message_id}", f"agent-mail read {box.agent} --all lists them"
        )
    if anchored["recipient"] not in (box.agent, EVERYBODY):
        whose = anchored["recipient"]
        raise MailError(
            "not_yours",
            f"message {message_id} is for {whose}, not for {box.agent}",
            f"nothing was changed; if you are {whose}, give that name",
        )
    collect(box)
    for pause in LOOKS_MS:
        time.sleep(pause / 1000)
        if found := box.find(message_id):
            return found
    if anchored["recipient"] == EVERYBODY:
        raise MailError("unknown_id", f"the broadcast {message_id} is not in the mailbox of {box.agent}")
    raise MailError(
        "in_transit",
        f"message {message_id} is on its way to {box.agent}",
        "try again in a moment; then agent-mail doctor",
    )


def judge(box: Mailbox, found: Found, token: int | None) -> None:
    """Raise unless the caller may settle this name: free mail without a token, that very claim with one."""
    if token is not None:
        if found.name.token != token or found.directory not in ("claimed", "acked", "archive"):
            raise MailError(
                "lease_lost",
                f"the claim {handle(found.id, token)} is no longer held",
                "stop working on it: it may be another worker's by now",
            )
    elif found.directory == "failed":
        raise MailError(
            "dead_letter",
            f"message {found.id} is a dead letter of {box.agent}",
            f"agent-mail failed requeue {box.agent} {found.id}",
        )
    elif found.directory == "claimed" and box.claim_left_ms(found) > 0:
        until = iso_of_stamp(found.name.stamps["x"])
        raise MailError(
            "claimed",
            f"message {found.id} is claimed by {found.name.stamps.get('w', 'a worker')} until {until}",
            "use the claim's handle, or wait until it ends",
            claim_expires_at=until,
        )


def settle(box: Mailbox, found: Found, token: int | None, verb: str) -> Found | None:
    """Acknowledge (or archive) one message; None: it was settled that way already.  Not synced, for callers know where.

    What moved meanwhile is looked for and judged again; where another has settled it meanwhile, that is synced here.
    """
    now = stamp(box.spool.clock.wall_ms())
    for look in range(TRIES):
        # A handle means a name in claimed/ and no other: what its claim ended in stays as it is.
        if found.directory == "archive" or (found.directory == "acked" and (verb == "ack" or token is not None)):
            if look:
                box.sync([found])
            return None
        if found.directory == "claimed" and token is None:
            moved = box.move("expire", found)
        else:
            hand_over_unanswered(box, found)
            moved = box.move(verb, found, **({"r": now, "a": now} if verb == "ack" else {"z": now}))
            if moved:
                return moved
        found = moved or box.find(found.id) or look_again(box, found.id)
        judge(box, found, token)
    raise restless(found.id)


def restless(message_id: str) -> MailError:
    """Others moved it each time between the look and the move: nothing is known of it but that."""
    return MailError("in_transit", f"message {message_id} keeps moving", "try again in a moment")


def hand_over_unanswered(box: Mailbox, found: Found) -> None:
    """Settling the message in flight of a conversation without an answer puts that before a human, first."""
    if found.directory in ("new", "cur", "claimed") and journal.has_any(box.spool):
        journal.put_before_a_human(box.spool, envelope_at(box.where(found)), box.agent)


def settleable(box: Mailbox, mine: frozenset[tuple[str, int]]) -> list[tuple[Found, int | None]]:
    """All that `--all` means: free mail in new/ and cur/, overdue claims, and the caller's own claims."""
    answer: list[tuple[Found, int | None]] = []
    live = set()
    for found in box.listed("claimed"):
        own = (found.id, found.name.token) in mine
        if own or box.claim_left_ms(found) <= 0:
            answer.append((found, found.name.token if own else None))
        else:
            live.add(found.id)
    free = [found for directory in ("new", "cur") for found in box.listed(directory) if found.id not in live]
    return answer + [(found, None) for found in adopt_all(box, free)]


def owes(box: Mailbox, mine: frozenset[tuple[str, int]], but: "Set[str]" = frozenset()) -> bool:
    """Whether there is anything that `ack --all` would settle: asks "is there one", never counts.

    `but`: file names that are as good as settled.
    """
    for _ in box.looks():
        # In the order of life: what a reader marks meanwhile is met in cur/.
        if any(box.holds(d, lambda box, found: found.name.text not in but and is_mail(box, found)) for d in _FREE):
            return True
        claims = [found for found in box.listed("claimed") if found.name.text not in but]
        if any((found.id, found.name.token) in mine or box.claim_left_ms(found) <= 0 for found in claims):
            return True
    return False


_FREE = ("new", "cur")
