"""Hints, next steps and lost answers: what a command says next works where the command was run."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def run(command, tmp_path):
    """Run the command with a spool named on the command line, in a place whose name has to be quoted."""
    spool = tmp_path / "it's a spool"
    environ = {name: value for name, value in os.environ.items() if name != "AGENT_MAIL_SPOOL"}

    def run(*words, out=subprocess.PIPE, where=spool):
        asked = [command, *words, *(["--spool", str(where)] if where else [])]
        return subprocess.run(asked, env=environ, stdout=out, stderr=subprocess.PIPE, text=True, check=False)

    run.spool = spool
    return run


def test_next_names_the_spool_that_was_named(run):
    run("send", "--from", "a", "--to", "b", "--subject", "s")
    steps = json.loads(run("read", "b").stdout)["next"]
    assert [shlex.split(step)[1:3] for step in steps] == [["ack", "b"], ["watch", "b"]]
    assert {tuple(shlex.split(step)[-2:]) for step in steps} == {("--spool", str(run.spool))}
    again = shlex.split(steps[0])
    assert json.loads(run(*again[1:], where=None).stdout)["count"] == 1


def test_a_place_that_takes_no_directories_is_a_refusal(run):
    if not Path("/proc/self").exists():
        pytest.skip("needs /proc: a file system that takes no directories")
    for verb in (["init"], ["read", "b"], ["send", "--from", "a", "--to", "b", "--subject", "s"]):
        done = run(*verb, where="/proc/no-spool")
        told = json.loads(done.stderr)
        assert (done.returncode, told["code"], told["path"]) == (73, "cannot_write", "/proc/no-spool")


def test_an_answer_that_finds_no_room_is_no_full_spool(run):
    with open("/dev/full", "w") as full:
        done = run("status", out=full)
    assert (done.returncode, json.loads(done.stderr)["code"]) == (1, "output_lost")


def test_a_lost_receipt_names_what_was_done(run):
    run("send", "--from", "a", "--to", "b", "--subject", "s")
    with open("/dev/full", "w") as full:
        done = run("claim", "b", out=full)
    told = json.loads(done.stderr)
    assert (done.returncode, told["code"]) == (74, "receipt_lost")
    assert run("release", "b", told["handle"]).returncode == 0


def test_a_hint_names_the_verb_that_was_asked_for(run):
    told = json.loads(run("cleanup", "--older-than", "0").stderr)
    assert "VERB" not in told["hint"]
    assert told["hint"].startswith("agent-mail cleanup")


def test_options_before_the_verb_are_told_where_they_belong(command):
    done = subprocess.run([command, "--spool", "/x", "read", "b"], capture_output=True, text=True, check=False)
    assert done.returncode == 64
    assert "behind the verb" in json.loads(done.stderr)["hint"]
