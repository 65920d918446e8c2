"""The only code that changes what others can see: whole files written aside, then one link or one rename.

`publish` commits by link (the name must not exist yet), `move` delivers by rename (the source is consumed
once).  Both know the two meanings of ENOENT, and both look at their own target before they believe an error.
Every system call is an underscored method, the seam for faults.  It does not know what a message is.
"""

import errno
import os

from maildir_agents.errors import MailError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FEW = 8  # directories that are cheaper synced one by one
DONE, EXISTS, GONE = "done", "exists", "gone"


def refusal(error: OSError, path: str) -> MailError:
    """What an operating system error means to whoever asked: the path, the reason, and that nothing changed."""
    reason = error.strerror or str(error)
    detail = {"path": path, "errno": errno.errorcode.get(error.errno or 0, "?")}
    if error.errno in _NO_ROOM:
        return MailError(
            "spool_full",
            f"no room to write {path}: {reason}",
            "nothing was changed: free space or inodes, then repeat the command",
            **detail,
        )
    code = "read_only" if error.errno in _READ_ONLY else "cannot_write"
    return MailError(
        code,
        f"cannot write {path}: {reason}",
        "nothing was changed: check that this user owns the spool and its file system is mounted read-write",
        **detail,
    )


def same_file(one: str, other: str) -> bool:
    """True when both names are one inode."""
    try:
        a, b = os.lstat(one), os.lstat(other)
    except OSError:
        return False
    return (a.st_ino, a.st_dev) == (b.st_ino, b.st_dev)


class Disk:
    """The file system as this package uses it.  `durable=False` skips every fsync (tests, tmpfs)."""

    def __init__(self, durable: bool = True) -> None:
        self.durable = durable

    # the seam: one system call each

    def _open(self, path: str, flags: int) -> int:
        return os.open(path, flags | _SAFE, 0o600)

    def _write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def _fsync(self, fd: int) -> None:
        os.fsync(fd)

    def _link(self, source: str, target: str) -> None:
        os.link(source, target, follow_symlinks=False)

    def _rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def _unlink(self, path: str) -> None:
        os.unlink(path)

    def _mkdir(self, path: str) -> None:
        os.mkdir(path, 0o700)

    def _rmdir(self, path: str) -> None:
        os.rmdir(path)

    # whole files, not visible yet

    def write_new(self, path: str, data: bytes, sync: bool = True) -> None:
        """Make `path` with exactly `data`, synced unless the caller does that for many.

        On failure there is no such file; FileNotFoundError (no directory) and FileExistsError are passed on,
        everything else is a MailError.
        """
        fd = self.create(path)
        try:
            self._fill(fd, data, sync)
        except OSError as error:
            self._abandon(fd, path)
            raise refusal(error, path) from error
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)

    def create(self, path: str) -> int:
        """A new file, open for writing; FileNotFoundError and FileExistsError are passed on."""
        try:
            return self._open(path, _CREATE)
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            raise refusal(error, path) from error

    def _fill(self, fd: int, data: bytes, sync: bool) -> None:
        view = memoryview(data)
        while view:
            written = self._write(fd, view)  # type: ignore[arg-type]
            if written <= 0:  # a file system that takes nothing and says nothing must not loop for ever
                raise OSError(errno.EIO, "a write took no bytes")
            view = view[written:]
        if self.durable and sync:
            self._fsync(fd)

    def _abandon(self, fd: int, path: str) -> None:
        # A failed fsync is final for this file: never again on it.
        os.close(fd)
        try:
            self._unlink(path)
        except OSError:
            pass  # a stale draft: the collector takes it

    def open_lock(self, path: str, fresh: bool = False) -> int:
        """A descriptor for flock on a file that is made if need be; `fresh`: it must be new.  OSError is passed on."""
        return self._open(path, os.O_RDWR | os.O_CREAT | (os.O_EXCL if fresh else 0))

    def append(self, path: str, line: bytes) -> None:
        """Add one line by one write.  For records that may be lost; never synced.  OSError is passed on."""
        # Not waiting: whatever lies there, a FIFO that nobody reads too, must not hold up a verb.
        fd = self._open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK)
        try:
            self._write(fd, line)
        finally:
            os.close(fd)

    # what others see

    def publish(self, draft: str, name: str) -> str:
        """Commit: give a finished draft the further name `name`, if nobody has it.

        DONE: it is ours (this call, or an earlier try: same inode).  EXISTS: it is another file.
        GONE: there is no draft.  A missing directory is made.
        """
        while True:
            try:
                self._link(draft, name)
                return DONE
            except FileExistsError:
                return DONE if same_file(draft, name) else EXISTS
            except FileNotFoundError as error:
                if not os.path.lexists(draft):
                    return GONE
                self._grow(name, error)
            except OSError as error:
                if same_file(draft, name):
                    return DONE
                if error.errno != errno.EINTR:
                    raise refusal(error, name) from error

    def move(self, source: str, target: str, grow: bool = True) -> bool:
        """Rename exactly `source` to exactly `target`.  False: the source is gone, another was faster.

        A missing target directory is made; if not `grow`: False, too.  After an error that leaves it open the target
        decides: if it is there, it happened.  ENOENT leaves nothing open: a target there then is another caller's.
        """
        open_ended = False
        while True:
            try:
                self._rename(source, target)
                return True
            except FileNotFoundError as error:
                if not (grow and os.path.lexists(source)):
                    return open_ended and os.path.lexists(target)
                self._grow(target, error)
            except OSError as error:
                if os.path.lexists(target) and not os.path.lexists(source):
                    return True
                if error.errno != errno.EINTR:
                    raise refusal(error, target) from error
                open_ended = True

    def _grow(self, name: str, error: OSError) -> None:
        parent = os.path.dirname(name)
        if os.path.isdir(parent):  # the directory came back meanwhile: simply again
            return
        if not parent:
            raise refusal(error, name)
        self.make_dir(parent)

    # directories, removal, durability

    def make_dir(self, path: str, again: bool = False) -> None:
        """Make `path` and what is missing above it, each synced in its parent.  Being there already is fine.

        `again`: its parent was missing and was made.  Said to be missing once more, it takes no directories.
        """
        try:
            self._mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise MailError(
                    "cannot_write",
                    f"{path} is in the way: not a directory",
                    "move it aside, then repeat the command",
                    path=path,
                ) from None
            return
        except FileNotFoundError as error:
            parent = os.path.dirname(path)
            if parent == path or (again and os.path.isdir(parent)):
                raise refusal(error, path) from error
            self.make_dir(parent)
            return self.make_dir(path, again=True)
        except OSError as error:
            raise refusal(error, path) from error
        self.sync_made(os.path.dirname(path))

    def discard(self, path: str) -> bool:
        """Remove a name.  False: it was not there."""
        try:
            self._unlink(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise refusal(error, path) from error
        return True

    def drop_dir(self, path: str) -> bool:
        """Remove an empty directory.  False: it is not empty, or gone."""
        try:
            self._rmdir(path)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise refusal(error, path) from error
        return True

    def sync(self, directory: str) -> None:
        """Make the names in `directory` durable; what was done stays done when this fails (`durability_unknown`)."""
        sentence = f"done, but whether {directory} survives a power cut is not known"
        self._sync_or(directory, "durability_unknown", sentence, "do not repeat it: look at the state first")

    def sync_made(self, directory: str) -> None:
        """The same for what only prepares something: when it fails, nothing was changed (`cannot_write`)."""
        sentence = f"cannot make what is in {directory} durable"
        self._sync_or(directory, "cannot_write", sentence, "nothing was changed: repeat the command")

    def sync_all(self, directories: list[str]) -> None:
        """Make several directories durable: one sync of the file system when they are many (Linux)."""
        if not self.durable or not directories:
            return
        if len(directories) <= FEW or not self._sync_file_system(directories[0]):
            for directory in directories:
                self.sync(directory)

    def sync_files(self, paths: list[str]) -> None:
        """Make the content of several finished files durable, as `sync_all`; raises cannot_write."""
        if not self.durable or not paths:
            return
        if len(paths) <= FEW or not self._sync_file_system(os.path.dirname(paths[0])):
            for path in paths:
                self._sync_file(path)

    def _sync_file(self, path: str) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | _SAFE)
            try:
                self._fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise refusal(error, path) from error

    def _sync_file_system(self, path: str) -> bool:
        """syncfs(2), which Python's os has not; False where the system has none or it failed (then one by one)."""
        import ctypes

        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            return False
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return self._syncfs(syncfs, fd)
        finally:
            os.close(fd)

    def _syncfs(self, call: "Callable[[int], int]", fd: int) -> bool:
        return call(fd) == 0

    def _sync_or(self, directory: str, code: str, sentence: str, hint: str) -> None:
        if not self.durable:
            return
        try:
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # removed since: then somebody removed what was in it, too
        except OSError as error:
            raise MailError(code, f"{sentence}: {error.strerror}", hint, path=directory) from error
        try:
            self._fsync(fd)
        except OSError as error:
            raise MailError(
                code,
                f"{sentence}: {error.strerror}",
                hint,
                path=directory,
                errno=errno.errorcode.get(error.errno or 0, "?"),
            ) from error
        finally:
            os.close(fd)
