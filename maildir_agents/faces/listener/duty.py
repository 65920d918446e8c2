"""One agent on duty: its lock, what lies before it, and the one worker it may have.

A turn does what is due and says when it wants the next one; nothing here sleeps.  The lock belongs to the mailbox that
stands at the path: when another stands there, that one's is taken.
"""

import errno
import os
import signal

from maildir_agents.disk.jsonfile import pretty
from maildir_agents.disk.sole import Sole
from maildir_agents.errors import MailError
from maildir_agents.faces.listener.output import Output
from maildir_agents.faces.listener.worker import NOT_STARTED, Worker, environment
from maildir_agents.mail import listening
from maildir_agents.mail.claim import release, renew
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.message import shown
from maildir_agents.mail.name import iso
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs.dispatch import LEASE_S, Backlog
from maildir_agents.verbs.outcome import Job, conclude, was_settled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from maildir_agents.faces.listener.unit import UnitWorker
    from maildir_agents.verbs.auto import Terms

    Say = Callable[[dict[str, str]], None]

RENEW_MS = 100_000  # a third of the lease
GRACE_MS = 5000  # between SIGTERM and SIGKILL
TROUBLE_MS = 5000  # until what failed is tried again
OURS = frozenset((errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM))  # what the listener or machine is short of


class Run:
    """A worker and its deadlines, on the boot clock in milliseconds; `worker` is None when it could not be started.

    Without a worker and a `status` it waits to be started.
    """

    __slots__ = ("began", "job", "kill_at", "limit_at", "lost", "renew_at", "status", "terms", "why", "worker")

    def __init__(self, job: Job, now: int, terms: "Terms") -> None:
        self.job, self.began, self.terms = job, now, terms
        self.worker: Worker | UnitWorker | None = None
        self.status: int | None = None  # when it has ended
        self.renew_at = now + RENEW_MS
        self.limit_at: int | None = now + round(terms.limit_s * 1000)
        self.kill_at: int | None = None
        self.lost = False
        self.why = ""  # it was stopped

    def next_at(self) -> int:
        return min(at for at in (self.renew_at, self.limit_at, self.kill_at) if at is not None)


class Duty:
    """One agent being served.  `again`: when it wants a turn by itself (boot clock, ms; None: when something came)."""

    __slots__ = (
        "_backlog", "_environ", "_label", "_lock", "_said", "_say", "_sole", "_started", "_units",
        "again", "box", "run",
    )  # fmt: skip

    def __init__(
        self, spool: SpoolFiles, agent: str, say: "Say", environ: "Mapping[str, str]", units: bool = False
    ) -> None:
        self.box, self._say, self._environ = Mailbox(spool, agent), say, environ
        self.again: int | None = 0
        self.run: Run | None = None
        self._units = units  # workers are systemd's
        self._backlog = Backlog(self.box)
        self._sole: Sole | None = None
        self._lock: tuple[int, int] | None = None  # device and inode of the lock that is held
        self._label = f"listener-{os.getpid()}"
        self._started = iso(spool.clock.wall_ms())
        self._said: tuple[str, ...] = ()

    # on duty, or not

    def take_up(self) -> None:
        """Become this agent's listener; raises `busy` where another is."""
        sole = Sole(listening.lock_of(self.box))
        sole.__enter__()
        self._sole, self._lock = sole, _inode(listening.lock_of(self.box))
        self._tell(None)

    def lay_down(self) -> None:
        """End, as one who ends and does not die.  A worker that still runs is killed."""
        if self.run is not None and self.run.worker is not None:
            self.run.worker.kill()
            self.run.worker.close("killed: its listener ended")
        if self._sole is not None:
            if self._lock == _inode(listening.lock_of(self.box)):
                listening.unlabel(self.box)
            self._sole.__exit__()
            self._sole = None

    @property
    def readers(self) -> tuple[int, ...]:
        """Where its worker is heard from."""
        return self.run.worker.readers if self.run is not None and self.run.worker is not None else ()

    @property
    def is_disabled(self) -> bool:
        return listening.is_disabled(self.box)

    def _holds_the_lock(self) -> bool:
        """Whether the lock at the path is ours; a mailbox that came to stand there is taken up."""
        here = _inode(listening.lock_of(self.box))
        if self._sole is not None and here == self._lock:
            return True
        if not os.path.isdir(f"{self.box.path}/new"):
            return False  # moved away: its bell rings when there is one again
        if self._sole is not None:
            self._sole.__exit__()
            self._sole = None
        try:
            self.take_up()
        except MailError as error:
            self._once(error.sentence, {"warning": error.sentence, "code": error.code})
            return False
        return True

    # turns

    def turn(self, terms: "Terms | None", may_start: bool) -> None:
        """Do what is due."""
        now = self.box.spool.clock.boot_ms()
        try:
            if self.run is not None and self.run.worker is None and self.run.status is None:
                self._wait_to_start(self.run, now, terms if may_start else None)
            elif self.run is not None:
                self._tend(self.run, now)
            if self.run is None:
                self.again = None
                if may_start and terms is not None and self._holds_the_lock():
                    self._look(terms)
        except MailError as error:
            self._once(error.sentence, {"warning": error.sentence, "code": error.code})
            self.again = now + TROUBLE_MS

    def _look(self, terms: "Terms") -> None:
        job = self._backlog.next(terms, self._label)
        for warning in self._backlog.warnings:
            self._say(warning)
        self._backlog.warnings.clear()
        if job is None:
            self.again = self._backlog.again
        else:
            self._start(job, terms)

    def _start(self, job: Job, terms: "Terms") -> None:
        self.run = Run(job, self.box.spool.clock.boot_ms(), terms)
        self._tell(job.id)
        self._launch(self.run)

    def _launch(self, run: Run) -> None:
        """Start the worker.  What only this process is short of is no failed attempt: it keeps the claim and waits."""
        spool, job, terms = self.box.spool, run.job, run.terms
        now = spool.clock.boot_ms()
        told = pretty(shown(job.message)) + "\n"
        environ = environment(self._environ, spool.root, self.box.agent, job, self._label)
        output = Output(listening.log_of(self.box), f"{iso(spool.clock.wall_ms())} {job.handle}: {terms.command[0]}")
        try:
            run.worker = self._worker(terms, environ, told.encode("utf-8"), output, job)
        except (OSError, ValueError) as error:
            why = f"it could not be started: {error}"
            output.close(why)
            if getattr(error, "errno", None) in OURS:
                self._once(why, {"warning": f"the worker for {job.id} waits: {why}", "code": "busy"})
                self.again = now + TROUBLE_MS
            else:
                run.status, run.why, self.again = NOT_STARTED, why, 0
            return
        run.began, run.limit_at = now, now + round(terms.limit_s * 1000)
        spool.note(self.box.agent, "started", id=job.id, token=job.token, attempt=job.attempt, **run.worker.told)
        self.again = run.next_at()

    def _wait_to_start(self, run: Run, now: int, terms: "Terms | None") -> None:
        if now >= run.renew_at:
            self._renew(run, now)
        if run.lost or terms is None:
            self._give_back(run)
        else:
            run.terms = terms
            self._launch(run)

    def _give_back(self, run: Run) -> None:
        try:
            release(self.box, run.job.id, run.job.token)
        except MailError as error:
            if error.code != "lease_lost":
                raise
        self.run = None
        self._tell(None)
        self.again = 0

    def _worker(
        self, terms: "Terms", environ: dict[str, str], message: bytes, output: Output, job: Job
    ) -> "Worker | UnitWorker":
        if not self._units:
            return Worker(terms.command, environ, message, output)
        from maildir_agents.faces.listener.unit import UnitWorker, unit_name

        unit = unit_name(self.box.agent, job)
        return UnitWorker(terms.command, environ, message, output, unit=unit, limit_s=terms.limit_s)

    def _tend(self, run: Run, now: int) -> None:
        if run.worker is not None and run.status is None:
            run.status = run.worker.ended()
            run.why = run.why or ("" if run.status is None else run.worker.trouble)
        if now >= run.renew_at and not run.lost:
            self._renew(run, now)
        if run.status is not None:
            self._conclude(run, now)
            return
        if run.limit_at is not None and now >= run.limit_at:
            self._stop(run, now, "its time was over")
        if run.kill_at is not None and now >= run.kill_at and run.worker is not None:
            run.worker.signal(signal.SIGKILL)
            run.kill_at = now + GRACE_MS
        self.again = run.next_at()

    def _renew(self, run: Run, now: int) -> None:
        run.renew_at = now + RENEW_MS
        try:
            renew(self.box, run.job.id, run.job.token, LEASE_S)
        except MailError as error:
            if error.code != "lease_lost":
                run.renew_at = now + TROUBLE_MS
                self._once(error.sentence, {"warning": error.sentence, "code": error.code})
            elif not was_settled(self.box, run.job):
                run.lost = True
                self._stop(run, now, "its claim was lost")

    def _stop(self, run: Run, now: int, why: str) -> None:
        """Ask the worker's group to end; what does not is killed."""
        run.limit_at, run.why, run.kill_at = None, why, now + GRACE_MS
        if run.worker is not None:
            run.worker.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the worker now, as somebody in a hurry wants it."""
        if self.run is not None and self.run.worker is not None:
            self.run.why = self.run.why or "it was killed with its listener"
            self.run.worker.signal(signal.SIGKILL)

    def _conclude(self, run: Run, now: int) -> None:
        status = run.status or 0
        how = ended(status, run.why)
        became = conclude(self.box, run.job, 1 if run.why else status, run.lost, how)
        seconds = round((now - run.began) / 1000, 3)
        self.box.spool.note(
            self.box.agent, "ended", id=run.job.id, token=run.job.token, status=status, seconds=seconds, outcome=became,
            **({"why": run.why} if run.why else {}),
        )  # fmt: skip
        if run.worker is not None:
            run.worker.close(f"{iso(self.box.spool.clock.wall_ms())} {run.job.handle}: {how}, {became}")
        self.run = None
        self._tell(None)
        self.again = 0

    def _tell(self, waiting_on: str | None) -> None:
        listening.label(self.box, os.getpid(), self._started, waiting_on)

    def _once(self, key: str, warning: "dict[str, str]") -> None:
        if key not in self._said:
            self._said = (*self._said[-99:], key)
            self._say({**warning, "agent": self.box.agent})


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def ended(status: int, why: str) -> str:
    """How a worker ended, in words."""
    if why:
        return why
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
