"""One frame: a verdict, the agents, a panel, in straight borders.  A pure function of what was seen and the size.

Every line is exactly as wide as the terminal but the verdict, which may be shorter.  The right border is kept apart
from its line, so that a terminal can be told the column: its idea of a wide character may differ from ours.
"""

from typing import NamedTuple

from maildir_agents.faces.view.cells import clip, fit, measure
from maildir_agents.faces.view.ink import PLAIN, Ink
from maildir_agents.faces.view.panels import PANELS, window
from maildir_agents.faces.view.roster import Roster, choose
from maildir_agents.faces.view.verdict import verdict
from maildir_agents.verbs.overview import Overview

LEAST_PANEL = 3  # lines a panel keeps while agents ask for room, or two fifths
SMALLEST = 24, 4  # below this there is no frame worth a border


class Line(NamedTuple):
    text: str
    edge: str = ""  # the right border, to stand in the last column


def render(overview: Overview, width: int, height: int, panel: str, ink: Ink = PLAIN, keys: str = "") -> str:
    """A frame as text of at most `height` lines, `width` cells each."""
    return "\n".join(line.text + line.edge for line in compose(overview, width, height, panel, ink, keys))


def compose(
    overview: Overview, width: int, height: int, panel: str, ink: Ink = PLAIN, keys: str = "", tall: bool = False
) -> list[Line]:
    """The lines of a frame.  `keys` stands in the lower border; `tall` fills the height with empty lines."""
    if width < 1 or height < 1:
        return []
    if width < SMALLEST[0] or height < SMALLEST[1]:
        return _small(overview, width, height, ink)
    return [_first(overview, width, ink), *_Frame(overview, width, height, panel, ink).lines(keys, tall)]


def _first(overview: Overview, width: int, ink: Ink) -> Line:
    sentence, asks = verdict(overview)
    text = clip(sentence, width - 1)
    return Line(ink.accent(text) if asks else ink.strong(text))


def _small(overview: Overview, width: int, height: int, ink: Ink) -> list[Line]:
    """For a window of a few lines: the verdict, then names."""
    agents = choose(overview.agents, height - 1)
    return [_first(overview, width, ink), *(Line(clip(agent.name, width - 1)) for agent in agents)][:height]


class _Frame:
    def __init__(self, overview: Overview, width: int, height: int, panel: str, ink: Ink) -> None:
        self._overview, self._width, self._ink = overview, width, ink
        self._panel = PANELS[panel]
        self._plan(height)

    def _plan(self, height: int) -> None:
        """Who gets how many lines.  Armed agents first: the panel, then the titles of the columns give way to them."""
        agents = self._overview.agents
        armed = sum(agent.armed for agent in agents)
        self._titles = bool(agents)
        room = height - 4 - self._titles  # verdict, three borders
        panel = min(max(1, self._panel.size(self._overview)), max(min(LEAST_PANEL, room // 2), room * 2 // 5))
        panel = min(panel, room - max(armed, min(1, len(agents))))
        if panel < 1:
            panel, room = 0, height - 3
            self._titles = self._titles and room > max(armed, 1)
            room -= self._titles
        self._agents = choose(agents, room - panel)
        self._panel_lines = room - len(self._agents) if panel else 0
        self._blank = room - len(self._agents) - self._panel_lines

    def lines(self, keys: str, tall: bool) -> list[Line]:
        inner = self._width - 4
        roster = Roster(self._overview, self._agents, inner, self._ink)
        lines = [self._border("╭", self._header(), "", "╮")]
        lines += [self._inside(roster.head())] if self._titles else []
        lines += [self._inside(roster.row(agent)) for agent in self._agents]
        if self._panel_lines:
            lines += self._lower(inner, tall)
        lines += [self._inside(" " * inner)] * (self._blank if tall else 0)
        return [*lines, self._border("╰", "", keys, "╯")]

    def _lower(self, inner: int, tall: bool) -> list[Line]:
        title = f"{self._panel.title} · {window(self._overview)}"
        content = self._panel.lines(self._overview, inner, self._panel_lines, self._ink)
        content = content or [self._ink.quiet(fit("nothing in the last 24 h", inner))]
        content += [" " * inner] * (self._panel_lines - len(content) if tall else 0)
        head = self._border("├", title, self._panel.about(self._overview), "┤")
        return [head, *map(self._inside, content)]

    def _header(self) -> str:
        """How many agents there are, how many of the rows below are armed, and what is not shown."""
        agents = self._overview.agents
        shown = sum(agent.armed for agent in self._agents)
        armed = sum(agent.armed for agent in agents)
        parts = [f"{len(agents)} agent{'' if len(agents) == 1 else 's'}"]
        parts += [f"{shown} armed" + (f" of {armed}" if armed > shown else "")]
        hidden = len(agents) - len(self._agents)
        return " · ".join([*parts, f"{hidden} not shown"] if hidden else parts)

    def _inside(self, content: str) -> Line:
        return Line(f"{self._ink.quiet('│')} {content} ", self._ink.quiet("│"))

    def _border(self, left: str, title: str, note: str, right: str) -> Line:
        """`╭─ title ───── note ─╮`, the note and then the title shortened where they do not fit."""
        room = self._width - 4
        title = clip(f" {title} ", room) if title else ""
        note = f" {note} " if note and measure(title) + measure(note) + 4 <= room else ""
        line = "─" * (room - measure(title) - measure(note))
        quiet = self._ink.quiet
        return Line(quiet(f"{left}─") + title + quiet(line) + quiet(note) + quiet("─"), quiet(right))
