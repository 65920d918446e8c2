"""send: one message to one agent (or everybody), durable before it answers.

Write the draft, commit it by a link, deliver it by a rename.  Until the commit anything may be started again; after it
never: the receipt names what was committed.  A reply delivers first and then acknowledges what it answers.
"""

import os

from maildir_agents.errors import MailError
from maildir_agents.mail.message import MAX_BODY, check
from maildir_agents.mail.name import EVERYBODY, agent, iso, parse_handle
from maildir_agents.mail.name import recipient as recipient_name
from maildir_agents.mail.presence import RELEASED, STALE, watch_state
from maildir_agents.mail.publish import address, post
from maildir_agents.mail.spool import BALLAST_FILES, WAITING_LIMIT, SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from maildir_agents.mail.message import Json

MAX_TIMEOUT_S = 3600


def send(
    spool: SpoolFiles,
    *,
    sender: str,
    recipient: str,
    subject: str,
    body: str = "",
    refs: "Sequence[str]" = (),
    reply_to: str | None = None,
    acknowledge: bool = True,
    dedup_key: str | None = None,
    kind: str | None = None,
    conversation: str | None = None,
    response_timeout_s: int | None = None,
    headers: "Json | None" = None,
) -> "dict[str, Any]":
    """Send a message.  `reply_to` is an id or a claim's handle; `response_timeout_s` is clamped to 1..3600 seconds.

    Answers `{id, sender, recipient, subject, kind, created, duplicate, delivery}`, and `acknowledged` when a reply
    settled what it answers.  `delivery.known` tells whether the recipient had a mailbox before.
    """
    message = compose(
        spool,
        sender=sender,
        recipient=recipient,
        subject=subject,
        body=body,
        refs=refs,
        dedup_key=dedup_key,
        response_timeout_s=response_timeout_s,
        headers=headers,
    )
    gate(spool, message["recipient"])
    message_id, token = parse_handle(reply_to) if reply_to is not None else (None, None)
    if kind is not None or conversation is not None:
        from maildir_agents.verbs.turn import place, take_turn

        if place(spool, message, kind, conversation, message_id):
            original, besides = take_turn(spool, message, token, acknowledge)
            return {**receipt(message, original, made=False), **besides}
    if message_id is None:
        return post_one(spool, message)
    from maildir_agents.verbs.reply import answer

    return answer(spool, message, message_id, token, acknowledge, post_one)


def compose(
    spool: SpoolFiles,
    *,
    sender: str,
    recipient: str,
    subject: str,
    body: str = "",
    refs: "Sequence[str]" = (),
    dedup_key: str | None = None,
    response_timeout_s: int | None = None,
    headers: "Json | None" = None,
) -> "Json":
    """A message to send, every field checked, the others at their defaults."""
    message: Json = {
        "sender": agent(sender),
        "recipient": recipient_name(recipient),
        "subject": subject,
        "response_deadline": _deadline(spool, response_timeout_s),
        "dedup_key": dedup_key,
        "refs": list(refs),
        "headers": headers or {},
        "body": body,
    }
    address(spool, message)
    checked = check(message)
    _fits(spool, body)
    return checked


def _fits(spool: SpoolFiles, body: str) -> None:
    limit = spool.limit("body_bytes", MAX_BODY)
    if 4 * len(body) > limit and (size := len(body.encode("utf-8"))) > limit:
        raise MailError(
            "too_large",
            f"body has {size} bytes, this spool allows {limit} (limits.body_bytes in spool.json)",
            "put it into a file and name that with a ref",
        )


def post_one(spool: SpoolFiles, message: "Json") -> "dict[str, Any]":
    """Send a checked message to wherever it goes, and answer its receipt."""
    ensure_sender(spool, message["sender"])  # only now: a request that is refused makes nothing
    key = None
    if message["dedup_key"] is not None:
        from maildir_agents.mail.dedup import key_path

        key = key_path(spool, message["sender"], message["dedup_key"])
    if message["recipient"] == EVERYBODY:
        from maildir_agents.mail.broadcast import broadcast

        original, made = broadcast(spool, message, key), False
    else:
        original, made = post(spool, message, key)
    if original is None:
        spool.note(message["sender"], "sent", id=message["id"], to=message["recipient"])
    elif key:
        from maildir_agents.mail.mending import complete

        complete(spool, original, key)
    return receipt(message, original, made)


def standing(spool: SpoolFiles, agent: str) -> "dict[str, Any]":
    """`{reachable: False, next}` when the agent has watched before and does not now; else nothing."""
    if watch_state(spool, agent, tidy=True) not in (RELEASED, STALE):
        return {}
    from maildir_agents.verbs.guidance import outstanding

    return {"reachable": False, "next": outstanding(agent, unread=False, owed=False, reachable=False)}


def receipt(message: "Json", original: "Json | None", made: bool) -> "dict[str, Any]":
    """What a sender is told.  `original`: the message that its dedup key already was."""
    told = original or message
    answer = {key: told[key] for key in ("id", "sender", "recipient", "subject", "kind", "created")}
    answer["duplicate"] = original is not None
    if original is not None and _content(original) != _content(message):
        answer["content_differs"] = True
    answer["delivery"] = {"known": not made}
    return answer


def _content(message: "Json") -> tuple[object, ...]:
    return tuple(message[key] for key in ("recipient", "subject", "body", "refs", "kind", "reply_to", "headers"))


def _deadline(spool: SpoolFiles, timeout_s: int | None) -> str | None:
    if timeout_s is None:
        return None
    return iso(spool.clock.wall_ms() + 1000 * min(max(timeout_s, 1), MAX_TIMEOUT_S))


def ensure_sender(spool: SpoolFiles, sender: str) -> None:
    """Make the sender's mailbox, so that it can be answered."""
    if not os.path.isdir(f"{spool.box(sender)}/new"):
        from maildir_agents.mail.founding import make_mailbox

        make_mailbox(spool, sender)


def gate(spool: SpoolFiles, recipient: str) -> None:
    """Refuse a full spool and a full mailbox.  Two stats; counting only where the directory is large."""
    if not spool.exists:
        return
    if not spool.has_ballast(BALLAST_FILES - 1):  # the first that acks free
        from maildir_agents.mail.founding import fill_ballast

        fill_ballast(spool)
    if recipient != EVERYBODY and spool.full(recipient):
        limit = spool.limit("waiting", WAITING_LIMIT)
        raise MailError(
            "mailbox_full",
            f"{recipient} has {limit} messages waiting",
            "try again when it has read some: agent-mail status shows when",
            limit=limit,
        )
