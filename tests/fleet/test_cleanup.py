"""cleanup takes whole threads that were settled long ago, with everything that refers to them, and nothing else."""

import hashlib
import os
import stat
from pathlib import Path

import pytest

from fleet.fleet import Fleet, memory, names_of, read
from maildir_agents import Spool
from maildir_agents.errors import MailError
from maildir_agents.mail.deadletter import fail
from maildir_agents.mail.mailbox import Mailbox


@pytest.fixture(scope="module")
def shared():
    with memory() as place:
        yield Fleet(place, ("ann", "bob", "cat", "dan"))


@pytest.fixture
def fleet(shared):
    shared.wipe()
    return shared


def sent(fleet: Fleet, days: float, subject: str = "s", **order) -> str:
    """A message sent that many days ago, from ann to bob unless said otherwise."""
    order = {"sender": "ann", "recipient": "bob", "subject": subject, **order}
    return fleet.in_the_past(days).send(**order)["id"]


def acked(fleet: Fleet, days: float, message_id: str, agent: str = "bob") -> str:
    spool = fleet.in_the_past(days)
    read(spool, agent)
    spool.ack(agent, [message_id])
    return message_id


def settled(fleet: Fleet, days: float, subject: str = "s", **order) -> str:
    return acked(fleet, days - 0.01, sent(fleet, days, subject, **order), order.get("recipient", "bob"))


def states(fleet: Fleet, agent: str = "bob") -> dict[str, str]:
    """id: state, for all that a mailbox has."""
    return {name[:36]: state for state, name in names_of(fleet.box(agent))}


def tree(root: str) -> dict[str, str]:
    """Every name in a spool: its kind, mode and content."""
    found = {}
    for path in sorted(Path(root).rglob("*")):
        info = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(info.st_mode) else ""
        found[str(path.relative_to(root))] = f"{info.st_mode:o} {info.st_ino} {content}"
    return found


def cleanup(fleet: Fleet, days: float | None = 30) -> dict:
    """What it does, after it was asked what it would do: that has to be the same, and to change nothing."""
    before = tree(fleet.root)
    would = fleet.open().cleanup(days, dry_run=True)
    assert tree(fleet.root) == before, "a dry run changed something"
    told = fleet.open().cleanup(days)
    assert would == {**told, "dry_run": True}
    return told


def test_without_a_spool_it_is_a_zero_and_makes_none(tmp_path):
    answer = Spool(tmp_path / "none").cleanup(30)
    assert (answer["threads"], answer["messages"], answer["broadcasts"], answer["conversations"]) == (0, 0, 0, 0)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf"), 1e300])
def test_what_is_no_number_of_days_is_refused_with_a_sentence(fleet, days):
    settled(fleet, 40)
    before = tree(fleet.root)
    with pytest.raises(MailError) as refused:
        fleet.open().cleanup(days)
    assert (refused.value.code, refused.value.exit_status) == ("usage", 64)
    assert tree(fleet.root) == before


def keep(fleet: Fleet, days: str) -> None:
    draft = Path(fleet.root) / "config.json~"
    draft.write_text(f'{{"auto": {{}}, "retention_days": {days}}}')
    draft.chmod(0o600)
    draft.rename(Path(fleet.root) / "config.json")


def test_without_a_number_config_decides_and_as_it_is_made_nothing_goes(fleet):
    young, old = settled(fleet, 5), settled(fleet, 40)
    before = tree(fleet.root)
    assert (fleet.open().cleanup(None)["older_than_days"], fleet.open().cleanup(None)["messages"]) == (None, 0)
    assert tree(fleet.root) == before
    keep(fleet, "30")
    assert (cleanup(fleet, None)["older_than_days"], states(fleet)) == (30, {young: "acked"})
    assert old not in states(fleet)
    keep(fleet, "null")
    assert cleanup(fleet, None)["messages"] == 0


@pytest.mark.parametrize("days", ['"30"', "0", "-1", "1e300", "true", "[30]"])
def test_a_retention_that_is_no_number_of_days_deletes_nothing(fleet, days):
    settled(fleet, 40)
    keep(fleet, days)
    before = tree(fleet.root)
    with pytest.raises(MailError) as refused:
        fleet.open().cleanup(None)
    assert refused.value.code == "bad_field"
    assert tree(fleet.root) == before
    keep(fleet, "null")


def test_a_settled_message_goes_with_its_anchor_its_key_and_its_empty_directories(fleet):
    message_id = settled(fleet, 40, dedup_key="k")
    answer = cleanup(fleet)
    assert (answer["threads"], answer["messages"]) == (1, 1)
    for top in ("messages", "dedup", "threads", "trash"):
        assert os.listdir(f"{fleet.root}/{top}") == []
    assert os.listdir(fleet.box("bob", "acked")) == []
    assert fleet.wrong(finished=True) == []
    with pytest.raises(MailError) as unknown:
        fleet.open().thread(message_id)
    assert unknown.value.code == "unknown_id"


def test_the_stamp_decides_and_not_the_day_in_the_id(fleet):
    old = acked(fleet, 2, sent(fleet, 400))
    assert cleanup(fleet)["messages"] == 0
    assert states(fleet) == {old: "acked"}
    assert cleanup(fleet, 1.5)["messages"] == 1
    assert states(fleet) == {}


def test_a_settled_name_without_the_time_it_was_settled_stays(fleet):
    """A script put it there without the stamp: when that was is not known."""
    message_id = settled(fleet, 40)
    [(_, name)] = names_of(fleet.box("bob"))
    directory = next(path for path in Path(fleet.box("bob", "acked")).rglob(name)).parent
    os.rename(directory / name, directory / f"{message_id}.json")
    assert cleanup(fleet)["messages"] == 0


def test_a_thread_goes_whole_or_not_at_all(fleet):
    root = settled(fleet, 60, "question", dedup_key="k")
    answer = settled(fleet, 50, "answer", sender="bob", recipient="ann", reply_to=root)
    thanks = acked(fleet, 20, sent(fleet, 45, "thanks", reply_to=answer))
    alone = settled(fleet, 60, "alone")
    assert cleanup(fleet)["messages"] == 1
    assert set(states(fleet)) | set(states(fleet, "ann")) == {root, answer, thanks}
    assert alone not in states(fleet)
    assert fleet.wrong(finished=True) == []
    told = cleanup(fleet, 15)
    assert (told["threads"], told["messages"]) == (1, 3)
    assert os.listdir(f"{fleet.root}/threads") == os.listdir(f"{fleet.root}/messages") == []
    assert fleet.wrong(finished=True) == []


def owed(fleet: Fleet, kind: str) -> str:
    """A message of forty days ago that is not settled, or not only that."""
    if kind == "archived":
        fleet.in_the_past(40).archive("bob", [settled(fleet, 41)])
    elif kind == "unread":
        sent(fleet, 40)
    elif kind == "read":
        sent(fleet, 40)
        read(fleet.in_the_past(39), "bob")
    elif kind == "claimed, the lease over":
        sent(fleet, 40)
        fleet.in_the_past(39).claim("bob")
    elif kind == "claimed":
        sent(fleet, 40)
        fleet.open().claim("bob", lease_s=3600)
    elif kind == "failed":
        sent(fleet, 40)
        box = Mailbox(fleet.in_the_past(39), "bob")
        fail(box, next(box.listed("new")), "worker_failed", "it could not be worked on")
    elif kind == "drafted":
        message_id = settled(fleet, 40)
        [path] = Path(fleet.box("bob", "acked")).rglob(f"{message_id}*")
        os.rename(path, fleet.box("bob", "tmp", f"{message_id}.json"))
    return kind


def messages(fleet: Fleet) -> dict[str, str]:
    """Every name of a message, in whatever part of the spool."""
    return {name: what for name, what in tree(fleet.root).items() if name.endswith(".json")}


KINDS = ("archived", "unread", "read", "claimed, the lease over", "claimed", "failed", "drafted")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_owed_or_kept_stays_however_old(fleet, kind):
    owed(fleet, kind)
    before = messages(fleet)
    told = cleanup(fleet)
    assert (told["threads"], told["messages"]) == (0, 0)
    assert messages(fleet) == before


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_what_is_owed_keeps_its_whole_thread(fleet, kind):
    owed(fleet, kind)
    [(_, name)] = names_of(fleet.box("bob"))
    answer = settled(fleet, 38, "answer", sender="bob", recipient="ann", reply_to=name[:36], acknowledge=False)
    assert cleanup(fleet)["messages"] == 0
    assert states(fleet, "ann") == {answer: "acked"}


def test_a_broadcast_goes_when_every_copy_is_settled_and_takes_its_body_along(fleet):
    message_id = sent(fleet, 60, recipient="*", dedup_key="k")
    for agent in ("bob", "cat"):
        acked(fleet, 59, message_id, agent)
    assert cleanup(fleet)["messages"] == 0
    assert states(fleet, "dan") == {message_id: "new"}
    acked(fleet, 50, message_id, "dan")
    told = cleanup(fleet)
    assert (told["threads"], told["messages"], told["broadcasts"]) == (1, 3, 1)
    for top in ("messages", "dedup", "threads", "trash", "broadcast"):
        assert os.listdir(f"{fleet.root}/{top}") == []
    assert fleet.wrong(finished=True) == []


def test_a_broadcast_with_its_answers_goes_as_one_thread(fleet):
    message_id = sent(fleet, 60, recipient="*")
    for agent in ("bob", "cat", "dan"):
        acked(fleet, 59, message_id, agent)
    answer = acked(fleet, 1, sent(fleet, 58, sender="bob", recipient="ann", reply_to=message_id), "ann")
    assert cleanup(fleet)["messages"] == 0
    assert states(fleet, "ann") == {answer: "acked"}
    assert fleet.wrong(finished=True) == []
    told = cleanup(fleet, 0.5)
    assert (told["threads"], told["messages"], told["broadcasts"]) == (1, 4, 1)
    assert fleet.wrong(finished=True) == []
    assert os.listdir(f"{fleet.root}/threads") == []


def test_a_broadcast_of_the_last_week_is_kept_for_who_comes_later(fleet):
    message_id = sent(fleet, 3, "last week", recipient="*")
    for agent in ("bob", "cat", "dan"):
        acked(fleet, 2, message_id, agent)
    assert cleanup(fleet, 1)["broadcasts"] == 0
    assert [message["subject"] for message in read(fleet.open(), "late")] == ["last week"]
    assert fleet.wrong(finished=True) == []


def test_a_broadcast_that_is_still_owed_to_a_full_mailbox_stays(fleet, monkeypatch):
    monkeypatch.setattr(type(fleet.open()), "full", lambda self, agent: agent == "dan")
    message_id = sent(fleet, 60, "to all", recipient="*")
    for agent in ("bob", "cat"):
        acked(fleet, 59, message_id, agent)
    assert cleanup(fleet)["messages"] == 0
    monkeypatch.undo()
    assert [message["subject"] for message in read(fleet.open(), "dan")] == ["to all"]
    assert fleet.wrong() == []


@pytest.mark.parametrize("moment", ["the broadcasts are listed", "claims are listed"])
def test_a_copy_that_moves_while_it_looks_is_not_overlooked(fleet, monkeypatch, moment):
    """One copy is on its way while the mailboxes are listed: delivered from todo, or given back by its worker."""
    message_id = sent(fleet, 60, "to all", recipient="*")
    for agent in ("bob", "cat"):
        acked(fleet, 59, message_id, agent)
    from maildir_agents.mail import retention

    real = retention.names
    if moment == "claims are listed":
        handle = fleet.open().claim("dan", lease_s=3600)["handle"]

    def names(directory: str) -> list[str]:
        nonlocal handle
        if moment == "claims are listed" and handle and directory == fleet.box("dan", "claimed"):
            fleet.open().release("dan", handle)
            handle = None
        return real(directory)

    if moment == "the broadcasts are listed":
        [name] = os.listdir(fleet.box("dan", "new"))
        todo = f"{fleet.root}/broadcast/{message_id}.todo"
        os.mkdir(todo, 0o700)
        os.rename(fleet.box("dan", "new", name), f"{todo}/dan.json")
        handle = None
        listdir = os.listdir

        def delivered(path):
            found = listdir(path)
            if path == f"{fleet.root}/broadcast":
                monkeypatch.setattr(os, "listdir", listdir)
                read(fleet.open(), "dan")
            return found

        monkeypatch.setattr(os, "listdir", delivered)
    monkeypatch.setattr(retention, "names", names)
    assert fleet.open().cleanup(30)["messages"] == 0
    monkeypatch.undo()
    assert list(states(fleet, "dan")) == [message_id]
    assert fleet.wrong() == []


def test_a_key_is_forgotten_with_its_message_and_no_sooner(fleet):
    first = settled(fleet, 40, "first", dedup_key="k")
    again = {"sender": "ann", "recipient": "bob", "subject": "first", "dedup_key": "k"}
    assert fleet.open().send(**again)["id"] == first
    cleanup(fleet)
    second = fleet.open().send(**again)
    assert (second["duplicate"], second["id"] == first) == (False, False)
    assert states(fleet) == {second["id"]: "new"}
    assert fleet.wrong(finished=True) == []


def test_histories_lose_their_old_lines_and_keep_the_others(fleet):
    settled(fleet, 40)
    young = sent(fleet, 1)
    read(fleet.in_the_past(1), "bob")
    cleanup(fleet)
    with open(fleet.box("bob", "history.jsonl"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert [young in line for line in lines] == [True]
    assert sorted(os.listdir(fleet.box("bob"))) == sorted(
        ["tmp", "new", "cur", "claimed", "acked", "archive", "failed", "history.jsonl", "read.lock"]
    )


def test_an_open_conversation_keeps_its_messages_and_an_ended_one_goes_with_them(fleet):
    started = fleet.in_the_past(40).start_conversation(sender="ann", recipient="bob", goal="agree")
    acked(fleet, 39, started["message_id"])
    assert cleanup(fleet)["messages"] == 0
    conversation = started["conversation_id"]
    fleet.open().end_conversation(conversation, "cancel", "ann")
    told = cleanup(fleet)
    assert (told["messages"], told["conversations"]) == (1, 1)
    assert os.listdir(f"{fleet.root}/conversations") == os.listdir(f"{fleet.root}/trash") == []
    assert states(fleet) == {}


def test_a_second_cleanup_finds_nothing_and_changes_nothing(fleet):
    for number in range(5):
        settled(fleet, 40, str(number), dedup_key=str(number))
    settled(fleet, 10, "young")
    assert cleanup(fleet)["threads"] == 5
    before = tree(fleet.root)
    assert cleanup(fleet)["threads"] == 0
    assert tree(fleet.root) == before


# ------------------------------------------------------------------------------------------------ failed purge


def dead(fleet: Fleet, agent: str, message_id: str) -> None:
    box = Mailbox(fleet.open(), agent)
    fail(box, box.find(message_id), "worker_failed", "it could not be worked on")


def test_purging_one_copy_of_a_broadcast_leaves_the_others_whole(fleet):
    message_id = fleet.open().send(sender="ann", recipient="*", subject="to all", dedup_key="k")["id"]
    dead(fleet, "bob", message_id)
    fleet.open().failed_purge("bob", message_id)
    assert states(fleet) == {}
    assert states(fleet, "cat") == {message_id: "new"}
    assert fleet.wrong(finished=True) == []
    assert fleet.open().send(sender="ann", recipient="*", subject="to all", dedup_key="k")["duplicate"]


def test_purging_a_message_that_was_damaged_takes_every_name_it_had(fleet):
    """Its bytes no longer say what its key and its thread are called."""
    root = fleet.open().send(sender="ann", recipient="bob", subject="question")["id"]
    message_id = fleet.open().send(
        sender="bob", recipient="ann", subject="answer", dedup_key="k", reply_to=root, acknowledge=False
    )["id"]
    with open(fleet.box("ann", "new", f"{message_id}.json"), "r+b") as file:
        file.write(b"\xff")
    fleet.clock.advance(3)
    assert read(fleet.open(), "ann") == []
    assert states(fleet, "ann") == {message_id: "failed"}
    fleet.open().failed_purge("ann", message_id)
    left = [name for name in tree(fleet.root) if message_id in name]
    assert left == []
    assert fleet.open().doctor()["findings"] == []
