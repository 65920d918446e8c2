"""A marked block at the end of a text file: put in, replaced, taken out, the rest of the file as it was.

For instructions in Markdown and settings in TOML, where a comment can say whose the lines are.  The first line names
the tools the block is there for: two of them may share a file, and the last one out takes the block along.
"""

import re

BEGIN = "agent-mail: begin"
END = "agent-mail: end"


class Broken(ValueError):
    """A beginning without an end: what lies between is not known to be ours."""


class Comment:
    """How a format writes a comment in a line of its own."""

    def __init__(self, before: str, after: str) -> None:
        self.before, self.after = before, after

    def line(self, text: str) -> str:
        return f"{self.before}{text}{self.after}"


MARKDOWN = Comment("<!-- ", " -->")
TOML = Comment("# ", "")


class Block:
    """A block in a text: `text[start:end]`, with the agent and the tools that its first line names."""

    def __init__(self, start: int, end: int, agent: str, tools: list[str]) -> None:
        self.start, self.end, self.agent, self.tools = start, end, agent, tools


def find(text: str, comment: Comment) -> Block | None:
    """The block in a text.  Raises Broken."""
    opening = re.search(
        rf"^{re.escape(comment.before)}{BEGIN} (\S+) \(([\w, ]*)\)[^\r\n]*?{re.escape(comment.after)}\r?$", text, re.M
    )
    if not opening:
        return None
    closing = re.compile(rf"^{re.escape(comment.line(END))}(?=\r?$)", re.M).search(text, opening.end())
    if not closing:
        line = text.count("\n", 0, opening.start()) + 1
        raise Broken(f"the block that begins on line {line} has no line {comment.line(END)!r}")
    return Block(opening.start(), closing.end(), opening[1], opening[2].split(", "))


def put(text: str | None, comment: Comment, agent: str, tool: str, body: str) -> str:
    """The text with the block for `agent`, in the place of an older one, else at the end; None: there is no file."""
    old = find(text or "", comment)
    tools = sorted({*(old.tools if old else ()), tool})
    first = f"{BEGIN} {agent} ({', '.join(tools)}) - `agent-mail uninstall` takes this out"
    newline = "\r\n" if text and "\r\n" in text else "\n"
    lines = [comment.line(first), *body.rstrip("\n").split("\n"), comment.line(END)]
    block = newline.join(lines)
    if text is None:
        return block + newline
    if old:
        return text[: old.start] + block + text[old.end :]
    if text and not text.endswith("\n"):
        return text + newline * 2 + block  # and no newline at the end, as before
    return text + newline + block + newline


def take(text: str, comment: Comment, tool: str, whose: str | None = None) -> str | None:
    """The text without the block, or with one tool less in its first line; None: nothing is left of the file."""
    block = find(text, comment)
    if block is None or tool not in block.tools or whose not in (None, block.agent):
        return text
    if len(block.tools) > 1:
        rest = ", ".join(name for name in block.tools if name != tool)
        named = f"({', '.join(block.tools)})"
        at = text.index(named, block.start)
        return text[:at] + f"({rest})" + text[at + len(named) :]
    newline = "\r\n" if "\r\n" in text else "\n"
    before, after = text[: block.start], text[block.end :]
    if after.startswith(newline):
        if not before:
            return after.removeprefix(newline) or None
        return before.removesuffix(newline) + after.removeprefix(newline)
    return before.removesuffix(newline * 2) + after
