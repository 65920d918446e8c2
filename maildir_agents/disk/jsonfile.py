"""Bytes and JSON, strictly, from the two C functions of the standard library's json and nothing else.

`import json` costs as much as a whole interpreter start, so the hot verbs use its C core directly.  Reading refuses
what two parsers might understand differently: equal keys, NaN, integers beyond 2**53, deep nesting, trailing data.
"""

import errno
import os
import stat

from maildir_agents.errors import MailError, Malformed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Json = dict[str, Any]

MAX_DEPTH = 32
MAX_INTEGER = 2**53
_SPACE = " \t\n\r"


def _pairs(pairs: "list[tuple[str, Any]]") -> "Json":
    answer = dict(pairs)
    if len(answer) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Malformed("duplicate_key", f"the key {twice!r} stands there twice")
    return answer


def _integer(text: str) -> int:
    if len(text) > 17 or abs(value := int(text)) > MAX_INTEGER:
        raise Malformed("bad_number", f"the integer {text[:24]} is beyond 2**53")
    return value


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise Malformed("bad_number", f"the number {text[:24]} is too large")
    return value


def _constant(text: str) -> float:
    raise Malformed("bad_number", f"{text} is not a JSON number")


class _Rules:
    strict = True
    object_hook = None
    object_pairs_hook = staticmethod(_pairs)
    parse_float = staticmethod(_float)
    parse_int = staticmethod(_integer)
    parse_constant = staticmethod(_constant)


def _refuse(value: object) -> str:
    raise TypeError(f"{type(value).__name__} is no JSON")


_scan: "Callable[[str, int], tuple[Any, int]]"
_quote: "Callable[[str], str]"
encode: "Callable[[object], str]"
"""One line of JSON, no spaces, characters beyond ASCII as they are."""

try:
    import _json

    _scan = _json.make_scanner(_Rules())  # type: ignore[arg-type]
    _quote = _json.encode_basestring
    _write = _json.make_encoder(None, _refuse, _quote, None, ":", ",", False, False, False)

    def encode(value: object) -> str:
        return "".join(_write(value, 0))

except ImportError:  # an interpreter without the C core: slower, the same
    import json

    _scan = json.JSONDecoder(
        object_pairs_hook=_pairs, parse_float=_float, parse_int=_integer, parse_constant=_constant
    ).raw_decode
    _quote = json.JSONEncoder(ensure_ascii=False).encode
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_refuse).encode


def decode(data: bytes) -> "Json":
    """One JSON object from UTF-8 bytes, or Malformed: not_json, duplicate_key, bad_number, too_deep, not_an_object."""
    text = _text(data)
    start = len(text) - len(text.lstrip(_SPACE))
    value, end = _scanned(text, start)
    if text[end:].strip(_SPACE):
        raise Malformed("not_json", "something follows the JSON object")
    if type(value) is not dict:
        raise Malformed("not_an_object", "not a JSON object")
    if _depth(value) > MAX_DEPTH:
        raise Malformed("too_deep", f"nested deeper than {MAX_DEPTH}")
    if "\\ud" in text or "\\uD" in text:
        _whole(value)
    return value


def _scanned(text: str, start: int) -> "tuple[Any, int]":
    try:
        return _scan(text, start)
    except RecursionError:
        raise Malformed("too_deep", f"nested deeper than {MAX_DEPTH}") from None
    except StopIteration:
        raise Malformed("not_json", "not JSON: a value is missing") from None
    except ValueError as error:
        raise Malformed("not_json", f"not JSON: {error}") from None
    except SystemError:
        # The C scanner takes its exception from json.decoder, if that is loaded: now it is.
        import json.decoder  # noqa: F401

        return _scanned(text, start)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed("not_json", f"not UTF-8 at byte {error.start}") from None


def _depth(value: object) -> int:
    deepest, todo = 0, [(value, 1)]
    while todo:
        item, depth = todo.pop()
        deepest = max(deepest, depth)
        inner = item.values() if type(item) is dict else item if type(item) is list else ()
        todo.extend((child, depth + 1) for child in inner if type(child) in (dict, list))
    return deepest


def _whole(value: "Json") -> None:
    # An escaped half of a surrogate pair is text that no UTF-8 file can hold.
    try:
        encode(value).encode("utf-8")
    except UnicodeEncodeError:
        raise Malformed("not_json", "half of a surrogate pair") from None


def pretty(value: object, indent: str = "\n") -> str:
    """JSON for reading: two-space indented, characters beyond ASCII as they are."""
    inner = indent + "  "
    if type(value) is dict and value:
        lines = [f"{_quote(str(key))}: {pretty(item, inner)}" for key, item in value.items()]
        return "{" + inner + ("," + inner).join(lines) + indent + "}"
    if type(value) in (list, tuple) and value:
        return "[" + inner + ("," + inner).join(pretty(item, inner) for item in value) + indent + "]"  # type: ignore[attr-defined]
    return encode(value)


class Taken:
    """A file as it was found: its bytes (None when it was not read), and why not."""

    __slots__ = ("data", "inode", "links", "modified_ms", "size", "trouble")

    def __init__(self, data: bytes | None, info: os.stat_result | None, trouble: str = "") -> None:
        self.data = data
        self.trouble = trouble  # "", or: gone, special, large, unreadable
        self.size = info.st_size if info else 0
        self.links = info.st_nlink if info else 0  # names of this inode
        self.inode = info.st_ino if info else 0
        self.modified_ms = info.st_mtime_ns // 1_000_000 if info else 0


def take(path: str, largest: int, at_most: int | None = None) -> Taken:
    """Open and read a regular file: no link followed, no FIFO waited for, nothing larger than `largest` read.

    `at_most` reads only that many bytes from the start.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return Taken(None, None, "gone")
    except OSError as error:
        # ELOOP: a symbolic link.  ENXIO: a socket.
        special = error.errno in (errno.ELOOP, errno.ENXIO, errno.EMLINK)
        return Taken(None, None, "special" if special else "unreadable")
    try:
        return _take(fd, largest, at_most)
    except OSError:
        return Taken(None, None, "unreadable")
    finally:
        os.close(fd)


def _take(fd: int, largest: int, at_most: int | None) -> Taken:
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        return Taken(None, info, "special")
    if info.st_size > largest:
        return Taken(None, info, "large")
    wanted = min(info.st_size, at_most) if at_most else info.st_size
    data = os.read(fd, wanted)
    while len(data) < wanted and (more := os.read(fd, wanted - len(data))):
        data += more
    return Taken(data, info)


def read_settings(path: str, largest: int = 1 << 20) -> "Json | None":
    """A small JSON file of this package's own, or None when there is none.

    Damaged: `not_a_spool` where it is spool.json, without which there is none, else `broken_settings`.
    """
    taken = take(path, largest)
    if taken.trouble == "gone":
        return None
    try:
        if taken.data is None:
            raise Malformed("not_json", f"it is {taken.trouble}")
        return decode(taken.data)
    except Malformed as error:
        code, hint = "broken_settings", "mend it by hand or restore it; nothing was changed"
        if os.path.basename(path) == "spool.json":
            code, hint = "not_a_spool", "restore it, or point AGENT_MAIL_SPOOL at another directory"
        raise MailError(code, f"{path} cannot be read: {error.sentence}", hint, path=path) from None
