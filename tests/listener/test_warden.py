"""The warden of a worker's unit, started without systemd: what it does when the leash ends, at whatever moment."""

import os
import select
import subprocess
import sys

import pytest

import proc
from faces.program import until
from maildir_agents.faces.listener import leash
from maildir_agents.faces.listener.worker import NOT_STARTED


def warden(script: str, theirs) -> subprocess.Popen:
    letter = leash.letter(("/bin/sh", "-c", script), dict(os.environ), os.getcwd(), b"a message")
    reader, writer = os.pipe()
    os.write(writer, letter)
    os.close(writer)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "maildir_agents.faces.listener.warden"], stdin=reader,
            stdout=subprocess.DEVNULL, stderr=theirs.fileno(), start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(reader)
        theirs.close()


@pytest.mark.parametrize("heard", [True, False])
def test_the_worker_and_what_it_started_die_with_the_leash_also_when_news_were_never_heard(tmp_path, heard):
    """A socket that is closed with something unread in it answers with an error and not with its end."""
    ours, theirs = leash.pair()
    process = warden(f"sleep 60 & echo $! > {tmp_path}/child; mv {tmp_path}/child {tmp_path}/there; wait", theirs)
    until((tmp_path / "there").exists, "the worker has begun")
    child = (tmp_path / "there").read_text().strip()
    assert select.select([ours], [], [], 20)[0], "that it has begun is told, a moment after it has"
    if heard:
        assert leash.hear(ours.recv(leash.LONGEST))[0].keys() == {"started"}
    ours.close()
    assert process.wait(20) == 128 + 9, "it ends in order, with what its worker ended with"
    until(lambda: not proc.runs(child), "what the worker started is gone")


def test_nothing_is_started_for_a_listener_that_has_died_before(tmp_path):
    ours, theirs = leash.pair()
    ours.close()
    process = warden(f"touch {tmp_path}/begun", theirs)
    assert process.wait(20) == NOT_STARTED
    assert not list(tmp_path.iterdir())


def test_a_worker_s_end_is_told_and_signals_are_passed_on(tmp_path):
    ours, theirs = leash.pair()
    process = warden(f"trap 'exit 7' TERM; touch {tmp_path}/begun; while :; do sleep 0.05; done", theirs)
    until((tmp_path / "begun").exists, "the worker has begun")
    ours.send(bytes([15]))
    assert process.wait(20) == 7
    news = {}
    while data := ours.recv(leash.LONGEST):
        news |= leash.hear(data)[0]
    ours.close()
    assert news.keys() == {"started", "ended"} and news["ended"] == 7
