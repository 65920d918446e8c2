"""A worker as a unit of its own: started by the user's systemd, outside whatever its listener is confined to.

systemd-run is our child and waits for the unit; in the unit the warden is on our leash.  The leash says how the worker
ended, the child's end that the whole unit is gone.  If the child goes first, the leash is let go of, and then its other
end closes when nobody is left.
"""

import os
import signal
import socket
import subprocess
import sys

from maildir_agents.disk.systemd import finding_the_manager
from maildir_agents.errors import MailError
from maildir_agents.faces.listener import leash
from maildir_agents.faces.listener.output import Output
from maildir_agents.faces.listener.worker import NOT_STARTED, Child
from maildir_agents.verbs.listener import WORKER_UNITS, own_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from maildir_agents.verbs.outcome import Job

STOP_S = 5  # between SIGTERM and SIGKILL, when the unit is stopped
SPARE_S = 60  # what systemd gives a unit beyond the worker's time, should its listener not see to that
PATIENCE_S = 10  # until a client that does not end by itself is killed


def check(environ: "Mapping[str, str]") -> None:
    """Raise unless workers can be what AGENT_MAIL_WORKER_UNITS says: "user", units of the user's manager."""
    asked = environ[WORKER_UNITS]
    if asked != "user":
        raise MailError("usage", f"{WORKER_UNITS} is {asked!r}", f"{WORKER_UNITS}=user, or leave it unset")
    if trouble := _trouble(environ):
        raise MailError(
            "unit_failed",
            f"workers are to be systemd's units, but no unit can be started: {trouble}",
            f"loginctl enable-linger USER keeps a user's systemd running; without {WORKER_UNITS} none is needed",
        )


def _trouble(environ: "Mapping[str, str]") -> str:
    """Why no unit can be started; empty when one can."""
    command = ["systemd-run", "--user", "--quiet", "--collect", "--wait", "--pipe", "true"]
    try:
        done = subprocess.run(
            command, env=finding_the_manager(environ), stdin=subprocess.DEVNULL, capture_output=True, check=False,
            timeout=30,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = " ".join(done.stderr.decode("utf-8", "replace").split())
    return "" if done.returncode == 0 else said or f"systemd-run ended with {done.returncode}"


def unit_name(agent: str, job: "Job") -> str:
    """One name a claim: a worker can't be started twice for it.  Every agent's name may stand in a unit's."""
    return f"agent-mail-worker-{agent}-{job.id}-n{job.token}.service"


def _invocation(unit: str, agent: str, limit_s: float) -> list[str]:
    properties = {
        "KillMode": "mixed",  # what the worker leaves behind is killed when it ends
        "TimeoutStopSec": f"{STOP_S}s",
        "RuntimeMaxSec": f"{round(limit_s) + SPARE_S}s",
        "Restart": "no",
    }
    return [
        "systemd-run", "--user", "--quiet", "--collect", "--wait", "--pipe", "--service-type=exec",
        f"--unit={unit}", f"--description=agent-mail worker of {agent}",
        *(f"--property={name}={value}" for name, value in properties.items()),
        sys.executable, "-P", "-m", "maildir_agents.faces.listener.warden",
    ]  # fmt: skip


class UnitWorker:
    """The same to its listener as a Worker is."""

    def __init__(
        self,
        command: tuple[str, ...],
        environ: dict[str, str],
        message: bytes,
        output: Output,
        *,
        unit: str,
        limit_s: float,
    ) -> None:
        """Raises OSError when systemd-run cannot be started."""
        self._output = output
        self.told: dict[str, int | str] = {"unit": unit}
        self._news: dict[str, int | str] = {}
        self._why = ""
        pipe = output.open()
        ours, theirs = leash.pair()
        self._leash: socket.socket | None = ours
        try:
            self._child = Child(
                _invocation(unit, environ["AGENT_ID"], limit_s),
                finding_the_manager(own_environment(os.environ)),
                leash.letter(command, environ, os.getcwd(), message),
                pipe,
                err=theirs.fileno(),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        output.started()
        self.pid = self._child.pid

    @property
    def readers(self) -> tuple[int, ...]:
        return self._output.readers if self._leash is None else (*self._output.readers, self._leash.fileno())

    @property
    def trouble(self) -> str:
        return "" if "started" in self._news else f"it could not be started: {self._why or 'systemd-run failed'}"

    def ended(self) -> int | None:
        """The worker's exit status (negative: the signal), or None while it or its unit is there."""
        self._output.drain()
        self._hear()
        client = self._child.ended()
        if client is None:
            return None
        self._hear()
        if self._leash is not None and (client < 0 or "ended" not in self._news):
            self._let_go(self._leash)  # the client did not wait for the unit, so the leash is to tell of its end
            return None
        if "ended" in self._news:
            return int(self._news["ended"])
        return -signal.SIGKILL if "started" in self._news else NOT_STARTED

    @staticmethod
    def _let_go(end: socket.socket) -> None:
        try:
            end.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _hear(self) -> None:
        while self._leash is not None:
            try:
                data = self._leash.recv(leash.LONGEST)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._leash.close()
                self._leash = None
                return
            news, text = leash.hear(data)
            self._news |= news
            why = str(news.get("not_started", text))
            if why:
                self._output.say(why)
                self._why = why

    def kill(self) -> None:
        """Kill it; wait for its unit to be gone, but for no systemd that does not answer."""
        self.signal(signal.SIGKILL)
        if not self._child.gone_within(PATIENCE_S):
            self._child.kill()

    def signal(self, number: int) -> None:
        """Send a signal to the worker's whole group."""
        if self._leash is not None:
            try:
                self._leash.send(bytes([number]))
            except OSError:
                pass  # nobody is there, or so many signals wait that one more says nothing

    def close(self, last_line: str) -> None:
        if self._leash is not None:
            self._leash.close()
            self._leash = None
        self._output.close(last_line)
