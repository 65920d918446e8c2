"""The end of a turn is held up three times in a row and then let go, session by session, whatever was killed."""

import json
import os
import time

import pytest

from maildir_agents import Spool

BLOCK, LET_GO = True, False


@pytest.fixture
def stops(hook, mail):
    """`stops(4, active=…, session=…)`: whether each of so many ends of a turn was held up."""

    def run(count, *, session="s1", active=None, agent="worker-x"):
        told = {"session_id": session} | ({} if active is None else {"stop_hook_active": active})
        answers = [hook("stop", told, agent=agent) for _ in range(count)]
        return [answer is not None and answer.get("decision") == "block" for answer in answers]

    return run


def test_three_times_and_then_it_lets_go(stops, mail):
    mail.send("peer", "worker-x")
    assert stops(1, active=False) + stops(4, active=True) == [BLOCK, BLOCK, BLOCK, LET_GO, LET_GO]


@pytest.mark.parametrize("active", [None, False])
def test_it_counts_by_itself_where_the_harness_forgets_to_say_that_it_goes_on(stops, mail, active):
    mail.send("peer", "worker-x")
    assert stops(8, active=active) == [BLOCK, BLOCK, BLOCK, LET_GO] * 2


def test_another_turn_is_another_row(stops, mail):
    mail.send("peer", "worker-x")
    row = [BLOCK, BLOCK, BLOCK, LET_GO]
    assert stops(1, active=False) + stops(3, active=True) == row
    assert stops(1, active=False) + stops(3, active=True) == row


def test_a_turn_that_another_hook_held_up_counts(stops, mail):
    mail.send("peer", "worker-x")
    assert stops(4, active=True) == [BLOCK, BLOCK, LET_GO, LET_GO]


def test_mail_that_is_settled_ends_the_row(stops, mail):
    mail.send("peer", "worker-x")
    assert stops(2, active=True) == [BLOCK, BLOCK]
    mail("ack", "worker-x", "--all")
    assert stops(1, active=True) == [LET_GO]
    mail.send("peer", "worker-x")
    assert stops(4) == [BLOCK, BLOCK, BLOCK, LET_GO]


def test_mail_that_was_read_is_owed_until_it_is_acknowledged(stops, mail):
    mail.send("peer", "worker-x")
    mail("read", "worker-x")
    assert stops(4) == [BLOCK, BLOCK, BLOCK, LET_GO]


def test_sessions_agents_and_spools_are_counted_apart(stops, hook, mail, tmp_path):
    mail.send("peer", "worker-x")
    mail.send("peer", "worker-y")
    other = {**mail.environ, "AGENT_MAIL_SPOOL": str(tmp_path / "other")}
    Spool(tmp_path / "other", durability="none").send(sender="a", recipient="worker-x", subject="s")
    assert stops(4, session="one") == [BLOCK, BLOCK, BLOCK, LET_GO]
    assert stops(1, session="two") == [BLOCK]
    assert stops(1, session="one", agent="worker-y") == [BLOCK]
    assert hook("stop", {"session_id": "one"}, env=other)["decision"] == "block"


def test_cursor_counts_its_follow_ups_and_an_end_by_hand_is_not_argued_with(hook, mail):
    mail.send("peer", "worker-x")

    def stop(**told):
        return hook("stop", {"conversation_id": "c", **told}, dialect="cursor")

    assert stop(status="aborted", loop_count=0) is None
    assert stop(status="error", loop_count=0) is None
    assert [stop(status="completed", loop_count=n) is not None for n in range(5)] == [True, True, True, False, False]
    assert stop(status="completed", loop_count=0) is not None


def test_a_damaged_counter_is_begun_anew(stops, mail):
    mail.send("peer", "worker-x")
    assert stops(2) == [BLOCK, BLOCK]
    [state] = (mail.place / "cache/agent-mail/sessions").glob("*.json")
    for content in (b"{", b"[]", b'{"blocks": "three"}', b"\xff", b""):
        state.write_bytes(content)
        assert stops(1) == [BLOCK], content
    assert json.loads(state.read_bytes()) == {"blocks": 1}


def test_what_a_killed_hook_left_is_swept_by_age_and_a_held_lock_is_not(stops, hook, mail):
    from maildir_agents.faces.hooks.session import Session

    mail.send("peer", "worker-x")
    assert stops(1, session="old") == [BLOCK]
    sessions = mail.place / "cache/agent-mail/sessions"
    held = Session(str(mail.spool), "worker-x", "long", {"XDG_CACHE_HOME": str(mail.place / "cache")})
    lock = held.hold()
    try:
        (sessions / "worker-x~1.7.tmp").write_text("{")
        month = time.time() - 30 * 86400
        old = list(sessions.iterdir())
        assert len(old) == 4
        for path in old:
            os.utime(path, (month, month))
        (sessions / "worker-x~2.7.tmp").write_text("young")
        assert stops(1, session="new") == [BLOCK]
        left = {path.suffix for path in sessions.iterdir() if path in old}
        assert left == {".lock"}
        assert (sessions / "worker-x~2.7.tmp").exists()
    finally:
        os.close(lock)
    assert sessions.stat().st_mode & 0o777 == 0o700
