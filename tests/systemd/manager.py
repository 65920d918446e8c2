"""A real user manager of systemd in namespaces of its own, wherever process 1 is something else.  No fixture.

It has its own /run, process ids and branch of the cgroup tree; HOME is a directory of the test.  When it is left, its
first process is killed and with it everything it ever started, and its cgroups are taken away.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import proc
from faces.program import Done, until
from maildir_agents.mail.history import events
from maildir_agents.mail.spool import SpoolFiles

SYSTEMD = "/lib/systemd/systemd"
RUNTIME = "/run/user/0"
BOOT = f"""
set -e
mount -t tmpfs none /run
mkdir -p {RUNTIME} /run/systemd/system
chmod 700 {RUNTIME}
mount -t cgroup2 none /sys/fs/cgroup
mkdir /sys/fs/cgroup/"$1"
echo $$ > /sys/fs/cgroup/"$1"/cgroup.procs
{SYSTEMD} --user &
wait
"""
SWEEP = """
mount -t cgroup2 none "$2" && find "$2/$1" -depth -type d -exec rmdir {} +
"""
PRIVATE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--cgroup", "--ipc"]


class Manager:
    """`home` is the user's; `spool` the default one there."""

    def __init__(self, place: Path, bin_directory: Path) -> None:
        self.place, self.home = place, place / "home"
        self.units = self.home / ".config/systemd/user"
        self.spool = self.home / ".local/state/agent-mail"
        self.units.mkdir(parents=True)
        path = f"{bin_directory}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.environ = {"HOME": str(self.home), "XDG_RUNTIME_DIR": RUNTIME, "LC_ALL": "C.UTF-8", "PATH": path}
        self.log = place / "manager.log"
        self.cgroup = f"agent-mail-test-{os.getpid()}-{time.monotonic_ns()}"

    # life

    def start(self) -> str:
        """Start it; why it could not be, or nothing."""
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*PRIVATE, "bash", "-c", BOOT, "boot", self.cgroup], env=self.environ, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
        try:
            until(self.is_up, "the manager is up", 60)  # what does not come up is skipped: not for being slow
        except AssertionError:
            return self.log.read_text(errors="replace") or "it does not come up"
        return "" if self.process.poll() is None else self.log.read_text(errors="replace") or "it has ended"

    def is_up(self) -> bool:
        if self.process.poll() is not None:
            return True
        return bool(self._first()) and self("systemctl", "--user", "is-system-running").out.strip() == "running"

    def _first(self) -> str:
        """The process id, as it is seen from here, of the namespace's first process."""
        return next(map(str, proc.children(self.process.pid)), "")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()  # and the kernel kills its child, and with that the namespace
        self.process.wait()
        mount = self.place / "cgroup"
        mount.mkdir()
        sweep = ["unshare", "--mount", "sh", "-c", SWEEP, "sweep", self.cgroup, str(mount)]
        until(lambda: subprocess.run(sweep, check=False, capture_output=True).returncode == 0, "its cgroups are gone")

    # in there

    def inside(self, *words: str) -> list[str]:
        return ["nsenter", f"--target={self._first()}", "--mount", "--pid", "--cgroup", "--ipc", *words]

    def __call__(self, *words: str) -> Done:
        done = subprocess.run(
            self.inside(*words), env=self.environ, stdin=subprocess.DEVNULL, capture_output=True, check=False,
            timeout=60,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    def do(self, *words: str) -> str:
        done = self(*words)
        assert done.status == 0, f"{words}: {done.err}{done.out}"
        return done.out

    def mail(self, *words: str) -> Any:
        return json.loads(self.do("agent-mail", *words))

    def systemctl(self, *words: str) -> str:
        return self.do("systemctl", "--user", *words).strip()

    def show(self, unit: str, *properties: str) -> list[str]:
        """The values of a unit's properties."""
        lines = self.systemctl("show", *(f"--property={name}" for name in properties), unit).splitlines()
        told = dict(line.split("=", 1) for line in lines if "=" in line)
        return [told.get(name, "") for name in properties]

    def one(self, unit: str, name: str) -> str:
        [value] = self.show(unit, name)
        return value

    def kill(self, pid: str, number: str) -> None:
        self.do("kill", f"-{number}", pid)

    def status_of(self, pid: str) -> dict[str, str]:
        """/proc/PID/status there."""
        lines = self("cat", f"/proc/{pid}/status").out.splitlines()
        return {line.split(":")[0]: line.split(":", 1)[1].strip() for line in lines}

    # what stands there

    def drop_in(self, unit: str, *lines: str, name: str = "test", section: str = "Service") -> None:
        directory = self.units / f"{unit}.d"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{name}.conf").write_text("\n".join([f"[{section}]", *lines, ""]), encoding="utf-8")
        self.systemctl("daemon-reload")

    def worker(self, agent: str, script: str, **terms: Any) -> None:
        """Let tasks of `agent` start a shell script; its lines go to `diary` in the home directory."""
        if not self.spool.exists():
            self.mail("init")
        path = self.home / f"{agent.replace(':', '-')}.sh"
        path.write_text(f'#!/bin/sh\nsay() {{ echo "$*" >> "{self.home}/diary"; }}\n{script}\n', encoding="utf-8")
        path.chmod(0o755)
        config = json.loads((self.spool / "config.json").read_text(encoding="utf-8"))
        config["auto"][agent] = {"command": [str(path)], **terms}
        draft = self.spool / ".config"
        draft.write_text(json.dumps(config), encoding="utf-8")
        draft.chmod(0o600)
        draft.rename(self.spool / "config.json")

    def task(self, agent: str, goal: str = "a goal") -> dict[str, Any]:
        """Give a task; the answer to `conversation start`."""
        return self.mail("conversation", "start", "--from", "hub", "--to", agent, "--goal", goal)

    def diary(self) -> list[str]:
        path = self.home / "diary"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def said(self, line: str, times: int = 1) -> None:
        self.soon(lambda: self.diary().count(line) >= times, f"a worker says {line!r}")

    def place_of(self, agent: str, message: str) -> str:
        """The state that a message is in."""
        for state in ("new", "cur", "claimed", "acked", "archive", "failed"):
            if any((self.spool / "agents" / agent / state).rglob(f"{message}*.json")):
                return state
        return "nowhere"

    def history(self, agent: str, event: str) -> list[dict[str, Any]]:
        return [entry for entry in events(SpoolFiles(str(self.spool)), agent) if entry["event"] == event]

    def workers(self) -> list[str]:
        """The units of workers that systemd knows."""
        out = self.systemctl("list-units", "--all", "--plain", "--no-legend", "agent-mail-worker-*")
        return [line.split()[0] for line in out.splitlines()]

    def soon(self, condition: Callable[[], object], what: str) -> None:
        """Wait for it; if it does not come, tell how things stand."""
        try:
            until(condition, what)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.report()}") from None

    def report(self) -> str:
        logs = [path.read_text(errors="replace") for path in self.spool.glob("agents/*/listener.log")]
        units = self("systemctl", "--user", "status", "--no-pager", "--lines=0", "agent-mail-*").out
        return "\n".join([units, *logs, self.log.read_text(errors="replace")[-4000:]])


@contextmanager
def manager(place: Path, bin_directory: Path) -> Iterator[tuple[Manager, str]]:
    """(a manager, why there is none)."""
    it = Manager(place, bin_directory)
    trouble = it.start()
    try:
        yield it, trouble
    finally:
        it.stop()
