"""claim, renew, release: hold a message while working on it, so that no other worker of the agent does.

A claim ends by ack (or a reply), by release, or by itself when its lease is over and anybody looks.
"""

from maildir_agents.errors import MailError
from maildir_agents.mail.claim import claim_oldest, claim_one, worker_name
from maildir_agents.mail.claim import release as release_claim
from maildir_agents.mail.claim import renew as renew_claim
from maildir_agents.mail.founding import ensure_mailbox
from maildir_agents.mail.lease import DEFAULT
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.mending import collect, expire
from maildir_agents.mail.message import shown
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.name import handle, iso_of_stamp, parse_handle
from maildir_agents.mail.reading import as_seen, whole_at
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.mail.message import Json


def claim(
    spool: SpoolFiles,
    agent: str,
    wanted: str | None = None,
    *,
    lease_s: int = DEFAULT,
    worker: str | None = None,
    mine: frozenset[tuple[str, int]] = frozenset(),
) -> "dict[str, Any]":
    """Claim the oldest free message, or the one with the id `wanted`; with a handle: renew that claim.

    Answers `{agent, message, handle, token, claim_expires_at, worker, next, warnings}`, all None and `next` empty when
    nothing is free.  `lease_s` is clamped to 30..3600 seconds.
    """
    box = Mailbox(spool, agent_name(agent))
    label = worker_name(spool.randomness(6), worker)
    message_id, token = parse_handle(wanted) if wanted is not None else (None, None)
    made = ensure_mailbox(spool, agent)
    collect(box)
    expire(box, mine | (frozenset([(message_id, token)]) if message_id and token is not None else frozenset()))
    if message_id is None:
        try:
            found, message, warnings = claim_oldest(box, lease_s, label)
        except LookupError as nothing:
            return _nothing(box, nothing.args[0] + (_mistyped(box) if made else []))
        return _claimed(box, found, message, warnings)
    if token is not None:
        found = renew_claim(box, message_id, token, lease_s)
        return _claimed(box, found, whole_at(box.where(found)), [])
    found, message = claim_one(box, message_id, lease_s, label)
    return _claimed(box, found, message, [])


def _mistyped(box: Mailbox) -> "list[dict[str, str]]":
    from maildir_agents.mail.presence import never_heard_of

    return never_heard_of(box.spool, box.agent)


def _nothing(box: Mailbox, warnings: "list[dict[str, str]]") -> "dict[str, Any]":
    empty = dict.fromkeys(("message", "handle", "token", "claim_expires_at", "worker"))
    return {"agent": box.agent, **empty, "next": [], "warnings": warnings}


def _claimed(box: Mailbox, found: Found, message: "Json | None", warnings: "list[dict[str, str]]") -> "dict[str, Any]":
    held = handle(found.id, found.name.token)
    box.spool.note(box.agent, "claimed", id=found.id, token=found.name.token, worker=found.name.stamps["w"])
    return {
        "agent": box.agent,
        "message": shown(as_seen(message, found.name)) if message is not None else None,
        "handle": held,
        "token": found.name.token,
        "claim_expires_at": iso_of_stamp(found.name.stamps["x"]),
        "worker": found.name.stamps["w"],
        "next": [f"agent-mail {verb} {box.agent} {held}" for verb in ("renew", "release", "ack")],
        "warnings": warnings,
    }


def renew(spool: SpoolFiles, agent: str, held: str, *, lease_s: int = DEFAULT) -> "dict[str, Any]":
    """Renew a claim by its handle: `{agent, id, handle, token, claim_expires_at}`; raises lease_lost."""
    box, message_id, token = _held(spool, agent, held, "renew")
    found = renew_claim(box, message_id, token, lease_s)
    return {**_named(box, found), "claim_expires_at": iso_of_stamp(found.name.stamps["x"])}


def release(spool: SpoolFiles, agent: str, held: str) -> "dict[str, Any]":
    """Give a claim back by its handle: `{agent, id, handle, token, state}`; raises lease_lost."""
    box, message_id, token = _held(spool, agent, held, "release")
    found = release_claim(box, message_id, token)
    spool.note(agent, "released", id=message_id, token=token)
    return {**_named(box, found), "state": found.directory}


def _held(spool: SpoolFiles, agent: str, held: str, verb: str) -> tuple[Mailbox, str, int]:
    message_id, token = parse_handle(held)
    if token is None:
        raise MailError("usage", f"{verb} needs the claim's handle, not the bare id {message_id}",
                        "a handle is <id>~n<token>, as claim printed it")  # fmt: skip
    return Mailbox(spool, agent_name(agent)), message_id, token


def _named(box: Mailbox, found: Found) -> "dict[str, Any]":
    token = found.name.token
    return {"agent": box.agent, "id": found.id, "handle": handle(found.id, token), "token": token}
