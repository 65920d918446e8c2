"""Whatever two agents do, in whatever order, and wherever they die in it: one bounded chain, one message in flight."""

import shutil
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from conversations.dialogue import Fold, faults, ids, journal
from conversations.scene import a_spool, everybody_calls, other
from maildir_agents.errors import MailError
from maildir_agents.mail import conversation as rules
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.mending import collect
from maildir_agents.testing import FailingDisk, Killed, TemporarySpool

AGENTS = ("alice", "bob")
BODIES = ("yes", "no", "perhaps")
KEYS = (None, None, None, "k1", "k2")
DEATHS = st.one_of(st.none(), st.integers(1, 40))  # before which call the caller dies, if it comes so far
WHO = st.sampled_from(AGENTS)
WRONG_ANSWERS = {"traceback", "id_clash", "cannot_read", "busy"}  # of a good disk and one caller at a time


class Dialogues(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.context = a_spool(durability="full")
        self.spool: TemporarySpool = self.context.__enter__()
        self.handles: dict[str, list[str]] = {"alice": [], "bob": []}
        self.last: tuple[Any, ...] | None = None
        self.committed: set[str] = set()

    def teardown(self) -> None:
        try:
            assert everybody_calls(self.spool) == []
        finally:
            shutil.rmtree(self.spool.root, ignore_errors=True)
            self.context.__exit__(None, None, None)

    # what anybody may do

    def call(self, death: int | None, act: str, *given: Any, **named: Any) -> Any:
        """Call the spool; None when the caller died in it or was refused."""
        disk = FailingDisk(kill_at=death)
        try:
            return getattr(self.spool.another(disk), act)(*given, **named)
        except Killed:
            return None
        except MailError as error:
            assert error.code not in WRONG_ANSWERS, f"{act} {given} {named}: {error.code}, {error.sentence}"
            return None
        finally:
            assert [wrong for wrong in disk.offences if "/state.json " not in wrong] == []

    def folds(self) -> list[Fold]:
        entries = [journal(self.spool.root, conversation) for conversation in ids(self.spool.root)]
        return [Fold(found) for found in entries if found]

    @initialize(limit=st.integers(2, 6))
    def begin(self, limit: int) -> None:
        self.call(None, "start_conversation", sender="alice", recipient="bob", goal="g", max_turns=limit, expires_s=600)

    @precondition(lambda self: len(ids(self.spool.root)) < 3)
    @rule(limit=st.integers(2, 4), key=st.sampled_from((None, "s1")), death=DEATHS)
    def start(self, limit: int, key: str | None, death: int | None) -> None:
        self.call(
            death, "start_conversation", sender="alice", recipient="bob", goal="g", max_turns=limit, expires_s=600,
            dedup_key=key,
        )  # fmt: skip

    @precondition(lambda self: self.folds())
    @rule(data=st.data(), body=st.sampled_from(BODIES), key=st.sampled_from(KEYS), death=DEATHS)
    def speak(self, data: st.DataObject, body: str, key: str | None, death: int | None) -> None:
        """Answer a message: mostly the one in flight, by id or by a claim's handle, rightly or not."""
        fold = data.draw(st.sampled_from(self.folds()))
        turn = data.draw(st.sampled_from([fold.turns[-1]] * 4 + fold.turns))
        sender = data.draw(st.sampled_from([turn["recipient"]] * 4 + [turn["sender"]]))
        parent = data.draw(st.sampled_from([turn["id"]] * 2 + self.handles[sender]))
        self.last = (sender, parent, body, key, data.draw(st.sampled_from(("task", "result", "notice"))))
        self._say(death)

    @precondition(lambda self: self.last is not None)
    @rule(death=DEATHS)
    def say_again(self, death: int | None) -> None:
        """The same call once more, as after a crash."""
        self._say(death)

    def _say(self, death: int | None) -> None:
        assert self.last is not None
        sender, parent, body, key, kind = self.last
        told = self.call(
            death, "send", sender=sender, recipient=other(sender), subject="s", body=body, kind=kind, reply_to=parent,
            dedup_key=key,
        )  # fmt: skip
        if told and kind != "notice" and not told["duplicate"]:
            everything = [turn["id"] for fold in self.folds() for turn in fold.turns]
            assert told["id"] in everything, "told of a turn that is none"

    @precondition(lambda self: self.folds())
    @rule(data=st.data(), action=st.sampled_from(("complete", "cancel", "needs_human")), by=WHO, death=DEATHS)
    def end(self, data: st.DataObject, action: str, by: str, death: int | None) -> None:
        fold = data.draw(st.sampled_from(self.folds()))
        self.call(death, "end_conversation", fold.turns[0]["conversation_id"], action, by)

    @precondition(lambda self: any(fold.state == "needs_human" for fold in self.folds()))
    @rule(data=st.data(), turns=st.integers(0, 20), seconds=st.sampled_from((0, 300)), death=DEATHS)
    def resume(self, data: st.DataObject, turns: int, seconds: int, death: int | None) -> None:
        fold = data.draw(st.sampled_from([fold for fold in self.folds() if fold.state == "needs_human"]))
        conversation = fold.turns[0]["conversation_id"]
        self.call(death, "resume_conversation", conversation, "eve", add_turns=turns, extend_s=seconds)

    @rule(who=WHO, death=DEATHS)
    def claim(self, who: str, death: int | None) -> None:
        taken = self.call(death, "claim", who, lease_s=60)
        if taken and taken["handle"]:
            self.handles[who] = [*self.handles[who][-2:], taken["handle"]]

    @rule(data=st.data(), who=WHO, act=st.sampled_from(("ack", "archive")), death=DEATHS)
    def settle(self, data: st.DataObject, who: str, act: str, death: int | None) -> None:
        """Put something away, answered or not."""
        mine = [turn["id"] for fold in self.folds() for turn in fold.turns if turn["recipient"] == who]
        if chosen := [*mine, *self.handles[who]]:
            self.call(death, act, who, [data.draw(st.sampled_from(chosen))])

    @rule(who=WHO, death=DEATHS)
    def read(self, who: str, death: int | None) -> None:
        try:
            with self.spool.another(FailingDisk(kill_at=death)).read(who, limit=100):
                pass
        except Killed:
            pass

    @rule(who=WHO)
    def collect(self, who: str) -> None:
        collect(Mailbox(self.spool.another(), who))

    @rule(seconds=st.sampled_from((1, 61, 120, 400)))
    def let_time_pass(self, seconds: int) -> None:
        self.spool.clock.advance(seconds)

    # what holds at any moment

    @invariant()
    def it_is_one_bounded_chain_and_nothing_committed_is_ever_gone(self) -> None:
        assert faults(self.spool.root) == []
        now = {entry["id"] for c in ids(self.spool.root) for entry in journal(self.spool.root, c)}
        assert self.committed <= now
        self.committed = now

    @invariant()
    def what_status_tells_is_what_the_journal_says(self) -> None:
        for fold in self.folds():
            told = self.spool.conversation(fold.turns[0]["conversation_id"])
            assert told["turn_count"] == len(fold.turns) <= told["max_turns"] == fold.max_turns <= 20
            assert told["state"] == fold.state or (told["state"], fold.state) == ("expired", "active")
            assert told["in_flight"] in (fold.turns[-1]["id"], None)


TestDialogues = Dialogues.TestCase
TestDialogues.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)


def test_a_limit_that_nobody_keeps_is_found_by_the_same_machine(monkeypatch):
    real = rules.judge_turn

    def lax(conversation, message, now_ms):
        limit, conversation.max_turns = conversation.max_turns, 99
        try:
            real(conversation, message, now_ms)
        finally:
            conversation.max_turns = limit

    monkeypatch.setattr(rules, "judge_turn", lax)
    few = settings(max_examples=500, stateful_step_count=40, derandomize=True, phases=[Phase.generate], deadline=None)
    with pytest.raises(AssertionError, match="is turn"):
        run_state_machine_as_test(Dialogues, settings=few)
