"""The rows of the benchmark: what is measured, and what it is measured against."""

import functools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from maildir_agents import Spool

COMMAND = Path(sys.executable).with_name("agent-mail")
COUNT = 200
BODY = "x" * 1000
Figures = list[float]


class Floor:
    """The C program, built once; without gcc it measures nothing."""

    def __init__(self, place: Path) -> None:
        self.program = place / "floor"
        compiler = shutil.which("gcc") or shutil.which("cc")
        self.there = bool(compiler)
        if compiler:
            source = Path(__file__).with_name("floor.c")
            subprocess.run([compiler, "-O2", "-o", self.program, source], check=True)

    def run(self, row: str, place: Path, count: int) -> Figures:
        if not self.there:
            return []
        with fresh(place) as directory:
            told = subprocess.run(
                [self.program, row, directory, str(count)], check=True, capture_output=True, text=True
            )
        return [float(line) for line in told.stdout.split()]


@dataclass
class Row:
    """`ours(place)` answers figures of one round; the floor is the C program's row, or a function of its own."""

    unit: str
    floor: str
    target: str
    ours: Callable[[Path], Figures]
    theirs: Callable[[Floor, Path], Figures]
    needs: str = "gcc"  # without which `theirs` answers nothing

    def measure(self, floor: Floor, place: Path, rounds: int) -> tuple[Figures, Figures]:
        """All figures of `rounds` rounds, ours and the floor's in turn."""
        ours: Figures = []
        theirs: Figures = []
        for _ in range(rounds):
            theirs += self.theirs(floor, place)
            ours += self.ours(place)
        return ours, theirs


class fresh:
    """A directory for one round."""

    count = 0

    def __init__(self, place: Path) -> None:
        fresh.count += 1
        self.path = place / f"round{fresh.count}"

    def __enter__(self) -> Path:
        self.path.mkdir()
        return self.path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path)


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1e6


def warm(directory: Path, durability: str) -> Spool:
    spool = Spool(directory / "spool", durability=durability, history=False)
    spool.send(sender="a", recipient="b", subject="warm")
    return spool


def send(durability: str) -> Callable[[Path], Figures]:
    def ours(place: Path) -> Figures:
        with fresh(place) as directory:
            spool = warm(directory, durability)
            return [timed(lambda: spool.send(sender="a", recipient="b", subject="s", body=BODY)) for _ in range(COUNT)]

    return ours


def send_cli(place: Path) -> Figures:
    with fresh(place) as directory:
        warm(directory, "full")
        words = [str(COMMAND), "send", "--from", "a", "--to", "b", "--subject", "s"]
        return [process(words, directory) for _ in range(20)]


def hook_silent(place: Path) -> Figures:
    """The end of a turn when nothing is owed, as a harness asks after every turn."""
    with fresh(place) as directory:
        spool = warm(directory, "full")
        spool.ack("b", everything=True)
        words = [str(Path(sys.executable).with_name("agent-mail")), "hook", "stop", "--agent", "b"]
        told = directory / "told.json"
        told.write_text('{"session_id": "s", "hook_event_name": "Stop", "stop_hook_active": false}')
        process(words, directory, told)  # says once that no watch is armed
        return [process(words, directory, told) for _ in range(20)]


def bare(_: Floor, place: Path) -> Figures:
    return [process([sys.executable, "-I", "-c", "pass"], place) for _ in range(20)]


def process(words: list[str], directory: Path, told: Path = Path(os.devnull)) -> float:
    env = {**os.environ, "AGENT_MAIL_SPOOL": str(directory / "spool"), "XDG_CACHE_HOME": str(directory)}
    with told.open("rb") as stdin:
        return timed(lambda: subprocess.run(words, check=True, env=env, stdin=stdin, stdout=subprocess.DEVNULL)) / 1000


def send_tool(place: Path) -> Figures:
    """tools/spool-send, a process a message (and a few small ones of its own), durable as the command is."""
    tool = Path(__file__).parents[2] / "tools/spool-send"
    with fresh(place) as directory:
        warm(directory, "full")
        words = [str(tool), "--from", "a", "--to", "b", "--subject", "s", "--body", BODY]
        return [process(words, directory) for _ in range(20)]


PEERS = {
    "acta": ([], ["acta", "post", BODY, "--from", "a", "--to", "b", "--subject", "s"]),
    "keepwatch": (["keepwatch", "init", "a", "b"],
                  ["keepwatch", "send", "--from", "a", "--to", "b", "--subject", "s", "--body", BODY]),
}  # fmt: skip


def peer(name: str) -> Callable[[Floor, Path], Figures]:
    """The command of another mail for agents, where it is in PATH (from PyPI, in an environment of its own)."""

    def theirs(_: Floor, place: Path) -> Figures:
        setup, words = PEERS[name]
        if not shutil.which(name):
            return []
        with fresh(place) as directory:
            env = {**os.environ, "ACTA_DIR": str(directory / "acta"), "KEEPWATCH_ROOT": str(directory / "keepwatch")}
            if setup:
                subprocess.run(setup, check=True, env=env, stdout=subprocess.DEVNULL)
            return [
                timed(lambda: subprocess.run(words, check=True, env=env, stdout=subprocess.DEVNULL)) / 1000
                for _ in range(20)
            ]

    return theirs


def send_many(place: Path) -> Figures:
    with fresh(place) as directory:
        spool = warm(directory, "full")
        orders = [{"recipient": "b", "subject": "s", "body": BODY} for _ in range(100)]
        return [timed(lambda: spool.send_many(orders, sender="a")) / 100 for _ in range(5)]


def one_by_one(_: Floor, place: Path) -> Figures:
    return send("full")(place)[:100]


def broadcast(place: Path) -> Figures:
    with fresh(place) as directory:
        spool = warm(directory, "none")
        spool.send_many([{"recipient": f"box{i}", "subject": "s"} for i in range(1000)], sender="a")
        return [timed(lambda: spool.send(sender="a", recipient="*", subject="s", body=BODY)) for _ in range(2)]


def claim_ack(place: Path) -> Figures:
    with fresh(place) as directory:
        spool = warm(directory, "none")
        for _ in range(COUNT):
            spool.send(sender="a", recipient="b", subject="s", body=BODY)
        worker = spool.worker("b")
        return [timed(lambda: worker.ack(worker.claim())) for _ in range(COUNT)]


def wake(place: Path) -> Figures:
    return list(wakes(place, observer=False))


def stalled(_: Floor, place: Path) -> Figures:
    return list(wakes(place, observer=True))


def wakes(place: Path, observer: bool) -> Iterator[float]:
    """From the rename into a directory to its receiver, which moves every file out again."""
    with fresh(place) as directory:
        words = [
            sys.executable,
            str(Path(__file__).with_name("receiver.py")),
            str(directory),
            *(["observer"] if observer else []),
        ]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as receiver:
            assert receiver.stdout is not None
            receiver.stdout.readline()
            for i in range(20):
                draft = directory / f"draft{i}"
                draft.write_text("")
                start = time.monotonic_ns()
                draft.rename(directory / "new" / str(i))
                yield (int(receiver.stdout.readline()) - start) / 1000
            receiver.terminate()


SAYS_IT_RUNS = ["/bin/sh", "-c", 'echo > "$0"']


def dispatch(place: Path) -> Figures:
    """From the message's rename into new/ to the worker that the listener has started for it."""
    with fresh(place) as directory, Runs(directory) as runs:
        spool = warm(directory, "none")
        auto = {"b": {"command": [*SAYS_IT_RUNS, runs.path]}}
        (directory / "spool" / "config.json").write_text(json.dumps({"auto": auto}))
        words = [str(COMMAND), "listener", "run", "b", "--spool", str(directory / "spool")]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as listener:
            assert listener.stdout is not None
            assert listener.stdout.readline(), "it does not listen"
            figures = [runs.after(dropped_task(spool, directory / "spool")) for _ in range(10)]
            listener.terminate()
        return figures


def by_hand(_: Floor, place: Path) -> Figures:
    """The same program, started by this process itself."""
    with fresh(place) as directory, Runs(directory) as runs:

        def start() -> None:
            subprocess.run([*SAYS_IT_RUNS, runs.path], check=True, stdin=subprocess.DEVNULL)

        return [runs.after(start) for _ in range(10)]


def dropped_task(spool: Spool, root: Path) -> Callable[[], object]:
    """A task as a script drops it, but for the rename, which is what this answers."""
    told = spool.send(sender="a", recipient="model", subject="s", body=BODY)
    (sent,) = (root / "agents" / "model" / "new").iterdir()
    message = json.loads(sent.read_bytes()) | {"recipient": "b", "kind": "task"}
    spool.ack("model", [told["id"]])
    message["id"] = told["id"][:-1] + ("0" if told["id"][-1] != "0" else "1")
    draft = root / "agents" / "b" / "tmp" / ".dropped"
    draft.write_text(json.dumps(message))
    return functools.partial(draft.rename, root / "agents" / "b" / "new" / f"{message['id']}.json")


class Runs:
    """Hears of it when a worker runs, by a pipe that the worker knows by its name."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "runs")

    def __enter__(self) -> "Runs":
        os.mkfifo(self.path)
        self._fd = os.open(self.path, os.O_RDWR)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def after(self, act: Callable[[], object]) -> float:
        """Microseconds from `act` to the worker."""

        def wait() -> None:
            act()
            os.read(self._fd, 100)

        return timed(wait)


ROWS = {
    "send-cli": Row("ms", "python -I -c pass", "<= 2", send_cli, bare),
    "hook-silent": Row("ms", "python -I -c pass", "<= 2.5, < 50 ms", hook_silent, bare),
    "send-tool": Row("ms", "agent-mail send", "<= 1", send_tool, lambda _, place: send_cli(place)),
    "send-tool-acta": Row("ms", "acta post", "< 1", send_tool, peer("acta"), "acta"),
    "send-tool-keepwatch": Row("ms", "keepwatch send", "< 1", send_tool, peer("keepwatch"), "keepwatch"),
    "send-unsynced": Row(
        "us",
        "the same calls in C",
        "<= 1.3 (ext4), 1.6 (tmpfs)",
        send("none"),
        lambda floor, place: floor.run("send", place, COUNT),
    ),
    "send-full": Row(
        "us", "the same calls in C", "<= 1.15", send("full"), lambda floor, place: floor.run("send-full", place, COUNT)
    ),
    "send-many": Row("us", "send, one by one", "<= 0.2", send_many, one_by_one),
    "claim-ack": Row(
        "us",
        "the same calls in C",
        "<= 1.5 (ext4), 2 (tmpfs)",
        claim_ack,
        lambda floor, place: floor.run("claim-ack", place, COUNT),
    ),
    "broadcast-1000": Row(
        "us", "1000 links and renames in C", "<= 1.5", broadcast, lambda floor, place: floor.run("links", place, 1000)
    ),
    "wake": Row("us", "watchdog's default observer", "<= 0.1", wake, stalled),
    "dispatch": Row("us", "the worker started by hand", "-", dispatch, by_hand),
}
