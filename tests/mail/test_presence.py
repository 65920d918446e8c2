"""Who is listening: what a probe says is so, whoever died, and a probe that may not write changes nothing."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from maildir_agents.disk.moves import Disk
from maildir_agents.mail.founding import make_mailbox
from maildir_agents.mail.presence import ARMED, NEVER, RELEASED, STALE, Presence, armed, prospects, watch_state
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs.watch import follow

# A process that watches, says so, and lives until its standard input ends.  `fork`: has a child that lives as long.
# `keep`: a child that keeps what it inherits, as it would without the precaution.
WATCHER = """
import os, sys
root, *how = sys.argv[1:]
if "keep" in how:
    os.register_at_fork = lambda **_: None
from maildir_agents.mail.presence import Presence
from maildir_agents.mail.spool import SpoolFiles
with Presence(SpoolFiles(root), "bob"):
    child = os.fork() if how else None
    if not child:
        print("ready", flush=True)  # with a child it is the child that says so
    sys.stdin.read()
    if child == 0:
        os._exit(0)
"""


@pytest.fixture
def spool(tmp_path) -> SpoolFiles:
    opened = SpoolFiles(tmp_path / "spool", durability="none")
    make_mailbox(opened, "bob")
    return opened


def watches(spool: SpoolFiles) -> set[str]:
    return set(os.listdir(f"{spool.box('bob')}/watch"))


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.002)


@contextmanager
def watcher(spool: SpoolFiles, *how: str) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-I", "-c", WATCHER, spool.root, *how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        yield process  # leaving closes its standard input: it ends, and so does its child


def test_an_agent_that_nobody_watched_for_has_never_watched(spool):
    assert watch_state(spool, "bob") == watch_state(spool, "nobody") == NEVER
    assert not armed(spool, "bob")


def test_a_watch_is_seen_while_it_lasts_and_leaves_nothing(spool):
    with Presence(spool, "bob"):
        assert watch_state(spool, "bob") == ARMED
        assert armed(spool, "bob", tidy=True)
        assert watch_state(spool, "bob") == ARMED
    assert watch_state(spool, "bob") == RELEASED
    assert watches(spool) == set()


def test_one_of_two_watches_may_end(spool):
    with Presence(spool, "bob"):
        with Presence(spool, "bob"):
            assert len(watches(spool)) == 2
        assert watch_state(spool, "bob") == ARMED
    assert watch_state(spool, "bob") == RELEASED


def test_a_watch_that_takes_over_from_another_is_seen_though_that_one_is_gone(spool, monkeypatch):
    """There is one at each moment, but not in the listing the one that is left."""
    first, second, real = Presence(spool, "bob"), Presence(spool, "bob"), os.listdir
    first.__enter__()

    def listdir(path):
        names = real(path)
        if os.path.basename(path) == "watch":
            monkeypatch.undo()
            second.__enter__()
            first.__exit__()
        return names

    monkeypatch.setattr(os, "listdir", listdir)
    try:
        assert watch_state(spool, "bob") == ARMED
    finally:
        second.__exit__()


class Told(BaseException):
    """What a signal's handler raises, between any two steps."""


@pytest.mark.parametrize(("owner", "step"), [(Disk, "move"), (SpoolFiles, "note")], ids=["visible", "noted"])
def test_a_watch_that_is_told_to_end_while_it_is_arming_leaves_nothing(spool, monkeypatch, owner, step):
    real = getattr(owner, step)

    def done_and_told(*words, **more):
        real(*words, **more)
        raise Told

    monkeypatch.setattr(owner, step, done_and_told)
    with pytest.raises(Told):
        next(follow(spool, "bob"))
    assert watches(spool) == set()


def test_a_watch_of_another_process_is_seen(spool):
    with watcher(spool):
        assert watch_state(spool, "bob") == ARMED
    assert watch_state(spool, "bob") == RELEASED


def test_a_killed_watch_is_stale_and_only_a_writer_sweeps_it(spool):
    with watcher(spool) as process:
        process.kill()
        process.wait()
    left = watches(spool)
    assert len(left) == 1
    assert watch_state(spool, "bob") == watch_state(spool, "bob") == STALE
    assert watches(spool) == left
    assert watch_state(spool, "bob", tidy=True) == STALE
    assert watches(spool) == set()
    assert watch_state(spool, "bob") == RELEASED


def test_a_live_watch_beside_a_dead_one_counts_and_is_not_swept(spool):
    with watcher(spool) as process:
        process.kill()
        process.wait()
    with Presence(spool, "bob"):
        assert len(watches(spool)) == 2
        assert watch_state(spool, "bob", tidy=True) == ARMED
        assert len(watches(spool)) == 1
        assert watch_state(spool, "bob") == ARMED


@pytest.mark.parametrize(("how", "state"), [("fork", STALE), ("keep", ARMED)])
def test_a_forked_child_does_not_keep_its_parents_watch_alive(spool, how, state):
    # "keep" is the control: with what a child inherits by itself, a dead watch looks armed.
    with watcher(spool, how) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert watch_state(spool, "bob") == state


def test_a_visible_file_was_locked_before_it_could_be_seen(tmp_path):
    class Looking(Disk):
        def _rename(self, source: str, target: str) -> None:
            with open(source, "rb") as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            seen.append((Path(source).name, Path(target).name))
            super()._rename(source, target)

    seen: list[tuple[str, str]] = []
    spool = SpoolFiles(tmp_path / "spool", disk=Looking(), durability="none")
    (tmp_path / "spool/agents/bob").mkdir(parents=True)
    with Presence(spool, "bob"):
        [(hidden, visible)] = seen
        assert hidden[0] == "."
        assert visible == f"{hidden[1:]}.lock"
        assert len(bytes.fromhex(hidden[1:])) == 16


def test_probes_take_no_probe_for_a_watch(spool):
    with watcher(spool) as process:
        process.kill()
        process.wait()
    [name] = watches(spool)
    with open(f"{spool.box('bob')}/watch/{name}", "rb") as probe:
        fcntl.flock(probe, fcntl.LOCK_SH)
        assert watch_state(spool, "bob") == STALE


def test_an_unfinished_watch_is_not_seen(spool):
    os.mkdir(f"{spool.box('bob')}/watch")
    Path(f"{spool.box('bob')}/watch/.{'0' * 32}").touch()
    assert watch_state(spool, "bob", tidy=True) == RELEASED


@pytest.mark.parametrize("kind", ["fifo", "directory", "symlink"])
def test_what_is_no_lock_file_is_no_watch_and_holds_nobody_up(spool, tmp_path, kind):
    path = f"{spool.box('bob')}/watch"
    os.mkdir(path)
    outside = tmp_path / "outside"
    outside.touch()
    {"fifo": os.mkfifo, "directory": os.mkdir, "symlink": lambda name: os.symlink(outside, name)}[kind](
        f"{path}/x.lock"
    )
    with open(outside, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert watch_state(spool, "bob") != ARMED


def test_two_watches_that_begin_at_once_have_files_of_their_own(spool):
    with watcher(spool), watcher(spool), Presence(spool, "bob"):
        assert len(watches(spool)) == 3


def test_a_watch_is_not_handed_to_a_started_program(spool, tmp_path):
    look = "import os; [print(os.path.realpath(f'/proc/self/fd/{number}')) for number in os.listdir('/proc/self/fd')]"
    with Presence(spool, "bob"), open(tmp_path / "handed on", "wb") as other:
        os.set_inheritable(other.fileno(), True)
        [name] = watches(spool)
        command = [sys.executable, "-I", "-c", look]
        shown = subprocess.run(command, capture_output=True, text=True, close_fds=False, check=True)
    assert "handed on" in shown.stdout
    assert name not in shown.stdout


# ------------------------------------------------------------------------------------------------ what a sender is told


def drop(spool: SpoolFiles, count: int) -> None:
    for number in range(count):
        Path(f"{spool.box('bob')}/new/01a22dc8-4ffb-7e11-9d3f-{number:012x}.json").touch()


def test_a_receipt_counts_what_waits_up_to_a_bound(spool):
    assert prospects(spool, "bob")["waiting"] == 0
    drop(spool, 2000)
    told = prospects(spool, "bob")
    assert told["waiting"] == 2000
    assert told["oldest_age"] >= 0
    drop(spool, 2001)
    told = prospects(spool, "bob")
    assert (told["waiting"], told["oldest_age"]) == ("2000+", None)


def test_a_receipt_names_who_may_have_been_meant_only_for_a_stranger(spool):
    make_mailbox(spool, "engineer")
    stranger = prospects(spool, "enginer")
    assert (stranger["known"], stranger["did_you_mean"], stranger["waiting"]) == (False, ["engineer"], 0)
    known = prospects(spool, "engineer")
    assert (known["known"], known["did_you_mean"]) == (True, [])


def test_a_receipt_tells_whether_anybody_listens(spool):
    assert prospects(spool, "bob")["watch_state"] == NEVER
    with Presence(spool, "bob"):
        assert prospects(spool, "bob")["watch_state"] == ARMED
    assert prospects(spool, "bob")["watch_state"] == RELEASED


def test_a_receipt_of_a_spool_that_is_not_there_yet_knows_nobody(tmp_path):
    told = prospects(SpoolFiles(tmp_path / "none"), "bob")
    assert (told["known"], told["watch_state"], told["waiting"], told["did_you_mean"]) == (False, NEVER, 0, [])
    assert not (tmp_path / "none").exists()
