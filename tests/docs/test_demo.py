"""`agent-mail demo`: what it says has happened, has; and nothing of it is left, however it ends."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest

import proc
from maildir_agents.faces.cli import demo

STEPS = 9
PATIENCE = 30.0


@pytest.fixture
def place(tmp_path):
    """A directory for temporary files that nothing else uses."""
    (tmp_path / "t").mkdir()
    return tmp_path / "t"


@pytest.fixture
def environment(place):
    return {**os.environ, "TMPDIR": str(place), "TERM": "dumb"}


def stopped(command: str, environment: dict[str, str], number: int) -> subprocess.Popen[bytes]:
    """A demo that gets a signal while a watch of its is armed."""
    process = subprocess.Popen([command, "demo"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while line := process.stdout.readline():
        if b"armed" in line:
            break
    process.send_signal(number)
    return process


def test_it_shows_the_file_move_from_new_to_cur_to_acked(command, place, environment):
    done = subprocess.run([command, "demo"], env=environment, capture_output=True, check=False)
    text = done.stdout.decode("ascii")
    assert (done.returncode, done.stderr) == (0, b""), text
    assert [int(n) for n in re.findall(r"^(\d+)\. ", text, re.M)] == list(range(1, STEPS + 1))
    task = re.search(r'"id": "([^"]{13})', text)[1]
    places = re.findall(rf"^    (\S+)/\n(?:      \S+/\n)?        {task}\[..\](\S*)\.json$", text, re.M)
    seen = list(dict.fromkeys(state for state, _ in places))
    assert seen == ["worker-docs/new", "worker-docs/cur", "worker-docs/acked"]
    assert [re.sub(r"\d{8}T\d{6}\.\d{3}Z", "", stamps) for _, stamps in places[:3]] == ["", "~r", "~r~a"]
    assert os.listdir(place) == []


def test_it_draws_nothing_that_a_dumb_terminal_could_not(command, environment):
    done = subprocess.run([command, "demo"], env=environment, capture_output=True, check=False)
    assert set(done.stdout) - set(range(32, 127)) == {ord("\n")}


def test_the_mail_of_whoever_runs_it_is_not_touched(command, place, environment):
    mine = {**environment, "AGENT_MAIL_SPOOL": str(place.parent / "mine"), "AGENT_ID": "me", "HOME": str(place.parent)}
    done = subprocess.run([command, "demo"], env=mine, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert os.listdir(place.parent) == ["t"]


def test_the_spool_can_be_kept(command, place, environment):
    done = subprocess.run([command, "demo", "--keep"], env=environment, capture_output=True, text=True, check=False)
    spool = re.search(r"^The spool was left at (\S+)$", done.stdout, re.M)[1]
    look = subprocess.run([command, "doctor", "--spool", spool], env=environment, capture_output=True, check=False)
    assert (done.returncode, look.returncode) == (0, 0), look.stdout
    shutil.rmtree(place)


def test_it_takes_no_spool_of_somebody_else(command, place, environment):
    asked = [command, "demo", "--spool", str(place / "s")]
    assert subprocess.run(asked, env=environment, capture_output=True, check=False).returncode == 64
    assert os.listdir(place) == []


def test_told_to_stop_it_leaves_nothing(command, place, environment):
    process = stopped(command, environment, signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and b"SIGTERM" in err
    assert os.listdir(place) == [] and proc.of_spool(place) == []


def test_killed_it_leaves_no_process(command, place, environment):
    process = stopped(command, environment, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while proc.of_spool(place):
        assert time.monotonic() < deadline, "a watch has outlived the demo"
        time.sleep(0.01)
    shutil.rmtree(place)


def unsettling(words):
    return [*words, "--no-ack"] if "--reply-to" in words else words


def misdirected(words):
    return ["else" if word == "worker-docs" else word for word in words]


FAULTS = {
    "a message that is not marked": ("read", lambda words: [*words, "--no-mark-read"], "files"),
    "a reply that settles nothing": ("send", unsettling, "about acknowledged"),
    "an acknowledgement that is none": ("ack", lambda words: ["release", *words[1:]], "status 64"),
    "a message to somebody else": ("send", misdirected, "does not know"),
    "a watch that returns at once": ("watch", lambda words: [*words, "--once"], "watch ended"),
    "an answer that is no JSON": ("thread", lambda words: ["--version"], "JSON"),
}


@pytest.mark.parametrize(("verb", "change", "sentence"), FAULTS.values(), ids=FAULTS.keys())
def test_what_does_not_happen_is_not_claimed(verb, change, sentence, place, monkeypatch, capfd):
    start = demo.Stage.start
    monkeypatch.setattr(
        demo.Stage, "start", lambda stage, *words: start(stage, *(change(list(words)) if words[0] == verb else words))
    )
    stage = demo.Stage(str(place))
    try:
        with pytest.raises(demo.NotShown, match=sentence):
            demo.play(stage)
    finally:
        stage.close()
    assert proc.of_spool(place) == []
