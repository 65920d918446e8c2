"""overview: the fleet at a glance, for dashboards: how each mailbox stands, and who wrote to whom lately.

It reads and changes nothing.  Counts and times come from file names, watches from histories, subjects from the
envelopes of anchored messages; bodies stay unread.  A `Fleet` is kept by whoever looks again and again: messages are
immutable, so an envelope is read once, and a directory is listed again only when it may have changed.
"""

import os
import time
from typing import NamedTuple

from maildir_agents.disk.guard import holder
from maildir_agents.disk.jsonfile import decode
from maildir_agents.disk.listing import names
from maildir_agents.errors import Malformed
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import EVERYBODY, day_of, is_agent, is_id, is_iso, ms_of, ms_of_iso
from maildir_agents.mail.presence import ARMED, last_seen_ms, watch_state
from maildir_agents.mail.reading import envelope_at
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.mail.standing import Standing

WINDOW_MS = 24 * 3_600_000
NEWEST = 10_000  # envelopes looked at, however many the window holds
HALF_LIFE_MS = 30 * 60_000
CELL_MS = 30 * 60_000  # what one number of a pulse counts
CELLS = WINDOW_MS // CELL_MS
_DOUBTFUL = -1  # no directory has this time stamp
SETTLED_NS = 2_000_000_000  # a directory's time stamp can hide a change that came this soon after it
TAIL = 1 << 18  # bytes of a history that a first look reads: the last day of a busy agent

UNREAD, READ, SETTLED = "unread", "read", ""


class Agent(NamedTuple):
    """A mailbox.  Times are milliseconds since 1970 or None."""

    name: str
    watch_state: str
    listening: bool  # a listener runs for it
    unread: int
    unacked: int
    claimed: int
    failed: int
    oldest_ms: int | None  # the oldest unread message
    seen_ms: int | None
    score: float  # messages sent and received, watches armed; each counts half after HALF_LIFE_MS
    pulse: tuple[int, ...]  # the same, CELLS numbers of CELL_MS each, oldest first

    @property
    def armed(self) -> bool:
        return self.watch_state == ARMED

    @property
    def unheard(self) -> bool:
        """Mail is waiting and nothing will wake the agent."""
        return self.unread > 0 and not self.armed and not self.listening


class Letter(NamedTuple):
    id: str
    at_ms: int
    sender: str
    recipient: str  # an agent, or EVERYBODY
    subject: str


class Edge(NamedTuple):
    sender: str
    recipient: str
    sent: int
    unacked: int  # of these, not acknowledged by the recipient (a broadcast: by each recipient)
    last_ms: int


class Overview(NamedTuple):
    root: str
    exists: bool
    now_ms: int
    agents: list[Agent]  # the most active first
    letters: list[Letter]  # newest first
    standing: dict[str, str]  # id -> UNREAD or READ; what is not here is settled
    edges: list[Edge]  # what did not land first, then the busiest
    since_ms: int  # where the window begins
    capped: bool  # there were more than NEWEST in the last WINDOW_MS, so it begins later


class Fleet:
    """Looks at one spool again and again."""

    def __init__(self, spool: SpoolFiles) -> None:
        self._spool = spool
        self._boxes: dict[str, _Box] = {}
        self._days: dict[str, _Listing] = {}
        self._letters: dict[str, Letter | None] = {}  # None: no message

    @property
    def doors(self) -> list[str]:
        """The directories where the next news will appear, as of the last look."""
        return [self._spool.agents, *(f"{box.path}/new" for box in self._boxes.values())]

    def look(self) -> Overview:
        now = self._spool.clock.wall_ms()
        ids = self._newest(now)
        capped = len(ids) == NEWEST
        since = ms_of(ids[-1]) if capped else now - WINDOW_MS
        self._boxes = {name: self._boxes.get(name) or _Box(self._spool, name) for name in self._names()}
        for box in self._boxes.values():
            box.look(now)
        letters = [letter for message_id in ids if (letter := self._letters[message_id])]
        standing, unacked = self._outstanding(_floor(since))
        activity = _Activity(now, letters)
        for name, box in self._boxes.items():
            for at_ms in box.watchings:
                activity.count(name, at_ms)
        agents = [box.told(*activity.of(name)) for name, box in self._boxes.items()]
        agents.sort(key=lambda agent: (-agent.score, -agent.unread, agent.name))
        exists = self._spool.exists or os.path.isdir(self._spool.agents)
        edges = _edges(letters, unacked)
        return Overview(self._spool.root, exists, now, agents, letters, standing, edges, since, capped)

    def _names(self) -> list[str]:
        return [
            name
            for name in names(self._spool.agents)
            if name in self._boxes or (is_agent(name) and os.path.isdir(self._spool.box(name)))
        ]

    def _newest(self, now: int) -> list[str]:
        """The ids of the window, newest first; their envelopes are in `_letters` afterwards."""
        floor = _floor(now - WINDOW_MS)
        root = f"{self._spool.root}/messages"
        days = [day for day in names(root) if day >= day_of(floor)]
        self._days = {day: self._days.get(day) or _Listing(f"{root}/{day}") for day in days}
        ids: list[str] = []
        for day in reversed(days):
            texts = self._days[day].look()
            ids += [text[:36] for text in reversed(texts[-(NEWEST - len(ids)) :]) if text >= floor]
            if len(ids) == NEWEST:
                break
        self._letters = {i: self._letters[i] if i in self._letters else self._read(i) for i in ids}
        return ids

    def _read(self, message_id: str) -> Letter | None:
        envelope = envelope_at(self._spool.anchor(message_id))
        if envelope is None or envelope["id"] != message_id:
            return None
        return Letter(message_id, ms_of(message_id), envelope["sender"], envelope["recipient"], envelope["subject"])

    def _outstanding(self, floor: str) -> tuple[dict[str, str], dict[str, int]]:
        """Of the ids from `floor` on: how each stands, and in how many mailboxes it is not acknowledged."""
        standing: dict[str, str] = {}
        unacked: dict[str, int] = {}
        for box in self._boxes.values():
            for message_id in box.standing.unacked:
                if message_id >= floor:
                    unacked[message_id] = unacked.get(message_id, 0) + 1
                    if message_id in box.standing.unread:
                        standing[message_id] = UNREAD
                    else:
                        standing.setdefault(message_id, READ)
        return standing, unacked


class _Listing:
    """The names of anchors in one day's directory, listed again when it may have changed."""

    def __init__(self, path: str) -> None:
        self._path, self._stamp, self._texts = path, _DOUBTFUL, list[str]()

    def look(self) -> list[str]:
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp if _is_settled(stamp) else _DOUBTFUL
            self._texts = [text for text in names(self._path) if len(text) == 41 and is_id(text[:36])]
        return self._texts


class _Box:
    """One mailbox as it was last seen."""

    def __init__(self, spool: SpoolFiles, agent: str) -> None:
        self._box = Mailbox(spool, agent)
        self.path = self._box.path
        self._stamps: tuple[int, ...] = ()
        self._read_to = 0  # bytes of the history
        self.watchings: list[int] = []  # when watches were armed, milliseconds since 1970
        self.standing = Standing(self._box)

    def look(self, now: int) -> None:
        stamps = tuple(_stamp(f"{self.path}/{d}") for d in ("new", "cur", "claimed", "failed"))
        # A claim ends by the clock, and no directory tells.
        if self.standing.claimed or stamps != self._stamps:
            self._stamps = stamps if _is_settled(max(stamps)) else ()
            self.standing = Standing(self._box)
        self._follow_history(now - WINDOW_MS)

    def _follow_history(self, floor: int) -> None:
        """Take in the lines that were added; a torn first or last line waits or is passed over."""
        path = f"{self.path}/history.jsonl"
        try:
            size = os.stat(path).st_size
            if size != self._read_to:
                start = max(self._read_to if size > self._read_to else 0, size - TAIL)
                with open(path, "rb") as file:
                    file.seek(start)
                    lines, _, torn = file.read(size - start).rpartition(b"\n")
                self.watchings += [at for line in lines.split(b"\n") if (at := _watching(line)) is not None]
                self._read_to = size - len(torn)
        except OSError:
            pass  # no history: nothing is known, which is no trouble
        self.watchings = sorted({at for at in self.watchings if at >= floor})

    def told(self, score: float, pulse: tuple[int, ...]) -> Agent:
        spool, agent = self._box.spool, self._box.agent
        return Agent(
            agent,
            watch_state(spool, agent),
            holder(f"{self.path}/listener.lock") is not None,
            len(self.standing.unread),
            len(self.standing.unacked),
            len(self.standing.live),
            self.standing.failed,
            min(map(ms_of, self.standing.unread), default=None),
            last_seen_ms(spool, agent),
            score,
            pulse,
        )


class _Activity:
    """Adds up what each agent did and got.  A broadcast counts for all but its sender, without counting to all."""

    def __init__(self, now: int, letters: list[Letter]) -> None:
        self._now, self._first = now, now // CELL_MS - CELLS + 1
        self._scores: dict[str, float] = {}
        self._pulses: dict[str, list[int]] = {}
        for letter in letters:
            self.count(letter.sender, letter.at_ms)
            self.count(letter.recipient, letter.at_ms)
            if letter.recipient == EVERYBODY:
                self.count(letter.sender, letter.at_ms, -1)

    def count(self, agent: str, at_ms: int, times: int = 1) -> None:
        weight: float = 2.0 ** (min(0, at_ms - self._now) / HALF_LIFE_MS)
        self._scores[agent] = self._scores.get(agent, 0.0) + times * weight
        pulse = self._pulses.setdefault(agent, [0] * CELLS)
        pulse[min(max(at_ms // CELL_MS - self._first, 0), CELLS - 1)] += times

    def of(self, agent: str) -> tuple[float, tuple[int, ...]]:
        score = self._scores.get(agent, 0.0) + self._scores.get(EVERYBODY, 0.0)
        pulses = (self._pulses.get(agent, _NOTHING), self._pulses.get(EVERYBODY, _NOTHING))
        return score, tuple(map(sum, zip(*pulses, strict=True)))


_NOTHING = [0] * CELLS


def _edges(letters: list[Letter], unacked: dict[str, int]) -> list[Edge]:
    sums: dict[tuple[str, str], list[int]] = {}
    for letter in letters:
        entry = sums.setdefault((letter.sender, letter.recipient), [0, 0, letter.at_ms])
        entry[0] += 1
        entry[1] += unacked.get(letter.id, 0)
    edges = [Edge(*ends, *entry) for ends, entry in sums.items()]
    return sorted(edges, key=lambda edge: (-edge.unacked, -edge.sent, -edge.last_ms))


def _floor(ms: int) -> str:
    """What every id made at `ms` or later is not less than."""
    digits = f"{max(ms, 0):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def _watching(line: bytes) -> int | None:
    if b'"watching"' not in line:
        return None
    try:
        event = decode(line)
    except Malformed:
        return None
    at = event.get("at")
    return ms_of_iso(at) if event.get("event") == "watching" and isinstance(at, str) and is_iso(at) else None


def _stamp(directory: str) -> int:
    """When a directory's names last changed, nanoseconds since 1970; 0: there is none."""
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0


def _is_settled(stamp: int) -> bool:
    """Whether every later change will show: asked before a directory is listed, for what is listed then."""
    return stamp < time.time_ns() - SETTLED_NS
