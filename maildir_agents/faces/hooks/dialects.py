"""What each harness says to a hook and understands from it.  Pure: dictionaries in, dictionaries out.

A dialect is a row: how the answer to each event is shaped, and which members of the input tell the session and whether
an earlier answer is why the turn still goes on.  docs/reference/hooks.md has them for people.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Json = dict[str, Any]

SESSION_START, PROMPT, STOP, REWAKE, MONITOR = "session-start", "prompt", "stop", "rewake", "monitor"


def _context(event: str) -> "Callable[[str], Json]":
    return lambda text: {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _notice(text: str) -> "Json":
    return {"systemMessage": text}


def _block(text: str) -> "Json":
    return {"decision": "block", "reason": text}


class Dialect:
    """`start`, `prompt`, `stop` and `notice` make the answer out of a text; `notice` (for the person, holds nothing
    up) is None where there is no such thing.  `rewakes`: whether exit status 2 of a background hook wakes a session."""

    __slots__ = ("notice", "prompt", "rewakes", "start", "stop")

    def __init__(
        self,
        start: "Callable[[str], Json]",
        prompt: "Callable[[str], Json]",
        stop: "Callable[[str], Json]",
        notice: "Callable[[str], Json] | None",
        rewakes: bool = False,
    ) -> None:
        self.start = start
        self.prompt = prompt
        self.stop = stop
        self.notice = notice
        self.rewakes = rewakes


DIALECTS = {
    "claude": Dialect(_context("SessionStart"), _context("UserPromptSubmit"), _block, _notice, rewakes=True),
    "codex": Dialect(_context("SessionStart"), _context("UserPromptSubmit"), _block, _notice),
    "gemini": Dialect(
        _context("SessionStart"),
        _context("BeforeAgent"),
        lambda text: {"decision": "deny", "reason": text},
        _notice,
    ),
    "cursor": Dialect(
        lambda text: {"additional_context": text},
        lambda text: {"continue": True, "additional_context": text},
        lambda text: {"followup_message": text},
        None,  # all it knows for the end of a turn is the next message
    ),
}


def session_of(told: "Json") -> str:
    """The session an event is of; "none" where the harness does not tell: then all such sessions count as one."""
    for member in ("session_id", "conversation_id"):
        value = told.get(member)
        if type(value) is str and value:
            return value
    return "none"


def goes_on(told: "Json") -> bool:
    """Whether this turn has gone on already because a hook wanted it to."""
    loops = told.get("loop_count")  # Cursor counts its follow-ups
    return told.get("stop_hook_active") is True or (isinstance(loops, int | float) and loops > 0)


def was_cut_short(told: "Json") -> bool:
    """Whether the turn ended by a person's hand or an error: such an end is not argued with."""
    return told.get("status") in ("aborted", "error")
