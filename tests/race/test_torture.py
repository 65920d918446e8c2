"""Real processes on real files, stopped, resumed and killed by chance: what each was told, put together, must fit.

Every worker writes what it asks and what it is told to a record of its own, one appended line each, so what a killed
one has been told is known.  The clock of the spool runs a thousand times too fast: a lease of thirty seconds is over
in thirty milliseconds, so leases run out under everybody's hands.

AGENT_MAIL_LONG=1 looks for resting mail ten thousand times instead of a few hundred.
"""

import ctypes
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from maildir_agents.disk.clock import Clock
from maildir_agents.errors import MailError
from maildir_agents.faces.python import Spool
from maildir_agents.mail.name import ms_of_iso, parse

LONG = bool(os.environ.get("AGENT_MAIL_LONG"))
SEED = int(os.environ["TEST_SEED"])
SECONDS = 60
ROUNDS = 100
LOOKS = 10_000 if LONG else 360
WORKERS = 6
OUTSTANDING = 5
FASTER = 1000
LEASE_S = 30
AGENT = "bob"
PR_SET_PDEATHSIG = 1

pytestmark = pytest.mark.timeout(600)


class FastClock(Clock):
    """The machine's clocks, a thousand times faster from `start` (nanoseconds since boot) on; the same for all."""

    def __init__(self, start: int) -> None:
        self.start, self.wall = start, 1_796_064_432_123

    def boot_ms(self) -> int:
        return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - self.start) * FASTER // 1_000_000

    def wall_ms(self) -> int:
        return self.wall + self.boot_ms()


class Lives:
    """Processes of this test; whatever is left at the end is killed and waited for."""

    def __init__(self) -> None:
        self.running: list[int] = []
        self.begun = 0

    def start(self, work: Callable[[], None]) -> int:
        self.begun += 1
        pid = os.fork()
        if not pid:
            status = 1
            try:
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # it does not outlive a test that is killed
                work()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        self.running.append(pid)
        return pid

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.wait(pid)

    def wait(self, pid: int) -> int:
        self.running.remove(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextmanager
def lives() -> Iterator[Lives]:
    those = Lives()
    try:
        yield those
    finally:
        for pid in list(those.running):
            those.kill(pid)


class Record:
    """What one life was told: a line before it asks, and one with the answer."""

    def __init__(self, path: str, clock: Clock, me: str) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.clock, self.me = clock, me

    def line(self, **what: object) -> None:
        os.write(self.fd, (json.dumps({"me": self.me, **what}) + "\n").encode())

    def ask(self, act: str, call: Callable[[], dict], **what: object) -> dict:
        """The answer, or {"code": …}; both are written down with the times around them."""
        before = self.clock.wall_ms()
        self.line(asks=act, at=before, **what)
        try:
            answer = call()
        except MailError as error:
            answer = {"code": error.code}
        kept = {key: answer[key] for key in ("code", "token", "message_ids", "claim_expires_at", "acknowledged")
                if key in answer}  # fmt: skip
        if answer.get("message"):
            kept["id"] = answer["message"]["id"]
        self.line(**{**what, "told": act, "before": before, "after": self.clock.wall_ms(), **kept})
        return answer


# ------------------------------------------------------------------------------------------------ the workers


def worker(root: str, clock: Clock, me: str, stop: str, seed: float) -> None:
    """Takes a task, works longer or shorter than its lease, and ends it in some way or not at all."""
    spool, dice = Spool(root, clock=clock), random.Random(seed)
    record = Record(f"{root}.told/{me}", clock, me)
    try:
        while not os.path.exists(stop):
            _one_task(spool, record, dice, me)
    except BaseException:
        record.line(traceback=traceback.format_exc())
        raise


def _one_task(spool: Spool, record: Record, dice: random.Random, me: str) -> None:
    task = record.ask("claim", lambda: spool.claim(AGENT, lease_s=LEASE_S, worker=me))
    if not task.get("handle"):
        if dice.random() < 0.3:
            _meddle(spool, record)
        time.sleep(0.002)
        return
    handle, what = task["handle"], {"id": task["message"]["id"], "token": task["token"]}
    while dice.random() < 0.5:
        time.sleep(dice.random() * 2 * LEASE_S / FASTER)
        if "code" in record.ask("renew", lambda: spool.renew(AGENT, handle, lease_s=LEASE_S), **what):
            return
    time.sleep(dice.random() * 1.5 * LEASE_S / FASTER)
    end = dice.choice(("ack", "ack", "answer", "release", "archive", "forget"))
    if end == "ack":
        record.ask("ack", lambda: spool.ack(AGENT, [handle]), **what)
    elif end == "archive":
        record.ask("archive", lambda: spool.archive(AGENT, [handle]), **what)
    elif end == "release":
        record.ask("release", lambda: spool.release(AGENT, handle), **what)
    elif end == "answer":
        record.ask(
            "answer",
            lambda: spool.send(sender=AGENT, recipient="alice", subject="done", reply_to=handle, dedup_key=what["id"]),
            **what,
        )


def _meddle(spool: Spool, record: Record) -> None:
    """Somebody without a handle: what is free it may settle, what is claimed it may not."""
    with spool.read(AGENT, mark=False, everything=True, limit=10) as batch:
        open_ids = [m["id"] for m in batch.messages if m["acked_at"] is None]
    if open_ids:
        record.ask("ack bare", lambda: spool.ack(AGENT, open_ids[:1]), id=open_ids[0])


# --------------------------------------------------------------------------------------------- what must fit


def told_by_all(root: str) -> list[dict]:
    lines = []
    for path in Path(f"{root}.told").iterdir():
        whole, _, _ = path.read_text("utf-8").rpartition("\n")  # a line cut off by a kill was not said
        lines += [json.loads(line) for line in whole.split("\n") if line]
    return lines


def contradictions(lines: list[dict]) -> Counter[str]:
    """What cannot have been true all together."""
    wrong: Counter[str] = Counter()
    of_message = defaultdict(list)
    for line in lines:
        wrong["a traceback"] += "traceback" in line
        if "told" in line and "id" in line:
            of_message[line["id"]].append(line)
    for told in of_message.values():
        _one_message(told, wrong)
    return +wrong


def _one_message(told: list[dict], wrong: Counter[str]) -> None:
    grants = [t for t in told if t["told"] == "claim"]
    done = [t for t in told if _settled(t)]
    tokens = Counter(grant["token"] for grant in grants)
    wrong["a token granted twice"] += sum(n > 1 for n in tokens.values())
    wrong["settled by two"] += len(done) > 1
    wrong["no such message"] += sum(t.get("code") in ("unknown_id", "in_transit", "not_yours") for t in told)
    for end in done:
        if "token" in end:
            wrong["settled by one who held it no longer"] += any(g["token"] > end["token"] for g in grants)
        wrong["granted after it was settled"] += any(g["before"] > end["after"] for g in grants)
    for grant in grants:
        mine = [t for t in told if t.get("token") == grant["token"] and t["me"] == grant["me"]]
        _one_claim(grant, mine, [t for t in told if t not in mine], wrong)


def _settled(told: dict) -> bool:
    if told["told"] in ("ack", "archive", "ack bare"):
        return told["id"] in told.get("message_ids", ())
    return told["told"] == "answer" and "acknowledged" in told


def _one_claim(grant: dict, mine: list[dict], others: list[dict], wrong: Counter[str]) -> None:
    """One claim, what its holder was told of it, and what others were told in its time."""
    gave_up = [t["before"] for t in mine if t["told"] in ("ack", "archive", "answer", "release")]
    let_go = min(gave_up, default=None)
    ends = [(t["after"], ms_of_iso(t["claim_expires_at"])) for t in mine if "claim_expires_at" in t]
    for other in others:
        # Known to be held all the time that the other asked?
        until = max((end for known, end in ends if known <= other["before"]), default=0)
        if until <= other["after"] or (let_go is not None and let_go <= other["after"]):
            continue
        wrong["granted before the lease was over"] += other["told"] == "claim" and other["token"] > grant["token"]
        wrong["settled under another's lease"] += _settled(other)
    lost = [t for t in mine if t.get("code") == "lease_lost"]
    for word in lost:
        until = max((end for known, end in ends if known <= word["before"]), default=0)
        ended = any(t["before"] < word["before"] for t in mine if t["told"] in ("ack", "archive", "answer", "release"))
        wrong["lost although its time was not over"] += until > word["after"] and not ended
        wrong["lost and yet held"] += any(
            t["before"] > word["after"] and "code" not in t and t["told"] in ("renew", "release") for t in mine
        )


# -------------------------------------------------------------------------------------------------- the tests


def where(root: str, agent: str = AGENT) -> dict[str, list[tuple[str, str]]]:
    """id -> (state, file name), read from the directories alone."""
    found = defaultdict(list)
    for directory, _, names in os.walk(f"{root}/agents/{agent}"):
        state = directory.removeprefix(f"{root}/agents/{agent}/").split("/")[0]
        for name in names:
            if state in ("new", "cur", "claimed", "acked", "archive", "failed") and ".reason." not in name:
                found[name[:36]].append((state, name))
    return found


def test_workers_that_are_stopped_and_killed_contradict_nobody(tmp_path, say):
    root, stop, dice = str(tmp_path / "spool"), str(tmp_path / "stop"), random.Random(SEED)
    os.mkdir(f"{root}.told")
    clock = FastClock(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    boss = Spool(root, clock=clock, durability="none", history=False)
    boss.init()
    sent: list[str] = []

    def send() -> None:
        sent.append(boss.send(sender="alice", recipient=AGENT, subject=f"task {len(sent)}")["id"])

    send()
    with lives() as those:

        def begin() -> None:
            me, seed = f"w{those.begun}", dice.random()
            those.start(lambda: worker(root, clock, me, stop, seed))

        for _ in range(WORKERS):
            begin()
        hurt = Counter()
        stopped: list[int] = []
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            waiting = boss.status(AGENT)[0]["unacked"]
            for _ in range(OUTSTANDING - waiting):
                send()
            _hurt(those, stopped, dice, hurt, begin)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        Path(stop).touch()
        assert [those.wait(pid) for pid in list(those.running)] == [0] * WORKERS
        lives_begun = those.begun
    _finish(boss)
    lines = told_by_all(root)
    told = Counter(line["told"] for line in lines if "told" in line)
    say(f"torture: {SECONDS} s, {len(sent)} messages, {lives_begun} lives, {dict(hurt)}, {dict(told)}")
    assert contradictions(lines) == Counter()
    places = where(root)
    assert {i: states for i in sent if len(states := places[i]) != 1 or states[0][0] not in ("acked", "archive")} == {}
    assert set(places) == set(sent)
    _told_and_true(lines, places)
    assert told["claim"] > 50, "there was no race worth the name"


def _hurt(those: Lives, stopped: list[int], dice: random.Random, hurt: Counter, begin: Callable[[], None]) -> None:
    pid = dice.choice(those.running)
    what = dice.choices(("stop", "go on", "kill"), (4, 4, 1))[0]
    hurt[what] += 1
    if what == "stop" and pid not in stopped and len(stopped) < WORKERS - 2:
        os.kill(pid, signal.SIGSTOP)
        stopped.append(pid)
    elif what == "kill":
        if pid in stopped:
            stopped.remove(pid)
        those.kill(pid)
        begin()
    elif what == "go on" and stopped:
        os.kill(stopped.pop(dice.randrange(len(stopped))), signal.SIGCONT)
    time.sleep(dice.random() * 0.02)


def _finish(boss: Spool) -> None:
    """What is left is done by one who comes when all leases are over."""
    boss.clock.wall += 3_600_000
    boss.clock.start -= 3_600_000_000_000 // FASTER
    while (task := boss.claim(AGENT, worker="last"))["handle"]:
        assert boss.ack(AGENT, [task["handle"]])["count"] == 1


def _told_and_true(lines: list[dict], places: dict[str, list[tuple[str, str]]]) -> None:
    """Whoever was told that it settled a message has settled it: the name says by which claim."""
    for line in lines:
        if "told" in line and _settled(line) and "token" in line:
            [(_, name)] = places[line["id"]]
            assert parse(name).token == line["token"], f"{line} but {name}"


def test_no_task_is_lost_with_the_worker_that_is_killed_over_it(tmp_path, say):
    """Killed at any moment from its start to its end; another takes the task over when the lease has run out."""
    root, dice = str(tmp_path / "spool"), random.Random(SEED)
    clock = FastClock(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    boss = Spool(root, clock=clock, durability="none")
    boss.init()
    ended: Counter[str] = Counter()

    def task() -> None:
        spool = Spool(root, clock=clock)
        mine = spool.claim(AGENT, lease_s=LEASE_S)
        name, held = mine["message"]["subject"], mine["handle"]
        spool.send(sender=AGENT, recipient="alice", subject=f"done: {name}", reply_to=held, dedup_key=name)

    sent = []
    with lives() as those:
        for number in range(ROUNDS):
            sent.append(boss.send(sender="alice", recipient=AGENT, subject=f"task {number}")["id"])
            pid = those.start(task)
            time.sleep(dice.random() * 0.02)
            those.kill(pid)
            [(state, _)] = where(root)[sent[-1]]
            ended[state] += 1
            if state != "acked":
                _take_over(boss, number)
    places = where(root)
    assert {i: places[i] for i in sent if [state for state, _ in places[i]] != ["acked"]} == {}
    assert set(places) == set(sent)
    with boss.read("alice", limit=1000) as answers:
        subjects = Counter(message["subject"] for message in answers.messages)
    assert subjects == {f"done: task {number}": 1 for number in range(ROUNDS)}
    say(f"killed over a task: {ROUNDS} rounds, 0 lost; it was then {dict(ended)}")


def _take_over(boss: Spool, number: int) -> None:
    deadline = time.monotonic() + 20
    while not (task := boss.claim(AGENT, lease_s=3600, worker="successor"))["handle"]:
        assert time.monotonic() < deadline, "the lease of a dead worker never ends"
        time.sleep(0.001)  # a lease lasts 30 ms here
    boss.send(
        sender=AGENT, recipient="alice", subject=f"done: task {number}", reply_to=task["handle"],
        dedup_key=f"task {number}",
    )  # fmt: skip


def test_resting_mail_is_always_found_while_another_message_moves(tmp_path, say):
    """A listing proves nothing while renames run in its directory; nobody is told so, and nothing is shown twice."""
    root, stop = str(tmp_path / "spool"), str(tmp_path / "stop")
    spool = Spool(root, durability="none", history=False)
    orders = [{"recipient": AGENT, "subject": f"s{n}"} for n in range(5_000)]
    ids = spool.send_many(orders, sender="alice")["ids"]
    moving, resting = ids[2_500], [i for i in ids if i != ids[2_500]]
    task = spool.claim(AGENT, moving)

    def renewing() -> None:
        mine = Spool(root, durability="none", history=False)
        while not os.path.exists(stop):
            mine.renew(AGENT, task["handle"])

    dice = random.Random(SEED)
    asked: Counter[str] = Counter()
    with lives() as those:
        pids = [those.start(renewing), those.start(renewing)]
        settled = 0
        for number in range(LOOKS):
            what = ("ack", "claimed", "renew", "status", "find", "look")[number % 6]
            asked[what] += 1
            if what == "ack":
                message_id = resting.pop(dice.randrange(len(resting)))
                assert spool.ack(AGENT, [message_id])["message_ids"] == [message_id]
                settled += 1
            elif what == "claimed":
                with pytest.raises(MailError) as refused:
                    spool.ack(AGENT, [moving])
                assert refused.value.code == "claimed"
            elif what == "renew":
                assert spool.renew(AGENT, task["handle"])["token"] == 1
            elif what == "status":
                [row] = spool.status(AGENT)
                assert (row["unread"], row["unacked"], row["claimed"]) == (4_999 - settled, 5_000 - settled, 1)
            elif what == "find":
                trace = spool.trace(moving)
                assert {place["state"] for place in trace["places"]} <= {"claimed"}, trace["places"]
            else:
                with spool.read(AGENT, mark=False, limit=50) as batch:
                    shown = [message["id"] for message in batch.messages]
                assert len(set(shown)) == len(shown) == 50
                assert moving not in shown
        with spool.read(AGENT, mark=False, everything=True, limit=6_000) as batch:
            shown = [message["id"] for message in batch.messages]
        Path(stop).touch()
        assert [those.wait(pid) for pid in pids] == [0, 0]
    assert sorted(shown) == sorted(ids)
    assert spool.ack(AGENT, [task["handle"]])["count"] == 1
    say(f"moving among 5,000: {LOOKS} look-ups, {dict(asked)}")
