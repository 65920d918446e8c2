"""The loop: sleep until mail may have come, a worker has ended, or something is due; then give turns.

A ring says which directories to look at, so one arrival among a thousand agents costs one look.  Whoever wants to end
it says so by signal: the first lets the workers finish, the second kills them.
"""

import os
import time

from maildir_agents.disk.doorbell import Doorbell
from maildir_agents.disk.listing import names
from maildir_agents.disk.systemd import Service
from maildir_agents.errors import TRY_AGAIN, MailError
from maildir_agents.faces.listener.duty import Duty
from maildir_agents.faces.listener.signals import Signals
from maildir_agents.mail.founding import ensure_mailbox, make_spool
from maildir_agents.mail.listening import is_disabled
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import is_agent
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs.auto import TIME_LIMIT_S, Terms, auto
from maildir_agents.verbs.listener import WORKER_UNITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    Say = Callable[[dict[str, str]], None]

LEEWAY_S = 60  # between a worker's last moment and the end of its listener
ADOPT_MS = 60_000  # how often `--all` looks for agents whose listener has ended


class Loop:
    """Listens for `agents`, or for all that have a mailbox (None).

    `say(warning)` tells people what they should know; `ready(answer)` is called once it listens.
    """

    def __init__(
        self, spool: SpoolFiles, agents: "Sequence[str] | None", say: "Say", environ: "Mapping[str, str]"
    ) -> None:
        self.spool, self.duties = spool, dict[str, Duty]()
        self._agents, self._say, self._environ = agents, say, environ
        self._auto: dict[str, Terms] = {}
        self._config: tuple[int, ...] | None = ()
        self._unknown: set[str] = set()  # agents of which it was said that nothing is started for them
        self._refused: set[tuple[str, str]] = set()  # agents that can't be taken up, and why: said once
        self._draining = False
        self._adopt_at = 0
        self._moved = False  # mailboxes may have come, gone or been exchanged
        self._bell: Doorbell | None = None
        self._units = bool(environ.get(WORKER_UNITS))
        self._service = Service(environ)
        self._deaf = ""  # why it has to poll, once that was said

    # who is served

    def open(self) -> None:
        """Take up every agent that can be; raises `busy` when only one was named and another listens for it.

        Raises `unit_failed` when workers are to be systemd's units and cannot be.
        """
        if self._units:
            from maildir_agents.faces.listener.unit import check

            check(self._environ)
        if self._agents is None:
            make_spool(self.spool)
            self._adopt()
            return
        for agent in dict.fromkeys(self._agents):
            ensure_mailbox(self.spool, agent)
            self._take_up(agent, alone=len(self._agents) == 1)

    def close(self) -> None:
        for duty in self.duties.values():
            duty.lay_down()
        self.duties.clear()

    def _take_up(self, agent: str, alone: bool = False) -> bool:
        duty = Duty(self.spool, agent, self._say, self._environ, self._units)
        if duty.is_disabled:
            if self._agents is not None:
                self._say({"warning": f"the listener of {agent} is disabled", "agent": agent,
                           "hint": f"agent-mail listener enable {agent}"})  # fmt: skip
            return False
        try:
            duty.take_up()
        except MailError as error:
            if alone:
                raise
            known = (agent, error.sentence) in self._refused
            self._refused.add((agent, error.sentence))
            if not known and (self._agents is not None or error.code != "busy"):
                self._say({"warning": error.sentence, "code": error.code, "agent": agent})
            return False
        self.duties[agent] = duty
        return True

    def _adopt(self) -> None:
        """Of `--all`: serve whoever has a mailbox and no listener; leave whose mailbox is gone."""
        self._adopt_at = self.spool.clock.boot_ms() + ADOPT_MS
        self._moved = True
        here = {name for name in names(self.spool.agents) if is_agent(name) and self._is_mailbox(name)}
        for agent in self.duties.keys() - here:
            if self.duties[agent].run is None:
                self.duties.pop(agent).lay_down()
        for agent in sorted(here - self.duties.keys()):
            self._take_up(agent)

    def _is_mailbox(self, agent: str) -> bool:
        """Whether it is a directory of the spool's own: a link would have us listen, and write, somewhere else."""
        path = f"{self.spool.agents}/{agent}"
        return os.path.isdir(path) and not os.path.islink(path)

    def _release(self, duty: Duty) -> None:
        """Stop serving a disabled agent, unless that was taken back before its lock was free."""
        agent = duty.box.agent
        self.duties.pop(agent).lay_down()
        if not duty.is_disabled:
            self._take_up(agent)

    @property
    def directories(self) -> list[str]:
        """The spool for config.json, agents/ for mailboxes that come, and wherever mail becomes free."""
        boxes = [duty.box.path for duty in self.duties.values()]
        return [self.spool.root, self.spool.agents, *(f"{box}/{state}" for box in boxes for state in ("new", "cur"))]

    # turns

    def turn(self, heard: "Collection[str] | None" = None) -> int | None:
        """Give a turn to whoever is due or was heard (None: to everybody); when the next is due (boot clock, ms)."""
        changed = self._read_config()
        now = self.spool.clock.boot_ms()
        rung = None if heard is None or changed else {os.path.basename(os.path.dirname(path)) for path in heard}
        if self._agents is None and not self._draining and (now >= self._adopt_at or self._heard_agents(heard)):
            self._adopt()
        for agent, duty in list(self.duties.items()):
            if rung is None or agent in rung or duty.run is not None or (duty.again is not None and now >= duty.again):
                self._visit(duty)
                self._service.ping()  # a turn may take long where many agents have much mail
        times = [duty.again for duty in self.duties.values() if duty.again is not None]
        return min([*times, *([self._adopt_at] if self._agents is None and not self._draining else [])], default=None)

    def _heard_agents(self, heard: "Collection[str] | None") -> bool:
        return heard is None or self.spool.agents in heard

    def _visit(self, duty: Duty) -> None:
        before, disabled = duty.readers, duty.is_disabled
        duty.turn(self._auto.get(duty.box.agent), may_start=not disabled and not self._draining)
        if self._bell is not None and duty.readers != before:
            for fd in before:
                self._bell.ignore(fd)
            for fd in duty.readers:
                self._bell.heed(fd)
        if disabled and duty.run is None:
            self._release(duty)

    def _read_config(self) -> bool:
        """Read config.json when it has changed.  True: other work may be started now."""
        try:
            found = os.stat(f"{self.spool.root}/config.json")
            seen: tuple[int, ...] | None = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:
            seen = None
        if seen == self._config:
            return False
        self._config = seen
        self._auto, warnings = auto(self.spool)
        for warning in warnings:
            self._say(warning)
        self._unknown &= self.duties.keys() - self._auto.keys()
        for agent in sorted(self.duties.keys() - self._auto.keys() - self._unknown) if self._agents else ():
            self._unknown.add(agent)
            self._say({"warning": f"config.json starts nothing for {agent}: its mail waits", "agent": agent})
        return True

    # time

    def run(self, ready: "Callable[[dict[str, Any]], None]") -> int:
        """Listen until a signal ends it, or nobody is left to be served; the exit status."""
        silent = self.spool.settings.get("file_system", {}).get("inotify") is False
        try:
            self.open()
            if not self.duties and self._agents is not None:
                return self._nobody(self._agents)
            with Signals() as signals, Doorbell(self.directories, poll_only=silent) as self._bell:
                self._bell.heed(signals.reader)
                self._rounds(self._bell, signals, ready)
            return 0
        finally:
            self._bell = None
            self.close()

    def _nobody(self, agents: "Sequence[str]") -> int:
        """End at once: with success, as a service that did start, where all are disabled."""
        if not all(is_disabled(Mailbox(self.spool, agent)) for agent in agents):
            return TRY_AGAIN
        self._service.ready("disabled")
        return 0

    def _rounds(self, bell: Doorbell, signals: Signals, ready: "Callable[[dict[str, Any]], None]") -> None:
        service, served, heard = self._service, set(self.duties), None
        ready({"listening": sorted(served), "pid": os.getpid()})
        service.ready(self._doing)
        while True:
            due = self.turn(heard)
            service.status(self._doing)
            self._say_if_deaf(bell)
            if self._is_over:
                return
            if served != self.duties.keys():
                served, heard = set(self.duties), None
                bell.cover(self.directories)
                continue
            if self._moved:
                bell.check()
                self._moved = False
            bell.wait(self._seconds(due, service))
            service.ping()
            if signals.take() and not self._draining:
                self._draining = True
                service.stopping(self._longest())
            elif signals.again():
                self._kill()
            heard = bell.heard()
            self._moved = self.spool.agents in heard

    @property
    def _doing(self) -> str:
        working = [f"{agent} ({duty.run.job.id})" for agent, duty in self.duties.items() if duty.run is not None]
        more = f" and {len(working) - 3} more" if working[3:] else ""
        what = f"workers for {', '.join(working[:3])}{more}" if working else "no work"
        return f"{'finishing' if self._draining else 'listening'} for {len(self.duties)}: {what}"

    def _longest(self) -> float | None:
        """Seconds until the last worker must have ended, where that is longer than the usual time that units allow for.

        Only then: whoever has allowed for less has decided that, and is not to be asked for an hour.
        """
        now = self.spool.clock.boot_ms()
        ends = [duty.run.limit_at or now for duty in self.duties.values() if duty.run is not None]
        seconds = (max(ends, default=now) - now) / 1000
        return seconds + LEEWAY_S if seconds > TIME_LIMIT_S else None

    @property
    def _is_over(self) -> bool:
        working = any(duty.run is not None for duty in self.duties.values())
        return not working and (self._draining or (not self.duties and self._agents is not None))

    def _kill(self) -> None:
        for duty in self.duties.values():
            duty.kill()

    def _say_if_deaf(self, bell: Doorbell) -> None:
        if bell.reason != self._deaf:
            self._deaf = bell.reason
            self._say({"warning": f"it looks every second, for it is not told of arrivals: {bell.reason}"})

    def _seconds(self, due: int | None, service: Service) -> float | None:
        """How long to sleep: until a turn is due, or the service's manager wants to hear of us."""
        times = [] if due is None else [(due - self.spool.clock.boot_ms()) / 1000 + 0.001]
        times += [] if service.due is None else [service.due - time.monotonic()]
        return max(0.0, min(times)) if times else None
