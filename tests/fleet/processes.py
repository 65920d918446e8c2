"""Processes that work on one spool at the same time, each doing its one thing over and over until it is told to stop.

Their choices come from the seed of the run (the timing is the machine's).  What each of them was told it writes down
before it goes on, so it is known when it is killed.
"""

import json
import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from maildir_agents import Spool

PACE = 0.001  # seconds between two calls of a process: a dozen of them share two processors
PATIENCE = 300.0  # seconds that all of it may take; where it takes more than ten, others use the machine
SEED = os.environ["TEST_SEED"]


class Process:
    """One of them.  `say` writes a line that `said` of the crew finds."""

    def __init__(self, crew: "Crew", name: str, life: int) -> None:
        self.crew, self.name, self.life = crew, name, life
        self.random = random.Random(f"{SEED} {name} {life}")
        self.spool = Spool(crew.root, durability="none")
        self.count = 0
        self._log = os.open(crew.place / f"{name}.{life}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def say(self, **what: Any) -> None:
        os.write(self._log, json.dumps(what).encode() + b"\n")

    def until_told(self, work: "Callable[[Process], None]") -> int:
        try:
            while not os.path.exists(self.crew.stop_file):
                work(self)
                self.count += 1
                time.sleep(PACE)
        except BaseException:
            self.say(trouble=traceback.format_exc())
            return 1
        return 0


class Crew:
    def __init__(self, place: Path) -> None:
        self.root, self.place, self.stop_file = str(place / "spool"), place / "said", str(place / "stop")
        self.place.mkdir()
        self.random = random.Random(SEED)
        self.began = time.monotonic()
        self._pids: dict[str, int] = {}
        self._lives: dict[str, int] = {}
        self._works: dict[str, Callable[[Process], None]] = {}

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._pids):
            self.kill(name)

    def start(self, name: str, work: Callable[[Process], None]) -> None:
        self._works[name] = work
        life = self._lives[name] = self._lives.get(name, -1) + 1
        pid = os.fork()
        if not pid:
            status = 1
            try:
                signal.alarm(int(PATIENCE))
                status = Process(self, name, life).until_told(work)
            finally:
                os._exit(status)
        self._pids[name] = pid

    def kill(self, name: str) -> None:
        """SIGKILL, wherever it is."""
        pid = self._pids.pop(name)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def kill_and_start(self, name: str) -> None:
        self.kill(name)
        self.start(name, self._works[name])

    def said(self, prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """(process, what it said), each process in its order; a line cut off by a kill was not said."""
        for path in sorted(self.place.iterdir(), key=lambda p: (p.stem, int(p.suffix[1:]))):
            if path.stem.startswith(prefix):
                for line in path.read_bytes().splitlines(keepends=True):
                    if line.endswith(b"\n"):
                        yield path.stem, json.loads(line)

    def wait_for(self, name: str, lines: int) -> None:
        """Until this life of a process has said so many lines."""
        path = self.place / f"{name}.{self._lives[name]}"
        while not path.exists() or path.read_bytes().count(b"\n") < lines:
            if os.waitid(os.P_PID, self._pids[name], os.WEXITED | os.WNOWAIT | os.WNOHANG):
                raise AssertionError(f"{name} has ended: {self.troubles()}")
            assert time.monotonic() < self.began + PATIENCE, f"not done in {PATIENCE} s"
            time.sleep(0.002)

    def troubles(self) -> list[str]:
        return [f"{name}: {line['trouble']}" for name, line in self.said() if "trouble" in line]

    def finish(self) -> None:
        """Tell them to stop, wait for them, and see that none had trouble."""
        Path(self.stop_file).touch()
        ended = {name: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for name, pid in self._pids.items()}
        self._pids.clear()
        assert not (troubles := self.troubles()), troubles
        assert set(ended.values()) <= {0}, ended
