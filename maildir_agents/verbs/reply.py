"""A reply: joins the thread of what it answers, is delivered, and then acknowledges that.

Deliver first, then acknowledge: the other order loses answers.  What may not be acknowledged by the caller is not
answered either; a claim lost in between is said in the receipt.
"""

import os

from maildir_agents.errors import CANNOT_WRITE, UNSURE, MailError
from maildir_agents.mail.intake import adopt_all
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import EVERYBODY
from maildir_agents.mail.reading import envelope_at
from maildir_agents.mail.settle import judge, look_again, settle
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from maildir_agents.mail.message import Json

    Post = Callable[[SpoolFiles, Json], dict[str, Any]]


def answer(
    spool: SpoolFiles, message: "Json", parent_id: str, token: int | None, acknowledge: bool, post: "Post"
) -> "dict[str, Any]":
    """Send `message` in answer to `parent_id` (by the claim `token` of it, if given), and settle that if asked."""
    box = Mailbox(spool, message["sender"])
    parent = parent_of(box, parent_id)
    if not os.path.isdir(f"{box.path}/new"):  # a first mailbox comes with its copies of the last broadcasts
        from maildir_agents.mail.founding import make_mailbox

        make_mailbox(spool, box.agent)
    message["reply_to"] = parent_id
    message["thread_id"] = parent["thread_id"] or parent_id
    mine = acknowledge and parent["recipient"] in (box.agent, EVERYBODY)
    known = message["dedup_key"] is not None and _is_known(box, message["dedup_key"])
    found = _unless_known(box, parent, token, known) if mine or token is not None else None
    told = post(spool, message)
    if mine:
        told.update(acknowledged(box, found, token, quiet=known or told["duplicate"]))
    return told


def _is_known(box: Mailbox, key: str) -> bool:
    from maildir_agents.mail.dedup import winner  # its hash costs a third of a start: only where there is a key

    return winner(box.spool, box.agent, key) is not None


def _unless_known(box: Mailbox, parent: "Json", token: int | None, known: bool) -> Found | None:
    try:
        return settleable_parent(box, parent, token)
    except MailError:
        if not known:
            raise
        return None


def parent_of(box: Mailbox, parent_id: str) -> "Json":
    """The envelope of what is answered; unknown_id when there is no such message."""
    parent = envelope_at(box.spool.anchor(parent_id))
    if parent is None and (found := box.find(parent_id)) and adopt_all(box, [found]):
        parent = envelope_at(box.spool.anchor(parent_id))  # a script dropped it; now it is ordinary mail
    if parent is None:
        raise MailError("unknown_id", f"there is no message {parent_id} to reply to", "nothing was sent")
    return parent


def settleable_parent(box: Mailbox, parent: "Json", token: int | None) -> Found | None:
    """Where the answered message is, if the caller may settle it; None: it is not the caller's to settle.

    Raises claimed, lease_lost or dead_letter before anything is sent.
    """
    if parent["recipient"] not in (box.agent, EVERYBODY) and token is None:
        return None
    found = box.find(parent["id"])
    if found is None and parent["recipient"] == EVERYBODY and parent["sender"] == box.agent:
        return None  # my own broadcast: I have no copy to settle
    found = found or look_again(box, parent["id"])
    judge(box, found, token)
    return found


def acknowledged(box: Mailbox, found: Found | None, token: int | None, quiet: bool) -> "dict[str, Any]":
    """`{"acknowledged": id}`, or what came in between; nothing when it was settled before."""
    if found is None:
        return {}
    try:
        moved = settle(box, found, token, "ack")
        box.sync([moved or box.find(found.id) or found])
    except MailError as error:
        if quiet and error.exit_status not in (CANNOT_WRITE, UNSURE):
            return {}
        return {"code": error.code, "warning": f"the reply was delivered, but {error.sentence}"}
    if moved is None:
        return {}
    box.spool.note(box.agent, "acknowledged", ids=[found.id])
    return {"acknowledged": found.id}
