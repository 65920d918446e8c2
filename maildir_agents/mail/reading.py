"""Reading message files: strictly where a stranger may have written them, envelopes alone where that is enough.

Whoever opens a message that only its own name holds (one link) anchors it before moving it, after judging all of it;
an anchored message has been judged, so its envelope may be cut from the first bytes of the file.
"""

from maildir_agents.disk.jsonfile import Taken, decode, encode, take
from maildir_agents.errors import Malformed
from maildir_agents.mail.message import FIELDS, MAX_ENVELOPE, MAX_FILE, belongs, check, envelope_bytes, head
from maildir_agents.mail.name import iso_of_stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from maildir_agents.mail.message import Json
    from maildir_agents.mail.name import Name


def judge(taken: Taken, message_id: str, mailbox: str) -> "Json":
    """The message in a file taken whole, every rule kept; Malformed names the first one broken."""
    if taken.trouble == "large":
        raise Malformed("too_large", f"the file has {taken.size} bytes, allowed are {MAX_FILE}")
    if taken.data is None:
        raise Malformed("not_json", f"the file is {taken.trouble}")
    message = check(decode(taken.data))
    head(message, encode)
    belongs(message, message_id, mailbox)
    return message


def take_message(path: str) -> Taken:
    return take(path, MAX_FILE)


def envelope_at(path: str) -> "Json | None":
    """The envelope of a judged message (the whole, where it is not laid out our way); None: not there, no message."""
    taken = take(path, MAX_FILE, at_most=MAX_ENVELOPE + 16)
    if taken.data is None:
        return None
    cut = envelope_bytes(taken.data)
    try:
        envelope = decode(cut) if cut is not None else {}
        if len(FIELDS.keys() & envelope.keys()) == len(FIELDS) - 1:  # a field that another hand left out may come later
            return check(envelope, without_body=True)
    except Malformed:
        pass  # laid out by another hand: read it whole
    return whole_at(path)


def whole_at(path: str) -> "Json | None":
    """The whole message of a judged file; None: not there or no message."""
    taken = take_message(path)
    if taken.data is None:
        return None
    try:
        return check(decode(taken.data))
    except Malformed:
        return None


def as_seen(message: "Json", name: "Name") -> "Json":
    """The message with what its file name says: read_at, acked_at, claim_expires_at (RFC 3339 or None) and token."""
    seen = dict(message)
    for field, letter in (("read_at", "r"), ("acked_at", "a"), ("claim_expires_at", "x")):
        value = name.stamps.get(letter)
        seen[field] = iso_of_stamp(value) if value else None
    seen["token"] = name.token
    return seen
