"""listener: status, enable and disable of the process that starts workers for an agent's mail.

Disabling is a marker that the listener sees: its worker finishes, nothing new is started, no process is ever killed.
Enabling takes the marker away and starts a listener unless one runs; the lock lets only one of several stay.
"""

import os
import subprocess
import time

from maildir_agents.disk.systemd import MEANT_FOR_ONE, finding_the_manager
from maildir_agents.errors import MailError
from maildir_agents.mail import listening
from maildir_agents.mail.founding import ensure_mailbox
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.spool import SpoolFiles, locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

STARTING_S = 10.0  # how long a listener that was started may take until it holds its lock
UNIT = "agent-mail-listener@"
WORKERS_OWN = ("CLAIM", "MESSAGE", "CONVERSATION", "HOPS", "WORKER")
"""Variables AGENT_MAIL_… that a listener gives to one worker, and to nobody else."""
WORKER_UNITS = "AGENT_MAIL_WORKER_UNITS"
"""Set to "user", workers are units of the user's systemd; unset, children of their listener."""


def status(spool: SpoolFiles, agent: str) -> "dict[str, Any]":
    """`{agent, state, enabled, running, pid, waiting_on}`; changes nothing.

    `state` is running, disabled (while its last worker finishes, `running` still says so), dead (it did not end, it
    was ended) or none.  `waiting_on` is the id of the message that its worker has, or None.
    """
    seen = listening.seen(Mailbox(spool, agent_name(agent)))
    died = seen.pop("died")
    states = ((not seen["enabled"], "disabled"), (seen["running"], "running"), (died, "dead"), (True, "none"))
    return {"agent": agent, "state": next(word for holds, word in states if holds), **seen}


def disable(spool: SpoolFiles, agent: str) -> "dict[str, Any]":
    """Forbid this agent's listener to start work, until it is enabled: the status afterwards."""
    box = Mailbox(spool, agent_name(agent))
    ensure_mailbox(spool, agent)
    listening.disable(box)
    spool.note(agent, "listener disabled")
    return status(spool, agent)


def enable(spool: SpoolFiles, agent: str, environ: "Mapping[str, str]") -> "dict[str, Any]":
    """Allow it again and start a listener, unless one runs: the status afterwards.

    By the user's unit where that is installed and means this spool (raises `unit_failed` when systemd cannot start it),
    else as a process of its own, in the directory of the caller, that writes to listener.log.
    """
    box = Mailbox(spool, agent_name(agent))
    ensure_mailbox(spool, agent)
    listening.allow(box)
    if not status(spool, agent)["running"]:
        spool.note(agent, "listener enabled")
        unit = f"{UNIT}{agent}.service"  # whatever an agent may be called, a unit may be
        if _unit_is_there(unit, spool, environ):
            _start_unit(unit, environ)
        else:
            _start_process(box, environ)
        _until_running(box)
    return status(spool, agent)


def _unit_is_there(unit: str, spool: SpoolFiles, environ: "Mapping[str, str]") -> bool:
    """Whether this user's systemd answers, knows the unit, and would let it listen at this very spool."""
    shown = _systemctl(environ, "show", "--property=LoadState", "--property=Environment", unit)
    general = _systemctl(environ, "show-environment")
    if shown is None or general is None or shown.returncode or general.returncode:
        return False
    import shlex

    told = dict(line.partition("=")[::2] for line in shown.stdout.splitlines())
    if told.get("LoadState") != "loaded":
        return False
    try:
        meant = dict(word.partition("=")[::2] for word in shlex.split(told.get("Environment", "")))
        usual = dict(line.partition("=")[::2] for line in general.stdout.splitlines())
        return locate(None, {**usual, **meant})[0] == os.path.normpath(spool.root)
    except (MailError, ValueError):
        return False  # it would not start


def _start_unit(unit: str, environ: "Mapping[str, str]") -> None:
    started = _systemctl(environ, "start", unit)
    if started is None or started.returncode:
        said = "systemctl does not answer" if started is None else " ".join(started.stderr.split())
        raise MailError(
            "unit_failed", f"{unit} could not be started: {said}", f"journalctl --user --unit={unit} says more"
        )


def _systemctl(environ: "Mapping[str, str]", *words: str) -> "subprocess.CompletedProcess[str] | None":
    try:
        return subprocess.run(
            ["systemctl", "--user", *words],
            env=finding_the_manager(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _start_process(box: Mailbox, environ: "Mapping[str, str]") -> None:
    """Start a listener that is nobody's child: a shell puts it into the background of its own session and ends."""
    import sys

    command = [sys.executable, "-P", "-m", "maildir_agents", "listener", "run", box.agent, "--spool", box.spool.root]
    log = os.open(listening.log_of(box), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=own_environment(environ),
            start_new_session=True,
            check=True,
        )
    finally:
        os.close(log)


def own_environment(environ: "Mapping[str, str]") -> dict[str, str]:
    """An environment without what was said to one worker, or to the process that systemd started."""
    foreign = {f"AGENT_MAIL_{name}" for name in WORKERS_OWN} | {WORKER_UNITS}
    return {name: value for name, value in environ.items() if name not in foreign and name not in MEANT_FOR_ONE}


def _until_running(box: Mailbox) -> None:
    deadline = time.monotonic() + STARTING_S
    while not listening.seen(box)["running"]:
        if time.monotonic() >= deadline:
            raise MailError(
                "busy",
                f"the listener of {box.agent} has not come up",
                f"{listening.log_of(box)} says why",
                path=box.path,
            )
        time.sleep(0.02)
