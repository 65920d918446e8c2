"""send --batch and send_many: checked first, then one durable act, all or nothing but for crashes."""

import errno
import json
import os
from collections import Counter

import pytest

from crash.invariants import Reported
from fleet.fleet import A_MINUTE, Attempt, Fleet, counted, faults, memory, names_of, read, told
from maildir_agents.errors import MailError
from maildir_agents.mail import batch as batches
from maildir_agents.testing import FailingDisk

AGENTS = ("ann", "bob", "cat", "dan")


@pytest.fixture(scope="module")
def shared():
    with memory() as place:
        yield Fleet(place, AGENTS)


@pytest.fixture
def fleet(shared):
    shared.wipe()
    return shared


def orders(count: int, **more) -> list[dict]:
    return [
        {"recipient": AGENTS[1 + number % 3], "subject": f"number {number}", "body": "b", **more}
        for number in range(count)
    ]


def subjects(fleet: Fleet) -> Counter[str]:
    """How often each subject is anywhere in a mailbox's states."""
    found: Counter[str] = Counter()
    for agent in os.listdir(f"{fleet.root}/agents"):
        for state, name in names_of(fleet.box(agent), ("new", "cur")):
            with open(fleet.box(agent, state, name), encoding="utf-8") as file:
                found[json.load(file)["subject"]] += 1
    return found


def lines(messages: list[dict]) -> bytes:
    return "".join(json.dumps(message) + "\n" for message in messages).encode()


# ------------------------------------------------------------------------------------------------ the command


def test_a_hundred_and_twenty_lines_are_sent_in_their_order(mail):
    for agent in AGENTS:
        mail("read", agent)
    told_of = mail("send", "--from", "ann", "--batch", stdin=lines(orders(120))).answer
    assert (told_of["count"], len(set(told_of["ids"]))) == (120, 120)
    assert told_of["ids"] == sorted(told_of["ids"])
    shown = {agent: mail("read", agent, "--limit", "1000").answer["messages"] for agent in AGENTS[1:]}
    assert [len(messages) for messages in shown.values()] == [40, 40, 40]
    by_id = {message["id"]: message["subject"] for messages in shown.values() for message in messages}
    assert [by_id[message_id] for message_id in told_of["ids"]] == [f"number {number}" for number in range(120)]


def test_replies_keys_and_broadcasts_go_along_each_under_the_id_that_is_told(mail):
    question = mail.send("bob", "ann")["id"]
    mail("read", "cat")
    known = mail("send", "--from", "ann", "--to", "cat", "--subject", "known", "--dedup-key", "k").answer["id"]
    told_of = mail(
        "send",
        "--from",
        "ann",
        "--batch",
        stdin=lines(
            [
                {"recipient": "bob", "subject": "answer", "reply_to": question},
                {"recipient": "cat", "subject": "known", "dedup_key": "k"},
                {"recipient": "*", "subject": "to all"},
                {"recipient": "cat", "subject": "new", "dedup_key": "k2", "refs": ["docs/x.md"], "headers": {"a": 1}},
                {"sender": "dan", "recipient": "cat", "subject": "from dan", "response_timeout_s": 60},
            ]
        ),
    ).answer
    assert (told_of["count"], told_of["ids"][1]) == (5, known)
    shown = {m["id"]: m for agent in ("bob", "cat") for m in mail("read", agent).answer["messages"]}
    answer, _, to_all, new, from_dan = (shown[message_id] for message_id in told_of["ids"])
    assert (answer["thread_id"], answer["reply_to"]) == (question, question)
    assert (to_all["recipient"], new["refs"], from_dan["sender"]) == ("*", ["docs/x.md"], "dan")
    assert from_dan["response_deadline"]
    assert mail.row("ann")["unacked"] == 1, "a reply in a batch acknowledges nothing"


BAD = {
    "no JSON": b"{",
    "no object": b"[1]",
    "a key twice": b'{"recipient": "bob", "recipient": "cat", "subject": "s"}',
    "not UTF-8": b'{"recipient": "bob", "subject": "\xff"}',
    "no recipient": b'{"subject": "s"}',
    "no subject": b'{"recipient": "bob"}',
    "a recipient that is no name": b'{"recipient": "../x", "subject": "s"}',
    "an unknown field": b'{"recipient": "bob", "subject": "s", "priority": 1}',
    "a kind": b'{"recipient": "bob", "subject": "s", "kind": "task"}',
    "an empty subject": b'{"recipient": "bob", "subject": ""}',
    "a body that is none": b'{"recipient": "bob", "subject": "s", "body": null}',
    "a body with ESC": b'{"recipient": "bob", "subject": "s", "body": "\\u001b[2J"}',
    "refs that are text": b'{"recipient": "bob", "subject": "s", "refs": "abc"}',
    "refs that are null": b'{"recipient": "bob", "subject": "s", "refs": null}',
    "refs of numbers": b'{"recipient": "bob", "subject": "s", "refs": [1]}',
    "a key that is a number": b'{"recipient": "bob", "subject": "s", "dedup_key": 5}',
    "a timeout that is text": b'{"recipient": "bob", "subject": "s", "response_timeout_s": "60"}',
    "a timeout that is true": b'{"recipient": "bob", "subject": "s", "response_timeout_s": true}',
    "an answer to a number": b'{"recipient": "bob", "subject": "s", "reply_to": 5}',
    "an answer to nothing": b'{"recipient": "bob", "subject": "s", "reply_to": "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"}',
    "headers that are null": b'{"recipient": "bob", "subject": "s", "headers": null}',
    "headers that are a list": b'{"recipient": "bob", "subject": "s", "headers": []}',
}


@pytest.mark.parametrize("what", BAD)
def test_one_bad_line_and_nothing_is_sent_and_the_line_is_named(mail, what):
    before = mail("status").answer
    done = mail("send", "--from", "ann", "--batch", stdin=lines(orders(70)) + BAD[what] + b"\n" + lines(orders(30)))
    assert done.status in (64, 66)
    assert "71" in done.refusal["error"]
    assert mail("status").answer == before
    assert not (mail.spool / "agents" / "bob").exists()


def test_null_stands_for_what_is_not_there(mail):
    order = {"recipient": "bob", "subject": "s", "reply_to": None, "dedup_key": None, "response_timeout_s": None}
    assert mail("send", "--from", "ann", "--batch", stdin=lines([order])).answer["count"] == 1


def test_an_empty_batch_is_a_zero(mail):
    assert mail("send", "--from", "ann", "--batch", stdin=b"").answer == {"count": 0, "ids": []}


# ------------------------------------------------------------------------------------------------ durable, and one act


def test_a_hundred_messages_are_made_durable_by_a_handful_of_syncs(fleet):
    fleet.open().send_many(orders(3), "ann")
    disk = FailingDisk()
    fleet.open(disk).send_many(orders(100), "ann")
    syncs = [(name, path) for name, path in disk.calls if name in ("fsync", "syncfs")]
    assert disk.offences == []
    assert len(syncs) <= 5, syncs
    few = FailingDisk()
    fleet.open(few).send_many(orders(9), "ann")
    assert len(syncs) == sum(name in ("fsync", "syncfs") for name, _ in few.calls), "it grows with the batch"


def visible(fleet: Fleet) -> int:
    there = sum(len(files) for _, _, files in os.walk(f"{fleet.root}/messages"))
    return there + sum(1 for agent in AGENTS for _ in names_of(fleet.box(agent)))


def shown_too_early(fleet: Fleet) -> list[str]:
    """Whatever can be seen of a batch before all of its drafts are whole and synced."""
    drafted: list[str] = []
    wrong: list[str] = []
    synced = False

    def before(number, name, path):
        nonlocal synced
        if name == "write" and "/tmp/" in path:
            drafted.append(path)
        if not synced and visible(fleet):
            wrong.append(f"visible before {name} {path}, when {len(drafted)} of 12 were written")
        synced = synced or name == "syncfs"

    fleet.open(FailingDisk(before=before)).send_many(orders(12), "ann")
    assert len(drafted) == 12
    return wrong


def test_nothing_can_be_seen_before_all_is_on_the_disk(fleet):
    assert shown_too_early(fleet) == []


def test_the_test_sees_a_batch_that_sends_one_after_the_other(fleet, monkeypatch):
    def one_after_the_other(spool, messages):
        for message in messages:
            batches.post(spool, message)

    monkeypatch.setattr("maildir_agents.verbs.batch.post_many", one_after_the_other)
    assert shown_too_early(fleet)


def test_after_any_fault_what_was_told_is_true_and_what_was_sent_is_a_beginning(fleet):
    """Refused: none of it, ever.  Unsure: the ids that are told, and no other.  Killed: the first so many."""
    wanted = orders(10)

    def act(spool):
        return spool.send_many(wanted, "ann")

    calls = counted(fleet, act)
    wrong = []
    for fault in faults(calls):
        fleet.wipe()
        disk = FailingDisk(**fault)
        attempt = Attempt(act, fleet.open(disk))
        fleet.clock.advance(A_MINUTE)
        for agent in AGENTS:
            read(fleet.open(), agent)
        there = [order["subject"] for order in wanted if subjects(fleet)[order["subject"]]]
        said = [*disk.offences, *fleet.wrong(Reported(), finished=True)]
        if any(count > 1 for count in subjects(fleet).values()):
            said.append("one came twice")
        if there != [order["subject"] for order in wanted][: len(there)]:
            said.append(f"these are not the first so many: {there}")
        count = {"answered": 10, "refused": 0}.get(attempt.outcome, len(there))
        if attempt.outcome == "unsure":
            count = len(attempt.error.detail["ids"])
        if len(there) != count:
            said.append(f"{attempt.outcome}, {count} were told and {len(there)} sent")
        wrong += [f"{told(fault, calls)}: {sentence}" for sentence in said]
    assert wrong == []


def test_drafts_that_a_collector_took_for_abandoned_are_sent_all_the_same(fleet):
    """The batch takes more than a minute from its first draft to its last delivery, and the recipients look."""
    met = []

    def before(number, name, path):
        if name == "rename" and not met:
            met.append(path)
            fleet.clock.advance(A_MINUTE)
            for agent in AGENTS:
                read(fleet.open(), agent)

    answer = fleet.open(FailingDisk(before=before)).send_many(orders(12), "ann")
    assert sorted(subjects(fleet)) == sorted(order["subject"] for order in orders(12))
    reported = Reported()
    for order, message_id in zip(orders(12), answer["ids"], strict=True):
        reported.present[order["recipient"], message_id] = {"new", "cur"}
        reported.once[order["subject"]] = {order["recipient"]}
    assert fleet.wrong(reported, finished=True) == []


def test_a_keyed_message_that_fails_after_the_others_were_sent_is_not_said_to_have_changed_nothing(fleet):
    disk = FailingDisk(error=errno.EIO)

    def before(number, name, path):
        if name == "link" and "/dedup/" in path:
            disk.fail_at = number

    disk.before = before
    batch = [*orders(2), {"recipient": "bob", "subject": "keyed", "dedup_key": "k"}]
    with pytest.raises(MailError) as unsure:
        fleet.open(disk).send_many(batch, "ann")
    assert (unsure.value.code, unsure.value.exit_status) == ("durability_unknown", 74)
    assert len(unsure.value.detail["ids"]) == 2
    assert subjects(fleet) == {"number 0": 1, "number 1": 1}
    alone = Attempt(lambda spool: spool.send_many(batch[2:], "ann"), fleet.open(disk))
    assert alone.outcome == "refused", "nothing of this one was sent"
    fleet.open().send_many(batch[2:], "ann")
    assert subjects(fleet)["keyed"] == 1


def test_a_message_that_is_committed_and_not_delivered_is_told_as_sent(fleet):
    """Its recipient's next call delivers it: who sends it again sends it twice."""
    disk = FailingDisk()

    def before(number, name, path):
        if name == "rename" and path.startswith(fleet.box("cat", "new")):
            disk.fail_at = number

    disk.before = before
    with pytest.raises(MailError) as unsure:
        fleet.open(disk).send_many(orders(6), "ann")
    again = orders(6)[len(unsure.value.detail["ids"]) :]
    fleet.open().send_many(again, "ann")
    for agent in AGENTS:
        read(fleet.open(), agent)
    assert set(subjects(fleet).values()) == {1}
    assert len(subjects(fleet)) == 6
