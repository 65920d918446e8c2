"""The suite against a program of somebody else's: a right one passes, and one that is wrong in one way does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FAULTS = {
    "strips newlines": "writers_do",
    "forgets keys": "a_key_names",
    "gives no reason": "invalid_ones",
    "starts tokens again": "as_the_table_says",
    "drops unknown stamps": "as_the_table_says",
    "names no boot": "as_the_table_says",
}


def suite(place: Path, command: str, fault: str, only: str) -> "subprocess.CompletedProcess[str]":
    files = [str(HERE / name) for name in ("test_examples.py", "test_states.py", "test_sending.py")]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", f"third and ({only})",
         f"--basetemp={place / 'run'}", *files],
        cwd=HERE.parents[1],
        env={**os.environ, "AGENT_MAIL_IMPLEMENTATION": str(HERE / "third.py"), "AGENT_MAIL": command, "FAULT": fault,
             "AGENT_MAIL_SKIPS": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
    )  # fmt: skip


def test_a_right_one_passes(tmp_path, command):
    done = suite(tmp_path, command, "", "test and not what_one_sent and not doctor")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


@pytest.mark.parametrize("fault", FAULTS)
def test_one_that_is_wrong_does_not(tmp_path, command, fault):
    done = suite(tmp_path, command, fault, FAULTS[fault])
    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout
