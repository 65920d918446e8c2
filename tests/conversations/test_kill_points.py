"""Killed before and after each call of every act on a conversation, and each call failing: the next caller completes.

After each fault one of three comes next: the caller again, whoever reads the recipient's mailbox, whoever opens the
conversation.  Then the caller does what it was about to do, everybody calls once more a minute later, and all is whole.
"""

import errno
import shutil
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from conversations.dialogue import Fold, controls, faults, ids, journal, places, turns, undelivered
from conversations.scene import A_MINUTE, a_spool, answer, dialogue, everybody_calls, killed_at, opened, start
from crash.sweep import clone
from maildir_agents.errors import MailError
from maildir_agents.mail import journal as journals
from maildir_agents.mail import publish
from maildir_agents.testing import FailingDisk, Killed, MovableClock, TemporarySpool

REFUSED_BY_THE_DISK = {"cannot_write", "spool_full", "read_only", "durability_unknown", "cannot_read"}
Known = dict[str, Any]


class Scene(NamedTuple):
    """A situation, an act in it, and what is true when the act was done, at whatever try."""

    prepare: Callable[[TemporarySpool], Known]
    act: Callable[[TemporarySpool, Known], Any]
    done: Callable[[TemporarySpool, Known, Any], None]


def one_task(spool: TemporarySpool, **terms: Any) -> Known:
    conversation, [task] = dialogue(spool, 1, **terms)
    return {"conversation": conversation, "task": task}


def claimed_task(spool: TemporarySpool) -> Known:
    known = one_task(spool)
    return known | {"handle": spool.claim("bob", known["task"], lease_s=3600)["handle"]}


def answered_task(spool: TemporarySpool) -> Known:
    """The worker that answered it died before it could settle it; another holds it now."""
    known = one_task(spool)
    killed_at(spool, "rename", "/acked/", lambda dying: answer(dying, known["task"], "first"))
    return known | {"handle": spool.claim("bob", known["task"], lease_s=3600)["handle"]}


def at_the_limit(spool: TemporarySpool) -> Known:
    conversation, [_, result] = dialogue(spool, 2, max_turns=2)
    return {"conversation": conversation, "task": result}


def over(spool: TemporarySpool) -> Known:
    known = one_task(spool, expires_s=60)
    spool.clock.advance(A_MINUTE)
    return known


def before_a_human(spool: TemporarySpool) -> Known:
    known = at_the_limit(spool)
    spool.end_conversation(known["conversation"], "needs_human", "bob")
    return known


def undelivered_turn(spool: TemporarySpool) -> Known:
    known = one_task(spool)
    killed_at(spool, "link", "/journal/0001", lambda dying: answer(dying, known["task"]), after=True)
    return known


def undelivered_start(spool: TemporarySpool) -> Known:
    spool.send(sender="alice", recipient="bob", subject="earlier")
    killed_at(spool, "link", "/dedup/", lambda dying: start(dying, dedup_key="k"), after=True)
    return {}


def nothing_yet(spool: TemporarySpool) -> Known:
    spool.send(sender="alice", recipient="bob", subject="earlier")
    return {}


def read(spool: TemporarySpool, agent: str) -> list[Known]:
    with spool.read(agent, limit=100) as batch:
        pass
    if batch.trouble is not None:
        raise batch.trouble
    return batch.messages


# what must be true


def entries(spool: TemporarySpool, known: Known) -> list[Known]:
    return journal(spool.root, known["conversation"])


def state(spool: TemporarySpool, known: Known) -> str:
    return Fold(entries(spool, known)).state


def place(spool: TemporarySpool, message: str) -> tuple[str, str]:
    [found] = places(spool.root)[message]
    return found


def answered_once(spool: TemporarySpool, known: Known, told: Any) -> None:
    assert [turn["id"] for turn in turns(entries(spool, known))] == [known["task"], told["id"]]
    assert place(spool, known["task"]) == ("bob", "acked") or "warning" in told
    assert place(spool, told["id"])[0] == "alice"
    assert state(spool, known) == "active"


def ended(event: str, after: str):
    def done(spool: TemporarySpool, known: Known, told: Any) -> None:
        assert controls(entries(spool, known)) == [event]
        assert told["state"] == after

    return done


def started_once(spool: TemporarySpool, known: Known, told: Any) -> None:
    assert ids(spool.root) == [told["conversation_id"]]
    assert place(spool, told["message_id"])[0] == "bob"


def started(spool: TemporarySpool, known: Known, told: Any) -> None:
    assert told["conversation_id"] in ids(spool.root)
    assert len(ids(spool.root)) <= 2  # who was not told that it began begins another
    assert place(spool, told["message_id"])[0] == "bob"


def settled_before_a_human(where: str):
    def done(spool: TemporarySpool, known: Known, told: Any) -> None:
        assert controls(entries(spool, known)) == ["needs_human"]
        assert place(spool, known["task"]) == ("bob", where)

    return done


def refused_for_good(code: str):
    def done(spool: TemporarySpool, known: Known, told: Any) -> None:
        assert told == code
        assert controls(entries(spool, known)) == ["needs_human"]

    return done


def resumed(spool: TemporarySpool, known: Known, told: Any) -> None:
    assert controls(entries(spool, known)) == ["needs_human", "resume"]
    assert (told["state"], told["max_turns"]) == ("active", 4)


def settled_by_its_answer(spool: TemporarySpool, known: Known, told: Any) -> None:
    assert told in ("not_in_flight", "lease_lost")  # lost: an earlier try has settled it
    assert [turn["body"] for turn in turns(entries(spool, known))[1:]] == ["first"]
    assert place(spool, known["task"]) == ("bob", "acked")


def delivered(spool: TemporarySpool, known: Known, told: Any) -> None:
    assert [agent for agent, _ in places(spool.root)[turns(entries(spool, known))[1]["id"]]] == ["alice"]


def opened_for_all(spool: TemporarySpool, known: Known, told: Any) -> None:
    [conversation] = ids(spool.root)
    [task] = journal(spool.root, conversation)
    assert place(spool, task["id"])[0] == "bob"


def code_or_told(call, *given: Any, **named: Any) -> Any:
    """The refusal of the rules as its code; what the disk refuses is raised."""
    try:
        return call(*given, **named)
    except MailError as error:
        if error.code in REFUSED_BY_THE_DISK:
            raise
        return error.code


SCENES = {
    "start": Scene(nothing_yet, lambda spool, _: start(spool), started),
    "start with a key": Scene(nothing_yet, lambda spool, _: start(spool, dedup_key="k"), started_once),
    "a start that was left": Scene(undelivered_start, lambda spool, _: start(spool, dedup_key="k"), started_once),
    "a start that the recipient finds": Scene(undelivered_start, lambda spool, _: read(spool, "bob"), opened_for_all),
    "answer": Scene(one_task, lambda spool, known: answer(spool, known["task"]), answered_once),
    "answer by handle": Scene(claimed_task, lambda spool, known: answer(spool, known["handle"]), answered_once),
    "answer with a key": Scene(
        claimed_task, lambda spool, known: answer(spool, known["handle"], dedup_key="k"), answered_once
    ),
    "an answer that was left": Scene(
        undelivered_turn, lambda spool, known: answer(spool, known["task"]), answered_once
    ),
    "an answer that the recipient finds": Scene(undelivered_turn, lambda spool, _: read(spool, "alice"), delivered),
    "an answer that an end finds": Scene(
        undelivered_turn,
        lambda spool, known: spool.end_conversation(known["conversation"], "complete", "alice"),
        ended("complete", "completed"),
    ),
    "another answer": Scene(
        answered_task, lambda spool, known: code_or_told(answer, spool, known["handle"], "other"), settled_by_its_answer
    ),
    "complete": Scene(
        one_task,
        lambda spool, known: spool.end_conversation(known["conversation"], "complete", "bob"),
        ended("complete", "completed"),
    ),
    "cancel": Scene(
        one_task,
        lambda spool, known: spool.end_conversation(known["conversation"], "cancel", "alice"),
        ended("cancel", "cancelled"),
    ),
    "resume": Scene(
        before_a_human,
        lambda spool, known: spool.resume_conversation(known["conversation"], "eve", add_turns=2)
        | {"max_turns": spool.conversation(known["conversation"])["max_turns"]},
        resumed,
    ),
    "resume what is used up": Scene(
        at_the_limit,
        lambda spool, known: spool.resume_conversation(known["conversation"], "eve", add_turns=2)
        | {"max_turns": spool.conversation(known["conversation"])["max_turns"]},
        resumed,
    ),
    "a turn too many": Scene(
        at_the_limit,
        lambda spool, known: code_or_told(answer, spool, known["task"], "third", "alice"),
        lambda spool, known, told: refused_for_good(
            "turn_limit" if told == "turn_limit" else "not_active")(spool, known, told),
    ),
    "a turn too late": Scene(
        over,
        lambda spool, known: code_or_told(answer, spool, known["task"]),
        lambda spool, known, told: refused_for_good(
            "expired" if told == "expired" else "not_active")(spool, known, told),
    ),
    "ack unanswered": Scene(
        one_task, lambda spool, known: spool.ack("bob", [known["task"]]), settled_before_a_human("acked")
    ),
    "archive unanswered": Scene(
        one_task, lambda spool, known: spool.archive("bob", [known["task"]]), settled_before_a_human("archive")
    ),
}  # fmt: skip
BEST_EFFORT = {"another answer", "an answer that the recipient finds", "a start that the recipient finds"}
"""What they do for others may fail without a word; then the next caller does it."""
NEXT = {
    "the caller again": lambda spool, known: None,
    "the recipient": lambda spool, known: (read(spool, "alice"), read(spool, "bob")),
    "an opener": lambda spool, known: [opened(spool, c) for c in ids(spool.root) if journal(spool.root, c)],
}


class Run:
    """One act with one fault, and what is wrong afterwards."""

    def __init__(
        self, template: str, known: Known, scene: Scene, clock: MovableClock, next_one: str, **fault: Any
    ) -> None:
        self.disk = FailingDisk(**fault)
        self.wrong: list[str] = []
        root = f"{template}-run"
        clone(template, root)
        try:
            self._play(TemporarySpool(root, disk=FailingDisk(), clock=clock, durability="full"), known, scene, next_one)
        finally:
            shutil.rmtree(root)

    def _play(self, spool: TemporarySpool, known: Known, scene: Scene, next_one: str) -> None:
        try:
            told = scene.act(spool.another(self.disk), known)
            if not (self.disk.struck and scene in map(SCENES.get, BEST_EFFORT)):
                self._check(scene, spool, known, told)
        except Killed:
            pass
        except MailError as error:
            self._say(error.code not in REFUSED_BY_THE_DISK, f"refused with {error.code}: {error.sentence}")
        self.wrong += [sentence for sentence in self.disk.offences if "/state.json " not in sentence]  # a hint only
        self.wrong += faults(spool.root)
        NEXT[next_one](spool.another(), known)
        left = undelivered(spool.root) if next_one != "the caller again" else []
        self.wrong += [f"after {next_one}: {sentence}" for sentence in faults(spool.root) + left]
        self._check(scene, spool, known, scene.act(spool.another(), known))
        self.wrong += [f"after everybody: {sentence}" for sentence in everybody_calls(spool)]

    def _say(self, wrong: bool, sentence: str) -> None:
        self.wrong += [sentence] if wrong else []

    def _check(self, scene: Scene, spool: TemporarySpool, known: Known, told: Any) -> None:
        try:
            scene.done(spool, known, told)
        except (AssertionError, LookupError, ValueError) as error:
            self.wrong.append(f"{told}: {error!r}")


def sweep(scene: Scene, every: Callable[[int], list[Known]], stop_after: int = 6) -> tuple[int, list[str]]:
    """Every fault at every call; how many there were, and what went wrong."""
    wrong: list[str] = []
    points = 0
    with a_spool(durability="full") as spool:
        known = scene.prepare(spool)
        shift = spool.clock._wall_shift, spool.clock._boot_shift

        def clock() -> MovableClock:
            made = MovableClock()
            made._wall_shift, made._boot_shift = shift
            return made

        counting = Run(spool.root, known, scene, clock(), "the caller again")
        wrong += [f"without a fault: {sentence}" for sentence in counting.wrong]
        calls = [(name, path.partition("-run/")[2]) for name, path in counting.disk.calls]
        assert calls, "a sweep over nothing would prove nothing"
        for number, (name, path) in enumerate([*calls, ("the end", "")], 1):
            for fault, next_one in every(number, number > len(calls)):
                run = Run(spool.root, known, scene, clock(), next_one, **fault)
                points += 1
                wrong += [f"{fault} {name} {path}, then {next_one}: {sentence}" for sentence in run.wrong]
            if len(wrong) >= stop_after:
                break
    return points, wrong


def kills(number: int, end: bool) -> list[tuple[Known, str]]:
    """Before each call, and after the last: a process that is dead after a call has not begun the next."""
    return [({"kill_after": number - 1} if end else {"kill_at": number}, next_one) for next_one in NEXT]


def failures(number: int, end: bool) -> list[tuple[Known, str]]:
    errors = (errno.EIO, errno.ENOSPC, errno.EROFS)
    return [({"fail_at": number, "error": error}, one) for error, one in zip(errors, NEXT, strict=True) if not end]


@pytest.mark.parametrize("name", SCENES)
def test_killed_at_any_call_the_next_caller_completes(name):
    points, wrong = sweep(SCENES[name], kills)
    assert wrong == []
    assert points > 3 * len(NEXT)


@pytest.mark.parametrize("name", SCENES)
def test_a_call_that_fails_changes_nothing_or_is_completed(name):
    points, wrong = sweep(SCENES[name], failures)
    assert wrong == []
    assert points > 3


# ------------------------------------------------------------------------------------------------ durable first


def calls_of(prepare, act) -> list[tuple[str, str]]:
    with a_spool(durability="full") as spool:
        known = prepare(spool)
        disk = FailingDisk()
        act(spool.another(disk), known)
        return [(name, path.replace(f"{spool.root}/", "")) for name, path in disk.calls]


def before(calls: list[tuple[str, str]], first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Whether a call (name, part of its path) comes before another, both of which there must be."""

    def at(wanted: tuple[str, str]) -> int:
        return next((i for i, (name, path) in enumerate(calls) if name == wanted[0] and wanted[1] in path), -1)

    assert at(second) >= 0, f"no {second} in {calls}"
    return 0 <= at(first) < at(second)


@pytest.mark.parametrize(
    ("name", "commit"),
    [
        ("answer", "/journal"),
        ("answer with a key", "/journal"),
        ("start", "/journal"),
        ("start with a key", "dedup/"),
        ("start with a key", "/journal"),
        ("an answer that was left", "/journal"),
        ("an answer that the recipient finds", "/journal"),
        ("an answer that an end finds", "/journal"),
        ("a start that was left", "dedup/"),
        ("a start that the recipient finds", "dedup/"),
        ("a start that the recipient finds", "/journal"),
    ],
)
def test_a_commit_is_durable_before_anybody_sees_the_message_whoever_delivers_it(name, commit):
    scene = SCENES[name]
    assert before(calls_of(scene.prepare, scene.act), ("fsync", commit), ("rename", "/new/"))


@pytest.mark.parametrize("key", [None, "k"])
def test_a_duplicate_is_reported_when_it_is_durable(key):
    """The first caller may have died before it could sync anything."""

    def delivered_and_not_synced(spool: TemporarySpool) -> Known:
        known = one_task(spool)
        killed_at(spool, "rename", "/new/", lambda dying: answer(dying, known["task"], dedup_key=key), after=True)
        return known

    calls = calls_of(delivered_and_not_synced, lambda spool, known: answer(spool, known["task"], dedup_key=key))
    synced = [path for name, path in calls if name == "fsync"]
    assert "agents/alice/new" in synced
    assert any(path.endswith("/journal") for path in synced)


@pytest.mark.parametrize("action", ["complete", "cancel", "needs_human"])
def test_a_state_that_is_so_already_is_reported_when_it_is_durable(action):
    def linked_and_not_synced(spool: TemporarySpool) -> Known:
        known = one_task(spool)
        again = lambda dying: dying.end_conversation(known["conversation"], action, "bob")  # noqa: E731
        killed_at(spool, "link", "/journal/0001", again, after=True)
        return known

    def say_again(spool: TemporarySpool, known: Known) -> None:
        assert spool.end_conversation(known["conversation"], action, "alice")["changed"] is False

    calls = calls_of(linked_and_not_synced, say_again)
    assert any(name == "fsync" and path.endswith("/journal") for name, path in calls)


@pytest.mark.parametrize("action", ["complete", "needs_human"])
def test_an_end_does_not_wait_for_room_on_a_full_disk(action):
    with a_spool() as spool:
        known = one_task(spool)
        disk = FailingDisk()

        def full(number: int, name: str, path: str) -> None:
            if name == "write" and "/conversations/" in path and disk.fail_at is None:
                disk.fail_at, disk.error = number, errno.ENOSPC

        disk.before = full
        assert spool.another(disk).end_conversation(known["conversation"], action, "bob")["changed"] is True
        assert any(name == "unlink" and "/ballast/" in path for name, path in disk.calls)


# ------------------------------------------------------------------------------------------------ wrong orders


def deliver_first(monkeypatch) -> None:
    """Delivered, then committed: a crash in between delivers what no journal has."""
    real = journals.write_draft

    def early(spool, agent, message_id, data):
        draft, made = real(spool, agent, message_id, data)
        spool.disk.publish(draft, f"{spool.box(agent)}/new/{message_id}.json")
        return draft, made

    monkeypatch.setattr(journals, "write_draft", early)


def key_is_the_commit(monkeypatch) -> None:
    """A turn is committed by its key, as plain mail is: a crash before the journal leaves a turn that is none."""
    real = publish.committed

    def early(spool, agent, message_id, data):
        import json

        from maildir_agents.mail.dedup import key_path

        draft, made = real_draft(spool, agent, message_id, data)
        message = json.loads(data)
        if message["dedup_key"]:
            spool.disk.publish(draft, key_path(spool, message["sender"], message["dedup_key"]))
        return draft, made

    real_draft = journals.write_draft
    assert real is publish.committed
    monkeypatch.setattr(journals, "write_draft", early)


def nobody_completes(monkeypatch) -> None:
    """Whoever opens a conversation looks only at the journal, and the collector asks only for anchors."""
    monkeypatch.setattr(journals, "deliver_left", lambda *_: None)
    monkeypatch.setattr(publish, "_in_journal", lambda *_: False)


def settle_first(monkeypatch) -> None:
    """The message in flight is moved before its conversation is put before a human."""
    from maildir_agents.mail import settle

    monkeypatch.setattr(settle, "hand_over_unanswered", lambda *_: None)


def start_without_its_entry(monkeypatch) -> None:
    """Publishing a keyed start makes no opening entry: its sender would have to."""
    monkeypatch.setattr(publish, "_join_conversation", lambda *_: True)


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (deliver_first, "answer"),
        (key_is_the_commit, "answer with a key"),
        (nobody_completes, "answer"),
        (settle_first, "ack unanswered"),
        (start_without_its_entry, "a start that the recipient finds"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_wrong_order_is_caught_by_the_same_sweep(fault, name, monkeypatch):
    fault(monkeypatch)
    _, wrong = sweep(SCENES[name], kills, stop_after=1)
    assert wrong != []
