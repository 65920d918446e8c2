"""send --batch and send_many: many messages, checked first, then sent as one.

All or nothing but for crashes: one that is refused and none is sent.
"""

from maildir_agents.errors import MailError, Malformed
from maildir_agents.mail.batch import post_many
from maildir_agents.mail.name import EVERYBODY, canonical
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.mail.threads import root_of
from maildir_agents.verbs.send import compose, ensure_sender, gate, post_one

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from maildir_agents.mail.message import Json

_KINDS = {  # what `compose` takes for granted
    "refs": (list, "a list"),
    "headers": (dict, "an object"),
    "response_timeout_s": (int, "a whole number"),
    "reply_to": (str, "text"),
}
TAKEN = ("sender", "recipient", "subject", "body", "refs", "reply_to", "dedup_key", "headers", "response_timeout_s")


def send_many(spool: SpoolFiles, orders: "Iterable[Json]", sender: str | None = None) -> "dict[str, Any]":
    """Send many messages: `{count, ids}`, the ids in the order given.

    Each of `orders` is a dict with the keys of TAKEN (as `send` takes them; `sender` may be given once for all).  A
    reply joins its thread and acknowledges nothing.  Broadcasts and messages with a key are sent one by one after the
    others.
    """
    messages = [_checked(spool, order, sender, number) for number, order in enumerate(orders, 1)]
    for recipient in sorted({message["recipient"] for message in messages}):
        gate(spool, recipient)
    for name in sorted({message["sender"] for message in messages}):
        ensure_sender(spool, name)
    plain = [m for m in messages if m["recipient"] != EVERYBODY and m["dedup_key"] is None]
    if plain:
        post_many(spool, plain)
        for name in sorted({message["sender"] for message in plain}):
            spool.note(name, "sent", ids=[message["id"] for message in plain if message["sender"] == name])
    done = {id(message): str(message["id"]) for message in plain}
    for message in messages:
        if id(message) not in done:
            try:
                done[id(message)] = post_one(spool, message)["id"]
            except MailError as error:
                raise _half_sent(error, [done[id(m)] for m in messages if id(m) in done], len(messages)) from error
    ids = [done[id(message)] for message in messages]
    return {"count": len(ids), "ids": ids}


def _half_sent(error: MailError, sent: "list[str]", count: int) -> MailError:
    """What the refusal of one means when others are sent: never that nothing was."""
    if isinstance(last := error.detail.get("id"), str) and error.code == "durability_unknown":
        sent.append(last)
    if not sent:
        return error
    return MailError(
        "durability_unknown",
        f"{len(sent)} of {count} messages were sent, then {error.sentence}",
        "the ids that were sent are in `ids`; send only the others again",
        ids=sent,
    )


def _checked(spool: SpoolFiles, order: "Json", sender: str | None, number: int) -> "Json":
    try:
        order = {"sender": sender, **order} if sender else dict(order)
        for key in order:
            if key not in TAKEN:
                raise Malformed("bad_field", f"{key!r} is no field of a message to send")
        for key in ("sender", "recipient", "subject"):
            if type(order.get(key)) is not str:
                raise Malformed("missing_field", f"there is no {key}")
        for key, (kind, what) in _KINDS.items():
            if key in order and type(order[key]) is not kind and (order[key] is not None or kind in (list, dict)):
                raise Malformed("bad_type", f"{key} is not {what}")
        parent = order.pop("reply_to", None)
        message = compose(spool, **order)
        if parent is not None:
            message["reply_to"] = canonical(parent)
            message["thread_id"] = root_of(spool, parent)
        return message
    except MailError as error:
        raise MailError(error.code, f"message {number} of the batch: {error.sentence}", "nothing was sent") from None
