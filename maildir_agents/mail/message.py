"""A message: which fields it has, what may stand in them, and its one form on disk.

Pure.  The same rules judge what a caller wants to send and what a stranger dropped into a mailbox: what is accepted
comes back byte for byte, what is not is refused by name, nothing is altered.  Unknown fields survive.
"""

from maildir_agents.errors import MailError, Malformed
from maildir_agents.mail.name import EVERYBODY, is_agent, is_id, is_iso

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Json = dict[str, Any]

MAX_BODY = 1 << 20  # bytes of UTF-8
MAX_ENVELOPE = 8192  # bytes before the body, so that envelopes are read without bodies
MAX_FILE = 8 << 20  # bytes: a body written with \\uXXXX escapes only, and its envelope
MAX_SUBJECT, MAX_KEY, MAX_KIND = 500, 200, 40  # characters
MAX_REFS, MAX_REF, MAX_HEADERS = 64, 4096, 4096  # a count, bytes each, bytes

KINDS = ("task", "result", "notice")

_CONTROLS = bytes([*range(0x20), 0x7F])
_BODY_CONTROLS = _CONTROLS.translate(None, b"\t\n\r")
_LINE_BREAKERS = ("\u2028", "\u2029")


def _encoded(text: object, code: str, what: str) -> bytes:
    if type(text) is not str:
        raise Malformed("bad_type", f"{what} is not text")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise Malformed(code, f"{what} is not UTF-8 text") from None


def _clean(data: bytes, controls: bytes, code: str, what: str) -> None:
    plain = len(data.translate(None, controls)) == len(data)
    # C1 controls are two bytes each in UTF-8, 0xC2 0x80..0x9F.
    if plain and (b"\xc2" not in data or not any(0x80 <= ord(c) <= 0x9F for c in data.decode("utf-8"))):
        return
    raise Malformed(
        code, f"{what} contains a control character", "only TAB, LF and CR may stand in a body, and none in one line"
    )


def _subject(value: object) -> None:
    data = _encoded(value, "bad_subject", "subject")
    if not 1 <= len(str(value)) <= MAX_SUBJECT:
        raise Malformed("bad_subject", f"subject has {len(str(value))} characters, allowed are 1 to {MAX_SUBJECT}")
    _clean(data, _CONTROLS, "bad_subject", "subject")
    if any(mark in str(value) for mark in _LINE_BREAKERS):
        raise Malformed("bad_subject", "subject is more than one line")


def _body(value: object) -> None:
    data = _encoded(value, "bad_body", "body")
    if len(data) > MAX_BODY:
        raise Malformed(
            "too_large",
            f"body has {len(data)} bytes, allowed are {MAX_BODY}",
            "put it into a file and name that with a ref",
        )
    _clean(data, _BODY_CONTROLS, "bad_body", "body")


def _refs(value: object) -> None:
    if type(value) is not list:
        raise Malformed("bad_type", "refs is not a list")
    if len(value) > MAX_REFS:
        raise Malformed("bad_refs", f"{len(value)} refs, allowed are {MAX_REFS}")
    for ref in value:
        data = _encoded(ref, "bad_refs", "a ref")
        if not 1 <= len(data) <= MAX_REF:
            raise Malformed("bad_refs", f"a ref has {len(data)} bytes, allowed are 1 to {MAX_REF}")
        _clean(data, _CONTROLS, "bad_refs", "a ref")


def _key(value: object) -> None:
    data = _encoded(value, "bad_key", "dedup_key")
    if not 1 <= len(str(value)) <= MAX_KEY:
        raise Malformed("bad_key", f"dedup_key has {len(str(value))} characters, allowed are 1 to {MAX_KEY}")
    _clean(data, _CONTROLS, "bad_key", "dedup_key")


def _kind(value: object) -> None:
    data = _encoded(value, "bad_field", "kind")
    if not 1 <= len(data) <= MAX_KIND:
        raise Malformed("bad_field", f"kind has {len(data)} bytes, allowed are 1 to {MAX_KIND}")
    _clean(data, _CONTROLS, "bad_field", "kind")


def _headers(value: object) -> None:
    if type(value) is not dict:
        raise Malformed("bad_type", "headers is not an object")


def _agent(value: object) -> None:
    if type(value) is not str:
        raise Malformed("bad_type", "an agent name is not text")
    if not is_agent(value):
        raise Malformed("bad_agent", f"{value[:120]!r} is no agent name")


def _recipient(value: object) -> None:
    if value != EVERYBODY:
        _agent(value)


def _id(value: object) -> None:
    if type(value) is not str:
        raise Malformed("bad_type", "an id is not text")
    if not is_id(value):
        raise Malformed("bad_id", f"{value[:80]!r} is no message id")


def _time(value: object) -> None:
    if type(value) is not str:
        raise Malformed("bad_type", "a time is not text")
    if not is_iso(value):
        raise Malformed("bad_time", f"{value[:40]!r} is no time like 2026-11-30T18:47:12.123Z")


def _count(value: object, least: int = 0) -> None:
    if type(value) is not int:
        raise Malformed("bad_type", "a count is not a whole number")
    if value < least:
        raise Malformed("bad_number", f"{value} is less than {least}")


def _turn(value: object) -> None:
    _count(value, least=1)


# field -> (check, value when left out; `...`: it must be there), in the order of the file
FIELDS: "dict[str, tuple[Callable[[object], None], object]]" = {
    "id": (_id, ...),
    "sender": (_agent, ...),
    "recipient": (_recipient, ...),
    "subject": (_subject, ...),
    "kind": (_kind, None),
    "reply_to": (_id, None),
    "thread_id": (_id, None),
    "conversation_id": (_id, None),
    "turn": (_turn, None),
    "hops": (_count, None),
    "response_deadline": (_time, None),
    "dedup_key": (_key, None),
    "refs": (_refs, []),
    "headers": (_headers, {}),
    "created": (_time, ...),
    "body": (_body, ...),
}


def check(message: "Json", without_body: bool = False) -> "Json":
    """The message with every known field in the order of the file, defaults filled in, unknown fields after them.

    Raises Malformed with the code of the first rule broken.  `without_body`: an envelope, judged without it.
    """
    complete: Json = {}
    for field, (rule, default) in FIELDS.items():
        if field == "body" and without_body:
            continue
        value = message.get(field, default)
        if value is ...:
            raise Malformed("missing_field", f"there is no {field}")
        if value is not default or (value is None and default is not None):
            rule(value)
        complete[field] = value.copy() if type(value) in (list, dict) else value
    complete.update((key, value) for key, value in message.items() if key not in FIELDS)
    return complete


def head(message: "Json", encode: "Callable[[object], str]") -> bytes:
    """What stands before the body in the file of a checked message.

    Raises Malformed `bad_headers`, or `too_large` when it does not fit `MAX_ENVELOPE`.
    """
    if len(encode(message["headers"]).encode()) > MAX_HEADERS:
        raise Malformed("bad_headers", f"headers have more than {MAX_HEADERS} bytes of JSON")
    envelope = encode({key: value for key, value in message.items() if key != "body"})
    start = f'{envelope[:-1]},"body":'.encode()
    if len(start) > MAX_ENVELOPE:
        raise Malformed(
            "too_large",
            f"everything but the body takes {len(start)} bytes, allowed are {MAX_ENVELOPE}",
            "fewer or shorter refs: a ref may name a file that lists them",
        )
    return start


def lay_out(message: "Json", encode: "Callable[[object], str]") -> bytes:
    """The file of a checked message: one line of JSON, the body last, a newline."""
    return head(message, encode) + f"{encode(message['body'])}}}\n".encode()


def envelope_bytes(start: bytes) -> bytes | None:
    """The envelope as one JSON object, cut from the first bytes of a file; None when the file is not laid out so.

    A `"body"` inside headers leaves an object that does not close, so a wrong cut never parses.
    """
    head, mark, _ = start.partition(b',"body":')
    return head + b"}" if mark else None


def belongs(message: "Json", message_id: str, mailbox: str) -> None:
    """Refuse a message that says it is another's, or another: `bad_id`, `not_yours`."""
    if message["id"] != message_id:
        raise Malformed("bad_id", f"the file is named {message_id} and says it is {message['id']}")
    if message["recipient"] not in (mailbox, EVERYBODY):
        raise Malformed("not_yours", f"addressed to {message['recipient']}, not to {mailbox}")


SENT = (
    "id",
    "sender",
    "recipient",
    "subject",
    "body",
    "refs",
    "kind",
    "reply_to",
    "thread_id",
    "conversation_id",
    "turn",
    "response_deadline",
    "created",
)
"""The fields of a message as it was sent, in the order they are shown."""

PUBLIC = (*SENT, "read_at", "acked_at", "claim_expires_at", "token")
"""The fields of a message as the command line and Python show it: as it was sent, and what its name says."""


def shown(message: "Json", chosen: "Iterable[str]" = PUBLIC) -> "Json":
    """The fields of a message that are shown, in the order asked for."""
    return {field: message.get(field) for field in chosen}


def fields(text: str) -> tuple[str, ...]:
    """`a,b` as callers write it; `bad_field` names the first that is none."""
    chosen = tuple(part.strip() for part in text.split(","))
    for field in chosen:
        if field not in PUBLIC:
            raise MailError("bad_field", f"{field!r} is no field of a message", f"fields are {', '.join(PUBLIC)}")
    return chosen
