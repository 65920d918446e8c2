"""The numbers behind the view, from a spool: they agree with status, follow every change, and cost only a look."""

import hashlib
import os
from pathlib import Path

import pytest

from maildir_agents.mail.presence import Presence
from maildir_agents.testing import temporary_spool
from maildir_agents.verbs.overview import CELLS, NEWEST, READ, UNREAD, Fleet


@pytest.fixture
def spool():
    with temporary_spool() as spool:
        yield spool


@pytest.fixture
def fleet(spool):
    return Fleet(spool)


def one(overview, name):
    return next(agent for agent in overview.agents if agent.name == name)


def send(spool, sender, recipient, subject="s", **more):
    return spool.send(sender=sender, recipient=recipient, subject=subject, **more)["id"]


def taken_in(spool, agent, **how):
    with spool.read(agent, **how) as batch:
        return [message["id"] for message in batch.messages]


def tree(root) -> dict[str, tuple[object, ...]]:
    """Everything there is to see of each file and directory."""
    seen: dict[str, tuple[object, ...]] = {}
    for path in [Path(root), *Path(root).rglob("*")]:
        info = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        seen[str(path)] = (info.st_ino, info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, content)
    return seen


def characters_read() -> int:
    with open("/proc/self/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


def test_the_counts_are_those_of_status_after_every_step(spool, fleet):
    def agree():
        told = {row["agent"]: row for row in spool.status()}
        seen = {agent.name: agent for agent in fleet.look().agents}
        assert seen.keys() == told.keys()
        for name, row in told.items():
            agent = seen[name]
            assert [agent.unread, agent.unacked, agent.claimed, agent.failed, agent.watch_state] == [
                row[key] for key in ("unread", "unacked", "claimed", "failed", "watch_state")
            ]

    agree()
    ids = [send(spool, "hub", "worker", f"message {n}") for n in range(4)]
    agree()
    taken_in(spool, "worker", limit=2)
    agree()
    spool.ack("worker", ids[:1])
    agree()
    spool.claim("worker", ids[3], lease_s=30)
    agree()
    send(spool, "worker", "*", "to all")
    agree()
    spool.clock.advance(40)  # the claim's time is over
    agree()
    spool.ack("worker", everything=True)
    agree()


def test_a_watch_is_seen_and_its_end_too(spool, fleet):
    send(spool, "hub", "worker")
    assert one(fleet.look(), "worker").unheard
    with Presence(spool, "worker"):
        seen = one(fleet.look(), "worker")
        assert (seen.armed, seen.unheard) == (True, False)
    assert one(fleet.look(), "worker").watch_state == "released"


def test_an_edge_counts_what_its_recipient_has_not_acknowledged(spool, fleet):
    ids = [send(spool, "hub", "worker") for _ in range(5)]
    send(spool, "worker", "hub")
    taken_in(spool, "worker")
    spool.ack("worker", ids[:2])
    assert [edge[:4] for edge in fleet.look().edges] == [("hub", "worker", 5, 3), ("worker", "hub", 1, 1)]
    spool.ack("worker", everything=True)
    assert [edge[:4] for edge in fleet.look().edges] == [("worker", "hub", 1, 1), ("hub", "worker", 5, 0)]


def test_a_broadcast_is_one_edge_and_counts_for_everybody(spool, fleet):
    for agent in ("one", "two", "three"):
        taken_in(spool, agent)
    taken_in(spool, "hub")
    to_all = send(spool, "hub", "*")
    seen = fleet.look()
    assert [edge[:4] for edge in seen.edges] == [("hub", "*", 1, 3)]
    assert seen.standing[to_all] == UNREAD
    assert [sum(agent.pulse) for agent in seen.agents] == [1, 1, 1, 1]
    spool.ack("one", everything=True)
    assert fleet.look().edges[0].unacked == 2


def test_letters_come_newest_first_with_how_they_stand(spool, fleet):
    first, second, third = (send(spool, "hub", "worker", f"number {n}") for n in range(3))
    taken_in(spool, "worker", limit=2)
    spool.ack("worker", [first])
    seen = fleet.look()
    assert [letter.subject for letter in seen.letters] == ["number 2", "number 1", "number 0"]
    assert seen.standing == {third: UNREAD, second: READ}


def test_a_first_look_knows_the_whole_day(spool):
    """Times come from ids and histories, not from having been there."""
    send(spool, "hub", "worker")
    spool.note("worker", "watching")
    spool.clock.advance(5 * 3600)
    send(spool, "hub", "worker")
    pulse = one(Fleet(spool).look(), "worker").pulse
    assert len(pulse) == CELLS
    assert (pulse[-1], sum(pulse[-12:-9]), sum(pulse)) == (1, 2, 3)


def test_activity_decays_by_half_in_half_an_hour(spool, fleet):
    send(spool, "hub", "worker")
    before = one(fleet.look(), "worker").score
    spool.clock.advance(1800)
    assert one(fleet.look(), "worker").score == pytest.approx(before / 2, rel=0.01)


def test_busy_and_recent_stands_before_the_very_last(spool, fleet):
    for _ in range(6):
        send(spool, "hub", "busy")
    send(spool, "hub", "single")
    spool.clock.advance(60)
    assert [agent.name for agent in fleet.look().agents] == ["hub", "busy", "single"]


def test_arming_a_watch_is_activity(spool, fleet):
    taken_in(spool, "a")
    taken_in(spool, "b")
    spool.note("b", "watching")
    assert [agent.name for agent in fleet.look().agents] == ["b", "a"]


def test_what_is_older_than_a_day_is_no_news_but_still_owed(spool, fleet):
    send(spool, "hub", "worker")
    spool.clock.advance(25 * 3600)
    seen = fleet.look()
    assert (seen.letters, seen.edges, seen.agents[0].score) == ([], [], 0)
    assert one(seen, "worker").unread == 1
    assert seen.now_ms - one(seen, "worker").oldest_ms >= 25 * 3_600_000


def test_beyond_the_newest_ten_thousand_it_says_so(spool, monkeypatch):
    monkeypatch.setattr("maildir_agents.verbs.overview.NEWEST", 3)
    sent = [send(spool, "hub", "worker") for _ in range(5)]
    seen = Fleet(spool).look()
    assert [letter.id for letter in seen.letters] == sent[:1:-1]
    assert seen.capped
    assert NEWEST == 10_000


def test_histories_are_followed_torn_lines_and_trimming_included(spool, fleet):
    taken_in(spool, "worker")
    history = Path(spool.box("worker"), "history.jsonl")
    spool.note("worker", "watching")
    line = history.read_bytes()
    assert sum(one(fleet.look(), "worker").pulse) == 1
    spool.clock.advance(1)
    spool.note("worker", "watching")
    whole = history.read_bytes()
    history.write_bytes(whole[:-20])
    assert sum(one(fleet.look(), "worker").pulse) == 1
    history.write_bytes(whole + b"\xff no json watching\n")
    assert sum(one(fleet.look(), "worker").pulse) == 2
    history.write_bytes(line)
    assert sum(one(fleet.look(), "worker").pulse) == 2


def test_foreign_things_are_passed_over(spool, fleet):
    send(spool, "hub", "worker")
    Path(spool.agents, "Not An Agent").mkdir()
    Path(spool.agents, "file").write_text("")
    Path(spool.root, "messages", "notes.txt").write_text("")
    day = next(path for path in Path(spool.root, "messages").iterdir() if path.is_dir())
    (day / "readme.json").write_text("{}")
    (day / "01a22e56-bfc6-771f-9ffb-1b1aa4df0960.json").write_text("not a message")
    seen = fleet.look()
    assert sorted(agent.name for agent in seen.agents) == ["hub", "worker"]
    assert [letter.subject for letter in seen.letters] == ["s"]


def test_looking_changes_nothing(spool, fleet):
    send(spool, "hub", "worker")
    send(spool, "hub", "*")
    taken_in(spool, "worker", limit=1)
    spool.claim("worker", lease_s=30)
    spool.clock.advance(40)
    with Presence(spool, "worker"):
        before = tree(spool.root)
        fleet.look()
        fleet.look()
        assert tree(spool.root) == before


def test_no_spool_is_made(tmp_path):
    from maildir_agents import Spool

    seen = Fleet(Spool(tmp_path / "none")).look()
    assert (seen.exists, seen.agents) == (False, [])
    assert list(tmp_path.iterdir()) == []


def test_bodies_are_not_read_and_envelopes_once(spool, fleet):
    for _ in range(10):
        send(spool, "hub", "worker", body="x" * (1 << 20))
    before = characters_read()
    fleet.look()
    first = characters_read()
    fleet.look()
    assert first - before < 10 * 9000 + 200_000
    assert characters_read() - first < 50_000


def test_a_quiet_mailbox_is_not_listed_again(spool, fleet, monkeypatch):
    send(spool, "hub", "worker")
    box = spool.box("worker")
    for directory in ("new", "cur", "claimed", "failed"):
        for agent in ("hub", "worker"):
            os.utime(f"{spool.box(agent)}/{directory}", (1, 1))
    fleet.look()
    listed = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or real(path))
    assert one(fleet.look(), "worker").unread == 1
    assert listed == []
    send(spool, "hub", "worker")
    assert one(fleet.look(), "worker").unread == 2
    assert f"{box}/new" in listed
