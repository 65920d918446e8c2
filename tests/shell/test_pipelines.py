"""The pipelines of tools/README.md, as they stand there, one after another on one spool."""

import os
import re
import subprocess

import pytest

from maildir_agents import Spool

FENCE = re.compile(r"^```sh\n(.*?)^```\n\n^```text\n(.*?)^```$", re.M | re.S)
FIRST = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)


@pytest.fixture
def page(repository) -> str:
    return (repository / "tools/README.md").read_text(encoding="utf-8")


def run(script: str, shell: list[str], place, tools) -> str:
    done = subprocess.run(
        [*shell, "-euc", script],
        cwd=place,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "AGENT_MAIL_SPOOL": str(place / "spool")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, script + done.stdout + done.stderr
    assert done.stderr == "", script + done.stderr
    return done.stdout


@pytest.mark.needs("jq", "a pipeline of tools/README.md")
@pytest.mark.needs("flock", "making mailboxes")
@pytest.mark.parametrize("shell", ["dash", "busybox", "bash"])
def test_every_pipeline_prints_what_the_page_says(tmp_path, repository, page, needs, shell):
    needs(shell, "the shell tools run under it")
    words = {"busybox": ["busybox", "sh"], "bash": ["bash", "--posix"]}.get(shell, [shell])
    spool = Spool(tmp_path / "spool", durability="none")
    spool.send(sender="hub", recipient="build", subject="Run the tests", body="All of them.")
    spool.send(sender="nightly", recipient="build", subject="Noise", body="3 of 410\n")
    spool.send(sender="hub", recipient="build", subject="And then", body="And the lint.")
    pipelines = FENCE.findall(page.split("## Pipelines", 1)[1])
    assert len(pipelines) == 6
    for script, printed in pipelines:
        told = run(script, words, tmp_path, repository / "tools")
        assert [line.split() for line in told.splitlines()] == [line.split() for line in printed.splitlines()], script
    assert spool.doctor()["findings"] == []


@pytest.mark.needs("flock", "making a spool")
def test_the_first_steps_of_the_page_work(tmp_path, repository, page):
    script = FIRST.search(page)[1].replace("$PWD/tools", str(repository / "tools")).replace("$HOME", str(tmp_path))
    told = run(script, ["sh"], tmp_path, repository / "tools")
    assert "Subject: Run the tests\n\nAll of them.\n" in told
    assert Spool(tmp_path / "mail").doctor()["findings"] == []


def test_the_page_names_every_tool_and_no_other(repository, page):
    tools = {path.name for path in (repository / "tools").glob("spool-*")}
    assert set(re.findall(r"^\| `(spool-\w+)`", page, re.M)) == tools
