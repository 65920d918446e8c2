"""What each file becomes: worked out for all of them and tried out, before the first is written.

Putting in is always: take out what is ours, put in what is wanted, take it out again and see that the text is the one
from before.  A file for which that does not come out is not touched.
"""

from maildir_agents.errors import MailError
from maildir_agents.faces.install import block, jsonc, splice
from maildir_agents.faces.install.files import broken, read
from maildir_agents.faces.install.tools import SERVER, Entry, Part, Words, is_our_hook, is_our_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Path = tuple[str | int, ...]

SERVERS = ("mcpServers", "mcp")


class Change:
    """A file before and after, None where there is none."""

    __slots__ = ("after", "before", "path")

    def __init__(self, path: str, before: str | None, after: str | None) -> None:
        self.path, self.before, self.after = path, before, after

    @property
    def name(self) -> str:
        if self.before == self.after:
            return "unchanged"
        return "made" if self.before is None else "removed" if self.after is None else "changed"


def installed(tool: str, parts: list[Part], words: Words) -> list[Change]:
    """Every file with our part in it.  Raises broken_settings."""
    return [_change(part, lambda text, part=part: _with(text, part, tool, words)) for part in parts]


def uninstalled(tool: str, parts: list[Part], words: Words) -> list[Change]:
    """Every file without our part.  Raises broken_settings."""
    return [_change(part, lambda text, part=part: _without(text, part, tool, words.whose)) for part in parts]


def _change(part: Part, edit: "Any") -> Change:
    before = read(part.path)
    try:
        return Change(part.path, before, edit(before))
    except (jsonc.Broken, block.Broken) as error:
        raise broken(part.path, str(error)) from None
    except splice.Refused as error:
        raise MailError(
            "broken_settings",
            f"{part.path} was left as it is: {error}",
            "make room for it, or put it in by hand",
            path=part.path,
        ) from None


def _with(text: str | None, part: Part, tool: str, words: Words) -> str | None:
    if part.form == "markdown":
        return block.put(text, block.MARKDOWN, words.agent, tool, instructions(part.text, words))
    if part.form == "toml":
        return _toml_with(text, part, tool, words)
    if text is not None and _is_there(text, part):
        return text
    base = _json_without(text, part) if text is not None else None
    after = base or ""
    there = jsonc.parse(after, _lenient(part)).value if after else {}
    for entry in part.entries:
        if entry.beside is None or not there.keys() & {entry.key, entry.beside}:
            after = splice.put(after, entry.path, entry.key, entry.value, _lenient(part))
    if _json_without(after, part) != base:
        raise splice.Refused("it could not be taken out again without changing something else")
    return after


def _without(text: str | None, part: Part, tool: str, whose: str | None) -> str | None:
    if text is None:
        return None
    if part.form == "markdown":
        return block.take(text, block.MARKDOWN, tool, whose)
    if part.form == "toml":
        return block.take(text, block.TOML, tool, whose)
    return _json_without(text, part, whose)


def instructions(template: str, words: Words) -> str:
    """The session protocol for an agent, from the templates of this package."""
    from importlib.resources import files

    data = files("maildir_agents") / "_protocol"
    protocol = (data / "protocol.md").read_text("utf-8").rstrip("\n")
    text = (data / template).read_text("utf-8").replace("{protocol}", protocol).replace("{agent}", words.agent)
    if words.spool:
        text += f"\nThe spool is not the usual one: add `{words.command()[len(words.program[0]) :].strip()}` "
        text += "to each of these commands.\n"
    return text


# TOML


def _toml_with(text: str | None, part: Part, tool: str, words: Words) -> str:
    base = block.take(text, block.TOML, tool) if text is not None else None
    before = _toml(base or "")
    servers = before.get("mcp_servers", {})
    if not isinstance(servers, dict):
        raise splice.Refused("mcp_servers is no table")
    if SERVER in servers:
        raise splice.Refused(f"it has an mcp_servers.{SERVER} of its own")
    after = block.put(text, block.TOML, words.agent, tool, part.text)
    try:
        got = _toml(after)
    except jsonc.Broken as error:  # mcp_servers as an inline table, say
        raise splice.Refused(f"no table can be added to it ({error})") from None
    got.get("mcp_servers", {}).pop(SERVER, None)
    if "mcp_servers" not in before:
        got.pop("mcp_servers", None)
    if got != before or block.take(after, block.TOML, tool) != base:
        raise splice.Refused("it could not be taken out again without changing something else")
    return after


def _toml(text: str) -> "dict[str, Any]":
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise jsonc.Broken(str(error)) from None


# JSON


def _lenient(part: Part) -> bool:
    return part.form == "jsonc"


def _json_without(text: str, part: Part, whose: str | None = None) -> str | None:
    """The text without everything of ours, the last first: so each piece comes out as it went in.  None: it was all."""
    left = _without_ours(text, part, whose)
    for entry in reversed(part.entries):
        if entry.beside and _came_beside(entry, text, left, part):
            text = splice.take(text, (str(entry.key),), _lenient(part))
    return _without_ours(text, part, whose) or None


def _without_ours(text: str, part: Part, whose: str | None) -> str:
    while text and (ours := _ours(jsonc.parse(text, _lenient(part)).value, whose)):
        text = splice.take(text, ours[-1], _lenient(part))
    return text


def _came_beside(entry: Entry, text: str, left: str, part: Part) -> bool:
    """Whether an entry was put in together with what goes now: then it stands behind that, and not in front of it."""
    before = jsonc.parse(text, _lenient(part)).value
    keys = list(before)
    if not left or before.get(entry.key) != entry.value or entry.beside not in keys[: keys.index(entry.key)]:
        return False
    return entry.beside not in jsonc.parse(left, _lenient(part)).value


def _ours(root: "Any", whose: str | None = None) -> "list[Path]":
    """Where our hooks and our server stand, in the order of the text."""
    if not isinstance(root, dict):
        raise jsonc.Broken("it is no JSON object")
    found: list[Path] = []
    for key, value in root.items():
        if not isinstance(value, dict):
            continue
        if key == "hooks":
            for event, groups in value.items():
                found += _our_hooks((key, event), groups, whose)
        elif key in SERVERS and is_our_server(value.get(SERVER), whose):
            found.append((key, SERVER))
    return found


def _our_hooks(path: "Path", groups: "Any", whose: str | None) -> "list[Path]":
    def is_ours(handler: object) -> bool:
        return is_our_hook(handler, whose)

    found: list[Path] = []
    for index, group in enumerate(groups if isinstance(groups, list) else []):
        handlers = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(handlers, list):
            found += [(*path, index)] if is_ours(group) else []
        elif handlers and all(map(is_ours, handlers)):
            found.append((*path, index))
        else:  # somebody put a hook of their own beside ours
            found += [(*path, index, "hooks", at) for at, handler in enumerate(handlers) if is_ours(handler)]
    return found


def _is_there(text: str, part: Part) -> bool:
    """Whether what is wanted stands there, and nothing else of ours."""
    root = jsonc.parse(text, _lenient(part)).value
    places = _ours(root)
    have = [(place[:-1] if isinstance(place[-1], int) else place, _at(root, place)) for place in places]
    wanted = [
        (entry.path if entry.key is None else (*entry.path, entry.key), entry.value)
        for entry in part.entries
        if entry.beside is None
    ]
    return len(have) == len(wanted) and all(pair in have for pair in wanted)


def _at(root: "Any", path: "Path") -> "Any":
    for step in path:
        root = root[step]
    return root
