"""Install and uninstall: find the places, plan all files, then show the difference or write them."""

import os
import sys

from maildir_agents.errors import MailError
from maildir_agents.faces.install import files, plan
from maildir_agents.faces.install.tools import Words, parts, slug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from maildir_agents.faces.install.plan import Change

THEN = {
    "claude": [
        "start a new session; in the repository's scope Claude Code asks once whether to use the MCP server",
    ],
    "codex": [
        "start a new session; Codex runs new hooks only when you have trusted them: /hooks",
        "Codex reads a repository's .codex only where you trust the repository",
    ],
    "gemini": ["start a new session; Gemini CLI reads a repository's .gemini only where you trust the folder"],
    "cursor": ["open a new chat; the MCP server is switched on under Settings, MCP"],
    "opencode": ["start a new session"],
}


def top_of(directory: str) -> str:
    """The repository that a directory is in; without one, the directory."""
    at = directory
    while not os.path.exists(f"{at}/.git"):
        parent = os.path.dirname(at)
        if parent == at:
            return directory
        at = parent
    return at


def default_agent(top: str) -> str:
    return f"worker-{slug(os.path.basename(top))}"


def program(argv0: str, name: str | None) -> list[str]:
    """The words that start this program from anywhere: an absolute path, unless another name is asked for."""
    if name:
        return [name]
    if os.path.basename(argv0) == "agent-mail":
        import shutil

        found = argv0 if "/" in argv0 else shutil.which(argv0)
        if found:
            return [os.path.abspath(found)]
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "agent-mail")
    return [beside] if os.path.exists(beside) else [os.path.abspath(sys.executable), "-m", "maildir_agents"]


def changes(verb: str, tool: str, scope: str, top: str, words: Words, environ: "Mapping[str, str]") -> "list[Change]":
    """What installing or uninstalling does to each file.  Nothing is written."""
    found = parts(tool, scope, top, words, environ)
    return plan.installed(tool, found, words) if verb == "install" else plan.uninstalled(tool, found, words)


def carry_out(planned: "list[Change]") -> None:
    """Write what changes.  When one fails, the error says which were written before it."""
    done: list[str] = []
    for change in planned:
        if change.before == change.after:
            continue
        try:
            files.write(change.path, change.before, change.after)
        except MailError as error:
            if done:
                error.detail["written"] = done
                error.hint = "the files under `written` are changed; mend the cause and repeat the command"
            raise
        done.append(change.path)


def told(planned: "list[Change]") -> "list[dict[str, Any]]":
    return [{"path": change.path, "change": change.name} for change in planned]


def difference(planned: "list[Change]") -> "Iterator[str]":
    """A unified diff, as `patch` reads it."""
    from difflib import unified_diff

    for change in planned:
        before, after = (_lines(text) for text in (change.before, change.after))
        name = f"{change.path}\t" if " " in change.path else change.path  # so `patch` sees where the name ends
        old = name if change.before is not None else os.devnull
        new = name if change.after is not None else os.devnull
        for line in unified_diff(before, after, old, new):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str | None) -> list[str]:
    parts = (text or "").split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
