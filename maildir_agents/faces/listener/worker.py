"""A worker: a process that was started for one message, its whole process group, and its output.

It has a session of its own, so a terminal's Ctrl-C is not for it; the message is its standard input, from memory, so
it need not be read.  It dies with its listener: the kernel kills it when that one does.
"""

import os
import signal
import subprocess

from maildir_agents.faces.listener.output import Output
from maildir_agents.verbs.listener import own_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from maildir_agents.verbs.outcome import Job

NOT_STARTED = 127  # the exit status of what could not be started, as shells say it
PR_SET_PDEATHSIG = 1


def environment(environ: "Mapping[str, str]", root: str, agent: str, job: "Job", label: str) -> dict[str, str]:
    """What a worker is told: who it is, which spool, which message, and the claim that is its own."""
    told = {
        "AGENT_ID": agent,
        "AGENT_MAIL_SPOOL": root,
        "AGENT_MAIL_CLAIM": job.handle,
        "AGENT_MAIL_MESSAGE": job.id,
        "AGENT_MAIL_HOPS": str(job.hops),
        "AGENT_MAIL_WORKER": label,
    }
    if job.conversation is not None:
        told["AGENT_MAIL_CONVERSATION"] = job.conversation
    return {**own_environment(environ), **told}


class Child:
    """A started process with a group of its own; `message` is its standard input, `out` takes all it prints."""

    def __init__(
        self,
        command: "Sequence[str]",
        environ: "Mapping[str, str]",
        message: bytes,
        out: int,
        *,
        err: int | None = None,
        cwd: str | None = None,
    ) -> None:
        """Raises OSError when it cannot be started."""
        letter = _in_memory(message)
        try:
            self._process = subprocess.Popen(
                command, stdin=letter, stdout=out, stderr=out if err is None else err, env=environ, cwd=cwd,
                start_new_session=True, preexec_fn=_leash(os.getpid()),  # noqa: PLW1509 - see there
            )  # fmt: skip
        finally:
            os.close(letter)
        self.pid = self._process.pid

    def ended(self) -> int | None:
        """Its exit status (negative: the signal), or None while it runs.  What is left of its group is killed first.

        Before it is waited for: so long nobody else can have its number.
        """
        if self._process.returncode is None:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
            self.signal(signal.SIGKILL)
        return self._process.wait()

    def kill(self) -> None:
        """Kill its group and wait for it."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def gone_within(self, seconds: float) -> bool:
        """Wait that long for it to end."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: int) -> None:
        """Send a signal to its whole group."""
        if self._process.returncode is None:
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):
                pass  # only the dead are left


class Worker:
    """A worker that is this process's child.

    `readers`: the descriptors to wait at.  `told`: what history says of it.  `trouble`: once it has ended, why it never
    began.
    """

    def __init__(self, command: tuple[str, ...], environ: dict[str, str], message: bytes, output: Output) -> None:
        """Raises OSError when it cannot be started."""
        self._output = output
        self._child = Child(command, environ, message, output.open())
        output.started()
        self.pid = self._child.pid
        self.told: dict[str, int | str] = {"pid": self.pid}
        self.trouble = ""

    @property
    def readers(self) -> tuple[int, ...]:
        return self._output.readers

    def ended(self) -> int | None:
        """Its exit status (negative: the signal), or None while it runs."""
        self._output.drain()
        return self._child.ended()

    def kill(self) -> None:
        self._child.kill()

    def signal(self, number: int) -> None:
        self._child.signal(number)

    def close(self, last_line: str) -> None:
        self._output.close(last_line)


def _in_memory(content: bytes) -> int:
    """A descriptor from which the content can be read, without a reader to wait for."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("message", os.MFD_CLOEXEC)
    else:
        import tempfile

        fd, path = tempfile.mkstemp()
        os.unlink(path)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _leash(parent: int) -> "Callable[[], None] | None":
    """What the child does before it becomes the worker: two system calls, nothing that could wait for a lock.

    A function of the C library that was looked up before; where there is none (it is Linux's) workers outlive their
    listener, and then find their claim lost.
    """
    prctl = _prctl()
    if prctl is None:
        return None

    def leash() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before
            os._exit(NOT_STARTED)

    return leash


_found: "list[Callable[[int, int], int] | None]" = []


def _prctl() -> "Callable[[int, int], int] | None":
    if not _found:
        import ctypes
        import warnings

        # Python 3.12 warns of forking with threads.  The other thread is the doorbell's, and nothing here needs it.
        warnings.filterwarnings("ignore", r".*multi-threaded", DeprecationWarning)
        _found.append(getattr(ctypes.CDLL(None), "prctl", None))
    return _found[0]
