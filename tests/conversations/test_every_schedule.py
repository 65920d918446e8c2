"""Two callers on one conversation, in every order of their steps: one turn, one end, and the loser is told the truth.

After every schedule of the real code: the journal is one lawful chain without holes; nothing is delivered before its
commit; who is told success has it, who is refused changed nothing and was refused rightly; the next caller delivers
what is committed.  The wrong orders at the end are caught by the same scenes.
"""

import json
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import pytest

from conversations.dialogue import Fold, controls, faults, ids, journal, places, turns, undelivered
from crash.sweep import clone
from maildir_agents.errors import MailError
from maildir_agents.mail import conversation as rules
from maildir_agents.mail import journal as journals
from maildir_agents.mail import publish
from maildir_agents.mail.founding import ensure_mailbox
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.mending import collect
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.testing import FailingDisk, Killed
from maildir_agents.verbs.ack import ack, archive
from maildir_agents.verbs.claim import claim
from maildir_agents.verbs.conversation import control, resume, start
from maildir_agents.verbs.send import send
from race import schedules
from race.schedules import Bounded, Failed, Performance, Place, PlayedClock, Sampled, Step, Traces, play

NOW, UP, BOOT = 1_796_064_432_123, 86_400_123, "9f44af0deffffffa"
TICK = "time passes"
LONG = bool(os.environ.get("AGENT_MAIL_LONG"))
MOST = 3000
SAMPLES = 40


class Narrow(Place):
    """A place where only what can matter is shared: no hints.

    Nobody reads state.json, and a draft that is a moment old is left alone by whoever sweeps: their comings and goings
    cannot change anything for anybody.
    """

    def step(self, call: str, args: tuple[Any, ...]) -> Step | None:
        found = super().step(call, args)
        if found is not None:
            found.uses = {key: mode for key, mode in found.uses.items() if not self._is_hint(key[0], key[1])}
        return found

    def _is_hint(self, what: str, path: str) -> bool:
        at = path.removeprefix(f"{self.root}/conversations/").split("/")
        return len(at) <= 3 and path.startswith(f"{self.root}/conversations/") and (
            at[-1] == "state.json" or at[-1].startswith(".state.") or (what == "listing" and at[1:] in ([], ["tmp"]))
        )  # fmt: skip


class WallClock(PlayedClock):
    """Conversations go by the wall clock: looking at it is a step, too, and it moves with the other."""

    def wall_ms(self) -> int:
        schedules._announce(schedules.Step("wall clock", {("clock", ""): schedules.READ}))
        return self.wall

    def advance(self, seconds: int) -> None:
        super().advance(seconds)
        self.wall += seconds * 1000


class Told(NamedTuple):
    """How a call ended: an answer, or the code of a refusal."""

    act: str
    answer: Any
    code: str


# ------------------------------------------------------------------------------------------------ who does what


def answering(body: str, parent: str = "task", **more: Any) -> Callable[[SpoolFiles, dict[str, Any]], Any]:
    def act(spool: SpoolFiles, known: dict[str, Any]) -> Any:
        sender = known.get("speaker", "bob")
        return send(
            spool, sender=sender, recipient="alice" if sender == "bob" else "bob", subject="s", body=body,
            kind="result", reply_to=known[parent], **more,
        )  # fmt: skip

    return act


def ending(action: str, agent: str) -> Callable[[SpoolFiles, dict[str, Any]], Any]:
    return lambda spool, known: control(spool, known["conversation"], action, agent)


def starting(spool: SpoolFiles, known: dict[str, Any]) -> Any:
    return start(spool, sender="alice", recipient="bob", goal="agree", dedup_key="k")


ACTS: dict[str, Callable[[SpoolFiles, dict[str, Any]], Any]] = {
    "answer x": answering("x", acknowledge=False),
    "answer y": answering("y", acknowledge=False),
    "answer x and settle": answering("x"),
    "answer y and settle": answering("y"),
    "answer x by handle": answering("x", "handle"),
    "answer y by handle": answering("y", "handle"),
    "answer x with a key": answering("x", dedup_key="k"),
    "answer y with the key": answering("y", dedup_key="k"),
    "complete": ending("complete", "bob"),
    "cancel": ending("cancel", "alice"),
    "needs a human": ending("needs_human", "alice"),
    "resume": lambda spool, known: resume(spool, known["conversation"], "eve", add_turns=2, extend_s=3600),
    "ack": lambda spool, known: ack(spool, "bob", [known["task"]]),
    "archive": lambda spool, known: archive(spool, "bob", [known["task"]]),
    "collect": lambda spool, known: collect(Mailbox(spool, known.get("reader", "alice"))),
    "open": lambda spool, known: journals.open_to_write(spool, known["conversation"]),
    "start": starting,
    "start again": starting,
}
ANSWERS = {name for name in ACTS if name.startswith("answer")}
FOR_A_HUMAN = {"needs a human", "ack", "archive"}


# ------------------------------------------------------------------------------------------------ where it starts


def noisy(who: int) -> Callable[[int], bytes]:
    numbers = iter(range(who * 100_000, (who + 1) * 100_000))
    return lambda n: next(numbers).to_bytes(n, "big")


def opened(root: str, clock: WallClock, who: int) -> SpoolFiles:
    return SpoolFiles(root, clock=clock, randomness=noisy(who), durability="none", history=False)


def left_after_commit(spool: SpoolFiles, commit: str, act: Callable[[], Any]) -> None:
    """Commit and die: the link below `commit` is made, and nothing after it."""
    good, dying = spool.disk, FailingDisk(durable=False)

    def look(number: int, name: str, path: str) -> None:
        if any(call == "link" and commit in made and os.path.lexists(made) for call, made in dying.calls[:-1]):
            dying.kill_at = number

    dying.before = look
    spool.disk = dying
    with pytest.raises(Killed):
        act()
    spool.disk = good


def _begin(spool: SpoolFiles, **terms: Any) -> dict[str, Any]:
    begun = start(spool, sender="alice", recipient="bob", goal="agree", **terms)
    return {"conversation": begun["conversation_id"], "task": begun["message_id"]}


def _claimed(spool: SpoolFiles) -> dict[str, Any]:
    known = _begin(spool)
    return known | {"handle": claim(spool, "bob", known["task"])["handle"]}


def _two_turns(spool: SpoolFiles, **terms: Any) -> dict[str, Any]:
    known = _begin(spool, **terms)
    said = ACTS["answer x"](spool, known)
    return known | {"task": said["id"], "speaker": "alice"}


def _over(spool: SpoolFiles) -> dict[str, Any]:
    known = _begin(spool, expires_s=60)
    spool.clock.advance(61)  # type: ignore[attr-defined]
    return known


def _nearly_over(spool: SpoolFiles) -> dict[str, Any]:
    known = _begin(spool, expires_s=60)
    spool.clock.advance(40)  # type: ignore[attr-defined]
    return known


def _before_a_human(spool: SpoolFiles) -> dict[str, Any]:
    known = _two_turns(spool, max_turns=2)
    control(spool, known["conversation"], "needs_human", "bob")
    return known


def _undelivered(spool: SpoolFiles) -> dict[str, Any]:
    known = _begin(spool)
    left_after_commit(spool, "/journal/0001", lambda: ACTS["answer x"](spool, known))
    return known


def _nothing(spool: SpoolFiles) -> dict[str, Any]:
    return {"reader": "bob"}


def _undelivered_start(spool: SpoolFiles) -> dict[str, Any]:
    left_after_commit(spool, "/dedup/", lambda: starting(spool, {}))
    return {"reader": "bob"}


STARTS = {
    "a task": _begin,
    "a claimed task": _claimed,
    "at the limit": lambda spool: _two_turns(spool, max_turns=2),
    "over": _over,
    "nearly over": _nearly_over,
    "before a human": _before_a_human,
    "an answer is committed": _undelivered,
    "nothing": _nothing,
    "a start is committed": _undelivered_start,
}
#: Played in every order, however often they switch: one of each set of schedules that cannot differ.
WHOLE = [
    ("a task", "complete", "cancel"),
    ("a task", "complete", "complete"),
    ("a task", "needs a human", "cancel"),
    ("a task", "ack", "complete"),
    ("at the limit", "answer x", "answer y"),
    ("at the limit", "answer x", "complete"),
    ("over", "answer x", "answer y"),
    ("over", "answer x", "cancel"),
    ("nearly over", "answer x", TICK),
    ("before a human", "resume", "cancel"),
    ("before a human", "resume", "resume"),
    ("before a human", "resume", "answer x"),
]
#: Too many for that, but on a long run: every schedule with one preemption, and samples with three.
MANY = [
    ("a task", "answer x", "answer y"),
    ("a task", "answer x and settle", "answer y and settle"),
    ("a task", "answer x and settle", "answer x and settle"),
    ("a task", "answer x with a key", "answer y with the key"),
    ("a claimed task", "answer x by handle", "answer x by handle"),
    ("a claimed task", "answer x by handle", "answer y by handle"),
    ("a task", "answer x", "cancel"),
    ("a task", "answer x with a key", "cancel"),
    ("a task", "ack", "answer x and settle"),
    ("a task", "archive", "answer x and settle"),
    ("at the limit", "answer x", "resume"),
    ("over", "answer x", "resume"),
    ("an answer is committed", "collect", "open"),
    ("an answer is committed", "open", "open"),
    ("an answer is committed", "answer x and settle", "collect"),
    ("an answer is committed", "answer x and settle", "open"),
    ("an answer is committed", "answer y and settle", "collect"),
    ("an answer is committed", "complete", "collect"),
    ("nothing", "start", "start again"),
    ("nothing", "start", "collect"),
    ("a start is committed", "start", "collect"),
    ("a start is committed", "start", "start again"),
]


# ------------------------------------------------------------------------------------------------ what is true


def judge(root: str, begun: int, known: dict[str, Any], told: dict[int, Told], events: list[tuple[str, ...]]) -> str:
    """What is wrong at the end of a schedule; "" if nothing is.  `begun`: entries that were there before."""
    try:
        _judge_journals(root, begun, told)
        _judge_order(events)
        for who, word in sorted(told.items()):
            _judge_word(root, known, word, told.get(1 - who))
        _judge_settled(root, known)
        _judge_keys(root)
        _finish(root, known)
    except AssertionError as error:
        heard = {"ABC"[who]: (word.act, word.code or word.answer) for who, word in told.items()}
        entries = {c: [e.get("control") or e["body"] for e in journal(root, c)] for c in ids(root)}
        return f"{error}\n  told: {heard}\n  entries: {entries}\n  places: {places(root)}"
    return ""


def _judge_journals(root: str, begun: int, told: dict[int, Told]) -> None:
    assert faults(root) == []
    asked = {word.act for word in told.values()} & FOR_A_HUMAN
    for conversation in ids(root):
        entries = journal(root, conversation)
        for number in range(max(begun, 1), len(entries)):
            if entries[number].get("control") == "needs_human" and not asked:
                fold, created = Fold(entries[:number]), entries[number]["created"]
                used_up = len(fold.turns) >= fold.max_turns or created > fold.expires_at
                assert used_up, f"entry {number} puts before a human what has room and time"
        assert len([event for event in controls(entries) if event in ("complete", "cancel")]) <= 1, "two ends"


def _judge_order(events: list[tuple[str, ...]]) -> None:
    """No turn is in new/ before its journal has it."""
    committed: set[str] = set()
    for call, source, target in events:
        if call == "link" and "/journal/" in target and "/agents/" in source:
            committed.add(os.path.basename(source)[:36])
        elif call in ("link", "rename") and "/new/" in target and "/tmp/" in source:
            message = os.path.basename(target)[:36]
            assert message in committed, f"{message} is delivered before it is committed"


def _judge_word(root: str, known: dict[str, Any], word: Told, rival: Told | None) -> None:
    assert word.code != "traceback", f"{word.act} ended in a traceback: {word.answer}"
    entries = [entry for conversation in ids(root) for entry in journal(root, conversation)]
    said = {turn["id"]: turn for turn in turns(entries)}
    if word.act in ANSWERS and not word.code:
        mine = said.get(word.answer["id"])
        assert mine is not None, f"told of a turn that is none: {word.answer['id']}"
        assert mine["body"] == word.act.split()[1] or word.answer.get("content_differs"), "another's words"
    elif word.code:
        _judge_refusal(word, rival, entries, said, known)
    elif word.act in ("complete", "cancel", "needs a human", "resume"):
        after = {"complete": "completed", "cancel": "cancelled", "needs a human": "needs_human", "resume": "active"}
        assert word.answer["state"] == after[word.act]
    elif word.act in ("start", "start again"):
        assert ids(root) == [word.answer["conversation_id"]]


def _judge_refusal(
    word: Told, rival: Told | None, entries: list[Any], said: dict[str, Any], known: dict[str, Any]
) -> None:
    """Whoever is refused lost to something that is really there."""
    others = [turn for turn in said.values() if turn["reply_to"] == known["task"]]
    if word.act in ANSWERS:
        mine = [turn for turn in others if turn["body"] == word.act.split()[1]]
        assert not mine, f"{word.act} was refused with {word.code} and yet it is a turn"
    if word.code == "not_in_flight":
        assert others, "answered? by nobody"
    elif word.code == "not_active":
        assert controls(entries), "not active? nothing ended it"
    elif word.code in ("turn_limit", "expired"):
        assert "needs_human" in controls(entries) or (rival and rival.act in ("resume", "complete", "cancel", TICK))
    else:
        raise AssertionError(f"{word.act} was refused with {word.code}: {word.answer}")


def _judge_settled(root: str, known: dict[str, Any]) -> None:
    """What is settled was answered, or its conversation is before a human or ended."""
    if "task" not in known:
        return
    [(_, state)] = places(root)[known["task"]]
    fold = Fold(journal(root, known["conversation"]))
    answered = any(turn["reply_to"] == known["task"] for turn in fold.turns)
    if state in ("acked", "archive") and not answered:
        assert fold.state != "active", "settled unanswered while the conversation waits for an answer"
    if answered and fold.turns[-1]["reply_to"] == known["task"]:
        assert fold.turns[-1]["sender"] == known.get("speaker", "bob")


def _judge_keys(root: str) -> None:
    """A key names a message that was sent."""
    there = places(root)
    entries = {entry["id"] for conversation in ids(root) for entry in journal(root, conversation)}
    for here, _, names in os.walk(f"{root}/dedup"):
        for name in names:
            with open(f"{here}/{name}", encoding="utf-8") as file:
                message = json.load(file)
            assert message["id"] in there or message["id"] in entries, f"a key of nothing: {message['id']}"


def _finish(root: str, known: dict[str, Any]) -> None:
    """Everybody is gone; the next caller delivers what is committed, and nothing twice."""
    clock = WallClock(NOW + 100_000, UP + 100_000, BOOT)
    for number, agent in enumerate(("alice", "bob")):
        collect(Mailbox(opened(root, clock, 7 + number), agent))
    assert undelivered(root) == []
    for conversation in ids(root):
        journals.open_to_write(opened(root, clock, 9), conversation)
    assert faults(root) == []


# ------------------------------------------------------------------------------------------------ the play


@pytest.fixture(scope="module")
def place():
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as directory, mock.patch("race.schedules.Place", Narrow):
        yield directory


def perform(act: str, spool: SpoolFiles, known: dict[str, Any]) -> Told:
    try:
        return Told(act, ACTS[act](spool, known), "")
    except MailError as error:
        return Told(act, error.sentence, error.code)
    except Exception:
        return Told(act, traceback.format_exc(), "traceback")


def scene(place: str, begins: str, acts: tuple[str, ...]) -> Callable[[], Any]:
    """A scene for `play`: where it begins, and everybody who acts there."""
    template, root = f"{place}/template", f"{place}/spool"
    shutil.rmtree(template, ignore_errors=True)
    clock = WallClock(NOW, UP, BOOT)
    spool = opened(template, clock, 5)
    for agent in ("alice", "bob"):
        ensure_mailbox(spool, agent)
    known = STARTS[begins](spool)
    moment = clock.wall, clock.up
    begun = sum(len(journal(template, conversation)) for conversation in ids(template))
    there = [turn["id"] for conversation in ids(template) for turn in turns(journal(template, conversation))]
    committed = [("link", f"/agents/x/tmp/{message}", "/journal/") for message in there]

    def set_up() -> Any:
        shutil.rmtree(root, ignore_errors=True)
        clone(template, root)
        played = WallClock(*moment, BOOT)
        told: dict[int, Told] = {}
        events = list(committed)
        programs = []
        for who, act in enumerate(acts):
            if act == TICK:
                programs.append(lambda: played.advance(30))
                continue

            mine = opened(root, played, who)

            def program(who: int = who, act: str = act, mine: SpoolFiles = mine) -> None:
                told[who] = perform(act, mine, known)

            programs.append(program)

        def watch(_: int, call: str, source: str, target: str = "") -> None:
            events.append((call, source, target))

        def begin(_: Performance) -> None:
            pass

        return root, programs, watch, begin, lambda: judge(root, begun, known, told, events)

    return set_up


def named(what: tuple[str, ...]) -> str:
    return f"{what[0]}: {what[1]} | {what[2]}"


@pytest.mark.parametrize("what", WHOLE, ids=named)
def test_whatever_the_order_there_is_one_outcome_and_everybody_is_told_the_truth(place, what):
    begins, *acts = what
    assert 1 < play(scene(place, begins, tuple(acts)), Traces(), MOST) < MOST


@pytest.mark.parametrize("what", MANY, ids=named)
def test_wherever_one_is_stopped_and_the_other_goes_on_the_same_holds(place, what):
    begins, *acts = what
    if LONG:
        assert play(scene(place, begins, tuple(acts)), Traces()) > MOST
        return
    assert play(scene(place, begins, tuple(acts)), Bounded(1)) > 10
    play(scene(place, begins, tuple(acts)), Sampled(SAMPLES, 3, int(os.environ["TEST_SEED"])))


# ------------------------------------------------------------------------------------------------ wrong orders


def deliver_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn is delivered, then committed."""
    real = journals.write_draft

    def early(spool: SpoolFiles, agent: str, message_id: str, data: bytes) -> tuple[str, bool]:
        draft, made = real(spool, agent, message_id, data)
        spool.disk.publish(draft, f"{spool.box(agent)}/new/{message_id}.json")
        return draft, made

    monkeypatch.setattr(journals, "write_draft", early)


def judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control entry is judged, and then linked under whatever number is free."""

    def write(spool: SpoolFiles, conversation_id: str, event: str, by: str, **_: Any) -> tuple[Any, bool]:
        found = journals.open_to_write(spool, conversation_id)
        if not rules.judge_control(found, event):
            return found, False
        entry = journals._control_entry(spool, found, event, by, None)
        draft = journals._draft_control(spool, entry)
        number = found.entries
        while spool.disk.publish(draft, spool.entry(found.id, number)) == "exists":
            number += 1
        spool.disk.discard(draft)
        found.append(entry)
        return found, True

    monkeypatch.setattr(journals, "write_control", write)


def key_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of a turn is its commit, as it is of plain mail."""
    real = journals.write_draft

    def early(spool: SpoolFiles, agent: str, message_id: str, data: bytes) -> tuple[str, bool]:
        from maildir_agents.mail.dedup import key_path

        draft, made = real(spool, agent, message_id, data)
        message = json.loads(data)
        if message["dedup_key"]:
            spool.disk.publish(draft, key_path(spool, message["sender"], message["dedup_key"]))
        return draft, made

    monkeypatch.setattr(journals, "write_draft", early)


def judged_before_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed is not looked for before the state is judged."""
    monkeypatch.setattr(rules, "same_turn", lambda *_: None)


def compared_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is taken is another's, also when its maker has delivered the draft by the time they are compared."""

    def link(spool: SpoolFiles, draft: str, name: str) -> str:
        linked = spool.disk.publish(draft, name)
        return "done" if linked == "exists" and publish.same_message(draft, name) else linked

    monkeypatch.setattr(publish, "_link", link)


def not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever came too late writes so, also when a person has given more meanwhile."""
    real = journals.write_control

    def written(*given: Any, still: object = None, **more: Any) -> Any:
        return real(*given, **more)

    monkeypatch.setattr(journals, "write_control", written)


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        (deliver_first, ("a task", "answer x", "answer y")),
        (judged_once, ("a task", "complete", "cancel")),
        (key_first, ("a task", "answer x with a key", "cancel")),
        (judged_before_known, ("a claimed task", "answer x by handle", "answer x by handle")),
        (compared_too_late, ("a task", "answer x", "cancel")),
        (not_judged_again, ("over", "answer x", "resume")),
    ],
    ids=lambda value: value.__name__ if callable(value) else named(value),
)
def test_a_wrong_order_is_caught_by_the_same_scene(place, fault, what, monkeypatch):
    begins, *acts = what
    played = scene(place, begins, tuple(acts))  # what it begins with is made in the right order
    fault(monkeypatch)
    with pytest.raises(Failed):
        play(played, Bounded(2))
