"""Clocks that jump, stop, start anew or lie, and processes that are not who they seem: a claim is right each time.

In one process with clocks that are set, and where the machine allows it with real processes in a time namespace or
under another boot id.
"""

import fcntl
import json
import os
import signal
import subprocess
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from maildir_agents.disk.clock import UNKNOWN_BOOT, Clock
from maildir_agents.errors import MailError
from maildir_agents.faces.python import Spool
from maildir_agents.mail import claim as claims
from maildir_agents.mail.name import ms_of_iso, stamp
from maildir_agents.testing import MovableClock

HOUR, DAY = 3600, 86_400
BOOT = "9f44af0d"
HERE, ELSEWHERE = f"{BOOT}effffffa", f"{BOOT}effffff0"  # one boot, two time namespaces
YEAR_2099 = ms_of_iso("2099-06-01T00:00:00.000Z")


class Hands(Clock):
    """Clocks kept in a file, so that several processes see the same and a test can move them under their eyes."""

    def __init__(self, path: Path, boot: str = HERE) -> None:
        self.path, self.name = path, boot
        if not path.exists():
            self.set(Clock().wall_ms(), 86_400_123)

    def set(self, wall: int, up: int) -> None:
        aside = f"{self.path}.{os.getpid()}"
        Path(aside).write_text(f"{wall} {up}", encoding="ascii")
        os.rename(aside, self.path)

    def read(self) -> tuple[int, int]:
        wall, up = self.path.read_text(encoding="ascii").split()
        return int(wall), int(up)

    def pass_time(self, seconds: float, *, wall: bool = True, boot: bool = True) -> None:
        now, up = self.read()
        self.set(now + wall * round(seconds * 1000), up + boot * round(seconds * 1000))

    def wall_ms(self) -> int:
        return self.read()[0]

    def boot_ms(self) -> int:
        return self.read()[1]

    def boot(self) -> str:
        return self.name


@pytest.fixture
def hands(tmp_path) -> Hands:
    return Hands(tmp_path / "clock")


@pytest.fixture
def spool(tmp_path, hands) -> Spool:
    return Spool(tmp_path / "spool", clock=hands, durability="none")


@pytest.fixture
def task(spool) -> dict:
    """A message, claimed for 300 seconds by the holder."""
    spool.send(sender="alice", recipient="bob", subject="task")
    return spool.claim("bob", worker="holder")


def another(spool: Spool, clock: Clock) -> Spool:
    """The same spool as another process opens it: it shares no last id."""
    return Spool(spool.root, clock=clock, durability="none", randomness=partial(os.urandom))


def code(call: Callable[[], object]) -> str:
    with pytest.raises(MailError) as refused:
        call()
    return refused.value.code


def fenced(spool: Spool, held: str) -> bool:
    """Whether every verb tells the holder of this handle that it is lost."""
    calls = (
        lambda: spool.renew("bob", held),
        lambda: spool.release("bob", held),
        lambda: spool.ack("bob", [held]),
        lambda: spool.archive("bob", [held]),
        lambda: spool.send(sender="bob", recipient="alice", subject="done", reply_to=held),
    )
    return {code(call) for call in calls} == {"lease_lost"}


# --------------------------------------------------------------------------------- the wall clock, within one boot


@pytest.mark.parametrize("jump", [-2 * HOUR, -10 * DAY, 10 * DAY, 400 * DAY])
def test_a_jump_of_the_wall_clock_neither_ends_nor_lengthens_a_claim(spool, hands, task, jump):
    hands.pass_time(jump, boot=False)
    assert spool.claim("bob")["handle"] is None
    assert spool.status("bob")[0]["claimed"] == 1
    hands.pass_time(299.999)
    assert spool.claim("bob")["handle"] is None
    hands.pass_time(0.001)
    assert spool.claim("bob")["token"] == 2
    assert fenced(spool, task["handle"])


@pytest.mark.parametrize("jump", [-2 * HOUR, 10 * DAY])
def test_a_holder_goes_on_after_a_jump_of_the_wall_clock(spool, hands, task, jump):
    hands.pass_time(jump, boot=False)
    renewed = spool.renew("bob", task["handle"])
    assert ms_of_iso(renewed["claim_expires_at"]) == hands.wall_ms() + 300_000
    hands.pass_time(299)
    assert spool.claim("bob")["handle"] is None
    assert spool.ack("bob", [task["handle"]])["count"] == 1


def test_the_published_movable_clock_jumps_sleeps_and_reboots(tmp_path):
    clock = MovableClock()
    spool = Spool(tmp_path / "spool", clock=clock, durability="none")
    spool.send(sender="alice", recipient="bob", subject="task")
    spool.claim("bob")
    clock.set_wall(clock.wall_ms() + 10 * DAY * 1000)
    assert spool.claim("bob")["handle"] is None
    clock.advance(301)
    assert spool.claim("bob")["token"] == 2
    clock.reboot()
    assert another(spool, clock).claim("bob")["token"] == 3


# -------------------------------------------------------------------------------------- suspend, reboot, namespaces


def test_sleep_of_the_machine_counts_and_fences_who_slept(spool, hands, task):
    hands.pass_time(HOUR)  # both clocks: that is what suspend looks like afterwards
    assert spool.claim("bob", worker="other")["token"] == 2
    assert fenced(spool, task["handle"])


def test_whoever_wakes_first_may_renew_what_nobody_has_taken(spool, hands, task):
    hands.pass_time(HOUR)
    assert spool.renew("bob", task["handle"])["token"] == 1
    assert spool.claim("bob")["handle"] is None


def test_a_reboot_ends_every_claim_at_once(spool, hands, task):
    hands.set(hands.wall_ms() + 20_000, 15_000)
    booted = another(spool, Hands(hands.path, "0000000b" + HERE[8:]))
    assert booted.status("bob")[0]["claimed"] == 0
    assert booted.claim("bob")["token"] == 2
    assert fenced(booted, task["handle"])


@pytest.mark.parametrize("boot", [ELSEWHERE, UNKNOWN_BOOT])
@pytest.mark.parametrize("up", [0, 999_999_999])
def test_where_no_boot_clock_can_tell_the_wall_clock_does_with_five_seconds_more(spool, hands, task, boot, up):
    other_hands = Hands(hands.path.with_name("other"), boot)
    other = another(spool, other_hands)
    now = hands.wall_ms()
    other_hands.set(now + 304_999, up)
    assert other.claim("bob")["handle"] is None
    assert code(lambda: other.ack("bob", [task["message"]["id"]])) == "claimed"
    other_hands.set(now + 305_000, up)
    assert other.claim("bob")["token"] == 2
    assert fenced(spool, task["handle"])


def test_a_claim_from_another_namespace_is_renewed_into_the_namespace_of_who_renews(spool, hands, task):
    hands.pass_time(0)
    elsewhere = another(spool, Hands(hands.path, ELSEWHERE))
    assert elsewhere.renew("bob", task["handle"])["token"] == 1
    hands.pass_time(304.999)  # here it goes by the wall clock now
    assert spool.claim("bob")["handle"] is None
    hands.pass_time(0.001)
    assert spool.claim("bob")["token"] == 2


# ------------------------------------------------------------------------------------------------ clocks that lie


@pytest.mark.parametrize("boot", [ELSEWHERE, UNKNOWN_BOOT])
def test_a_claim_from_a_clock_in_2099_is_over_for_everybody_whose_clock_is_right(spool, hands, boot):
    spool.send(sender="alice", recipient="bob", subject="task")
    wrong = Hands(hands.path.with_name("wrong"), boot)
    wrong.set(YEAR_2099, 5_000)
    held = another(spool, wrong).claim("bob", lease_s=3600)["handle"]
    assert spool.status("bob")[0]["claimed"] == 0
    assert spool.claim("bob")["token"] == 2
    assert fenced(spool, held)


def test_a_wall_clock_in_2099_makes_no_claim_of_this_boot_longer_or_shorter(spool, hands):
    spool.send(sender="alice", recipient="bob", subject="task")
    right = hands.read()
    hands.set(YEAR_2099, right[1])
    spool.claim("bob")
    hands.set(*right)
    assert spool.claim("bob")["handle"] is None
    hands.pass_time(300)
    assert spool.claim("bob")["token"] == 2


def test_mail_from_a_clock_in_2099_is_claimed_read_and_settled_like_any_other(spool, hands):
    wrong = Hands(hands.path.with_name("wrong"))
    wrong.set(YEAR_2099, 5_000)
    message_id = another(spool, wrong).send(sender="alice", recipient="bob", subject="from the future")["id"]
    spool.send(sender="alice", recipient="bob", subject="now")
    assert ms_of_iso(spool.status("bob")[0]["oldest_unread"]) == hands.wall_ms()
    with spool.read("bob", mark=False) as batch:
        assert [message["subject"] for message in batch.messages] == ["now", "from the future"]
    spool.ack("bob", [spool.claim("bob")["handle"]])
    held = spool.claim("bob")
    assert held["message"]["id"] == message_id
    assert spool.ack("bob", [held["handle"]])["count"] == 1
    assert Path(spool.root, "agents/bob/acked/2099-06-01/0000").is_dir()
    assert spool.ack("bob", [message_id])["count"] == 0
    assert another(spool, hands).send(sender="alice", recipient="bob", subject="next")["id"] != message_id


def test_mail_from_1971_is_not_lost_either(spool, hands):
    wrong = Hands(hands.path.with_name("wrong"))
    wrong.set(ms_of_iso("1971-01-01T00:00:00.000Z"), 5_000)
    message_id = another(spool, wrong).send(sender="alice", recipient="bob", subject="from the past")["id"]
    held = spool.claim("bob")
    assert held["message"]["id"] == message_id
    assert spool.ack("bob", [held["handle"]])["count"] == 1


@pytest.mark.parametrize("end", [f"~x{stamp(YEAR_2099)}", "~x20261130T000000.000Z", ""])
def test_a_name_without_all_of_a_claim_holds_nothing(spool, task, end):
    """A script made it, or another program: it hides the message from nobody for ever."""
    claimed = Path(spool.root, "agents/bob/claimed")
    [name] = os.listdir(claimed)
    os.rename(claimed / name, claimed / f"{task['message']['id']}~n1{end}.json")
    assert spool.claim("bob")["token"] == 2


# ------------------------------------------------------------------------------------------ who is who: processes


class Child:
    """A fork of this process that runs `work` and answers its JSON; it can be stopped in between."""

    def __init__(self, work: Callable[["Child"], object]) -> None:
        (self._answer, answer), (go, self._go) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(answer)
            os.close(go)
            return
        self._wait = go
        status = 1
        try:
            os.close(self._answer)
            os.close(self._go)
            self._out = answer
            self.tell(work(self))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    # in the child

    def tell(self, what: object) -> None:
        os.write(self._out, (json.dumps(what) + "\n").encode())

    def wait_until_told_to_go_on(self) -> None:
        os.read(self._wait, 1)

    # in the test

    def hears(self) -> object:
        line = b""
        while not line.endswith(b"\n"):
            piece = os.read(self._answer, 1)
            assert piece, "the child has ended without a word"
            line += piece
        return json.loads(line)

    def go_on(self) -> None:
        os.write(self._go, b".")

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._answer)
        os.close(self._go)


def test_a_restarted_service_of_the_same_name_is_not_its_stopped_first_life(spool, hands):
    spool.send(sender="alice", recipient="bob", subject="task")

    def first_life(me: Child) -> object:
        mine = Spool(spool.root, clock=hands, durability="none")
        held = mine.claim("bob", worker="service")["handle"]
        me.tell(held)
        me.wait_until_told_to_go_on()
        return fenced(mine, held)

    with Child(first_life) as first:
        stale = first.hears()
        os.kill(first.pid, signal.SIGSTOP)
        assert spool.claim("bob", worker="service")["handle"] is None, "its first life may still be at it"
        hands.pass_time(300)
        task = spool.claim("bob", worker="service")
        assert (task["token"], task["worker"]) == (2, "service")
        os.kill(first.pid, signal.SIGCONT)
        first.go_on()
        assert first.hears() is True
    assert stale != task["handle"]
    assert spool.ack("bob", [task["handle"]])["count"] == 1


def test_two_services_of_one_name_never_hold_the_same_claim(spool):
    """Equal names, equal times: only one of two renames of one file finds it."""
    spool.send(sender="alice", recipient="bob", subject="task")
    twin = Spool(spool.root, clock=spool.clock, durability="none")
    rename = os.rename
    taken: list[str] = []

    def late(source: str, target: str) -> None:
        if "/claimed/" in target:
            os.rename = rename
            taken.append(twin.claim("bob", worker="service")["handle"])
        rename(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rename", late)
        mine = spool.claim("bob", worker="service")
    assert taken != [None]
    assert mine["handle"] is None, "both were told that they hold it"


def test_after_fork_parent_and_child_are_two_workers_and_each_is_fenced_from_the_other(spool, hands):
    for number in range(3):
        spool.send(sender="alice", recipient="bob", subject=f"task {number}")
    before = spool.claim("bob")

    def after(me: Child) -> object:
        me.tell(spool.claim("bob"))
        me.wait_until_told_to_go_on()
        taken = spool.claim("bob", before["message"]["id"])
        return [taken["handle"], taken["worker"]]

    with Child(after) as child:
        theirs = child.hears()
        mine = spool.claim("bob")
        assert mine["worker"] == before["worker"]
        assert theirs["worker"] != mine["worker"]
        assert len({before["handle"], theirs["handle"], mine["handle"]}) == 3
        assert code(lambda: spool.ack("bob", [theirs["message"]["id"]])) == "claimed"
        hands.pass_time(300)
        child.go_on()
        handle, worker = child.hears()
    assert (handle, worker) == (f"{before['message']['id']}~n2", theirs["worker"])
    assert fenced(spool, before["handle"])


def test_a_child_with_its_parents_process_id_has_a_name_of_its_own(spool, monkeypatch):
    """In a pid namespace of its own a child may well have the number of its parent."""
    for number in range(2):
        spool.send(sender="alice", recipient="bob", subject=f"task {number}")
    monkeypatch.setattr(claims.os, "getpid", lambda: 1)
    mine = spool.claim("bob")["worker"]
    with Child(lambda me: spool.claim("bob")["worker"]) as child:
        theirs = child.hears()
    assert mine.startswith("1-")
    assert theirs.startswith("1-")
    assert mine != theirs
    monkeypatch.setattr(claims, "_lives", {})


def test_after_fork_no_two_messages_have_one_id(spool):
    with Child(lambda me: [spool.send(sender="a", recipient="bob", subject="s")["id"] for _ in range(50)]) as child:
        mine = [spool.send(sender="a", recipient="bob", subject="s")["id"] for _ in range(50)]
        theirs = child.hears()
    assert len({*mine, *theirs}) == 100


def test_a_spool_that_was_opened_before_fork_holds_no_lock_for_the_child(spool):
    spool.send(sender="alice", recipient="bob", subject="task")
    with spool.read("bob"), Child(lambda me: [me.tell("here"), me.wait_until_told_to_go_on()][0]) as child:
        assert child.hears() == "here"
    fd = os.open(f"{spool.root}/agents/bob/read.lock", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(fd)


# -------------------------------------------------------------------------- the same with the real clocks and command


@pytest.fixture
def inside(needs):
    """`inside("unshare", …)` -> these words, if a program may run under them here; else a skip that says why."""

    def words(what_for: str, *under: str) -> tuple[str, ...]:
        needs(under[0], what_for)
        tried = subprocess.run([*under, "true"], capture_output=True, text=True, check=False)
        if tried.returncode:
            pytest.skip(f"needs the right to make namespaces: {what_for}")
        return under

    return words


@pytest.fixture
def claimed(quick) -> dict:
    quick.send("alice", "bob")
    return quick("claim", "bob").answer


@pytest.mark.parametrize("offset", ["0", "100000"])
def test_a_process_in_another_time_namespace_leaves_a_live_claim_alone(quick, claimed, inside, offset):
    under = inside("another time namespace", "unshare", "--fork", "--time", "--boottime", offset)
    assert quick("claim", "bob", under=under).answer["handle"] is None
    assert quick("ack", "bob", claimed["message"]["id"], under=under).refusal["code"] == "claimed"
    assert quick("renew", "bob", claimed["handle"], under=under).answer["token"] == 1
    assert quick("claim", "bob").answer["handle"] is None
    assert quick("ack", "bob", claimed["handle"]).answer["count"] == 1


def test_after_a_reboot_the_command_takes_what_was_claimed_before(quick, claimed, inside, tmp_path):
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("0000000b-0000-4000-8000-000000000000\n", encoding="ascii")
    mount = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
    under = inside("another boot id", "unshare", "--mount", "sh", "-c", mount, str(boot_id))
    assert quick("status", "--agent", "bob").answer[0]["claimed"] == 1
    assert quick("status", "--agent", "bob", under=under).answer[0]["claimed"] == 0
    assert quick("claim", "bob", under=under).answer["token"] == 2
    assert quick("ack", "bob", claimed["handle"], under=under).refusal["code"] == "lease_lost"


def test_a_process_with_the_number_of_the_dead_holder_is_somebody_else(quick, inside):
    for number in range(2):
        quick.send("alice", "bob", subject=f"task {number}")
    under = inside("two processes of one number", "unshare", "--fork", "--pid", "--mount-proc")
    one, two = (quick("claim", "bob", under=under).answer for _ in range(2))
    assert [answer["worker"].partition("-")[0] for answer in (one, two)] == ["1", "1"]
    assert one["worker"] != two["worker"]
    assert one["handle"] != two["handle"]
    assert quick("claim", "bob", under=under).answer["handle"] is None
    assert quick("ack", "bob", one["message"]["id"], under=under).refusal["code"] == "claimed"
    assert quick("ack", "bob", one["handle"], under=under).answer["count"] == 1
