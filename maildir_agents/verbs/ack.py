"""ack: say that messages have been dealt with; archive: put them away.

All or nothing at the start (one id that is unknown or another's, and nothing is settled), idempotent afterwards:
what the caller settled before is no error and not counted.  Durable before it answers.
"""

from maildir_agents.errors import CANNOT_WRITE, MailError
from maildir_agents.mail.founding import ensure_mailbox
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.mending import expire
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.name import iso, parse_handle
from maildir_agents.mail.presence import armed, never_heard_of
from maildir_agents.mail.settle import owes, resolve, settle, settleable
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs.guidance import outstanding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Settled = tuple[Found, int | None]


def ack(
    spool: SpoolFiles,
    agent: str,
    ids: "Sequence[str]" = (),
    *,
    everything: bool = False,
    mine: frozenset[tuple[str, int]] = frozenset(),
    warn: "Callable[[dict[str, str]], None] | None" = None,
) -> "dict[str, Any]":
    """Acknowledge the messages (or claims, by handle) in `ids`, or `everything` that is free or `mine`.

    Answers `{agent, acked_at, count, message_ids, reachable, next}`, `acked_at` RFC 3339 UTC.  `warn` is told of a name
    that had no mailbox until now and is close to another.
    """
    if (everything and ids) or (not everything and not ids):
        raise MailError(
            "usage",
            "name the message ids to acknowledge, or --all, and not both",
            f"agent-mail ack {agent} ID…  or  agent-mail ack {agent} --all",
        )
    box = _ready(spool, agent, ids, mine, warn)
    if everything:
        done = settle_all(box, settleable(box, mine), "ack", _TAKEN_MEANWHILE)
    else:
        done = settle_all(box, named(box, ids), "ack")
    return _answer(box, "acked_at", done, mine)


_TAKEN_MEANWHILE = frozenset(("claimed", "dead_letter", "lease_lost", "unknown_id"))


def archive(
    spool: SpoolFiles, agent: str, ids: "Sequence[str]", *, mine: frozenset[tuple[str, int]] = frozenset()
) -> "dict[str, Any]":
    """Put away the messages (or claims, by handle) in `ids`, whether acknowledged or not.

    Answers `{agent, archived_at, count, message_ids, reachable, next}`.
    """
    if not ids:
        raise MailError("usage", "name the message ids to archive", f"agent-mail archive {agent} ID…")
    box = _ready(spool, agent, ids, mine)
    done = settle_all(box, named(box, ids), "archive")
    return _answer(box, "archived_at", done, mine)


def _ready(
    spool: SpoolFiles,
    agent: str,
    ids: "Sequence[str]",
    mine: frozenset[tuple[str, int]],
    warn: "Callable[[dict[str, str]], None] | None" = None,
) -> Mailbox:
    box = Mailbox(spool, agent_name(agent))
    asked = _asked_claims(ids)
    if ensure_mailbox(spool, agent) and warn:
        for warning in never_heard_of(spool, agent):
            warn(warning)
    expire(box, mine | asked)
    return box


def _answer(box: Mailbox, when: str, done: list[str], mine: frozenset[tuple[str, int]]) -> "dict[str, Any]":
    reachable = armed(box.spool, box.agent, tidy=True)
    return {
        "agent": box.agent,
        when: iso(box.spool.clock.wall_ms()),
        "count": len(done),
        "message_ids": done,
        "reachable": reachable,
        "next": outstanding(box.agent, unread=False, owed=owes(box, mine), reachable=reachable),
    }


def _asked_claims(ids: "Sequence[str]") -> frozenset[tuple[str, int]]:
    """The claims that the caller speaks of by handle: those it does not expire under its own hands."""
    handles = (parse_handle(text) for text in ids if "~" in text)
    return frozenset((message_id, token) for message_id, token in handles if token is not None)


def named(box: Mailbox, ids: "Sequence[str]") -> "list[Settled]":
    """The messages a caller names by id or handle, each once, where they are; raises unless all may be settled."""
    wanted = list(dict.fromkeys(parse_handle(text) for text in ids))
    return [(found, token) for found, (_, token) in zip(resolve(box, wanted), wanted, strict=True)]


def settle_all(box: Mailbox, wanted: "list[Settled]", verb: str, leave_out: frozenset[str] = frozenset()) -> list[str]:
    """Settle each, make it durable, note it; the ids settled by this call, in order.

    Whoever reports a state makes it durable: what was settled before is synced as well.  `leave_out` are the codes of
    what may have become of one meanwhile without stopping the others.
    """
    done, unread, places = [], [], []
    try:
        for found, token in wanted:
            try:
                moved = settle(box, found, token, verb)
            except MailError as error:
                if error.code in leave_out:
                    continue
                raise
            places.append(moved or found)
            if moved:
                done.append(found.id)
                if "r" not in found.name.stamps:
                    unread.append(found.id)
    except MailError as error:
        if not done or error.exit_status != CANNOT_WRITE:
            if done:
                error.detail["ids"] = done  # settled before it came to that
            raise
        raise MailError(
            "durability_unknown",
            f"{len(done)} of {len(wanted)} were settled, then {error.sentence}",
            "those in `ids` are settled; the same command again settles the rest",
            ids=done,
        ) from error
    finally:
        if done:
            event = "acknowledged" if verb == "ack" else "archived"
            box.spool.note(box.agent, event, ids=done, **({"unread": unread} if unread else {}))
    box.sync(place for place in places if place.directory in ("acked", "archive"))
    return done
