"""What workers print, on its way into listener.log: all of it is taken, little of it is kept.

A worker that prints without end neither stands still nor fills the disk.  The log is for people; no work fails because
it could not be written.
"""

import os

KEPT = 256 << 10  # bytes of one worker's output
LARGEST = 1 << 20  # bytes of a log; one that is longer loses its older part when the next worker starts
AT_ONCE = 16  # pieces taken in a row before others get their turn
PIECE = 64 << 10


class Output:
    """One worker's output.  `reader` is our end of the pipe, None before it is open and when nothing more comes."""

    def __init__(self, log: str, first_line: str) -> None:
        self._log = _open(log)
        self._left = KEPT
        self._dropped = 0
        self._write(f"{first_line}\n".encode("utf-8", "replace"))
        self.reader: int | None = None
        self.writer = -1

    def open(self) -> int:
        """The worker's end of a new pipe; raises OSError."""
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        return self.writer

    def started(self) -> None:
        """The worker has its end: ours of it is closed, so that the pipe ends with the worker."""
        os.close(self.writer)
        self.writer = -1

    @property
    def readers(self) -> tuple[int, ...]:
        return () if self.reader is None else (self.reader,)

    def say(self, text: str) -> None:
        """A line of ours between the worker's."""
        self._write(f"{text}\n".encode("utf-8", "replace"))

    def drain(self) -> None:
        """Take what is there."""
        for _ in range(AT_ONCE):
            if self.reader is None:
                return
            try:
                piece = os.read(self.reader, PIECE)
            except BlockingIOError:
                return
            self._keep(piece)
            if not piece:
                os.close(self.reader)
                self.reader = None

    def _keep(self, piece: bytes) -> None:
        kept = piece[: self._left]
        self._left -= len(kept)
        self._dropped += len(piece) - len(kept)
        self._write(kept)

    def close(self, last_line: str) -> None:
        """Take what is there still, and end: who holds the pipe's other end from here on writes to nobody."""
        self.drain()
        for end in (self.reader, self.writer if self.writer >= 0 else None):
            if end is not None:
                os.close(end)
        self.reader, self.writer = None, -1
        if self._dropped:
            self._write(f"\n({self._dropped} bytes more were not kept)\n".encode())
        self._write(f"{last_line}\n".encode("utf-8", "replace"))
        if self._log >= 0:
            os.close(self._log)

    def _write(self, data: bytes) -> None:
        try:
            while data and self._log >= 0:
                data = data[os.write(self._log, data) :]
        except OSError:
            pass


def _open(path: str) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return -1
    try:
        _trim(fd)
    except OSError:
        pass
    return fd


def _trim(fd: int) -> None:
    """Keep the younger half of a log that has grown too long, in place: others append to this very file."""
    size = os.fstat(fd).st_size
    if size <= LARGEST:
        return
    tail = os.pread(fd, LARGEST // 2, size - LARGEST // 2)
    os.ftruncate(fd, 0)
    os.write(fd, tail.partition(b"\n")[2] or tail)
