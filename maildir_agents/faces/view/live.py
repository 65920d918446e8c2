"""The living view: look, paint, sleep; a key, an arrival, a new window size or the clock is a reason to go round.

A look is paid for by a pause in proportion, so that the view of a large spool never keeps a processor busy.
"""

import time

from maildir_agents.faces.view.bell import Bell
from maildir_agents.faces.view.frame import compose
from maildir_agents.faces.view.ink import Ink
from maildir_agents.faces.view.panels import PANELS
from maildir_agents.faces.view.terminal import Stopped, Terminal
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs.overview import Fleet, Overview

LEAST_PAUSE = 0.1  # seconds between two looks, whatever arrives
PAUSE = 4  # times as long as a look took


class Live:
    """The view of one spool on a terminal, until somebody ends it.

    Its first look, the longest, is had before the terminal is borrowed.
    """

    def __init__(self, spool: SpoolFiles, screen: Terminal, bell: Bell, interval: float, panel: str, ink: Ink) -> None:
        self._fleet, self._screen, self._bell = Fleet(spool), screen, bell
        self._interval, self._panel, self._ink = interval, panel, ink
        self._size = (0, 0)
        self._earliest = self._due = 0.0  # monotonic seconds: when a look may be, and when it must be
        self._overview = self._look()

    def run(self) -> None:
        while True:
            if time.monotonic() >= self._due:
                self._overview = self._look()
            self._paint()
            self._bell.listen(self._fleet.doors)
            keys, rung = self._screen.wait(self._due - time.monotonic(), self._bell.reader)
            if self._screen.suspended:
                self._screen.pause()
            if rung:
                self._due = min(self._due, max(self._earliest, time.monotonic()))
            if keys is None or self._pressed(keys):
                return

    def _look(self) -> Overview:
        began = time.monotonic()
        overview = self._fleet.look()
        now = time.monotonic()
        self._earliest = now + max(LEAST_PAUSE, PAUSE * (now - began))
        self._due = max(self._earliest, began + self._interval)
        return overview

    def _paint(self) -> None:
        size = self._screen.size()
        if size != self._size:
            self._screen.forget()
            self._size = size
        other = next(name for name in PANELS if name != self._panel)
        keys = f"Tab {other} · q quit"
        self._screen.paint(compose(self._overview, *size, self._panel, self._ink, keys, tall=True), size[0])

    def _pressed(self, keys: bytes) -> bool:
        """Act on keys; True: the end."""
        for key in keys:
            if key in b"qQ":
                return True
            if key == ord("\t"):
                self._panel = next(name for name in PANELS if name != self._panel)
            if key == ord("\f"):  # Ctrl-L, when something else has written on the screen
                self._screen.forget()
        return False


def live(spool: SpoolFiles, out: int, keys: int | None, interval: float, panel: str, ink: Ink) -> int:
    """Show the view until q or a signal: the exit status."""
    bell = Bell()
    try:
        screen = Terminal(out, keys)
        view = Live(spool, screen, bell, interval, panel, ink)
        with screen:
            view.run()
    except Stopped as stopped:
        return stopped.exit_status
    finally:
        bell.close()
    return 0
