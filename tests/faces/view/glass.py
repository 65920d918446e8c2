"""Looking at a terminal: an emulated screen, and a program on a pseudo-terminal.  For tests; no fixture."""

import codecs
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable

import pyte

import proc

SIZES = [(60, 14), (80, 24), (100, 30), (120, 40), (200, 50)]
LIMIT = 60.0  # seconds that something may take to show
LEFT, RIGHT = "╭│├╰", "╮│┤╯"
FRAME_END = "\x1b[?2026l"
MARKS = re.compile("([\u0300-\u036f\u1160-\u11ff\u20e3])")
SGR = re.compile(r"\x1b\[[1-9][0-9;]*m")


class Glass:
    """The screen of a terminal that was sent some text."""

    def __init__(self, width: int, height: int, text: str = "") -> None:
        self.width, self.height = width, height
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self._screen)
        self.feed(text)

    def feed(self, text: str) -> None:
        for piece in MARKS.split(text):  # pyte drops what follows some marks in the same piece
            self._stream.feed(piece)

    def print(self, lines: list[str]) -> list[int]:
        """Print lines as a program without escapes does; the cells that each took."""
        taken = []
        for number, line in enumerate(lines):
            self.feed(("\r\n" if number else "") + line)
            taken.append(self._screen.cursor.x)
            assert self._screen.cursor.y == number, f"line {number} wrapped, or moved the cursor"
        return taken

    @property
    def rows(self) -> list[str]:
        """What can be read, line by line; the second halves of wide characters are left out."""
        return ["".join(self._screen.buffer[y][x].data for x in range(self.width)).rstrip() for y in range(self.height)]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    @property
    def cursor_shown(self) -> bool:
        return not self._screen.cursor.hidden

    def crooked(self) -> list[str]:
        """The lines of the frame whose borders are not in the first and the last column."""
        cells, last = self._screen.buffer, self.width - 1
        rows = [(y, row) for y, row in enumerate(self.rows) if y and row]
        return [row for y, row in rows if cells[y][0].data not in LEFT or cells[y][last].data not in RIGHT]


class Session:
    """A program on a pseudo-terminal that is its controlling one."""

    def __init__(self, command: list[str], environ: dict[str, str], width: int = 100, height: int = 30) -> None:
        self.master, self.slave = os.openpty()
        self.resize(width, height)
        self.settings = termios.tcgetattr(self.slave)
        self.sent = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
        # The first terminal that a new session opens becomes its own: only then is Ctrl-C a signal.
        opening = ["/bin/sh", "-c", 'exec "$@" < "$0" > "$0" 2>&1', os.ttyname(self.slave)]
        self.process = subprocess.Popen(
            [*opening, *command], env={**kept, "TERM": "xterm", **environ}, start_new_session=True
        )

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for fd in (self.master, self.slave):
            if fd >= 0:
                os.close(fd)

    def resize(self, width: int, height: int) -> None:
        self.glass = Glass(width, height)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, seconds: float) -> str:
        """What the program sends within some seconds, shown on the glass."""
        new, end = "", time.monotonic() + seconds
        while select.select([self.master], [], [], max(0.0, end - time.monotonic()))[0]:
            new += self._decoder.decode(os.read(self.master, 1 << 16))
            if time.monotonic() > end:
                break
        self.sent += new
        self.glass.feed(new)
        return new

    def until(self, true: Callable[[], bool]) -> bool:
        end = time.monotonic() + LIMIT
        while not true():
            if time.monotonic() > end:
                return False
            self.read(0.05)
        return True

    def shows(self, text: str) -> bool:
        return self.until(lambda: text in self.glass.text)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def ends(self) -> int:
        """The exit status; what was still to be read is read: it may come in pieces."""
        assert self.until(lambda: self.process.poll() is not None), "it does not end"
        while self.read(0.1):
            pass
        return self.process.returncode

    def suspended(self) -> bool:
        return proc.state(self.process.pid) == "T"

    def proceed(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def given_back(self) -> bool:
        """Whether the terminal is, or comes to be, as it was: its settings, the main screen, wrapping, a cursor."""
        return self.until(self._is_given_back)

    def _is_given_back(self) -> bool:
        tail = self.sent[self.sent.rfind("\x1b[?1049") :]
        last = [self.sent.rfind(f"\x1b[?{mode}h") > self.sent.rfind(f"\x1b[?{mode}l") for mode in ("7", "25")]
        return tail.startswith("\x1b[?1049l") and all(last) and termios.tcgetattr(self.slave) == self.settings
