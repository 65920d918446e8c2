"""The events of a session: it starts, a prompt is sent, a turn ends.

What is said is the same in every dialect: how much mail is owed, and the commands for it.  The end of a turn is held up
for mail only, three times in a row at most, and only when that could be counted: a reminder that nobody counts could
go on for ever.
"""

import os

from maildir_agents.disk.jsonfile import decode
from maildir_agents.errors import Malformed
from maildir_agents.faces.hooks.dialects import PROMPT, SESSION_START, Dialect, goes_on, session_of, was_cut_short
from maildir_agents.verbs.owed import owed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from maildir_agents.faces.hooks.dialects import Json
    from maildir_agents.faces.hooks.session import Session
    from maildir_agents.mail.spool import SpoolFiles
    from maildir_agents.verbs.owed import Owed

MARK = "Mail for {}: "
IN_A_ROW = 3
LARGEST = 4 << 20  # bytes of input that are looked at; the rest is read, so that the harness can finish writing
PATIENCE_S = 5.0  # for a harness that keeps the pipe open, or writes without end


def heard(fd: int = 0) -> "Json | None":
    """The event as the harness tells it; None when that is no JSON object, or nobody tells anything."""
    if os.isatty(fd):
        return None
    import select
    import time

    data, size, deadline = [], 0, time.monotonic() + PATIENCE_S
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([fd], [], [], left)[0] or not (part := os.read(fd, 1 << 16)):
            break
        size += len(part)
        if size <= LARGEST:
            data.append(part)
    try:
        return decode(b"".join(data)) if size <= LARGEST else None
    except Malformed:
        return None


def sentence(agent: str, facts: "Owed") -> str:
    """`Mail for worker-docs: 2 unread, oldest 9 min; 1 read and not acknowledged.`"""
    parts = []
    if facts.unread:
        age = "" if facts.oldest_s is None else f", oldest {spoken(facts.oldest_s)}"
        parts.append(f"{facts.unread} unread{age}")
    if facts.kept:
        parts.append(f"{facts.kept} read and not acknowledged")
    return f"{MARK.format(agent)}{'; '.join(parts)}."


def spoken(seconds: int) -> str:
    """`40 s`, `9 min`, `3 h`, `12 days`."""
    for size, unit, most in ((1, "s", 60), (60, "min", 60), (3600, "h", 48)):
        if seconds < size * most:
            return f"{seconds // size} {unit}"
    return f"{seconds // 86400} days"


def text(agent: str, facts: "Owed", ending: str) -> str:
    """The facts, then the commands; `ending` is what names the spool in them."""
    from maildir_agents.verbs.guidance import outstanding

    steps = outstanding(agent, unread=bool(facts.unread), owed=True, reachable=True)
    heading = "Commands that are owed, in this order, with the work in between:"
    return "\n".join([sentence(agent, facts), heading, *(step + ending for step in steps)])


def answer(
    event: str,
    told: "Json | None",
    dialect: Dialect,
    spool: "SpoolFiles",
    agent: str,
    environ: "Mapping[str, str]",
    ending: str = "",
) -> "Json | None":
    """What the hook prints, None for silence.  `told` is the harness's input, None when it could not be understood."""
    if event == SESSION_START:
        return _say(dialect.start, spool, agent, ending)
    if event == PROMPT:
        # Some harnesses send what `stop` or `rewake` said as a prompt: it is no new one, and need not be said twice.
        is_echo = MARK.format(agent) in str((told or {}).get("prompt", ""))
        return None if is_echo else _say(dialect.prompt, spool, agent, ending)
    if told is None or was_cut_short(told):
        return None
    from maildir_agents.faces.hooks.session import Session

    return _stop(told, dialect, spool, agent, Session(spool.root, agent, session_of(told), environ), ending)


def _say(shape: "Callable[[str], Json]", spool: "SpoolFiles", agent: str, ending: str) -> "Json | None":
    facts = owed(spool, agent)
    return shape(text(agent, facts, ending)) if facts else None


def _stop(
    told: "Json", dialect: Dialect, spool: "SpoolFiles", agent: str, session: "Session", ending: str
) -> "Json | None":
    facts, memory = owed(spool, agent), session.recall()
    if not facts:
        return _nothing_owed(dialect, spool, agent, session, memory, ending)
    blocks = _number(memory.get("blocks"))
    if goes_on(told):
        blocks = max(blocks, 1)  # another hook may have held it up before
    elif blocks > IN_A_ROW:
        blocks = 0  # it was let go, and this is another turn
    # Harnesses have been seen to forget that they go on because of a hook, so the counter is what decides.
    if not session.remember(**{**memory, "blocks": blocks + 1}) or blocks >= IN_A_ROW:
        return None
    if dialect.rewakes:
        session.tell(facts.news)  # so that no watch wakes it for the same mail
    return dialect.stop(text(agent, facts, ending))


def _nothing_owed(
    dialect: Dialect, spool: "SpoolFiles", agent: str, session: "Session", memory: "Json", ending: str
) -> "Json | None":
    kept = _without_counter(memory)
    if dialect.notice and not kept.get("watch_said") and not session.has_had_a_watch:
        from maildir_agents.mail.presence import armed
        from maildir_agents.verbs.guidance import outstanding

        if spool.exists and not armed(spool, agent) and session.remember(**{**kept, "watch_said": True}):
            step = outstanding(agent, unread=False, owed=False, reachable=False)[0] + ending
            return dialect.notice(f"Nothing wakes {agent} when mail comes: no watch is armed. To arm one: {step}")
    if memory != kept:
        session.remember(**kept)
    return None


def _without_counter(memory: "Json") -> "Json":
    return {name: value for name, value in memory.items() if name != "blocks"}


def _number(value: object) -> int:
    return value if type(value) is int else 0
