"""The living view on a pseudo-terminal: as a person has it, while mail moves, and how it ends."""

import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path

import pytest

from faces.view.glass import FRAME_END, LIMIT, SGR, SIZES, Session
from faces.view.test_numbers import tree
from maildir_agents import Spool
from maildir_agents.faces.view.frame import Line
from maildir_agents.faces.view.terminal import Stopped, Terminal

CLEARS = re.compile(r"\x1b\[[0-3]?J|\x1bc")


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "spool", durability="none")


@pytest.fixture
def view(command, spool):
    opened = []

    def start(*words, width=100, height=30, command=command, **environ) -> Session:
        full = {"AGENT_MAIL_SPOOL": spool.root, **environ}
        opened.append(Session([command, "view", *words], full, width, height))
        return opened[-1]

    yield start
    for session in opened:
        session.__exit__()


def send(spool, subject="s", sender="hub", recipient="worker"):
    return spool.send(sender=sender, recipient=recipient, subject=subject)["id"]


def test_it_shows_what_is_there_and_what_comes_and_changes_nothing(spool, view):
    send(spool, "the first")
    before = tree(spool.root)
    screen = view("--interval", "600")
    assert screen.shows("the first")
    assert tree(spool.root) == before
    send(spool, "the second")
    assert screen.shows("the second"), "an arrival has to show long before the interval is over"
    send(spool, "to a new mailbox", recipient="newcomer")
    assert screen.shows("to a new mailbox")
    send(spool, "and one more", recipient="newcomer")
    assert screen.shows("and one more")
    screen.press("\t")
    assert screen.shows("Flow · last 24 h")
    screen.press("\t")
    assert screen.shows("Recent · last 24 h")
    screen.press("q")
    assert screen.ends() == 0
    assert screen.given_back()
    assert spool.status("worker")[0]["unread"] == 2


def test_reading_elsewhere_shows_within_the_interval(spool, view):
    send(spool)
    screen = view("--interval", "0.2")
    assert screen.shows("1 unheard")
    with spool.read("worker"):
        pass
    assert screen.shows("All calm")


def test_it_waits_for_a_spool_and_makes_none(spool, view):
    screen = view("--interval", "0.2")
    assert screen.shows("No spool yet")
    assert not Path(spool.root).exists()
    send(spool, "the first of all")
    assert screen.shows("the first of all")


def test_nothing_is_written_while_nothing_changes(spool, view):
    spool.send(sender="hub", recipient="worker", subject="s")
    spool.ack("worker", everything=True)
    screen = view("--interval", "0.1", "--panel", "flow")
    assert screen.shows("All calm")
    assert screen.until(lambda: screen.sent.endswith(FRAME_END)), "the first frame, to its end"
    told = screen.read(2.0)
    assert len(told) < 1000, "an age is two or three characters, and nothing else changes"


@pytest.mark.parametrize(("width", "height", "seconds"), [*((*size, 2) for size in SIZES), (100, 30, 60)])
def test_under_traffic_frames_are_few_small_and_whole(spool, view, width, height, seconds):
    """Whatever the terminal shows at the end of a frame is straight; the screen is never cleared."""
    for number in range(5):
        send(spool, "日本語 🚀 " * 9, recipient=f"worker-{number}")
    screen = view("--interval", "0.2", width=width, height=height)
    assert screen.shows("worker-4")
    stop = threading.Event()

    def traffic():
        for number in count():
            if stop.wait(0.01):
                return
            send(spool, f"number {number} 日本語 é \u202e", recipient=f"worker-{number % 5}")

    sender = threading.Thread(target=traffic)
    sender.start()
    try:
        began = time.monotonic()
        sent = ""
        while time.monotonic() < began + seconds or (sent.count(FRAME_END) < 2 and time.monotonic() < began + LIMIT):
            sent += screen.read(0.02)
            if sent.endswith(FRAME_END):
                assert screen.glass.crooked() == []
                assert len(screen.glass.rows) == height
    finally:
        took = time.monotonic() - began
        stop.set()
        sender.join()
    frames = sent.split(FRAME_END)[:-1]
    assert 2 <= len(frames) <= 12.5 * took
    assert max(map(len, frames)) < width * height + 60 * height
    assert not CLEARS.search(sent)
    screen.press("q")
    assert screen.ends() == 0


def test_a_frame_is_one_write_of_the_lines_that_changed(monkeypatch):
    master, slave = os.openpty()
    written = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: written.append(data) or real(fd, data))
    try:
        with Terminal(slave, None) as screen:
            written.clear()
            screen.paint([Line("one", "|"), Line("two", "|"), Line("three")], 9)
            screen.paint([Line("one", "|"), Line("2", "|"), Line("three")], 9)
            screen.paint([Line("one", "|"), Line("2", "|"), Line("three")], 9)
            assert len(written) == 2
            assert b"one" in written[0]
            assert b"one" not in written[1]
            assert b"\x1b[2;1H2\x1b[K\x1b[9G|" in written[1]
    finally:
        os.close(master)
        os.close(slave)


def test_a_window_of_another_size_is_filled(spool, view):
    send(spool, "resized")
    screen = view("--interval", "600")
    assert screen.shows("q quit")
    for width, height in [*SIZES, (20, 3), (1, 1), (70, 18)]:
        screen.resize(width, height)
        if width > 30:
            assert screen.until(lambda: screen.glass.rows[-1].startswith("╰") and not screen.glass.crooked())
    screen.press("q")
    assert screen.ends() == 0


@pytest.mark.parametrize("keys, status", [("q", 0), ("Q", 0), ("\x03", 130)])
def test_a_key_ends_it_and_the_terminal_is_as_before(spool, view, keys, status):
    screen = view()
    assert screen.shows("q quit")
    assert not screen.glass.cursor_shown
    screen.press(keys)
    assert screen.ends() == status
    assert screen.given_back()
    assert screen.glass.cursor_shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_the_terminal_is_as_before(spool, view, number):
    screen = view()
    assert screen.shows("q quit")
    screen.process.send_signal(number)
    assert screen.ends() == 128 + number
    assert screen.given_back()


def test_signals_in_a_row_do_not_keep_the_terminal(spool, view):
    for pause in (0.0, 0.001, 0.01, 0.05, 0.1):
        screen = view("--interval", "0.1")
        time.sleep(pause)
        screen.shows("─") if pause else None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            screen.process.send_signal(number)
        screen.ends()
        assert "\x1b[?1049h" not in screen.sent or screen.given_back()


def test_a_signal_while_the_bell_is_hung_up_ends_it_as_any_other(spool, view, tmp_path):
    """A machine that is busy lets a new thread wait before it says that it has begun."""
    command = tmp_path / "agent-mail"
    command.write_text(f"""#!{sys.executable}
import threading, time
begin = threading.Thread._bootstrap_inner
def late(thread):
    time.sleep(0.5)
    begin(thread)
threading.Thread._bootstrap_inner = late
from maildir_agents.faces.cli import main
main()
""")
    command.chmod(0o755)
    screen = view(command=str(command))
    assert screen.shows("q quit")
    screen.process.send_signal(signal.SIGTERM)
    assert screen.ends() == 128 + signal.SIGTERM
    assert screen.given_back()


def test_a_terminal_that_goes_away_ends_it(spool, view):
    screen = view()
    assert screen.shows("q quit")
    os.close(screen.slave)
    os.close(screen.master)
    screen.master = screen.slave = -1
    assert screen.process.wait(timeout=LIMIT) != 0


def test_suspended_it_gives_the_terminal_back_and_takes_it_again(spool, view):
    send(spool, "still there")
    screen = view()
    assert screen.shows("still there")
    screen.press("\x1a")
    assert screen.until(screen.suspended)
    assert screen.given_back()
    seen = len(screen.sent)
    screen.proceed()
    assert screen.until(lambda: "still there" in screen.sent[seen:])
    screen.press("q")
    assert screen.ends() == 0
    assert screen.given_back()


class Trouble(Exception):
    pass


@pytest.mark.parametrize("trouble", [Trouble, Stopped])
def test_whatever_goes_wrong_the_terminal_is_given_back(trouble):
    master, slave = os.openpty()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGWINCH)}
    try:
        with pytest.raises(trouble), Terminal(slave, slave):
            raise trouble(signal.SIGTERM)
        told = b""
        while not told.endswith(b"\x1b[?7h\x1b[?25h\x1b[?1049l"):
            assert select.select([master], [], [], LIMIT)[0], told
            told += os.read(master, 4096)
        assert {number: signal.getsignal(number) for number in before} == before
    finally:
        os.close(master)
        os.close(slave)


def test_no_color_leaves_the_colours_out(spool, view):
    send(spool)
    coloured, plain = view(), view(NO_COLOR="1")
    assert coloured.shows("1 unheard")
    assert plain.shows("1 unheard")
    assert SGR.search(coloured.sent)
    assert not SGR.search(plain.sent)


def test_a_dumb_terminal_gets_one_plain_frame(spool, view):
    send(spool, "plainly")
    screen = view(TERM="dumb")
    assert screen.ends() == 0
    assert "plainly" in screen.glass.text
    assert "\x1b" not in screen.sent


def test_without_a_terminal_it_is_one_plain_frame(spool, command):
    send(spool, "plainly")
    environ = {**os.environ, "AGENT_MAIL_SPOOL": spool.root, "TERM": "xterm", "COLUMNS": "70", "LINES": "20"}
    done = subprocess.run([command, "view"], env=environ, capture_output=True, text=True, check=True)
    assert "plainly" in done.stdout
    assert "\x1b" not in done.stdout
    assert {len(line) for line in done.stdout.splitlines()[1:]} == {70}


def test_a_frame_on_a_terminal_leaves_a_line_for_the_prompt(spool, view):
    for number in range(40):
        send(spool, recipient=f"worker-{number:02d}")
    screen = view("--once", width=90, height=20)
    assert screen.ends() == 0
    assert screen.glass.rows[0].startswith("▲")
    assert screen.glass.rows[18].startswith("╰")
    assert screen.glass.crooked() == []


def test_nobody_who_reads_is_no_trouble(spool, command):
    send(spool)
    reader, writer = os.pipe()
    os.close(reader)
    environ = {**os.environ, "AGENT_MAIL_SPOOL": spool.root}
    done = subprocess.run([command, "view"], env=environ, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
