"""The first line: the one sentence that somebody who glances in wants, and whether it asks for them.

Unheard is mail that waits for an agent which nothing will wake.  Names come longest waiting first, so that a narrow
window cuts off the least of it.
"""

from maildir_agents.faces.view.cells import age
from maildir_agents.verbs.overview import Agent, Overview

NAMED = 20  # agents at most: no window is wider


def verdict(overview: Overview) -> tuple[str, bool]:
    """(sentence, whether it asks for somebody)."""
    agents = overview.agents
    if not agents:
        return _nobody(overview), False
    unheard = sorted((agent for agent in agents if agent.unheard), key=lambda agent: agent.oldest_ms or 0)
    failed = [agent for agent in agents if agent.failed]
    counts = [f"{len(unheard)} unheard"] if unheard else []
    counts += [_number(sum(agent.failed for agent in failed), "dead letter")] if failed else []
    if not counts:
        return _calm(agents), False
    names = [_owed(agent, overview.now_ms) for agent in unheard] or [agent.name for agent in failed]
    return f"▲ {', '.join(counts)}: {', '.join(names[:NAMED])}", True


def _nobody(overview: Overview) -> str:
    what = "No agents yet" if overview.exists else f"No spool yet at {overview.root}"
    return f"{what}: the first send, read or watch makes one"


def _calm(agents: list[Agent]) -> str:
    unread, unacked = sum(agent.unread for agent in agents), sum(agent.unacked for agent in agents)
    parts = [f"{unread} unread, every reader is listening" if unread else "nothing unread"]
    parts += [f"{unacked} not acknowledged"] if unacked else []
    return f"✓ All calm: {', '.join(parts)}"


def _owed(agent: Agent, now_ms: int) -> str:
    return f"{agent.name} ({agent.unread} unread, {age(now_ms - (agent.oldest_ms or now_ms))})"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
