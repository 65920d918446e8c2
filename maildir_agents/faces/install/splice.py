"""Putting a member or an element into a JSON text and taking it out, touching no other byte.

Where a container is made for what is put in, it goes again with the last thing in it.  One that stood there empty must
stay, and how to tell them apart later?  By a blank line: what is put into an empty container that was there already
begins with one.
"""

import json

from maildir_agents.faces.install.jsonc import Child, Node, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Path = tuple[str | int, ...]

DEFAULT_UNIT = "  "


class Refused(ValueError):
    """The text has something else in the place."""


class Style:
    """How a text breaks lines and indents them."""

    def __init__(self, text: str) -> None:
        self.newline = "\r\n" if "\r\n" in text else "\n"
        root = parse(text, lenient=True) if text else None
        first = root.children[0].start if root and root.children else 0
        before = text[root.start + 1 : first] if root and first else ""
        self.unit = _after_newline(before) if "\n" in before else DEFAULT_UNIT

    def written(self, value: "Any", indent: str | None) -> str:
        """A value as text, its further lines at `indent`; None: all in one line."""
        if indent is None:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        return (self.newline + indent).join(lines)


def put(text: str, path: "Path", key: str | None, value: "Any", lenient: bool = False) -> str:
    """The text with `key: value` in the object at `path`, or with `value` behind the elements of the array there.

    Containers that are missing are made.  An empty text becomes an object.  Raises Refused, Broken.
    """
    style = Style(text)
    if not text:
        [(key, value)] = _nested(path, key, value).items()
        return "{" + _body(style, key, value, style.unit, first=True) + style.newline + "}" + style.newline
    node = parse(text, lenient)
    for depth, step in enumerate(path):
        child = node.child(str(step)) if node.kind == "object" else None
        if node.kind != "object":
            raise Refused(f"{_named(path[:depth])} is no object")
        if child is None:
            return _insert(text, node, str(step), _nested(path[depth + 1 :], key, value), style)
        node = child.node
    wanted = "array" if key is None else "object"
    if node.kind != wanted:
        raise Refused(f"{_named(path)} is no {wanted}")
    if key is not None and node.child(key):
        raise Refused(f"{_named((*path, key))} is there already")
    return _insert(text, node, key, value, style)


def _nested(path: "Path", key: str | None, value: "Any") -> "Any":
    """The containers at `path` with nothing but the value in the innermost."""
    made: Any = [value] if key is None else {key: value}
    for step in reversed(path):
        made = {str(step): made}
    return made


def _named(path: "Path") -> str:
    return ".".join(map(str, path)) or "the whole"


def _body(style: Style, key: str | None, value: "Any", indent: str | None, first: bool = False) -> str:
    lead = "" if indent is None else style.newline + indent
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    return (lead if first else ("," + (lead or " "))) + name + style.written(value, indent)


def _insert(text: str, node: Node, key: str | None, value: "Any", style: Style) -> str:
    if not node.children:
        own = _indent_of_line(text, node.start)
        piece = style.newline + _body(style, key, value, own + style.unit, first=True) + style.newline + own
        return text[: node.start + 1] + piece + text[node.start + 1 :]
    before = text[node.start + 1 : node.children[0].start]
    indent = _after_newline(before) if "\n" in before else None
    last = node.children[-1]
    if _has_comment_behind(text, last):  # it belongs to the last one: then this one comes first
        piece = _body(style, key, value, indent, first=True) + ("," if indent is not None else ", ")
        return text[: node.start + 1] + piece + text[node.start + 1 :]
    return text[: last.end] + _body(style, key, value, indent) + text[last.end :]


def take(text: str, path: "Path", lenient: bool = False) -> str:
    """The text without what stands at `path` (keys and indexes); containers made for it go too.  "": all is gone."""
    parents = [parse(text, lenient)]
    for step in path[:-1]:
        parents.append(_step(parents[-1], step).node)
    style = Style(text)
    for node, step in zip(reversed(parents), reversed(path), strict=True):
        child = _step(node, step)
        if len(node.children) > 1:
            return _cut(text, node, child)
        blank = style.newline * 2
        if text[node.start + 1 : child.start].startswith(blank):
            end = child.end
            closing = style.newline + _indent_of_line(text, node.start)
            return text[: node.start + 1] + text[end + (len(closing) if text.startswith(closing, end) else 0) :]
    return ""


def _step(node: Node, step: str | int) -> Child:
    if isinstance(step, int):
        return node.children[step]
    child = node.child(step)
    if child is None:
        raise KeyError(step)
    return child


def _cut(text: str, node: Node, child: Child) -> str:
    """Without one of several children; comments of others stay."""
    index = node.children.index(child)
    if index == 0:
        start, end = _after_comments(text, node.start + 1, child.start), child.comma + 1
        if "\n" not in text[start : child.start] and text[end : end + 1] == " ":
            end += 1
        return text[:start] + text[end:]
    before = node.children[index - 1]
    start = _after_comments(text, before.comma + 1, child.start)
    if start == before.comma + 1:
        return text[: before.end] + text[child.end :]
    if child.comma >= 0:  # a comment stands before it: the comma behind it goes instead
        return text[:start] + text[child.comma + 1 :]
    return text[: before.comma] + text[before.comma + 1 : start] + text[child.end :]


def _after_comments(text: str, start: int, end: int) -> int:
    """Where the white space before `end` begins: behind the last comment since `start`."""
    return start + len(text[start:end].rstrip(" \t\r\n")) if text[start:end].strip() else start


def _has_comment_behind(text: str, child: Child) -> bool:
    line = text[child.end :].partition("\n")[0]
    return line.lstrip(" \t,\r")[:2] in ("//", "/*")


def _indent_of_line(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _after_newline(blank: str) -> str:
    """The indentation that white space before a value ends in."""
    tail = blank[blank.rfind("\n") + 1 :]
    return tail if not tail.strip(" \t") else ""
