"""Ids, agent names, times and the stamps in a file name.  Pure: text in, text out.

A message's file name is its envelope: `<id>` and then `~<letter><value>` for what happened to it.
Names are compared and never guessed: a state change is a rename from the exact text that was read.
"""

import time

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

EVERYBODY = "*"
MAX_AGENT = 100
MAX_NAME = 150  # bytes of a name without x, b, w: claiming it then stays below 255
MAX_UNKNOWN = MAX_NAME - 140  # the known stamps take 140: so no later move makes a name too long
TRASHED = "t"  # the stamp of a name in trash/
ORDER = "rnqxbwazd"  # first read, token, token at requeue, lease end, boot, worker, acknowledged, archived, dead letter

_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_PART = _LOWER | frozenset("._-")
_HEX = frozenset("0123456789abcdef")
_DIGITS = frozenset("0123456789")


# ids: UUIDv7, the first 48 bits are milliseconds since 1970


class Ids:
    """Makes ids that strictly increase within the process.  `randomness(n)` answers n bytes from the kernel."""

    def __init__(self, randomness: "Callable[[int], bytes]") -> None:
        self._randomness = randomness
        self._last = (0, 0)

    def next(self, now_ms: int) -> str:
        noise = int.from_bytes(self._randomness(10), "big")
        count = noise >> 69  # 11 bits: half of the counter is left to count up in
        if now_ms <= self._last[0]:
            now_ms, count = self._last[0], self._last[1] + 1
            if count > 0xFFF:
                now_ms, count = now_ms + 1, 0
        self._last = (now_ms, count)
        digits = format(now_ms << 80 | 7 << 76 | count << 64 | 2 << 62 | noise & (1 << 62) - 1, "032x")
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_id(text: str) -> bool:
    """True for a lower-case UUIDv7."""
    return (
        len(text) == 36
        and text[8] == text[13] == text[18] == text[23] == "-"
        and text[14] == "7"
        and text[19] in "89ab"
        and _HEX.issuperset(text.replace("-", "", 4))
        and text.count("-") == 4
    )


def canonical(text: str) -> str:
    """An id as callers write it, in lower case; `bad_id` when it is none."""
    folded = text.lower()
    if not is_id(folded):
        raise MailError("bad_id", f"{text!r} is no message id", "ids are UUIDs as send, watch and read print them")
    return folded


def ms_of(message_id: str) -> int:
    """When the id was made: milliseconds since 1970."""
    return int(message_id[:8] + message_id[9:13], 16)


def day_of(message_id: str) -> str:
    """`2026-11-30`, the directory of the id's day."""
    return "%04d-%02d-%02d" % time.gmtime(ms_of(message_id) / 1000)[:3]


def minute_of(message_id: str) -> str:
    """`1847`, the directory of the id's minute within its day."""
    return "%02d%02d" % time.gmtime(ms_of(message_id) / 1000)[3:5]


# times


def stamp(ms: int) -> str:
    """`20261130T184712.123Z`, as times stand in file names."""
    return "%04d%02d%02dT%02d%02d%02d" % time.gmtime(ms // 1000)[:6] + ".%03dZ" % (ms % 1000)


def iso(ms: int) -> str:
    """`2026-11-30T18:47:12.123Z`, as times stand in JSON."""
    return "%04d-%02d-%02dT%02d:%02d:%02d" % time.gmtime(ms // 1000)[:6] + ".%03dZ" % (ms % 1000)


def is_stamp(text: str) -> bool:
    return (
        len(text) == 20
        and text[8] == "T"
        and text[15] == "."
        and text[19] == "Z"
        and _DIGITS.issuperset(text[:8] + text[9:15] + text[16:19])
    )


def ms_of_stamp(text: str) -> int:
    """Milliseconds since 1970 of a stamp.  Civil-calendar arithmetic: the datetime module is a third of a start."""
    year, month, day = int(text[:4]), int(text[4:6]), int(text[6:8])
    year, month = (year - 1, month + 12) if month < 3 else (year, month)
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month - 457) // 5 + day - 719469
    seconds = days * 86400 + int(text[9:11]) * 3600 + int(text[11:13]) * 60 + int(text[13:15])
    return seconds * 1000 + int(text[16:19])


def iso_of_stamp(text: str) -> str:
    """A stamp as JSON says it."""
    return f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[9:11]}:{text[11:13]}:{text[13:]}"


def is_iso(text: str) -> bool:
    """True for a UTC time as JSON says it, to the millisecond."""
    return (
        len(text) == 24
        and text[4] == text[7] == "-"
        and text[10] == "T"
        and text[13] == text[16] == ":"
        and is_stamp(text.replace("-", "", 2).replace(":", "", 2))
        and iso(ms_of_iso(text)) == text
    )


def ms_of_iso(text: str) -> int:
    return ms_of_stamp(text.replace("-", "", 2).replace(":", "", 2))


# agents


def is_agent(text: str) -> bool:
    """True for a mailbox name: `name` or `project:name`."""
    if not 0 < len(text) <= MAX_AGENT or text == "broadcast":
        return False
    parts = text.split(":")
    return len(parts) <= 2 and all(part and part[0] in _LOWER and _PART.issuperset(part) for part in parts)


def agent(text: str) -> str:
    """The name of one agent, unchanged; `bad_agent` when it is none."""
    if not is_agent(text):
        raise MailError(
            "bad_agent",
            f"{text!r} is no agent name",
            "name or project:name, parts of a-z 0-9 . _ - starting with a letter or digit, 100 characters in all",
        )
    return text


def recipient(text: str) -> str:
    """An agent, or `*` for everybody but the sender (`broadcast` means the same)."""
    return EVERYBODY if text in (EVERYBODY, "broadcast") else agent(text)


# file names


class Name:
    """A message's file name, taken apart: `id`, and `stamps` letter -> value in the order of the name."""

    __slots__ = ("id", "stamps", "text")

    def __init__(self, message_id: str, stamps: dict[str, str]) -> None:
        self.id = message_id
        self.stamps = stamps
        self.text = message_id + "".join(f"~{key}{value}" for key, value in stamps.items()) + ".json"

    @property
    def token(self) -> int:
        """Number of claims and requeues so far."""
        return int(self.stamps.get("n", "0"))

    def becoming(self, stamps: dict[str, str], without: "Iterable[str]" = ()) -> "Name":
        """The same message with further stamps, and without some; unknown stamps are kept, at the end."""
        kept = {key: value for key, value in self.stamps.items() if key not in without}
        kept.update(stamps)
        known = {key: kept.pop(key) for key in ORDER if key in kept}
        return Name(self.id, known | kept)


def _fits(key: str, value: str) -> bool:
    if key in "rxaz":
        return is_stamp(value)
    if key in "nqd":
        return 0 < len(value) <= 9 and _DIGITS.issuperset(value)
    if key == "w":
        return 0 < len(value) <= 48 and _PART.issuperset(value)
    if key == "b":
        boot, _, ms = value.partition("-")
        return len(boot) == 16 and _HEX.issuperset(boot) and 0 < len(ms) <= 13 and _DIGITS.issuperset(ms)
    return _PART.issuperset(value) and (key != TRASHED or len(value) <= 16)


def parse(text: str) -> Name | None:
    """A file name taken apart, or None: no message of ours (foreign)."""
    if text[-5:] != ".json" or not is_id(text[:36]):
        return None
    if len(text) == 41:
        return Name(text[:36], {})
    if text[-12:] == ".reason.json":  # a dead letter's reason, which an unknown stamp could look like
        return None
    stamps: dict[str, str] = {}
    for part in text[37:-5].split("~") if text[36] == "~" else ("",):
        if not part or part[0] not in "abcdefghijklmnopqrstuvwxyz" or part[0] in stamps or not _fits(part[0], part[1:]):
            return None
        stamps[part[0]] = part[1:]
    name = Name(text[:36], stamps)
    unknown = sum(len(value) + 2 for key, value in stamps.items() if key not in ORDER + TRASHED)
    return name if name.text == text and unknown <= MAX_UNKNOWN and len(text) <= 255 else None


# handles: one claim, by message and token


def handle(message_id: str, token: int) -> str:
    return f"{message_id}~n{token}"


def life(text: str) -> str:
    """The handle of a file name's claim, ~n0 before the first: mail that a worker gave back is another life of it."""
    name = parse(text) if len(text) > 41 else None
    return handle(text[:36], name.token if name else 0)


def parse_handle(text: str) -> tuple[str, int | None]:
    """(id, token) of an id or a handle as callers write it; token None for a bare id.  `bad_id` when it is neither."""
    bare, mark, token = text.partition("~n")
    if not mark:
        return canonical(text), None
    if not (0 < len(token) <= 9 and _DIGITS.issuperset(token)):
        raise MailError(
            "bad_id", f"{text!r} is no message id and no handle", "a handle is <id>~n<token>, as claim prints it"
        )
    return canonical(bare), int(token)


def own_claims(text: str | None) -> frozenset[tuple[str, int]]:
    """The claims a process holds, from the handle its listener gave it (AGENT_MAIL_CLAIM): {(id, token)}."""
    if not text:
        return frozenset()
    message_id, token = parse_handle(text)
    return frozenset() if token is None else frozenset([(message_id, token)])


def meant(text: str, mine: frozenset[tuple[str, int]]) -> str:
    """An id as its caller means it: a bare id of the caller's own claim is that claim's handle."""
    return next((handle(message_id, token) for message_id, token in mine if text.lower() == message_id), text)
