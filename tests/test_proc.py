"""What runs is looked at through `proc` alone, for which what ends meanwhile is no error."""

import os
import subprocess
import sys

import pytest

import proc
from faces.program import until

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self"), reason="needs Linux: /proc shows what runs")

LOOKS = [proc.descriptors, proc.inotify_instances, proc.children, proc.threads, proc.state, proc.runs, proc.asleep,
         proc.words, proc.waits_in, proc.switches, proc.kill]  # fmt: skip
LOOK = "(f" + '"/proc/'  # so that it is not found here
OPENS_AND_CLOSES = """
import os
print(flush=True)
while True:
    taken = [os.open("/", os.O_PATH) for _ in range(50)]
    for fd in taken:
        os.close(fd)
"""


@pytest.mark.parametrize("look", LOOKS)
def test_a_process_that_has_ended_has_nothing(look):
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert not look(ended.pid)


def test_one_that_has_ended_and_is_not_waited_for_does_not_run():
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as zombie:
        zombie.stdout.read()
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        assert proc.state(zombie.pid) == "Z" and not proc.runs(zombie.pid)
        assert zombie.pid in proc.children()


def test_descriptors_may_close_while_they_are_looked_at():
    with subprocess.Popen([sys.executable, "-c", OPENS_AND_CLOSES], stdout=subprocess.PIPE) as busy:
        busy.stdout.readline()
        looks = set()
        until(lambda: looks.add(len(proc.descriptors(busy.pid))) or len(looks) > 10, "it is seen to open and close")
        busy.kill()
    assert min(looks) >= 3


def test_a_program_in_the_middle_of_an_exec_has_its_words_and_its_spool(tmp_path):
    again = ["sh", "-c", 'exec sh -c "$0" "$0"', 'exec sh -c "$0" "$0"']
    with subprocess.Popen(again, env={**os.environ, "AGENT_MAIL_SPOOL": str(tmp_path)}) as busy:
        until(lambda: "sh" in proc.words(busy.pid), "it has left the program it was forked from")
        looks = [("sh" in proc.words(busy.pid), proc.of_spool(tmp_path)) for _ in range(1000)]
        busy.kill()
    assert looks == [(True, [busy.pid])] * 1000


def test_no_other_test_looks_into_proc_by_itself(repository):
    """But for what a process reads of itself, and what it makes another program print."""
    files = (repository / "tests").rglob("*.py")
    assert [file.name for file in files if LOOK in file.read_text("utf-8")] == ["proc.py"]
