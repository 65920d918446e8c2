"""Other processes, as Linux shows them in /proc.

They go on while they are looked at: a descriptor is closed, a thread ends, a process is reaped between its listing and
the look at it.  What is not there any more is left out or is "ended", it is never an error.  So tests look here, and
nowhere else, at what runs.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

Pid = int | str  # of a process, or "self"


def descriptors(pid: Pid = "self") -> dict[int, str]:
    """What each open descriptor stands for, as "/a/path", "anon_inode:inotify" or "pipe:[71]"."""
    found = {}
    for number in _names(f"/proc/{pid}/fd"):
        with suppress(OSError):  # closed since; among one's own, the listing's
            found[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
    return found


def opened(pid: Pid, what: str) -> int:
    """How many of its descriptors stand for that."""
    return list(descriptors(pid).values()).count(what)


def inotify_instances(pid: Pid = "self") -> int:
    return opened(pid, "anon_inode:inotify")


def children(pid: Pid = "self") -> set[int]:
    """Zombies too."""
    return {int(child) for thread in threads(pid) for child in _read(f"/proc/{pid}/task/{thread}/children").split()}


def threads(pid: Pid = "self") -> list[str]:
    return _names(f"/proc/{pid}/task")


def state(pid: Pid, thread: Pid = "") -> str:
    """The letter that ps shows, as S, T or Z; "" when it has ended and was waited for."""
    place = f"{pid}/task/{thread}" if thread else f"{pid}"
    words = _read(f"/proc/{place}/stat").rpartition(b")")[2].split()
    return words[0].decode() if words else ""


def runs(pid: Pid) -> bool:
    """A zombie does not."""
    return state(pid) not in {"", "Z", "X"}


def asleep(pid: Pid) -> bool:
    """Whether each of its threads waits for something."""
    return {state(pid, thread) for thread in threads(pid)} - {""} == {"S"}


def waits_in(pid: Pid) -> str:
    """The name of the kernel's function that its first thread sleeps in, as far as the kernel tells."""
    return _read(f"/proc/{pid}/wchan").decode()


def words(pid: Pid) -> list[str]:
    """Its command line; empty for a zombie."""
    return [word.decode(errors="replace") for word in _of_program(pid, "cmdline").split(b"\0") if word]


def of_spool(place: Path) -> list[int]:
    """The processes but this one that were started for the spool at that place, or for one below it; no zombies."""
    found = []
    for pid in map(int, filter(str.isdigit, _names("/proc"))):
        own = dict(setting.partition(b"=")[::2] for setting in _of_program(pid, "environ").split(b"\0"))
        if pid != os.getpid() and Path(os.fsdecode(own.get(b"AGENT_MAIL_SPOOL", b""))).is_relative_to(place):
            found.append(pid)
    return found


def switches(pid: Pid) -> int:
    """How often its threads have gone to sleep until now: voluntary context switches."""
    return sum(
        int(line.split()[1])
        for thread in threads(pid)
        for line in _read(f"/proc/{pid}/task/{thread}/status").splitlines()
        if line.startswith(b"voluntary_ctxt_switches:")
    )


def private_bytes(pid: Pid) -> int:
    """The memory that nobody shares with it, in bytes; of a process that runs."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def kill(pid: int) -> None:
    """SIGKILL, unless it has ended by itself."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _of_program(pid: Pid, name: str) -> bytes:
    """What a process was started with.  In the middle of an exec it has nothing or a part, and is looked at again."""
    end, empty = time.monotonic() + 30, 0  # the disk may hold up an exec
    with suppress(OSError):  # it has ended, or is another user's
        while True:
            before = _end_of_environment(pid)
            data = Path(f"/proc/{pid}/{name}").read_bytes()
            steady = before == _end_of_environment(pid) != b"0"
            empty += steady and not data  # the kernel says that also of one that has something, once in 10,000 times
            if (steady and data) or empty == 5 or time.monotonic() > end:
                return data
            os.readlink(f"/proc/{pid}/exe")  # a zombie has none, nor has a thread of the kernel
            time.sleep(0.001)
    return b""


def _end_of_environment(pid: Pid) -> bytes:
    """Its address, "0" while there is none: field 51 of proc(5)'s stat."""
    return b"".join(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[48:49])


def _names(directory: str) -> list[str]:
    with suppress(FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return os.listdir(directory)
    return []


def _read(path: str) -> bytes:
    with suppress(OSError):  # the process, or the thread, has ended
        return Path(path).read_bytes()
    return b""
