"""Writes cli.md beside this file from the rows of the commands: `python docs/reference/generate.py`.

The rows are what the parser, `describe` and `--help` use too, so the page can't say anything else.  A test compares.
"""

from pathlib import Path
from typing import Any

from maildir_agents.errors import CODES
from maildir_agents.faces.cli import UNDESCRIBED, VERBS, load
from maildir_agents.faces.cli.describe import EXIT_STATUS, IDENTITY, WORDS
from maildir_agents.faces.cli.words import COMMON, usage

FRONT = """# Commands

<!-- Written by generate.py from the commands themselves. Change it there. -->

`agent-mail VERB …`, or `python -m maildir_agents VERB …`. Answers are JSON on standard output, errors JSON on standard
error: `error` (a sentence), `code`, `hint`, and more where there is more to say. `agent-mail describe` gives a program
what this page gives you, `agent-mail VERB --help` one command of it. Without a verb, `agent-mail` is `describe`.

"""


def cell(text: object) -> str:
    return str(text).replace("|", "\\|")


def table(heads: str, rows: "list[tuple[object, ...]]") -> list[str]:
    columns = heads.split(", ")
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return [*lines, *("| " + " | ".join(map(cell, row)) + " |" for row in rows), ""]


def argument(name: str, spec: "dict[str, Any]") -> tuple[str, str]:
    text = f"{name} {spec['value']}" if "value" in spec else name
    needed = spec.get("required") and "default" not in spec
    notes = [*(["required"] if needed else []), *(["may be repeated"] if spec.get("many") else [])]
    known = str(spec.get("help", ""))
    more = [note for note in notes if note not in known]
    return f"`{text}`", "; ".join([known, *more])


def command(verb: str) -> list[str]:
    row = load(verb).ROW
    lines = [f"## {verb}", "", f"{row['summary'][0].upper()}{row['summary'][1:]}.", ""]
    lines += [row["about"], ""] if row.get("about") else []
    lines += ["```text", usage(verb, row), "```", ""]
    entries = [*row.get("words", {}).items(), *row.get("args", {}).items()]
    if entries:
        lines += table("argument, meaning", [argument(name, spec) for name, spec in entries])
    lines += table("answer, meaning", [(f"`{names}`", meaning) for names, meaning in row["output"].items()])
    lines += ["Examples:" if len(row["examples"]) > 1 else "Example:", "", "```text", *row["examples"], "```", ""]
    if verb in UNDESCRIBED:
        lines += ["For people; `describe` leaves it out.", ""]
    return lines


def page() -> str:
    lines = table("command, what it does", [(f"[{verb}](#{verb})", load(verb).ROW["summary"]) for verb in VERBS])
    lines += ["Every command takes:", "", *table("argument, meaning", [argument(*item) for item in COMMON.items()])]
    lines += ["An argument is the word after its option, whatever it begins with; `--option=VALUE` is the same.", ""]
    for verb in VERBS:
        lines += command(verb)
    lines += ["## Names", "", IDENTITY, "", "## Words in answers", ""]
    lines += table("word, meaning", [(f"`{word}`", meaning) for word, meaning in WORDS.items()])
    lines += ["## Environment", ""]
    lines += table(
        "variable, meaning",
        [
            ("`AGENT_ID`", "the agent that AGENT arguments and `--from` mean when they are left out"),
            ("`AGENT_MAIL_SPOOL`", "the spool, an absolute path"),
            ("`XDG_STATE_HOME`", "else the spool is `agent-mail` in here, by default in `~/.local/state`"),
            ("`AGENT_MAIL_CLAIM`", "a claim's handle: this process holds it, and its bare id means that claim"),
            ("`AGENT_MAIL_WORKER`", "the label of claims, where `--worker` gives none"),
        ],
    )
    lines += ["## Exit status", "", *table("status, meaning", [*EXIT_STATUS.items()]), ""]
    lines += ["130 and 141 say that the command was interrupted, or that nobody read its output any more.", ""]
    lines += ["## Codes of errors", "", *table("code, exit status", [(f"`{c}`", s) for c, (s, _) in CODES.items()])]
    return FRONT + "\n".join(lines).replace("\n\n\n", "\n\n").rstrip() + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "cli.md").write_text(page(), encoding="utf-8")
