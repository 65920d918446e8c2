"""One agent's names: an id in several places is where it is furthest, and what is no message is nowhere."""

import itertools
import os
from pathlib import Path

import pytest

from maildir_agents.disk.clock import Clock
from maildir_agents.mail.lifecycle import STATES
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import day_of, minute_of, parse, stamp
from maildir_agents.mail.spool import SpoolFiles

ID = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"
OTHER = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f03"
CLOCK = Clock()
TIME = "20261130T184712.123Z"
OVER = f"~n1~x{stamp(CLOCK.wall_ms() - 60_000)}~b{CLOCK.boot()}-{max(0, CLOCK.boot_ms() - 60_000)}~wme"
STAMPS = {"new": "", "cur": f"~r{TIME}", "claimed": OVER, "acked": f"~r{TIME}~a{TIME}",
          "archive": f"~r{TIME}~a{TIME}~z{TIME}", "failed": "~n1"}  # fmt: skip


def live() -> str:
    """The stamps of a claim that holds for ten minutes."""
    end = 600_000
    return f"~n1~x{stamp(CLOCK.wall_ms() + end)}~b{CLOCK.boot()}-{CLOCK.boot_ms() + end}~wme"


@pytest.fixture
def box(tmp_path) -> Mailbox:
    made = Mailbox(SpoolFiles(tmp_path), "bob")
    for directory in STATES:
        os.makedirs(f"{made.path}/{directory}")
    return made


def put(box: Mailbox, directory: str, stamps: str, message_id: str = ID) -> str:
    where = Path(box.path, directory)
    if directory in ("acked", "archive"):
        where = where / day_of(message_id) / minute_of(message_id)
    where.mkdir(parents=True, exist_ok=True)
    path = where / f"{message_id}{stamps}.json"
    path.touch()
    return str(path)


@pytest.mark.parametrize(("near", "far"), list(itertools.combinations(STATES, 2)))
def test_an_id_in_two_states_is_in_the_further_one(box, near, far):
    put(box, far, STAMPS[far])
    put(box, near, STAMPS[near])
    found = box.find(ID)
    assert (found.directory, found.name.text) == (far, f"{ID}{STAMPS[far]}.json")


@pytest.mark.parametrize("other", [state for state in STATES if state != "claimed"])
def test_a_live_claim_hides_every_other_state(box, other):
    put(box, other, STAMPS[other])
    put(box, "claimed", live())
    assert box.find(ID).directory == "claimed"


@pytest.mark.parametrize("directory", STATES)
def test_an_id_in_one_state_is_found_there_with_its_exact_name(box, directory):
    path = put(box, directory, STAMPS[directory])
    put(box, directory, STAMPS[directory], OTHER)
    found = box.find(ID)
    assert box.where(found) == path
    assert os.path.exists(path)


def test_an_id_that_is_nowhere_is_not_found(box):
    put(box, "new", "", OTHER)
    assert box.find(ID) is None
    assert Mailbox(box.spool, "nobody").find(ID) is None


def test_many_ids_are_found_in_one_search(box):
    put(box, "new", "")
    put(box, "cur", STAMPS["cur"], OTHER)
    missing = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f04"
    found = box.find_all([ID, OTHER, missing])
    assert {message_id: place.directory for message_id, place in found.items()} == {ID: "new", OTHER: "cur"}


def test_a_listing_is_in_the_order_of_the_ids_and_holds_messages_only(box):
    ids = [f"01a22dc8-4ffb-7e11-9d3f-{number:012x}" for number in (5, 1, 9, 3)]
    for message_id in ids:
        put(box, "new", "", message_id)
    for name in ("notes.txt", f".{ID}.json", f"{ID}.json~", f"{ID}.txt", ID.upper() + ".json", f"{ID}~n.json",
                 f"{ID}~p{'x' * 150}.json", f"{ID}.reason.json", "x" * 255):  # fmt: skip
        Path(box.path, "new", name).touch()
    Path(os.fsdecode(os.fsencode(f"{box.path}/new/") + b"\xff\xfe.json")).touch()
    assert [found.id for found in box.listed("new")] == sorted(ids)
    assert [found.name.text for found in box.listed("new")] == [f"{i}.json" for i in sorted(ids)]


def test_whether_there_is_one_is_asked_of_files_that_are_messages(box):
    assert not box.holds("new", lambda *_: True)
    os.mkfifo(f"{box.path}/new/{ID}.json")
    os.mkdir(f"{box.path}/new/{OTHER}.json")
    Path(box.path, "new", "notes.txt").touch()
    assert not box.holds("new", lambda *_: True)
    put(box, "cur", STAMPS["cur"])
    assert box.holds("cur", lambda *_: True)


def test_a_settled_message_lies_in_the_minute_of_its_id(box):
    path = put(box, "acked", STAMPS["acked"])
    assert path.split("/")[-4:-1] == ["acked", "2026-11-30", "1847"]
    assert box.find(ID).directory == "acked"
    assert [found.id for found in box.all_settled("acked")] == [ID]


def test_a_move_takes_the_exact_name_and_no_other(box):
    put(box, "new", "~n1")
    stale = next(iter(box.listed("new")))
    os.rename(f"{box.path}/new/{ID}~n1.json", f"{box.path}/new/{ID}~n2.json")
    assert box.move("read", stale, r=TIME) is None
    assert os.listdir(f"{box.path}/cur") == []
    moved = box.move("read", next(iter(box.listed("new"))), r=TIME)
    assert (moved.directory, moved.name.text) == ("cur", f"{ID}~r{TIME}~n2.json")
    assert os.listdir(f"{box.path}/cur") == [moved.name.text]


def test_a_move_makes_the_directory_that_is_missing(box):
    put(box, "new", "")
    os.rmdir(f"{box.path}/acked")
    moved = box.move("ack", next(iter(box.listed("new"))), r=TIME, a=TIME)
    assert os.path.exists(box.where(moved))


def test_unknown_stamps_go_along(box):
    put(box, "new", "~pfuture")
    found = next(iter(box.listed("new")))
    for verb, stamps in (("read", {"r": TIME}), ("ack", {"a": TIME}), ("archive", {"z": TIME})):
        found = box.move(verb, found, **stamps)
    assert found.name.text == f"{ID}~r{TIME}~a{TIME}~z{TIME}~pfuture.json"
    assert parse(found.name.text).stamps["p"] == "future"


@pytest.mark.parametrize(("room", "ours"), [(8, True), (9, False), (100, False)])
def test_no_move_makes_a_name_that_is_foreign(box, room, ours):
    """What is taken for mail stays in sight: a name that would not fit later is foreign from the beginning."""
    Path(box.path, "new", f"{ID}~p{'x' * room}.json").touch()
    listed = list(box.listed("new"))
    assert [found.id for found in listed] == ([ID] if ours else [])
    for found in listed:
        box.move("read", found, r=TIME)
        assert [found.id for found in box.listed("cur")] == [ID]
