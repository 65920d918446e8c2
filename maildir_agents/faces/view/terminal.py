"""The terminal, borrowed: another screen, no cursor, keys one by one; given back as it was, whatever happens.

A frame is one write: only the lines that changed, each put where it belongs and cleared behind its end, between the
marks that make a terminal show it at once.  The screen is never cleared, so nothing flickers.
"""

import os
import select
import signal
import termios
from collections.abc import Callable
from types import FrameType
from typing import Any

from maildir_agents.faces.view.frame import Line

# Alternate screen, no cursor, no wrapping at the right edge.
ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
LEAVE = "\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_MS = 1000  # how long a terminal that takes nothing keeps us from leaving


class Stopped(BaseException):
    """A signal asked for the end: not an Exception, so that nothing on the way takes it for trouble."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_status = 128 + number


class Terminal:
    """`with Terminal(out, keys) as screen: …`; `out` and `keys` are descriptors, `keys` None where none can be had."""

    def __init__(self, out: int, keys: int | None) -> None:
        self._out, self._keys = out, keys
        self._shown: list[str] = []
        self._handlers: dict[int, Any] = {}
        self._settings: list[Any] | None = None
        self._stopping = False
        self._borrowed = False
        self.suspended = False

    # borrowing and giving back

    def __enter__(self) -> "Terminal":
        self._wake, self._waker = os.pipe()
        for fd in (self._wake, self._waker):
            os.set_blocking(fd, False)
        # A signal that another thread takes would not end the sleep of this one; the byte in the pipe does.
        self._old_waker = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        try:
            for number in ENDINGS:
                self._handle(number, self._stop)
            self._handle(signal.SIGWINCH, lambda *_: None)
            self._handle(signal.SIGTSTP, self._suspend)
            self._borrow()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # A signal may come between any two steps, but only one is raised: the second try is left alone.
        try:
            self._release()
        except Stopped:
            self._release()
            raise

    def _handle(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGWINCH:  # nohup keeps its promise
            self._handlers[number] = signal.signal(number, handler)

    def _stop(self, number: int, _: FrameType | None) -> None:
        if not self._stopping:
            self._stopping = True
            raise Stopped(number)

    def _suspend(self, *_: object) -> None:
        self.suspended = True

    def _borrow(self) -> None:
        if self._keys is not None:
            self._settings = termios.tcgetattr(self._keys)
            changed = termios.tcgetattr(self._keys)
            changed[3] &= ~(termios.ICANON | termios.ECHO)  # Ctrl-C and Ctrl-Z stay signals
            termios.tcsetattr(self._keys, termios.TCSANOW, changed)
        self._borrowed = True
        self._write(ENTER)

    def _give_back(self) -> None:
        if self._settings is not None and self._keys is not None:
            try:
                termios.tcsetattr(self._keys, termios.TCSANOW, self._settings)
            except termios.error:
                pass  # the terminal is gone
            self._settings = None
        if self._borrowed:
            self._write_if_taken(LEAVE)
            self._borrowed = False

    def _release(self) -> None:
        self._give_back()
        for number in list(self._handlers):
            signal.signal(number, self._handlers[number])
            del self._handlers[number]
        if self._waker >= 0:
            signal.set_wakeup_fd(self._old_waker)
            os.close(self._wake)
            os.close(self._waker)
            self._wake = self._waker = -1

    def pause(self) -> None:
        """Stop as Ctrl-Z asks, the terminal given back meanwhile; afterwards every line is painted anew."""
        self.suspended = False
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._borrow()
        self.forget()

    # showing

    def size(self) -> tuple[int, int]:
        """(columns, lines)."""
        try:
            columns, lines = os.get_terminal_size(self._out)
        except OSError:
            columns = lines = 0
        return columns or 80, lines or 24

    def forget(self) -> None:
        """Paint every line the next time: whatever was on the screen is not known any more."""
        self._shown = []

    def paint(self, lines: list[Line], width: int) -> None:
        """Show a frame; nothing is written when nothing changed."""
        wanted = [placed(number, line, width) for number, line in enumerate(lines, 1)]
        if len(wanted) != len(self._shown):
            self._shown = [""] * len(wanted)
        changed = [new for new, old in zip(wanted, self._shown, strict=True) if new != old]
        if changed:
            self._shown = []  # until it is written nobody knows what stands there
            self._write(BEGIN + "".join(changed) + END)
        self._shown = wanted

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(self._out, data) :]

    def _write_if_taken(self, text: str) -> None:
        poll = select.poll()
        poll.register(self._out, select.POLLOUT)
        try:
            if poll.poll(PATIENCE_MS):
                self._write(text)
        except OSError:
            pass  # the terminal is gone

    # waiting

    def wait(self, seconds: float, bell: int) -> tuple[bytes | None, bool]:
        """Sleep until a key, a signal, the bell (a descriptor) or the time: (keys; None: no more will come, rung)."""
        readers = [self._wake, bell] if self._keys is None else [self._wake, bell, self._keys]
        ready, _, _ = select.select(readers, [], [], max(0.0, seconds))
        for fd in (self._wake, bell):
            if fd in ready:
                _drain(fd)
        if self._keys not in ready or self._keys is None:
            return b"", bell in ready
        try:
            return os.read(self._keys, 1024) or None, bell in ready
        except OSError:
            return None, bell in ready


def placed(number: int, line: Line, width: int) -> str:
    """A line with where it goes.  Cleared before its border: behind the last column there is nothing to clear."""
    edge = f"\x1b[{width}G{line.edge}" if line.edge else ""
    return f"\x1b[{number};1H{line.text}\x1b[K{edge}"


def _drain(fd: int) -> None:
    try:
        while len(os.read(fd, 4096)) == 4096:
            pass
    except BlockingIOError:
        pass
