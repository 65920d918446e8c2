"""Being the only one: one at a time, named to whoever comes second, over with its holder's life."""

import calendar
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import pytest

import proc
from maildir_agents.disk.sole import UNKNOWN, Sole, holder
from maildir_agents.errors import MailError

HOLD = """
import sys
from maildir_agents.disk.sole import Sole
with Sole(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "listener.lock")


@contextmanager
def another_process(path: str, script: str = HOLD) -> Iterator["subprocess.Popen[str]"]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script, path], stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def busy(path: str) -> MailError:
    with pytest.raises(MailError) as refused, Sole(path):
        pass
    return refused.value


def test_the_second_is_refused_with_the_name_of_the_first(path: str) -> None:
    with another_process(path) as first:
        refused = busy(path)
        assert (refused.code, refused.detail["holder"]) == ("busy", first.pid)
        assert str(first.pid) in refused.sentence
        assert holder(path) == first.pid


def test_the_refusal_comes_at_once(path: str) -> None:
    with Sole(path):
        busy(path)  # imports
        before = time.monotonic()
        busy(path)
        assert time.monotonic() - before < 4  # portalocker's own patience is five seconds


def test_within_one_process_there_is_one_too(path: str) -> None:
    with Sole(path):
        assert busy(path).detail["holder"] == os.getpid()
    with Sole(path):
        assert holder(path) == os.getpid()


def test_a_killed_holder_holds_nothing(path: str) -> None:
    with another_process(path) as first:
        first.kill()
        first.wait()
        assert str(first.pid) in Path(path).read_text()  # the label stays, and nobody believes it
        assert holder(path) is None
        with Sole(path):
            assert holder(path) == os.getpid()


def test_nobody_holds_what_was_never_there_and_asking_does_not_make_it(path: str) -> None:
    assert holder(path) is None
    assert not os.path.exists(path)


def test_the_file_stays_private_and_says_who_and_since_when(path: str) -> None:
    with Sole(path):
        first = os.stat(path)
        label = json.loads(Path(path).read_text())
        assert label["pid"] == os.getpid()
        assert abs(time.time() - calendar.timegm(time.strptime(label["started"], "%Y-%m-%dT%H:%M:%SZ"))) < 60
    with Sole(path):
        assert os.stat(path).st_ino == first.st_ino
    assert first.st_mode & 0o777 == 0o600
    assert holder(path) is None
    assert Path(path).read_bytes() == b""


def test_whoever_is_refused_leaves_the_label_alone(path: str) -> None:
    with another_process(path):
        label = Path(path).read_bytes()
        busy(path)
        assert Path(path).read_bytes() == label != b""


def test_asking_disturbs_neither_the_holder_nor_one_who_starts(path: str) -> None:
    ask = """
import sys
from maildir_agents.disk.sole import holder
print("held", flush=True)
while True:
    holder(sys.argv[1])
"""
    with another_process(path, ask):
        for _ in range(200):
            with Sole(path):
                assert holder(path) == os.getpid()
                assert holder(path) == os.getpid()
        with Sole(path):
            busy(path)


def test_who_asks_for_long_is_not_taken_for_a_holder(path: str) -> None:
    """On a busy machine there may be a while between the two calls by which it asks."""
    with open(path, "w+b") as asking, ThreadPoolExecutor() as pool:
        fcntl.flock(asking, fcntl.LOCK_SH)
        became = pool.submit(lambda: Sole(path).__enter__())
        assert wait([became], 0.5).not_done == {became}  # ten times as long as a holder is waited for
        fcntl.flock(asking, fcntl.LOCK_UN)
        sole = became.result(60)
        assert holder(path) == os.getpid()
        sole.__exit__()


def test_another_descriptor_closed_in_the_same_process_frees_nothing(path: str) -> None:
    with Sole(path):
        os.close(os.open(path, os.O_RDWR))  # this frees an fcntl lock (lockf)
        with subprocess.Popen([sys.executable, "-c", HOLD, path], stderr=subprocess.PIPE, text=True) as second:
            _, complaint = second.communicate()
        assert f"held by process {os.getpid()}" in complaint


def test_the_descriptor_does_not_pass_to_other_programs(path: str) -> None:
    with Sole(path) as sole:
        assert not os.get_inheritable(sole._fd)


def test_a_child_that_has_the_descriptor_all_the_same_keeps_nobody_out(path: str) -> None:
    with Sole(path) as sole:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[sole._fd])
    with child, Sole(path):
        assert holder(path) == os.getpid()
        child.communicate(b"\n")


def test_a_forked_child_that_leaves_the_block_frees_nothing(path: str) -> None:
    script = """
import os, sys
from maildir_agents.disk.sole import Sole, holder
with Sole(sys.argv[1]):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        assert holder(sys.argv[1]) == os.getpid()
        print("still")
"""
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert done.stdout == "still\n"


def test_a_full_disk_takes_the_label_but_not_the_lock(path: str) -> None:
    script = """
import resource, signal, sys
from maildir_agents.disk.sole import Sole
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
with Sole(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""
    with another_process(path, script):
        assert holder(path) == UNKNOWN
        refused = busy(path)
        assert (refused.code, refused.detail["holder"]) == ("busy", None)


def test_what_cannot_be_opened_is_refused_by_name(path: str, tmp_path: Path) -> None:
    os.symlink(tmp_path / "elsewhere", path)
    for refused in (lambda: Sole(path).__enter__(), lambda: holder(path)):
        with pytest.raises(MailError, match=r"listener\.lock"):
            refused()
    assert not (tmp_path / "elsewhere").exists()


def test_a_refused_start_leaves_no_descriptor_open(path: str) -> None:
    with Sole(path):
        busy(path)
        before = proc.descriptors()
        busy(path)
        assert proc.descriptors() == before


def test_asking_who_it_is_does_not_load_portalocker(path: str) -> None:
    script = """
import sys
from maildir_agents.disk.sole import holder
assert holder(sys.argv[1])
print("portalocker" in sys.modules)
"""
    with Sole(path):
        done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
