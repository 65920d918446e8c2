"""The face for people: what the fleet is doing, on a terminal, alive or as one frame.

It looks and touches nothing.  Where there is no terminal that can be painted on, there is one plain frame.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from maildir_agents.faces.view.ink import Ink
    from maildir_agents.mail.spool import SpoolFiles

OUT, KEYS = 1, 0  # descriptors


def show(spool: "SpoolFiles", *, once: bool, interval: float, panel: str, environ: "Mapping[str, str]") -> int:
    """The view of a spool on standard output; the exit status."""
    from maildir_agents.faces.view.ink import COLOURED, PLAIN

    paintable = os.isatty(OUT) and environ.get("TERM", "dumb") not in ("dumb", "")
    ink = COLOURED if paintable and not environ.get("NO_COLOR") else PLAIN
    if once or not paintable:
        return _once(spool, panel, ink, _size(environ))
    from maildir_agents.faces.view.live import live

    return live(spool, OUT, KEYS if os.isatty(KEYS) else None, interval, panel, ink)


def _once(spool: "SpoolFiles", panel: str, ink: "Ink", size: tuple[int, int]) -> int:
    from maildir_agents.faces.view.frame import render
    from maildir_agents.verbs.overview import Fleet

    frame = render(Fleet(spool).look(), *size, panel, ink)
    data = f"{frame}\n".encode("utf-8", "replace")
    while data:
        data = data[os.write(OUT, data) :]
    return 0


def _size(environ: "Mapping[str, str]") -> tuple[int, int]:
    """COLUMNS and LINES, else the terminal's, a line of it left for the prompt, else 80 by 24."""
    try:
        columns, lines = os.get_terminal_size(OUT)
    except OSError:
        columns, lines = 0, 0
    return _number(environ, "COLUMNS") or columns or 80, _number(environ, "LINES") or max(0, lines - 1) or 24


def _number(environ: "Mapping[str, str]", name: str) -> int:
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
