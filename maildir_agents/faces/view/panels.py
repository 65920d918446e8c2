"""The lower half: what came last, or who writes to whom and what of it did not land."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from maildir_agents.faces.view.cells import age, fit, shorten
from maildir_agents.faces.view.ink import Ink
from maildir_agents.verbs.overview import NEWEST, Edge, Letter, Overview

ARROW = " → "


class Panel(NamedTuple):
    title: str
    about: Callable[[Overview], str]  # one more word on it, after the window
    size: Callable[[Overview], int]  # lines it could fill
    lines: Callable[[Overview, int, int, Ink], list[str]]  # (overview, width, most, ink)


def window(overview: Overview) -> str:
    """What the panels and histories look back on."""
    if overview.capped:
        return f"newest {NEWEST:,}, last {age(overview.now_ms - overview.since_ms)}"
    return "last 24 h"


def _names(pairs: Sequence[tuple[str, str]], room: int) -> tuple[int, int]:
    """Cells for senders and recipients, so that both together fit: whole names where that is possible."""
    sender = max((len(pair[0]) for pair in pairs), default=0)
    recipient = max((len(pair[1]) for pair in pairs), default=0)
    room = max(2, room - len(ARROW))
    if sender + recipient > room:
        sender = max(room // 2, room - recipient) if sender > room // 2 else sender
        recipient = room - sender
    return sender, recipient


def _ends(sender: str, recipient: str, widths: tuple[int, int]) -> str:
    # The arrow stands in one column, so directions can be read down the panel.
    return fit(shorten(sender, widths[0]), widths[0]) + ARROW + fit(shorten(recipient, widths[1]), widths[1])


def recent(overview: Overview, width: int, most: int, ink: Ink) -> list[str]:
    """The newest messages: age, state, from and to, subject."""
    shown = overview.letters[:most]
    state = 8 if width >= 70 else 0
    names = _names([(letter.sender, letter.recipient) for letter in shown], min(width // 2, width - 14 - state))
    return [_message(overview, letter, width, names, state, ink) for letter in shown]


def _message(overview: Overview, letter: Letter, width: int, names: tuple[int, int], state: int, ink: Ink) -> str:
    standing = overview.standing.get(letter.id, "")
    start = (
        f"{fit(age(overview.now_ms - letter.at_ms), 4, right=True)}  {_ends(letter.sender, letter.recipient, names)}  "
    )
    start += fit(standing, state)
    # The subject stands last: a terminal that counts its cells otherwise moves nothing.
    line = fit(start, min(len(start), width)) + fit(letter.subject, max(0, width - len(start)))
    return line if standing else ink.quiet(line)


def flow(overview: Overview, width: int, most: int, ink: Ink) -> list[str]:
    """Who writes to whom: how many, how many the recipient has not acknowledged, how long ago the last."""
    shown = overview.edges[:most]
    sent = max((len(_sent(edge)) for edge in shown), default=0)
    unacked = max((len(_unacked(edge)) for edge in shown), default=0)
    names = _names([(edge.sender, edge.recipient) for edge in shown], width - sent - unacked - 10)
    return [_edge(overview, edge, width, names, (sent, unacked), ink) for edge in shown]


def _sent(edge: Edge) -> str:
    return f"{edge.sent} sent"


def _unacked(edge: Edge) -> str:
    return f"{edge.unacked} unacked" if edge.unacked else ""


def _edge(overview: Overview, edge: Edge, width: int, names: tuple[int, int], widths: tuple[int, int], ink: Ink) -> str:
    start = f"{_ends(edge.sender, edge.recipient, names)}  {fit(_sent(edge), widths[0], right=True)}  "
    end = f"{fit(_unacked(edge), widths[1])}  {fit(age(overview.now_ms - edge.last_ms), 4, right=True)}"
    line = fit(start, min(len(start), width)) + fit(end, max(0, width - len(start)))
    return line if edge.unacked else ink.quiet(line)


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


PANELS = {
    "recent": Panel("Recent", lambda o: _number(len(o.letters), "message"), lambda o: len(o.letters), recent),
    "flow": Panel("Flow", lambda o: _number(len(o.edges), "direction"), lambda o: len(o.edges), flow),
}
