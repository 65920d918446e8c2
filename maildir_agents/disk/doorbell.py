"""A doorbell on directories: sleep in the kernel until something may have arrived.

Arm (enter), list the directories, wait: what comes after the arming rings, what came before is in the listing.
A ring is only a reason to look again: none is missed, some are for nothing, and no event is ever shown.
The only module that imports watchdog, and only while arming.  It takes the inotify reader and not the observer
built on it: that one delays everything that comes after a file moved out of the directory, by half a second.
"""

from __future__ import annotations

import errno
import math
import os
import select
import stat
import time

from maildir_agents.disk.chime import Chime as _Chime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from logging import Logger

    from watchdog.observers.inotify_c import CallbackId, InotifyEvent, InotifyFD, Mask, WatchDescriptor

# Without any event a directory is exchanged by renaming one above it, or by rmdir while a process still has it open.
CHECK_SECONDS = 60.0
# The coarsest time stamps of a file system (FAT): two arrivals under one stamp look like one.
STAMP_SECONDS = 2.0

LIMITS = {
    errno.EMFILE: "inotify has no instance left: see sysctl fs.inotify.max_user_instances, and ulimit -n",
    errno.ENOSPC: "inotify has no watch left: see sysctl fs.inotify.max_user_watches",
    errno.ENFILE: "the system has no open file left: see sysctl fs.file-max",
    errno.ENOMEM: "the kernel has no memory left for inotify",
}


class Doorbell:
    """A bell on any number of directories, for one waiter; a directory may be missing and is then waited for.

    `poll_seconds`: how often to look where inotify does not help, a missing directory included.
    `hangup`: a pipe or socket this process writes to; a descriptor of another kind never hangs up.
    `poll_only`: for file systems that other machines write to, of which inotify hears nothing.
    `mode` is "inotify" or "polling", `reason` the sentence that says why polling, else empty.
    For one who serves many: `cover` changes the directories, `heard` tells which rang, `heed` adds a descriptor.
    """

    def __init__(
        self,
        directories: Sequence[str],
        *,
        poll_seconds: float = 1.0,
        hangup: int | None = None,
        poll_only: bool = False,
    ) -> None:
        self._paths = tuple(dict.fromkeys(directories))
        self._poll_seconds, self._hangup, self._poll_only = poll_seconds, hangup, poll_only
        self._ear: InotifyFD | None = None
        self._places: list[_Place] = []
        self.reason = ""

    @property
    def mode(self) -> str:
        return "inotify" if self._ear else "polling"

    def __enter__(self) -> Doorbell:
        self._chime = _Chime()
        try:
            self._arm()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close_ear()
        self._chime.close()

    def cover(self, directories: Sequence[str]) -> None:
        """Listen at exactly these directories from now on; what is new among them is to be listed after this."""
        before = {place.path: place for place in self._places}
        wanted = dict.fromkeys(directories)
        self._places = [before.pop(path) if path in before else self._new_place(path) for path in wanted]
        for place in before.values():
            self._unwatch(place)
        self._hear_all()
        self._plan_look()

    def _hear_all(self) -> None:
        """Either inotify hears all directories, or none is taken for heard."""
        if self._ear is None:
            for place in self._places:
                self._unwatch(place)

    def _new_place(self, path: str) -> _Place:
        place = _Place(path, self._chime.ring)
        self._watch(place)
        return place

    def check(self) -> None:
        """See at the next wait whether each directory is still the one that is watched: one above may have moved."""
        self._next_look = 0.0

    def heed(self, fd: int) -> None:
        """Let a descriptor ring as well, for as long as it can be read or has hung up."""
        self._sleeper.register(fd, select.POLLIN)

    def ignore(self, fd: int) -> None:
        self._sleeper.unregister(fd)

    def heard(self) -> list[str]:
        """The directories that something may have come to since this was last asked."""
        fresh = [place for place in self._places if place.fresh]
        for place in fresh:
            place.fresh = False  # before anybody lists it
        return [place.path for place in fresh]

    def wait(self, timeout: float | None) -> str:
        """Sleep at most `timeout` seconds (None: for ever); "rung", "timeout" or "hangup" is why it is over.

        One "rung" answers for everything that came before it.
        """
        deadline = time.monotonic() + (math.inf if timeout is None else timeout)
        while True:
            ready = self._sleep(min(deadline, self._next_look))
            if self._hangup in ready:
                return "hangup"
            if self._chime.reader in ready:
                self._chime.drain()
            if self._look() or ready:
                return "rung"
            if time.monotonic() >= deadline:
                return "timeout"

    def _arm(self) -> None:
        self._sleeper = select.poll()
        self._sleeper.register(self._chime.reader, select.POLLIN)
        if self._hangup is not None and _can_hang_up(self._hangup):
            self._sleeper.register(self._hangup, 0)  # POLLERR and POLLHUP come unasked
        self._ear, self.reason = (None, "polling was asked for") if self._poll_only else _open_ear()
        self._places = list(map(self._new_place, self._paths))
        self._hear_all()
        self._next_look = math.inf
        self._plan_look()

    def _sleep(self, until: float) -> set[int]:
        milliseconds = max(0.0, until - time.monotonic()) * 1000
        return {fd for fd, _ in self._sleeper.poll(milliseconds)}

    def _plan_look(self) -> None:
        blind = any(place.wd is None for place in self._places)
        self._next_look = min(self._next_look, time.monotonic() + (self._poll_seconds if blind else CHECK_SECONDS))

    def _look(self) -> bool:
        """Watch anew what was lost, see for ourselves where inotify does not; True: something may have come."""
        due = time.monotonic() >= self._next_look
        if due:
            self._next_look = math.inf
            if self._ear and not self._ear.is_alive():
                self._give_up("watchdog's reading thread has ended")
        wanted = [place for place in self._places if due or place.lost]
        news = [place for place in wanted if self._visit(place)]
        for place in news:
            place.fresh = True
        if wanted:
            self._plan_look()
        return bool(news)

    def _visit(self, place: _Place) -> bool:
        if place.wd is not None and not place.lost and place.is_the_same():
            return False
        self._unwatch(place)
        return self._watch(place) or place.has_changed()

    def _watch(self, place: _Place) -> bool:
        """Watch what is at the path now; True when that worked: then only a listing knows what came before."""
        if self._ear is None:
            return False
        try:
            place.wd = self._ear.add_callback(os.fsencode(place.path), _mask(), place, place.id)
        except OSError as error:
            if error.errno in LIMITS:
                self._give_up(LIMITS[error.errno])
            return False
        if place.wd == -1:  # watchdog keeps EACCES to itself and takes the directory for watched
            self._unwatch(place)
            return False
        # Not before: a directory exchanged between watching and remembering is reported lost by its watch.
        place.remember()
        return True

    def _unwatch(self, place: _Place) -> None:
        wd, place.wd, place.lost = place.wd, None, False
        if wd is not None and self._ear:
            self._ear.remove_callbacks([(wd, place.id)])

    def _give_up(self, reason: str) -> None:
        """Poll from here on, every directory: a bell that hears some of them would still have to tick."""
        self.reason = reason
        self._close_ear()
        self._hear_all()

    def _close_ear(self) -> None:
        ear, self._ear = self._ear, None
        if ear:
            ear.stop()
            ear.join()


class _Place:
    """A path, what stood there when last looked at, and what inotify says of it (a watchdog WatchCallback)."""

    __slots__ = ("doubt", "fresh", "id", "lost", "path", "ring", "sight", "wd")

    def __init__(self, path: str, ring: Callable[[], None]) -> None:
        self.path, self.ring = path, ring
        self.id: CallbackId = id(self)  # type: ignore[assignment]  # a NewType, known to type checkers only
        self.wd: WatchDescriptor | None = None
        self.lost = False  # set by watchdog's thread, cleared by the waiter before it watches anew
        self.fresh = False  # the same, cleared before it lists
        self.remember()

    def on_event(self, event: InotifyEvent) -> None:
        self.lost = self.lost or event.is_move_self
        self.fresh = True
        self.ring()

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        self.lost = self.fresh = True
        self.ring()

    def on_queue_overflow(self) -> None:
        self.lost = self.fresh = True  # what the kernel dropped may have said so
        self.ring()

    def remember(self) -> None:
        self.sight = _sight(self.path)
        self.doubt = time.monotonic() + STAMP_SECONDS

    def is_the_same(self) -> bool:
        return _sight(self.path)[:2] == self.sight[:2]

    def has_changed(self) -> bool:
        """True after a change, and once more when its time stamp can hide no further one."""
        if _sight(self.path) != self.sight:
            self.remember()
            return True
        if time.monotonic() < self.doubt:
            return False
        self.doubt = math.inf
        return True


def _open_ear() -> tuple[InotifyFD | None, str]:
    """A running inotify reader, or none and the sentence that says why."""
    try:
        from watchdog.utils import UnsupportedLibcError
    except ImportError as error:
        return None, f"watchdog cannot be imported: {error}"
    try:
        from watchdog.observers.inotify_c import InotifyFD, logger

        ear = InotifyFD()
    except UnsupportedLibcError:
        return None, "this platform has no inotify"
    except ImportError as error:
        return None, f"watchdog cannot be imported: {error}"
    except OSError as error:
        return None, LIMITS.get(error.errno or 0, f"inotify cannot be used: {error.strerror}")
    os.set_inheritable(ear._inotify_fd, False)  # watchdog calls inotify_init, which knows no close-on-exec
    # It is born "reading"; stopped before its thread first reads, it would leave its descriptors open for good.
    ear._is_reading = False
    _hush(logger)
    ear.start()
    return ear, ""


def _hush(logger: Logger) -> None:
    """Keep watchdog's warning of an overflow from stderr, but not from a program that has set logging up."""
    from logging import NullHandler

    if not logger.handlers:
        logger.addHandler(NullHandler())


def _mask() -> Mask:
    """Arrivals, and the directory being moved (its end comes unasked).  Not departures: they would wake for nothing."""
    from watchdog.observers.inotify_c import InotifyConstants as C
    from watchdog.observers.inotify_c import Mask

    return Mask(C.IN_MOVED_TO | C.IN_CREATE | C.IN_CLOSE_WRITE | C.IN_MOVE_SELF | C.IN_ONLYDIR)


def _sight(path: str) -> tuple[int, ...]:
    """(device, inode, mtime in ns), or nothing where nothing can be seen."""
    try:
        seen = os.stat(path)
    except OSError:
        return ()
    return (seen.st_dev, seen.st_ino, seen.st_mtime_ns)


def _can_hang_up(fd: int) -> bool:
    kind = os.fstat(fd).st_mode
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
