"""Help for people, and the front door: what `--help`, `--version` and a mistyped verb get.

Rendered from the same rows as everything else.
"""

from maildir_agents import __version__
from maildir_agents.errors import MailError
from maildir_agents.faces.cli import VERBS, load, write
from maildir_agents.faces.cli.words import common, usage
from maildir_agents.mail.resemblance import closest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from maildir_agents.faces.cli.words import Row


def front(word: str, rest: list[str]) -> int:
    """`agent-mail --help`, `agent-mail help VERB`, `agent-mail --version`."""
    if word == "--version":
        write(1, f"agent-mail {__version__}\n".encode())
        return 0
    if rest and rest[0] in VERBS:
        return page(rest[0], load(rest[0]).ROW)
    lines = ["Mail between coding agents, kept as files.", "", "usage: agent-mail VERB …", ""]
    width = max(map(len, VERBS))
    lines += [f"  {verb:<{width}}  {load(verb).ROW['summary']}" for verb in VERBS]
    lines += ["", "agent-mail VERB --help tells more about one; agent-mail describe tells a program all of it."]
    write(1, ("\n".join(lines) + "\n").encode())
    return 0


def page(verb: str, row: "Row") -> int:
    """`agent-mail VERB --help`."""
    lines = [f"usage: {usage(verb, row)}", "", row["summary"]]
    if row.get("about"):
        lines += ["", row["about"]]
    entries = [*row.get("words", {}).items(), *row.get("args", {}).items(), *common(row).items()]
    width = max(len(_entry(name, spec)) for name, spec in entries)
    lines += ["", *(f"  {_entry(name, spec):<{width}}  {spec.get('help', '')}" for name, spec in entries)]
    if row.get("examples"):
        lines += ["", "examples:", *(f"  {example}" for example in row["examples"])]
    write(1, ("\n".join(lines) + "\n").encode())
    return 0


def _entry(name: str, spec: "Row") -> str:
    return f"{name} {spec['value']}" if "value" in spec else name


def unknown_verb(verb: str) -> MailError:
    if verb[:1] == "-":
        return MailError("usage", f"there is no verb {verb!r}", "options stand behind the verb: agent-mail VERB …")
    longer = [known for known in VERBS if len(verb) > 1 and known.startswith(verb)]
    shorter = [known for known in VERBS if verb.startswith(known)]
    near = [*longer, *shorter, *closest(verb, VERBS)]
    hint = f"did you mean agent-mail {near[0]}?" if near else f"verbs are {', '.join(VERBS)}"
    return MailError("usage", f"there is no verb {verb!r}", hint)
