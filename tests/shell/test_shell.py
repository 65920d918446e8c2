"""The shell tests, each under each shell, a pytest test each; see `tap.sh` for how they are written."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from maildir_agents.errors import CODES

HERE = Path(__file__).parent
SHELLS = {"dash": "dash", "busybox": "busybox sh", "bash": "bash --posix"}
TESTS = sorted(path.name for path in HERE.glob("*.t"))


def failures(told: str) -> list[str]:
    """What a TAP stream reports as failed, a missing plan and a wrong count too."""
    lines = told.splitlines()
    results = [line for line in lines if line.startswith(("ok ", "not ok "))]
    plans = [line for line in lines if line.startswith("1..")]
    wrong = [line for line in lines if line.startswith("not ok ")]
    if plans != [f"1..{len(results)}"] or not results:
        wrong.append(f"the plan is {plans}, the results are {len(results)}")
    return wrong


@pytest.mark.timeout(600)
@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("shell", SHELLS)
def test_in_tap(shell, test, needs):
    needs(shell, "the shell tools run under it")
    done = subprocess.run(
        ["sh", test],
        cwd=HERE,
        env={**os.environ, "UNDER": SHELLS[shell]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        errors="replace",
        timeout=500,
    )
    assert not failures(done.stdout), done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("told", ["", "ok 1 - a\n", "ok 1 - a\nnot ok 2 - b\n1..2\n", "ok 1 - a\n1..2\n", "1..0\n"])
def test_a_stream_that_failed_would_be_seen(told):
    assert failures(told)


def test_every_tool_is_a_program_with_a_name_for_its_job(repository):
    tools = sorted((repository / "tools").glob("spool-*"))
    jobs = ("ack check claim count init ls", "read release renew send show trace wait")
    assert [tool.name for tool in tools] == [f"spool-{job}" for line in jobs for job in line.split()]
    assert all(os.access(tool, os.X_OK) for tool in tools)
    assert all(tool.read_text(encoding="utf-8").startswith("#!/bin/sh\n# usage: ") for tool in tools)


def test_every_refusal_has_the_exit_status_that_the_command_gives_it(repository):
    said = set()
    for path in [*(repository / "tools").glob("spool-*"), *(repository / "tools/lib").glob("*.sh")]:
        said |= set(re.findall(r"\b(?:die|pass|must_flush) (\d+) ([a-z_]+)\b", path.read_text(encoding="utf-8")))
    assert len(said) > 20
    assert {(int(status), code) for status, code in said} <= {(status, code) for code, (status, _) in CODES.items()}
