"""A turn of a conversation, or a notice beside it.

A task or a result answers the message in flight and takes the next number of the journal; a notice is ordinary mail
between the two members.  What was committed is found again and never sent twice.
"""

from maildir_agents.errors import MailError
from maildir_agents.mail import conversation as rules
from maildir_agents.mail import journal
from maildir_agents.mail.dedup import key_path, winner
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.mending import complete
from maildir_agents.mail.message import KINDS
from maildir_agents.mail.name import canonical
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs.reply import acknowledged, parent_of, settleable_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.mail.message import Json


def place(
    spool: SpoolFiles, message: "Json", kind: str | None, conversation: str | None, parent_id: str | None
) -> bool:
    """Put a composed message into the conversation named, or the one of what it answers.

    True: it is a turn, to be taken; False: a notice, which goes the way of all mail.
    """
    parent = parent_of(Mailbox(spool, message["sender"]), parent_id) if parent_id is not None else None
    inherited = parent["conversation_id"] if parent else None
    if conversation is None and inherited is None:
        raise MailError("usage", f"a {kind} belongs to a conversation", "give --conversation ID, or leave --kind out")
    if kind not in KINDS:
        raise MailError("usage", f"a message of a conversation is one of {', '.join(KINDS)}", "give --kind")
    message["kind"] = kind
    message["conversation_id"] = canonical(conversation) if conversation is not None else inherited
    if parent is not None:
        message["reply_to"], message["thread_id"] = parent["id"], parent["thread_id"] or parent["id"]
    if kind in rules.TURNS:
        return True
    found = journal.read(spool, message["conversation_id"])
    for member in (message["sender"], message["recipient"]):
        rules.judge_member(found, member)
    return False


def take_turn(
    spool: SpoolFiles, message: "Json", token: int | None, acknowledge: bool
) -> "tuple[Json | None, dict[str, Any]]":
    """Commit a task or result as the next turn, deliver it, acknowledge what it answers.

    (the message that this turn already was or None, what the receipt says besides).
    """
    box = Mailbox(spool, message["sender"])
    claim = _Claim(box, message["reply_to"], token)  # before the journal: a retry must not take its own end for a loss
    try:
        original = journal.post_turn(spool, message, claim.allows, lambda: _known(spool, message))
    except MailError as error:
        if error.detail.get("answered_by") and acknowledge:
            acknowledged(box, claim.found, token, quiet=True)  # settled by its answer
        raise
    if original is None:
        spool.note(message["sender"], "sent", id=message["id"], to=message["recipient"])
    # A key may be known from elsewhere: what it names then answers nothing here.
    if not acknowledge or (original is not None and original["reply_to"] != message["reply_to"]):
        return original, {}
    return original, acknowledged(box, claim.found, token, quiet=original is not None)


def _known(spool: SpoolFiles, message: "Json") -> "Json | None":
    if message["dedup_key"] is None:
        return None
    original = winner(spool, message["sender"], message["dedup_key"])
    if original is not None:
        complete(spool, original, key_path(spool, message["sender"], message["dedup_key"]))
    return original


class _Claim:
    """Where the answered message is, and the refusal its state means for an answer, if there is one."""

    def __init__(self, box: Mailbox, parent_id: str | None, token: int | None) -> None:
        self.found: Found | None = None
        self._refusal: MailError | None = None
        if parent_id is None:
            return  # then the journal refuses it: a turn answers the message in flight
        try:
            self.found = settleable_parent(box, parent_of(box, parent_id), token)
        except MailError as error:
            self._refusal = error

    def allows(self) -> None:
        if self._refusal is not None:
            raise self._refusal
