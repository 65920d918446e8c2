"""A broadcast that dies or fails at any call reaches every mailbox of the moment once, or none."""

import errno
import os
import threading

import pytest

from crash.invariants import Reported
from fleet.fleet import A_MINUTE, Attempt, Fleet, counted, crew, faults, memory, read, told
from maildir_agents.disk.moves import Disk
from maildir_agents.errors import MailError
from maildir_agents.mail import broadcast as broadcasts
from maildir_agents.testing import FailingDisk, Killed

SENDER, SUBJECT, BODY = "r000", "to all", "one body\nfor everybody, ünïcode\n"


@pytest.fixture(scope="module")
def forty():
    with memory() as place:
        yield Fleet(place, crew(41))


@pytest.fixture(scope="module")
def many():
    with memory() as place:
        yield Fleet(place, crew(201))


def plain(spool):
    return spool.send(sender=SENDER, recipient="*", subject=SUBJECT, body=BODY)


def keyed(spool):
    return spool.send(sender=SENDER, recipient="*", subject=SUBJECT, body=BODY, dedup_key="once")


# ------------------------------------------------------------------------------------------------ who calls next


def another_broadcast(fleet: Fleet) -> None:
    fleet.open().send(sender="r001", recipient="*", subject="and another thing")


def doctor(fleet: Fleet) -> None:
    assert fleet.open().doctor(fix=True)["clean"]


def every_recipient(fleet: Fleet) -> None:
    for agent in fleet.agents[1:]:
        read(fleet.open(), agent)


def a_script(fleet: Fleet) -> None:
    """Readers that know nothing of broadcasts take what lies there, by mv alone; then somebody broadcasts."""
    for agent in fleet.agents[1:]:
        for name in os.listdir(fleet.box(agent, "new")):
            os.rename(fleet.box(agent, "new", name), fleet.box(agent, "cur", f"{name[:36]}~r20261130T184712.123Z.json"))
    another_broadcast(fleet)


def a_newcomer(fleet: Fleet) -> None:
    read(fleet.open(), "s-late")


NEXT = (another_broadcast, doctor, every_recipient, a_script, a_newcomer)


def judged(fleet: Fleet, attempt: Attempt) -> Reported:
    """What must hold of the broadcast now: everybody has it once, or nobody."""
    everybody = set(os.listdir(f"{fleet.root}/agents")) - {SENDER}
    sent = attempt.outcome != "refused"
    if attempt.outcome == "killed":
        sent = any(has_it(fleet, agent) for agent in everybody)
    reported = Reported()
    reported.once[SUBJECT] = everybody if sent else set()
    reported.bodies[SUBJECT] = BODY
    return reported


def has_it(fleet: Fleet, agent: str) -> bool:
    for state in ("new", "cur"):
        for name in os.listdir(fleet.box(agent, state)):
            with open(fleet.box(agent, state, name), "rb") as file:
                if f'"{SUBJECT}"'.encode() in file.read():
                    return True
    return False


def after_a_fault(fleet: Fleet, fault: dict, act, further) -> list[str]:
    """What is wrong after one broadcast with one fault, one call by somebody, and everybody's."""
    fleet.wipe()
    disk = FailingDisk(**fault)
    attempt = Attempt(act, fleet.open(disk))
    if not disk.struck:
        return ["the fault was never met"]
    wrong = list(disk.offences)
    if attempt.error is not None and attempt.outcome == "unsure" and not attempt.error.detail.get("id"):
        wrong.append("it was perhaps sent, and the answer does not say which message")
    fleet.clock.advance(A_MINUTE)
    further(fleet)
    if further is a_newcomer:
        another_broadcast(fleet)  # the newcomer's call made its own mailbox right; this takes away what nobody owes
    reported = judged(fleet, attempt)
    wrong += fleet.wrong(reported, drafts=further is every_recipient)
    if not wrong and further in (every_recipient, another_broadcast):
        (another_broadcast if further is every_recipient else every_recipient)(fleet)
        wrong += fleet.wrong(judged(fleet, attempt), finished=True)
    return wrong


def sweep(fleet: Fleet, act, points=None, nexts=NEXT, most: int = 12) -> tuple[int, list[str]]:
    """How many faults there were, and what went wrong, a line each; ends when it is more than `most`."""
    fleet.wipe()
    calls = counted(fleet, act)
    wrong: list[str] = []
    number = 0
    for number, fault in enumerate(faults(calls, points), 1):
        further = nexts[number % len(nexts)]
        said = after_a_fault(fleet, fault, act, further)
        wrong += [f"{told(fault, calls)}; then {further.__name__}: {sentence}" for sentence in said]
        if len(wrong) > most:
            break
    return number, wrong


# ------------------------------------------------------------------------------------------------ the promises


@pytest.mark.parametrize("act", [plain, keyed])
def test_after_any_fault_each_of_forty_mailboxes_has_it_once_or_none_has_it(forty, act):
    count, wrong = sweep(forty, act)
    assert wrong == []
    assert count > 250


@pytest.mark.parametrize("act", [plain, keyed])
def test_after_faults_here_and_there_each_of_two_hundred_mailboxes_has_it_once(many, act):
    many.wipe()
    calls = counted(many, act)
    links = [number for number, (name, _) in enumerate(calls, 1) if name in ("link", "rename")]
    points = {*links[act is plain :: 53], len(calls)}
    count, wrong = sweep(many, act, points)
    assert wrong == []
    assert count > len(points)


def test_a_repeated_key_answers_with_the_first_and_completes_it(forty):
    forty.wipe()
    calls = counted(forty, keyed)
    wrong = []
    for number in range(1, len(calls) + 1):
        for fault in ({"kill_at": number}, {"fail_at": number, "error": errno.EIO}):
            forty.wipe()
            first = Attempt(keyed, forty.open(FailingDisk(**fault)))
            again = keyed(forty.open())
            reported = Reported()
            reported.once[SUBJECT] = set(forty.agents[1:])
            said = forty.wrong(reported, finished=True)
            if first.outcome in ("answered", "unsure") and not again["duplicate"]:
                said.append("it was sent twice")
            if first.outcome == "refused" and again["duplicate"]:
                said.append("it was refused, and is there")
            told_id = first.answer["id"] if first.answer else first.error and first.error.detail.get("id")
            if told_id and told_id != again["id"]:
                said.append("two ids for one key")
            wrong += [f"{told(fault, calls)}: {sentence}" for sentence in said]
    assert wrong == []


def test_a_mailbox_made_at_any_moment_of_it_gets_it_once(forty):
    """The maker waits for the lock in a thread of its own, whichever call it comes between."""
    forty.wipe()
    calls = counted(forty, keyed)
    wrong = []
    for number in range(1, len(calls) + 1):
        forty.wipe()
        makers = []

        def before(now, name, path, number=number, makers=makers):
            if now == number:
                makers.append(threading.Thread(target=read, args=(forty.open(), "s-late")))
                makers[0].start()

        disk = FailingDisk(before=before)
        keyed(forty.open(disk))
        makers[0].join()
        reported = Reported()
        reported.once[SUBJECT] = {*forty.agents[1:], "s-late"}
        wrong += [f"made at call {number}, {' '.join(calls[number - 1])}: {s}" for s in forty.wrong(reported)]
    assert wrong == []


@pytest.mark.parametrize(("reader", "every"), [("r001", 3), ("r020", 1), ("r040", 3)])
def test_a_recipient_that_reads_at_any_moment_of_it_is_shown_it_once(forty, reader, every):
    forty.wipe()
    calls = counted(forty, keyed)
    wrong = []
    for number in range(1, len(calls) + 1, every):
        forty.wipe()
        shown = []

        def before(now, name, path, number=number, shown=shown):
            if now == number:
                shown += read(forty.open(), reader)

        answer = keyed(forty.open(FailingDisk(before=before)))
        shown += read(forty.open(), reader)
        reported = Reported()
        reported.once[SUBJECT] = set(forty.agents[1:])
        said = forty.wrong(reported)
        if [message["id"] for message in shown] != [answer["id"]]:
            said.append(f"{reader} was shown it {len(shown)} times")
        wrong += [f"read at call {number}, {' '.join(calls[number - 1])}: {sentence}" for sentence in said]
    assert wrong == []


def test_a_mailbox_made_later_gets_the_broadcasts_of_the_last_week_once(forty):
    forty.wipe()
    for days in (9, 8, 6, 1):
        forty.in_the_past(days).send(sender=SENDER, recipient="*", subject=f"{days} days ago")
    for _ in range(3):
        read(forty.open(), "s-late")
    read(forty.open(), "s-later")
    reported = Reported()
    for days in (9, 8, 6, 1):
        reported.once[f"{days} days ago"] = {*forty.agents[1:], *(("s-late", "s-later") if days < 7 else ())}
    assert forty.wrong(reported, finished=True) == []


def test_a_sender_that_comes_later_is_not_sent_its_own(forty):
    """Its mailbox was taken away after it had broadcast; the new one is empty of what it said itself."""
    forty.wipe()
    forty.open().send(sender="s-gone", recipient="*", subject="mine")
    os.rename(forty.box("s-gone"), f"{forty.root}-gone")
    assert read(forty.open(), "s-gone") == []


def test_a_full_mailbox_gets_its_copy_when_there_is_room_again(forty, monkeypatch):
    forty.wipe()
    monkeypatch.setattr(type(forty.open()), "full", lambda self, agent: agent == "r007")
    plain(forty.open())
    assert not has_it(forty, "r007")
    another_broadcast(forty)
    monkeypatch.undo()
    read(forty.open(), "r007")
    another_broadcast(forty)
    reported = Reported()
    reported.once[SUBJECT] = set(forty.agents[1:])
    assert forty.wrong(reported, finished=True) == []


def test_one_mailbox_that_takes_nothing_keeps_it_from_no_other_and_keeps_no_later_one_back(forty):
    forty.wipe()
    disk = FailingDisk()

    def before(number, name, path):
        if name == "rename" and path.startswith(forty.box("r002", "new")):
            disk.fail_at = number

    disk.before = before
    first = Attempt(plain, forty.open(disk))
    assert (first.outcome, first.error.detail["id"][14]) == ("unsure", "7")
    assert [agent for agent in forty.agents[1:] if not has_it(forty, agent)] == ["r002"]
    later = Attempt(lambda spool: spool.send(sender="r001", recipient="*", subject="later"), forty.open(disk))
    assert later.outcome == "unsure"
    assert later.error.detail["id"] != first.error.detail["id"], "it speaks of the message it was asked to send"
    read(forty.open(), "r002")
    another_broadcast(forty)
    reported = Reported()
    reported.once = {SUBJECT: set(forty.agents[1:]), "later": {"r000", *forty.agents[2:]}}
    assert forty.wrong(reported, finished=True) == []


def test_a_plain_file_among_the_mailboxes_stops_nobody(forty):
    forty.wipe()
    with open(forty.box("s-file"), "w", encoding="ascii"):
        pass
    try:
        plain(forty.open())
        reported = Reported()
        reported.once[SUBJECT] = set(forty.agents[1:])
    finally:
        os.unlink(forty.box("s-file"))
    assert forty.wrong(reported, finished=True) == []


def test_a_copy_owed_to_a_mailbox_that_was_taken_away_waits_in_the_new_one(forty):
    forty.wipe()
    read(forty.open(), "s-moved")
    killed(forty, "rename", "/agents/")
    os.rename(forty.box("s-moved"), f"{forty.root}-moved")
    another_broadcast(forty)
    assert [message["subject"] for message in read(forty.open(), "s-moved")] == [SUBJECT, "and another thing"]
    reported = Reported()
    reported.once[SUBJECT] = {*forty.agents[1:], "s-moved"}
    assert forty.wrong(reported, finished=True) == []


def test_a_broadcast_committed_by_its_key_alone_is_found_by_a_mailbox_made_next(forty):
    forty.wipe()
    killed(forty, "link", "/dedup/", after=True)
    assert [message["subject"] for message in read(forty.open(), "s-late")] == [SUBJECT]
    another_broadcast(forty)
    reported = Reported()
    reported.once[SUBJECT] = {*forty.agents[1:], "s-late"}
    assert forty.wrong(reported, finished=True) == []


def test_a_draft_that_cannot_be_read_just_now_is_not_taken_for_half_written(forty, monkeypatch):
    """No descriptor is left for whoever comes next: a broadcast that its key has committed stays."""
    forty.wipe()
    killed(forty, "link", "/dedup/", after=True)
    [dot] = [name for name in os.listdir(f"{forty.root}/broadcast") if name.endswith(".json")]
    real = os.open

    def no_descriptor(path, *rest, **more):
        if os.path.basename(os.fspath(path)) == dot:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", no_descriptor)
    another_broadcast(forty)
    read(forty.open(), "r001")
    monkeypatch.undo()
    another_broadcast(forty)
    reported = Reported()
    reported.once[SUBJECT] = set(forty.agents[1:])
    assert forty.wrong(reported, finished=True) == []


def test_who_is_interrupted_right_after_the_commit_has_sent_it(forty):
    """Ctrl-C between the rename that commits and the rest: nothing that is owed is taken back."""

    class Interrupted(Disk):
        def _rename(self, source: str, target: str) -> None:
            super()._rename(source, target)
            if "/broadcast/" in target:
                raise KeyboardInterrupt

    forty.wipe()
    with pytest.raises(KeyboardInterrupt):
        plain(forty.open(Interrupted(durable=False)))
    another_broadcast(forty)
    reported = Reported()
    reported.once[SUBJECT] = set(forty.agents[1:])
    assert forty.wrong(reported, finished=True) == []


def test_a_key_that_is_cleaned_up_while_it_is_asked_for_is_free_again(forty, monkeypatch):
    """The sender used it for a plain message, which cleanup takes between the refused link and the look."""
    forty.wipe()
    forty.open().send(sender=SENDER, recipient="r001", subject="an old one", dedup_key="once")
    real = broadcasts.whole_at

    def gone(path: str):
        monkeypatch.setattr(broadcasts, "whole_at", real)
        os.unlink(path)

    monkeypatch.setattr(broadcasts, "whole_at", gone)
    assert keyed(forty.open())["duplicate"] is False
    assert all(has_it(forty, agent) for agent in forty.agents[1:])


def test_a_key_that_is_a_plain_message_already_is_a_duplicate_of_it_and_delivered(forty):
    """Its sender died right after the commit: whoever asks for the key completes it, whatever he sends."""
    forty.wipe()
    killed(
        forty,
        "link",
        "/dedup/",
        after=True,
        act=lambda spool: spool.send(sender=SENDER, recipient="r001", subject="an old one", dedup_key="once"),
    )
    answer = keyed(forty.open())
    assert (answer["duplicate"], answer["content_differs"], answer["recipient"]) == (True, True, "r001")
    reported = Reported()
    reported.once["an old one"] = {"r001"}
    assert os.listdir(forty.box("r001", "new")) == [f"{answer['id']}.json"]
    assert forty.wrong(reported, finished=True) == []


# ------------------------------------------------------------------------------------------------ negative controls


def deliveries(fleet: Fleet) -> list[int]:
    """The calls from the commit on: where a wrong order of delivering shows."""
    fleet.wipe()
    calls = counted(fleet, plain)
    return list(range([name for name, _ in calls].index("rename") + 1, len(calls) + 1))


def test_the_sweep_sees_a_broadcast_that_links_and_then_marks(forty, monkeypatch):
    """Killed in between, the mark is missing: the next one delivers again what was read meanwhile."""

    def link_then_mark(spool, todo, agent, message_id):
        spool.disk.publish(f"{todo}/{agent}.json", f"{spool.box(agent)}/new/{message_id}.json")
        return spool.disk.discard(f"{todo}/{agent}.json")

    monkeypatch.setattr(broadcasts, "_hand_over", link_then_mark)
    _, wrong = sweep(forty, plain, deliveries(forty), nexts=(a_script,), most=0)
    assert any("2 times" in sentence or "several states" in sentence for sentence in wrong), wrong


def test_the_sweep_sees_a_broadcast_that_marks_and_then_links(forty, monkeypatch):

    def mark_then_link(spool, todo, agent, message_id):
        spool.disk.discard(f"{todo}/{agent}.json")
        spool.disk.publish(f"{spool.root}/broadcast/{message_id}.json", f"{spool.box(agent)}/new/{message_id}.json")
        return True

    monkeypatch.setattr(broadcasts, "_hand_over", mark_then_link)
    _, wrong = sweep(forty, plain, deliveries(forty), nexts=(another_broadcast,), most=0)
    assert any("not with" in sentence for sentence in wrong), wrong


def test_the_sweep_sees_links_that_are_made_after_the_commit(forty, monkeypatch):
    """Killed in between, a committed broadcast is owed to fewer than it was sent to."""
    owe, commit = broadcasts._owe, broadcasts._commit

    def late(spool, message, dot, key):
        original = commit(spool, message, dot, key)
        if original is None:
            os.makedirs(f"{spool.root}/broadcast/{message['id']}.todo", exist_ok=True)
            owe(spool, message, f"{spool.root}/broadcast/{message['id']}.json")
        return original

    monkeypatch.setattr(broadcasts, "_owe", lambda spool, message, dot: None)
    monkeypatch.setattr(broadcasts, "_commit", late)
    _, wrong = sweep(forty, plain, deliveries(forty), nexts=(another_broadcast,), most=0)
    assert any("not with" in sentence for sentence in wrong), wrong


def killed(fleet: Fleet, call: str, below: str, *, after: bool = False, act=keyed) -> None:
    """A sender that is killed before its first such call on a path with `below`, or right after it."""
    disk, met = FailingDisk(), []

    def before(number, name, path):
        if not met and name == call and below in path:
            met.append(path)
        if met and (not after or os.path.lexists(met[0])):
            disk.kill_at = disk.kill_at or number

    disk.before = before
    with pytest.raises(Killed):
        act(fleet.open(disk))


def test_a_refused_broadcast_says_that_nothing_was_sent(forty):
    """A directory that cannot be synced before the commit is a refusal, not a broadcast of unknown durability."""
    forty.wipe()
    calls = counted(forty, plain)
    commit = next(n for n, (name, path) in enumerate(calls, 1) if name == "rename" and path.startswith("/broadcast/"))
    for number in range(1, commit + 1):
        forty.wipe()
        with pytest.raises(MailError) as refused:
            plain(forty.open(FailingDisk(fail_at=number)))
        assert refused.value.code == "cannot_write", told({"fail_at": number, "error": errno.EIO}, calls)
