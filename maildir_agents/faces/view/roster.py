"""The agents' table: one row each, columns that line up, the less important ones only where there is room.

Rows come ranked by activity; whoever is armed has a row before anybody else does.
"""

from collections.abc import Callable
from typing import NamedTuple

from maildir_agents.faces.view.cells import age, count, fit, shorten
from maildir_agents.faces.view.ink import Ink
from maildir_agents.verbs.overview import CELL_MS, CELLS, Agent, Overview

BARS = "▁▂▃▄▅▆▇█"
GLYPHS = {"armed": "●", "listener": "◆", "stale": "✕", "released": "○", "never": "·"}
QUIET = frozenset(("·", "never", "released"))
NARROWEST, WIDEST = 12, 48  # cells for a name
PULSES = (48, 24, 12, 8)  # cells for the last day: half an hour, one, two or three hours each


class Column(NamedTuple):
    title: str
    width: int
    text: Callable[[Agent, int], str]  # (agent, now in ms)
    loud: bool = False  # in the accent colour where the agent is unheard
    left: bool = False


def _word(agent: Agent, _: int = 0) -> str:
    return "listener" if agent.listening and not agent.armed else agent.watch_state


def _since(ms: int | None, now: int) -> str:
    return "·" if ms is None else age(now - ms)


WATCH = Column("watch", 8, _word, left=True)
UNREAD = Column("unread", 6, lambda agent, _: count(agent.unread), loud=True)
UNACKED = Column("unacked", 7, lambda agent, _: count(agent.unacked))
WAITS = Column("waits", 5, lambda agent, now: _since(agent.oldest_ms, now), loud=True)
CLAIMED = Column("claimed", 7, lambda agent, _: count(agent.claimed))
FAILED = Column("failed", 6, lambda agent, _: count(agent.failed), loud=True)
SEEN = Column("seen", 5, lambda agent, now: _since(agent.seen_ms, now))

#: from this many cells on: these columns
LAYOUTS = (
    (106, (WATCH, UNREAD, UNACKED, CLAIMED, FAILED, WAITS, SEEN)),
    (48, (WATCH, UNREAD, UNACKED, WAITS)),
    (36, (UNREAD, UNACKED, WAITS)),
    (0, (UNREAD,)),
)


def choose(agents: list[Agent], most: int) -> list[Agent]:
    """At most `most` agents in their order, the armed ones first of all."""
    if len(agents) <= most:
        return agents
    armed = [agent for agent in agents if agent.armed][:most]
    others = [agent for agent in agents if not agent.armed][: most - len(armed)]
    chosen = {agent.name for agent in armed + others}
    return [agent for agent in agents if agent.name in chosen]


class Roster:
    """The table of `agents`, laid out for lines of `width` cells."""

    def __init__(self, overview: Overview, agents: list[Agent], width: int, ink: Ink) -> None:
        self._overview, self._ink, self._width = overview, ink, width
        self._columns = next(columns for least, columns in LAYOUTS if width >= least)
        self._gap = "  " if width >= 70 else " "
        room = width - 2 - sum(len(self._gap) + column.width for column in self._columns)
        longest = max((len(agent.name) for agent in agents), default=0)
        wanted = max(NARROWEST, min(longest, max(WIDEST, width // 3)))
        self._pulse = self._pulse_width(room - wanted) or self._pulse_width(room - NARROWEST, PULSES[-1:])
        left = room - (self._pulse + len(self._gap) if self._pulse else 0)
        self._name = max(1, min(wanted, left))
        self._tail = " " * (left - self._name)
        self._tallest = max((number for agent in agents for number in self._sums(agent)), default=0)

    def _pulse_width(self, room: int, sizes: tuple[int, ...] = PULSES) -> int:
        return next((size for size in sizes if size + len(self._gap) <= room), 0)

    def head(self) -> str:
        titles = [f"  {fit('agent', self._name)}"]
        titles += [fit(column.title, column.width, right=not column.left) for column in self._columns]
        titles += [fit("last 24 h" if self._pulse > 8 else "24 h", self._pulse)] if self._pulse else []
        return self._ink.quiet(fit(self._gap.join(titles), self._width))

    def row(self, agent: Agent) -> str:
        """One agent's line, exactly as wide as was asked for."""
        label = f"{GLYPHS[_word(agent)]} {fit(shorten(agent.name, self._name), self._name)}"
        awake = agent.armed or agent.listening or agent.unacked or agent.failed
        fields = [label if awake else self._ink.quiet(label)]
        fields += [self._field(column, agent) for column in self._columns]
        fields += [self._spark(agent)] if self._pulse else []
        return self._gap.join(fields) + self._tail

    def _field(self, column: Column, agent: Agent) -> str:
        text = column.text(agent, self._overview.now_ms)
        shown = fit(text, column.width, right=not column.left)
        if text in QUIET:
            return self._ink.quiet(shown)
        return self._ink.accent(shown) if column.loud and (agent.unheard or column is FAILED) else shown

    def _sums(self, agent: Agent) -> list[int]:
        size = CELLS // (self._pulse or 1)
        return [sum(agent.pulse[at : at + size]) for at in range(0, CELLS, size)]

    def _spark(self, agent: Agent) -> str:
        """The last day in bars, blank where the window does not reach."""
        bars = "".join(map(self._bar, self._sums(agent)))
        first = self._overview.now_ms // CELL_MS - CELLS + 1
        unknown = max(0, self._overview.since_ms // CELL_MS - first) * self._pulse // CELLS
        return self._ink.quiet(" " * unknown + bars[unknown:])

    def _bar(self, number: int) -> str:
        # One scale for all, by roots: agents can be compared, and one burst does not flatten the others.
        return BARS[1 + round(6 * (number / self._tallest) ** 0.5)] if number > 0 else BARS[0]
