"""Fakes for tests of whatever uses a spool: a clock that moves, a disk that fails or kills, a spool that goes away.

    with temporary_spool(disk=FailingDisk(kill_at=4)) as spool:
        with pytest.raises(Killed):
            spool.send(sender="a", recipient="b", subject="half way")
        spool.clock.advance(61)
        with spool.another().read("b") as batch:
            assert batch.messages == []

A sweep is one run that only counts (`len(spool.disk.calls)`) and then one run for each of these calls that fails or
kills there.  Nothing here is imported by the package itself.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from maildir_agents.disk.clock import Clock
from maildir_agents.disk.moves import Disk
from maildir_agents.faces.python import Spool

T = TypeVar("T")


class MovableClock(Clock):
    """The machine's clocks, running on from wherever they were moved to.

    Ages of files are measured against the times that the kernel stamps on them, so only forward moves make a draft old.
    """

    def __init__(self) -> None:
        self._wall_shift = 0  # milliseconds
        self._boot_shift = 0
        self._boots = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self._wall_shift

    def boot_ms(self) -> int:
        return super().boot_ms() + self._boot_shift

    def boot(self) -> str:
        here = super().boot()
        return here if not self._boots else f"{(int(here[:8], 16) + self._boots) & 0xFFFFFFFF:08x}{here[8:]}"

    def advance(self, seconds: float) -> None:
        """Let time pass, on both clocks."""
        self._wall_shift += round(seconds * 1000)
        self._boot_shift += round(seconds * 1000)

    def set_wall(self, wall_ms: int) -> None:
        """Set the wall clock, in milliseconds since 1970; the boot clock does not notice."""
        self._wall_shift = wall_ms - super().wall_ms()

    def reboot(self) -> None:
        """Begin another boot, its clock at 0.  No process outlives that: open the spool again (`another`)."""
        self._boots += 1
        self._boot_shift = -super().boot_ms()


class Killed(BaseException):
    """The process ended here, as SIGKILL would end it."""


class FailingDisk(Disk):
    """A disk that counts what it is asked to change, and fails or kills where it is told to.

    Calls are numbered from 1; `calls` lists them as (name, path), for link and rename the path that they make.

    * `fail_at=n`: call n raises OSError(`error`) and does nothing; with `lasting` so does every call after it.
      EINTR must not last: whoever is interrupted rightly tries again.
    * `kill_at=n`: Killed is raised before call n; `kill_after=n`: after it.  From then on every call raises Killed, so
      nothing in a `finally` can tidy up, as no dead process does.
    * `most_bytes`: no write takes more than that many bytes.
    * `before(n, name, path)` is called before each call: the place for what somebody else does just then.

    fsync is counted and can fail, but is carried out only with `really_sync`: what a test sees does not depend on it,
    except for how long it takes.  `offences` holds sentences about what nobody may ask of a disk: naming a file before
    it is synced, syncing one again whose sync has failed.  `struck` tells whether the fault came to pass.
    """

    def __init__(
        self,
        *,
        durable: bool = True,
        fail_at: int | None = None,
        error: int = errno.EIO,
        lasting: bool = False,
        kill_at: int | None = None,
        kill_after: int | None = None,
        most_bytes: int | None = None,
        before: Callable[[int, str, str], None] | None = None,
        really_sync: bool = False,
    ) -> None:
        super().__init__(durable)
        self.fail_at, self.error, self.lasting = fail_at, error, lasting
        self.kill_at, self.kill_after = kill_at, kill_after
        self.most_bytes, self.before, self.really_sync = most_bytes, before, really_sync
        self.calls: list[tuple[str, str]] = []
        self.offences: list[str] = []
        self.struck = False
        self.dead = False
        self._unsynced: set[tuple[int, int]] = set()  # (device, inode) of regular files with bytes not synced
        self._given_up: set[tuple[int, int]] = set()  # those whose sync failed

    # what is asked of it

    def _open(self, path: str, flags: int) -> int:
        fd = self._call("open", path, lambda: super(FailingDisk, self)._open(path, flags), undo=os.close)
        if flags & os.O_EXCL:  # a new file, though perhaps with the inode of one that is gone
            self._unsynced.discard(_inode(fd))
            self._given_up.discard(_inode(fd))
        return fd

    def _write(self, fd: int, data: bytes) -> int:
        some = data if self.most_bytes is None else data[: self.most_bytes]
        written = self._call("write", _path(fd), lambda: super(FailingDisk, self)._write(fd, some))
        self._unsynced.add(_inode(fd))
        return written

    def _fsync(self, fd: int) -> None:
        path, inode, regular = _path(fd), _inode(fd), stat.S_ISREG(os.fstat(fd).st_mode)
        if regular and inode in self._given_up:
            self.offences.append(f"{path} was synced again after its sync had failed")
        if regular:
            self._given_up.add(inode)
        self._call("fsync", path, lambda: super(FailingDisk, self)._fsync(fd) if self.really_sync else None)
        self._given_up.discard(inode)
        self._unsynced.discard(inode)

    def _link(self, source: str, target: str) -> None:
        self._must_be_synced(source, target)
        self._call("link", target, lambda: super(FailingDisk, self)._link(source, target))

    def _rename(self, source: str, target: str) -> None:
        self._must_be_synced(source, target)
        self._call("rename", target, lambda: super(FailingDisk, self)._rename(source, target))

    def _unlink(self, path: str) -> None:
        self._call("unlink", path, lambda: super(FailingDisk, self)._unlink(path))

    def _mkdir(self, path: str) -> None:
        self._call("mkdir", path, lambda: super(FailingDisk, self)._mkdir(path))

    def _rmdir(self, path: str) -> None:
        self._call("rmdir", path, lambda: super(FailingDisk, self)._rmdir(path))

    def _syncfs(self, call: Callable[[int], int], fd: int) -> bool:
        try:
            done = self._call("syncfs", _path(fd), lambda: not self.really_sync or call(fd) == 0)
        except OSError:
            return False  # that is how syncfs fails here
        if done:
            self._unsynced.clear()
        return done

    # what becomes of it

    def _call(self, name: str, path: str, act: Callable[[], T], undo: Callable[[T], None] | None = None) -> T:
        if self.dead:
            raise Killed(f"{name} {path} after its process was killed")
        self.calls.append((name, path))
        number = len(self.calls)
        if self.before is not None:
            self.before(number, name, path)
        if number == self.kill_at:
            self._die(f"before call {number}, {name} {path}")
        if self.fail_at is not None and (number == self.fail_at or (self.lasting and number > self.fail_at)):
            self.struck = True
            raise OSError(self.error, os.strerror(self.error), path)
        try:
            answer = act()
        except OSError:
            if number == self.kill_after:
                self._die(f"after call {number}, {name} {path}")
            raise
        if number == self.kill_after:
            if undo is not None:
                undo(answer)
            self._die(f"after call {number}, {name} {path}")
        return answer

    def _die(self, where: str) -> None:
        self.struck = self.dead = True
        raise Killed(f"killed {where}")

    def _must_be_synced(self, source: str, target: str) -> None:
        try:
            found = os.lstat(source)
        except OSError:
            return
        if self.durable and (found.st_dev, found.st_ino) in self._unsynced:
            self.offences.append(f"{source} became {target} before it was synced")


def _inode(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _path(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # not Linux
        return f"descriptor {fd}"


class TemporarySpool(Spool):
    """A Spool whose clock moves and whose disk counts and fails."""

    clock: MovableClock
    disk: FailingDisk

    def another(self, disk: FailingDisk | None = None) -> "TemporarySpool":
        """The same spool as another process opens it: the same clock, a disk of its own (by default a good one)."""
        return TemporarySpool(
            self.root, disk=disk or FailingDisk(), clock=self.clock, durability=self.durability,
            history=self.keeps_history,
        )  # fmt: skip


@contextmanager
def temporary_spool(
    *,
    disk: FailingDisk | None = None,
    clock: MovableClock | None = None,
    durability: str = "full",
    history: bool = True,
) -> Iterator[TemporarySpool]:
    """`with temporary_spool() as spool: …`: a spool of its own for the block, not made yet and removed afterwards.

    `durability` is "full", so that every fsync is counted; "none" for the shorter list of calls.
    """
    with tempfile.TemporaryDirectory(prefix="agent-mail-") as directory:
        yield TemporarySpool(
            f"{directory}/spool",
            disk=disk or FailingDisk(),
            clock=clock or MovableClock(),
            durability=durability,
            history=history,
        )
