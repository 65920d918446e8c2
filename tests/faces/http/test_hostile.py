"""What a request or a message may contain to hold the server up, to fill its memory, or to be shown as nothing."""

import fcntl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import proc
from faces.program import until
from maildir_agents.faces.http.desk import CHANGING

FORM = {"content-type": "application/x-www-form-urlencoded"}


def longest_wait_during(served, path: str) -> tuple[float, float]:
    """(seconds that an answer to `path` takes, seconds that others had to wait for theirs at most meanwhile)."""
    took: list[float] = []

    def ask() -> None:
        began = time.monotonic()
        assert served.ask("GET", path).status == 200
        took.append(time.monotonic() - began)

    thread = threading.Thread(target=ask)
    thread.start()
    longest = 0.0
    while thread.is_alive():
        began = time.monotonic()
        assert served.ask("GET", "/static/icon.svg").status == 200
        longest = max(longest, time.monotonic() - began)
    thread.join()
    return took[0], longest


def test_who_opens_a_thread_of_many_megabytes_holds_nobody_up(open_door):
    """Drawn on the loop it would be everybody's wait; one that is not short is needed to tell."""
    root = open_door.send("state-hub", body="a line\n" * 100_000)
    for _ in range(30):
        open_door.send("state-hub", thread_id=root, body="ä line\n" * 100_000)
    seen = []
    for _ in range(5):  # what is drawn on the loop is everybody's wait each time, a machine that is busy is not
        took, longest = longest_wait_during(open_door, f"/page/thread/{root}?mailbox=state-hub")
        if longest < max(0.5, took / 2):
            return
        seen.append((took, longest))
    raise AssertionError(f"seconds that it took, and that others waited meanwhile: {seen}")


@pytest.mark.parametrize(
    "order",
    ["{%s}" % ",".join(f'"m{i}":1' for i in range(300_000)), '{"refs":[%s]}' % ",".join(["1"] * 1_000_000)],
    ids=["members", "refs"],
)
def test_a_million_mistakes_are_one_refusal(shared, order):
    told = shared.ask("POST", "/messages/", order)
    assert (told.status, told.json["code"]) == (422, "bad_field")
    assert "more than 100" in told.json["error"]


def test_who_has_no_key_is_read_no_more_of_than_a_form(locked):
    for path in ("/sign-in", "/static/page.css", "/"):
        told = locked.ask("POST", path, "key=" + "x" * (17 << 10), FORM)
        assert (told.status, told.json["code"]) == (413, "too_large")
    head = f"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1:{locked.port}\r\nContent-Type: {FORM['content-type']}\r\n"
    chunked = head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    assert b" 413 " in locked.raw(chunked).split(b"\r\n")[0]
    assert locked.ask("POST", "/sign-in", f"key={locked.key()}", FORM).status == 303  # the control


def test_marking_what_is_not_there_makes_no_mailbox(shared):
    form = "id=01930000-0000-7000-8000-000000000000&mailbox=never-heard-of"
    told = shared.ask("POST", "/page/read", form, FORM | {"accept": "application/json"})
    assert (told.status, told.json["code"]) == (404, "unknown_id")
    assert not (shared.mail.spool / "agents/never-heard-of").exists()


@pytest.mark.parametrize("subject", ["   ", "\u3000\u00a0"])
def test_a_blank_subject_can_be_seen_and_clicked(shared, subject):
    shared.send("blank-hub", subject)
    assert "<bdi>(blank)</bdi></a>" in shared.ask("GET", "/?to=blank-hub").text


@contextmanager
def held_up(served, count: int) -> Iterator[list]:
    """So many sends that wait for a lock which another process holds; their answers, once they are there."""
    served.send("*")  # makes the lock
    path = str(served.mail.spool / "broadcast.lock")
    answers: list = []
    order = {"from_agent": "hub", "to_agent": "*", "subject": "s"}
    threads = [
        threading.Thread(target=lambda: answers.append(served.ask("POST", "/messages/", order))) for _ in range(count)
    ]
    with open(path, "rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for thread in threads:
            thread.start()
        until(lambda: proc.opened(served.process.pid, path) == min(count, CHANGING), "they wait for the lock")
        assert answers == []
        yield answers
    for thread in threads:
        thread.join()


def test_who_looks_is_answered_while_many_wait_for_a_lock(open_door):
    with held_up(open_door, 30) as answers:
        for path in ("/agents/", "/messages/", "/"):
            assert open_door.ask("GET", path).status == 200
        assert answers == []  # so nobody waited until they had given up, which takes them ten seconds
    assert [answer.status for answer in answers] == [201] * 30  # the lock was let go


def test_told_to_stop_while_a_send_waits_it_says_so_without_a_trace(open_door):
    with held_up(open_door, 2) as answers:
        assert open_door.stop() == 0
        until(lambda: len(answers) == 2, "both are answered")
        assert [(answer.status, answer.json["code"]) for answer in answers] == [(503, "busy")] * 2
    assert "Traceback" not in open_door.log.read_text()
