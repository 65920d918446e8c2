"""Every schedule of the real code of several callers, one file system call at a time.

Each caller runs in a thread of its own, but only one thread runs at any moment.  Before each call into the file system
(and each look at a played clock) a thread announces what it is about to do and waits for its turn, so whoever chooses
whose turn it is chooses the schedule.  A schedule that was chosen is played again by making the same choices.

Three ways to choose:

* `Traces`: every schedule with any number of switches, but one of each set that cannot differ.  Two steps that touch
  nothing in common may be swapped without anybody noticing; only steps that do touch something in common need to be
  tried in both orders.  This is dynamic partial order reduction with source sets (Abdulla and others, 2014) and sleep
  sets (Godefroid, 1996).
* `Bounded`: literally every schedule with at most so many preemptions, a switch at every step, nothing left out.
* `Sampled`: random schedules with at most so many preemptions.

    play(lambda: ([first, second], watcher), Traces())
"""

import fcntl
import os
import random
import threading
import time
from builtins import open as real_open
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from unittest import mock

from maildir_agents.disk.clock import Clock

READ, WRITE, APPEND = "read", "write", "append"
LASTING = ("history.jsonl", ".lock")  # there from the beginning: opening them to write makes no new name
Uses = dict[tuple[str, str], str]
_real_lstat, _real_fstat = os.lstat, os.fstat


class Stopped(BaseException):
    """This schedule is given up: what is left of it was seen before."""


class Stuck(Exception):
    """Everybody waits for a lock that another one holds."""


class Step:
    """What a thread is about to do: the things it touches, and the lock it takes or gives back."""

    __slots__ = ("gives", "takes", "uses", "what")

    def __init__(self, what: str, uses: Uses, takes: str = "", gives: str = "") -> None:
        self.what, self.uses, self.takes, self.gives = what, uses, takes, gives

    def meets(self, other: "Step") -> bool:
        """Whether the order of the two can matter to anybody."""
        few, many = sorted((self.uses, other.uses), key=len)
        return any(key in many and matters(mode, many[key]) for key, mode in few.items())


def matters(one: str, other: str) -> bool:
    return one != other or one == WRITE


# ------------------------------------------------------------------------------------------- what calls touch


def _entry(path: str, mode: str) -> Uses:
    """A name: reading it is looking whether it is there, writing it changes the listing of its directory, too.

    Two names come into a directory in any order: whoever lists it afterwards sees both.
    """
    parent = os.path.dirname(path)
    uses = {("name", path): mode, ("name", parent): READ}
    return uses | {("listing", parent): APPEND} if mode == WRITE else uses


class Place:
    """The files of one schedule: which names, contents, link counts and locks a call touches."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.first_names: dict[int, str] = {}  # inode: the name by which it was met first
        self.opened: dict[int, tuple[str, int, str]] = {}  # descriptor: (content, flags, path)
        self.locked: dict[int, str] = {}  # descriptor: lock

    def holds(self, path: object) -> bool:
        return isinstance(path, str) and (path == self.root or path.startswith(f"{self.root}/"))

    def content(self, fd: int) -> str:
        return self.opened[fd][0] if fd in self.opened else ""

    def note_open(self, fd: int, path: str, flags: int) -> None:
        inode = _real_fstat(fd).st_ino
        if flags & os.O_EXCL:
            self.first_names[inode] = path
        self.opened[fd] = self.first_names.setdefault(inode, path), flags, path

    def step(self, call: str, args: tuple) -> Step | None:
        """The step that a call is; None: it touches nothing here."""
        found = getattr(self, f"_{call}")(*args)
        if found is None or isinstance(found, Step):
            return found
        shown = ", ".join(self._shown(arg) for arg in args[:2])
        return Step(f"{call}({shown})", found)

    def _shown(self, arg: object) -> str:
        if isinstance(arg, memoryview):
            arg = arg.tobytes()
        if arg in self.opened:
            arg = self.opened[arg][2]
        return str(arg).replace(f"{self.root}/", "")

    def _open(self, path: str, flags: int, *_: object) -> Uses | None:
        if not self.holds(path):
            return None
        makes = flags & os.O_CREAT and (flags & os.O_EXCL or not path.endswith(LASTING))
        return _entry(path, WRITE if makes else READ)

    def _read(self, fd: int, *_: object) -> Uses | None:
        return {("content", self.content(fd)): READ} if fd in self.opened else None

    _pread = _read

    def _write(self, fd: int, *_: object) -> Uses | None:
        if fd not in self.opened:
            return None
        content, flags, _ = self.opened[fd]
        return {("content", content): APPEND if flags & os.O_APPEND else WRITE}

    _pwrite = _write

    def _fstat(self, fd: int) -> Uses | None:
        content = self.content(fd)
        return {("content", content): READ, ("links", content): READ} if content else None

    def _links(self, path: str) -> tuple[str, str]:
        try:
            return "links", self.first_names.setdefault(_real_lstat(path).st_ino, path)
        except OSError:
            return "links", path

    def _stat(self, path: str, *_: object) -> Uses | None:
        return _entry(path, READ) | {self._links(path): READ, ("listing", path): READ} if self.holds(path) else None

    _lstat = _stat

    def _listdir(self, path: str = ".") -> Uses | None:
        return {("name", path): READ, ("listing", path): READ} if self.holds(path) else None

    _scandir = _listdir

    def _rename(self, source: str, target: str) -> Uses | None:
        return _entry(source, WRITE) | _entry(target, WRITE) if self.holds(source) else None

    def _link(self, source: str, target: str) -> Uses | None:
        uses = _entry(source, READ) | _entry(target, WRITE)
        return uses | {self._links(source): WRITE} if self.holds(source) else None

    def _unlink(self, path: str) -> Uses | None:
        return _entry(path, WRITE) | {self._links(path): WRITE} if self.holds(path) else None

    def _mkdir(self, path: str, *_: object) -> Uses | None:
        return _entry(path, WRITE) if self.holds(path) else None

    def _rmdir(self, path: str) -> Uses | None:
        return _entry(path, WRITE) | {("listing", path): READ} if self.holds(path) else None

    def _flock(self, fd: int, how: int) -> Step | None:
        if fd not in self.opened:
            return None
        lock = self.content(fd)
        if how & fcntl.LOCK_UN:
            return Step(f"unlock({lock})", {("lock", lock): WRITE}, gives=lock) if self.locked.pop(fd, "") else None
        return Step(f"lock({lock})", {("lock", lock): WRITE}, takes=lock)

    def _close(self, fd: int) -> Step | None:
        self.opened.pop(fd, None)
        lock = self.locked.pop(fd, "")  # closing lets go of it
        return Step(f"unlock({lock})", {("lock", lock): WRITE}, gives=lock) if lock else None


class PlayedClock(Clock):
    """Clocks that stand still until `advance`, and then only the one that leases go by.

    Looking at that one and moving it are steps like any other.  The wall clock only stamps names.
    """

    def __init__(self, wall_ms: int, boot_ms: int, boot: str) -> None:
        self.wall, self.up, self.name = wall_ms, boot_ms, boot

    def wall_ms(self) -> int:
        return self.wall

    def boot_ms(self) -> int:
        _announce(Step("boot clock", {("clock", ""): READ}))
        return self.up

    def boot(self) -> str:
        return self.name

    def advance(self, seconds: int) -> None:
        _announce(Step(f"{seconds} s pass", {("clock", ""): WRITE}))
        self.up += seconds * 1000


# ------------------------------------------------------------------------------------------------ taking turns


class Player:
    """One caller: a thread that waits for its turn before each step."""

    __slots__ = ("index", "performance", "turn")

    def __init__(self, performance: "Performance", index: int) -> None:
        self.performance, self.index = performance, index
        self.turn = threading.Lock()
        self.turn.acquire()


_players: dict[int, Player] = {}  # thread: who it is


def _announce(step: Step) -> None:
    player = _players.get(threading.get_ident())
    if player is not None:
        player.performance.wait_for_turn(player, step)


class Performance:
    """One schedule of some programs, each step chosen by `choose(depth, enabled, pending, last)`; None: give it up."""

    def __init__(self, place: Place, programs: list[Callable[[], None]], choose: Callable, watcher: Callable) -> None:
        self.place, self.programs, self.choose, self.watcher = place, programs, choose, watcher
        self.pending: dict[int, Step] = {}
        self.locks: dict[str, int] = {}  # lock: who holds it
        self.story: list[tuple[int, str]] = []
        self.trouble: BaseException | None = None
        self.given_up = False
        self._last = 0
        self._starting = True
        self._done = threading.Lock()
        self._players = [Player(self, index) for index in range(len(programs))]
        self._live = set(range(len(programs)))

    def run(self) -> None:
        self._done.acquire()
        threads = [threading.Thread(target=self._act, args=(player,)) for player in self._players]
        for thread in threads:  # each to its first step, one after the other
            thread.start()
            self._done.acquire()
        self._starting = False
        if self._live:
            self._pass_on(None)
            self._done.acquire()
        for thread in threads:
            thread.join()
        if self.trouble is not None:
            raise self.trouble

    def _act(self, player: Player) -> None:
        _players[threading.get_ident()] = player
        try:
            self.programs[player.index]()
        except Stopped:
            pass
        except BaseException as error:
            self._give_up(error)
        finally:
            del _players[threading.get_ident()]
            self._live.discard(player.index)
            if self._starting or not self._live:
                self._done.release()
            elif not self.given_up:
                self._pass_on(None)

    def wait_for_turn(self, player: Player, step: Step) -> None:
        if self.given_up:
            raise Stopped
        self.pending[player.index] = step
        if self._starting:
            self._done.release()
            player.turn.acquire()
        elif self._pass_on(player) is not player:
            player.turn.acquire()
        if self.given_up:
            raise Stopped
        del self.pending[player.index]
        self._last = player.index
        self.story.append((player.index, step.what))
        if step.takes:
            self.locks[step.takes] = player.index
        if step.gives:
            self.locks.pop(step.gives, None)

    def _pass_on(self, current: Player | None) -> Player | None:
        """Choose whose turn it is, and wake that thread unless it is the current one."""
        try:
            enabled = [index for index in sorted(self.pending) if self.locks.get(self.pending[index].takes) is None]
            if not enabled:
                raise Stuck(f"nobody can go on: {[step.what for step in self.pending.values()]}")
            chosen = self.choose(len(self.story), enabled, self.pending, self._last)
        except BaseException as error:
            self._give_up(error, current)
            return current
        if chosen is None:
            self._give_up(None, current)
            return current
        player = self._players[chosen]
        if player is not current:
            player.turn.release()
        return player

    def _give_up(self, error: BaseException | None, current: Player | None = None) -> None:
        first, self.given_up = not self.given_up, True
        self.trouble = self.trouble or error
        if first:
            for index in list(self.pending):
                if current is None or index != current.index:
                    self._players[index].turn.release()


_CALLS = ("read", "pread", "write", "pwrite", "fstat", "stat", "lstat", "listdir", "rename", "link", "unlink", "mkdir",
          "rmdir")  # fmt: skip
_CHANGES = ("rename", "link", "unlink")


def _stamp(performance: Performance, *paths: str) -> None:
    """Tell each change of a directory from the one before, as the kernel's clock may or may not: always alike."""
    at = len(performance.story)
    for directory in {os.path.dirname(path) for path in paths}:
        with suppress(FileNotFoundError):
            os.utime(directory, ns=(at, at))


def _played(call: str, real: Callable) -> Callable:
    def stand_in(*args, **named):
        player = _players.get(threading.get_ident())
        if player is None:
            return real(*args, **named)
        performance = player.performance
        step = performance.place.step(call, args)
        if step is not None:
            performance.wait_for_turn(player, step)
        answer = real(*args, **named)
        if call in _CHANGES and step is not None:
            _stamp(performance, *args[call == "link" : 2])
            performance.watcher(player.index, call, *args[:2])
        return answer

    return stand_in


def _played_open(real: Callable) -> Callable:
    def stand_in(path, flags, *args, **named):
        player = _players.get(threading.get_ident())
        if player is None:
            return real(path, flags, *args, **named)
        place = player.performance.place
        step = place.step("open", (path, flags))
        if step is not None:
            player.performance.wait_for_turn(player, step)
        fd = real(path, flags, *args, **named)
        if step is not None:
            place.note_open(fd, path, flags)
            if flags & os.O_EXCL:
                _stamp(player.performance, path)
        return fd

    return stand_in


def _played_builtin_open(path, *args, **named):
    player = _players.get(threading.get_ident())
    if player is not None and player.performance.place.holds(path):
        uses = _entry(path, READ) | {("content", path): READ}
        player.performance.wait_for_turn(player, Step(f"open and read({path})", uses))
    return real_open(path, *args, **named)


def _played_flock(real: Callable) -> Callable:
    def stand_in(fd, how):
        player = _players.get(threading.get_ident())
        if player is None:
            return real(fd, how)
        place = player.performance.place
        step = place.step("flock", (fd, how))
        if step is not None:
            player.performance.wait_for_turn(player, step)  # until it is free: who waits in vain is told "busy"
            if step.takes:
                place.locked[fd] = step.takes
        return real(fd, how)

    return stand_in


def _played_close(real: Callable) -> Callable:
    def stand_in(fd):
        player = _players.get(threading.get_ident())
        if player is not None:
            step = player.performance.place.step("close", (fd,))
            if step is not None:
                try:
                    player.performance.wait_for_turn(player, step)
                except Stopped:
                    real(fd)
                    raise
        return real(fd)

    return stand_in


class _Entries(list):
    """A listing with kinds, taken at one moment."""

    def __enter__(self) -> "_Entries":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _played_scandir(real: Callable) -> Callable:
    def stand_in(path="."):
        if _players.get(threading.get_ident()) is None:
            return real(path)
        with real(path) as entries:
            return _Entries(entries)

    return _played("scandir", stand_in)


def _played_sleep(real: Callable) -> Callable:
    # Others may go on at any step: waiting for them adds nothing but time.
    return lambda seconds: real(seconds) if _players.get(threading.get_ident()) is None else None


@contextmanager
def stage() -> Iterator[None]:
    """Within it the calls of `os` that touch files, flock, open and sleep are steps for threads that play."""
    patches = [mock.patch.object(os, call, _played(call, getattr(os, call))) for call in _CALLS]
    patches += [
        mock.patch.object(os, "open", _played_open(os.open)),
        mock.patch.object(os, "close", _played_close(os.close)),
        mock.patch.object(os, "scandir", _played_scandir(os.scandir)),
        mock.patch.object(fcntl, "flock", _played_flock(fcntl.flock)),
        mock.patch.object(time, "sleep", _played_sleep(time.sleep)),
        mock.patch("builtins.open", _played_builtin_open),
    ]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in reversed(patches):
            patch.stop()


# -------------------------------------------------------------------------------------------- ways to choose


class Node:
    """A moment of a schedule: who could go on with what, and who did."""

    __slots__ = ("acquired", "backtrack", "chosen", "clock", "cost", "enabled", "last", "local", "pending", "sleep")

    def __init__(self, enabled: list[int], pending: dict[int, Step], last: int) -> None:
        self.enabled, self.pending, self.last = enabled, dict(pending), last
        self.chosen = last if last in enabled else enabled[0]
        self.cost = 0  # preemptions before this moment
        self.backtrack: set[int] = set()
        self.sleep: set[int] = set()
        self.clock: list[int] = []
        self.local = 0
        self.acquired = -1

    @property
    def step(self) -> Step:
        return self.pending[self.chosen]


class _Search:
    """Depth first: what was chosen so far is played again, then by default everybody goes on as long as it can."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.kept = 0  # the nodes before this one are played again unchanged

    def __call__(self, depth: int, enabled: list[int], pending: dict[int, Step], last: int) -> int | None:
        if depth < len(self.nodes):
            node = self.nodes[depth]
            here, before = ({i: step.what for i, step in steps.items()} for steps in (pending, node.pending))
            assert here == before, f"the same choices led elsewhere at step {depth}: {before}, now {here}"
            return node.chosen
        node = Node(enabled, pending, last)
        if not self.enter(node):
            return None
        self.nodes.append(node)
        return node.chosen

    def enter(self, node: Node) -> bool:
        raise AssertionError

    def rest(self, node: Node) -> set[int]:
        """Whom else to try at a node that is done with its choice."""
        raise AssertionError

    def next(self) -> bool:
        while self.nodes:
            node = self.nodes[-1]
            if rest := self.rest(node):
                node.chosen = min(rest)
                self.kept = len(self.nodes) - 1
                return True
            self.nodes.pop()
        return False


class Bounded(_Search):
    """Every schedule with at most `preemptions`: switches away from somebody who could have gone on."""

    def __init__(self, preemptions: int) -> None:
        super().__init__()
        self.preemptions = preemptions

    def enter(self, node: Node) -> bool:
        if self.nodes:
            before = self.nodes[-1]
            node.cost = before.cost + (before.last in before.enabled and before.chosen != before.last)
        return True

    def rest(self, node: Node) -> set[int]:
        node.sleep.add(node.chosen)
        may_switch = node.cost < self.preemptions or node.last not in node.enabled
        return set(node.enabled) - node.sleep if may_switch or not len(self.nodes) - 1 else set()


class Traces(_Search):
    """One schedule of each set that cannot differ, whatever the number of switches."""

    def enter(self, node: Node) -> bool:
        if self.nodes:
            before = self.nodes[-1]
            node.sleep = {i for i in before.sleep if not before.pending[i].meets(before.step)}
        awake = [index for index in node.enabled if index not in node.sleep]
        if not awake:
            return False
        node.chosen = node.last if node.last in awake else awake[0]
        node.backtrack = {node.chosen}
        return True

    def rest(self, node: Node) -> set[int]:
        node.sleep.add(node.chosen)
        return node.backtrack - node.sleep

    def next(self) -> bool:
        self._find_races()
        return super().next()

    def _find_races(self) -> None:
        """For each two steps that meet and were not forced into their order: try the other order, too."""
        users: dict[tuple[str, str], list[int]] = {}
        latest: dict[int, int] = {}
        held: dict[str, int] = {}
        for at, node in enumerate(self.nodes):
            if at >= self.kept:
                self._order(at, node, users, latest, held)
            for key in node.step.uses:
                users.setdefault(key, []).append(at)
            latest[node.chosen] = at
            if node.step.takes:
                held[node.step.takes] = at

    def _order(self, at: int, node: Node, users: dict, latest: dict[int, int], held: dict[str, int]) -> None:
        me, step = node.chosen, node.step
        before = self.nodes[latest[me]].clock if me in latest else [0] * 8
        clock = list(before)
        clock[me] += 1
        node.acquired = held.get(step.gives, -1)
        earlier = {
            i
            for key, mode in step.uses.items()
            for i in users.get(key, ())
            if self.nodes[i].chosen != me and matters(mode, self.nodes[i].step.uses[key])
        }
        for i in sorted(earlier, reverse=True):
            other = self.nodes[i]
            # Taking a lock races with the taking before it; its giving back only lets the next one have it.
            rival = other.acquired if step.takes and other.step.gives else i
            if rival >= 0 and clock[self.nodes[rival].chosen] < self.nodes[rival].local:
                self._try_other_order(rival, at, clock)
            clock = [max(pair) for pair in zip(clock, other.clock, strict=True)]
        node.clock, node.local = clock, clock[me]

    def _try_other_order(self, first: int, second: int, clock: list[int]) -> None:
        """At the first step, let somebody go on who starts what leads to the second without the first."""
        node, mine = self.nodes[first], self.nodes[first].local
        between = [k for k in range(first + 1, second) if self.nodes[k].clock[node.chosen] < mine]
        starters: set[int] = set()
        for number, k in enumerate([*between, second]):
            me, its = self.nodes[k].chosen, clock if k == second else self.nodes[k].clock
            if all(its[self.nodes[m].chosen] < self.nodes[m].local for m in between[:number]):
                starters.add(me)
        if starters & node.backtrack:
            return
        possible = sorted(starters & set(node.enabled))
        mover = self.nodes[second].chosen
        if possible:
            node.backtrack.add(mover if mover in possible else possible[0])
        else:
            node.backtrack.update(node.enabled)


class Sampled:
    """`count` random schedules with at most `preemptions` each."""

    def __init__(self, count: int, preemptions: int, seed: int) -> None:
        self.left, self.preemptions = count, preemptions
        self.random = random.Random(seed)
        self.length = 60
        self._plan()

    def _plan(self) -> None:
        self.switches = {self.random.randrange(self.length) for _ in range(self.preemptions)}
        self.seen = 0

    def __call__(self, depth: int, enabled: list[int], pending: dict[int, Step], last: int) -> int:
        self.seen = depth + 1
        if last in enabled and depth not in self.switches and depth:
            return last
        return self.random.choice([i for i in enabled if i != last] or enabled)

    def next(self) -> bool:
        self.length = max(1, self.seen)
        self.left -= 1
        self._plan()
        return self.left > 0


# ------------------------------------------------------------------------------------------------ playing all


class Failed(AssertionError):
    """A schedule after which something does not hold: what, and the schedule."""

    def __init__(self, what: str, story: list[tuple[int, str]], number: int) -> None:
        steps = "\n".join(f"    {'ABCDEFGH'[index]} {step}" for index, step in story)
        super().__init__(f"{what}\n  schedule {number}:\n{steps}")
        self.what, self.story, self.number = what, story, number


def play(scene: Callable, search: "_Search | Sampled", most: int = 1_000_000) -> int:
    """Play a scene under every schedule that `search` chooses; how many there were.

    `scene()` sets everything up afresh and answers (root, programs, watcher, begin, judge): `watcher(index, call,
    *paths)` is told of each change as it is made, `begin(performance)` of the start, and `judge()` says what is wrong
    at the end, or "".
    """
    number = 0
    with stage():
        while True:
            root, programs, watcher, begin, judge = scene()
            performance = Performance(Place(root), programs, search, watcher)
            begin(performance)
            number += 1
            try:
                performance.run()
            except AssertionError as error:
                raise Failed(str(error), performance.story, number) from error
            except Stuck as error:
                raise Failed(str(error), performance.story, number) from error
            if not performance.given_up and (wrong := judge()):
                raise Failed(wrong, performance.story, number)
            if not search.next() or number >= most:
                return number
