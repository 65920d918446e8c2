"""JSON with places: where each value begins and ends in the text, so that a text can be edited and not rewritten.

Strict JSON, or with comments and trailing commas (`lenient`) for the tools that read those.  Equal keys are refused:
which of them counts is the reader's secret.
"""

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OPENED = frozenset(("hooks", "mcpServers", "mcp"))
"""Members of the root that are edited.  Of all others only the ends are known: a tool's state can be megabytes."""

_SPACE = re.compile(r"[ \t\r\n]*")
_SPACE_OR_COMMENT = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.S)
_SCALAR = re.compile(
    r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null', re.S | re.A
)


class Broken(ValueError):
    """No JSON; says why and on which line."""


class Node:
    """A value and where it stands: `text[start:end]`.  A container has `children`, if it was opened."""

    __slots__ = ("children", "end", "kind", "start", "value")

    def __init__(self, kind: str, start: int) -> None:
        self.kind = kind  # object, array or scalar
        self.start = start
        self.end = start
        self.value: Any = None
        self.children: list[Child] = []

    def child(self, key: str) -> "Child | None":
        return next((child for child in self.children if child.key == key), None)


class Child:
    """A member (with its key) or an element (key None): `text[start:end]`; `comma` is where the one behind it stands,
    -1 without."""

    __slots__ = ("comma", "key", "node", "start")

    def __init__(self, key: str | None, start: int, node: Node) -> None:
        self.key = key
        self.start = start
        self.node = node
        self.comma = -1

    @property
    def end(self) -> int:
        return self.node.end


def parse(text: str, lenient: bool = False) -> Node:
    """The one value of a text.  Raises Broken."""
    parser = _Parser(text, lenient)
    try:
        root = parser.value(parser.skip(1 if text[:1] == "\ufeff" else 0))
    except RecursionError:
        raise Broken("nested too deep") from None
    if parser.skip(root.end) != len(text):
        raise parser.broken("something follows the value", parser.skip(root.end))
    return root


def _constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_constant)


class _Parser:
    def __init__(self, text: str, lenient: bool) -> None:
        self.text, self.lenient = text, lenient
        self._blank = _SPACE_OR_COMMENT if lenient else _SPACE
        self._depth = 0

    def broken(self, sentence: str, at: int) -> Broken:
        return Broken(f"{sentence} (line {self.text.count(chr(10), 0, at) + 1})")

    def skip(self, at: int) -> int:
        found = self._blank.match(self.text, at)
        return found.end() if found else at

    def value(self, at: int) -> Node:
        opening = self.text[at : at + 1]
        if opening in ("{", "["):
            return self._container(at, "object" if opening == "{" else "array")
        found = _SCALAR.match(self.text, at)
        if not found:
            raise self.broken("a value is missing", at)
        node = Node("scalar", at)
        node.end = found.end()
        try:
            node.value = json.loads(found[0])
        except ValueError:
            raise self.broken("no JSON", at) from None
        return node

    def _container(self, at: int, kind: str) -> Node:
        node, closing = Node(kind, at), "}" if kind == "object" else "]"
        at = self.skip(at + 1)
        self._depth += 1
        while self.text[at : at + 1] != closing:
            if node.children and node.children[-1].comma < 0:
                raise self.broken(f"a comma or {closing} is missing", at)
            child = self._child(at, kind)
            node.children.append(child)
            at = self.skip(child.end)
            if self.text[at : at + 1] == ",":
                child.comma = at
                at = self.skip(at + 1)
        if node.children and node.children[-1].comma >= 0 and not self.lenient:
            raise self.broken("a comma too much", at)
        node.end = at + 1
        self._depth -= 1
        if kind == "array":
            node.value = [child.node.value for child in node.children]
        else:
            node.value = {str(child.key): child.node.value for child in node.children}
            if len(node.value) != len(node.children):
                raise self.broken("the same key twice", node.start)
        return node

    def _child(self, at: int, kind: str) -> Child:
        if kind == "array":
            return Child(None, at, self.value(at))
        if self.text[at : at + 1] != '"':
            raise self.broken("a key is missing", at)
        key = self.value(at)
        colon = self.skip(key.end)
        if self.text[colon : colon + 1] != ":":
            raise self.broken("a colon is missing", colon)
        start = self.skip(colon + 1)
        opened = self._depth > 1 or key.value in OPENED
        return Child(key.value, at, self.value(start) if opened else self._unopened(start))

    def _unopened(self, at: int) -> Node:
        """A value that is only passed over: by the standard library, unless there are comments in it."""
        node = Node("unopened", at)
        try:
            node.value, node.end = _DECODER.raw_decode(self.text, at)
        except (ValueError, RecursionError):
            return self.value(at)
        return node
