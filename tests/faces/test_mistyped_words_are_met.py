"""Whoever mistypes a name, an option or a verb is told what was meant where something is near, and else nothing."""

import json
import os

import pytest

from faces.program import until


@pytest.mark.parametrize("words", [["read"], ["claim"], ["ack", "--all"], ["watch", "--once"]], ids=lambda w: w[0])
def test_a_name_without_a_mailbox_that_is_near_another_is_warned_of_once(quick, words):
    quick.send("hub", "worker-docs")
    done = quick(words[0], "wrker-docs", *words[1:])
    assert done.answer["agent"] == "wrker-docs"
    [warning] = done.warnings
    assert (warning["code"], "worker-docs" in warning["warning"]) == ("new_mailbox", True)
    assert quick(words[0], "wrker-docs", *words[1:]).warnings == [], "now it has one"
    assert quick(words[0], "quite-another", *words[1:]).warnings == []


def test_enabling_a_listener_that_has_nothing_to_start_says_so(quick):
    done = quick("listener", "enable", "counter")
    try:
        assert done.answer["running"] is True
        [warning] = done.warnings
        assert (warning["code"], warning["path"]) == ("starts_nothing", f"{quick.spool}/config.json")
        (quick.spool / "config.json").write_text(json.dumps({"auto": {"counter": {"command": ["true"]}}}))
        assert quick("listener", "enable", "counter").warnings == []
    finally:
        os.kill(done.answer["pid"], 15)
        until(lambda: quick("listener", "status", "counter").answer["running"] is False, "the listener has ended")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["send", "--form", "hub"], "--from"),
        (["read", "bob", "--no-mark-raed"], "--no-mark-read"),
        (["install", "cluade"], "claude"),
        (["listener", "enabel", "bob"], "enable"),
    ],
)
def test_an_option_or_a_choice_that_is_near_another_names_it(quick, words, meant):
    assert quick(*words).refusal["error"].endswith(f"; did you mean {meant}?")


def test_an_option_that_is_near_none_is_not_guessed_at(quick):
    assert quick("send", "--quietly").refusal["error"] == "send has no option --quietly"


@pytest.mark.parametrize(("typed", "meant"), [("acknowledge", "ack"), ("conv", "conversation"), ("snd", "send")])
def test_a_longer_or_shorter_word_for_a_verb_is_understood(quick, typed, meant):
    assert quick(typed).refusal["hint"] == f"did you mean agent-mail {meant}?"


def test_what_is_not_for_programs_is_told_by_its_help(quick):
    assert quick("describe", "view").refusal["hint"] == "agent-mail view --help"
    assert quick("describe", "snd").refusal["hint"] == "agent-mail describe send"


def test_whose_message_it_is_stands_in_the_refusal_and_in_its_hint(quick):
    sent = quick.send("hub", "worker-docs")["id"]
    refusal = quick("ack", "hub", sent).refusal
    assert (refusal["code"], "worker-docs" in refusal["hint"]) == ("not_yours", True)
    assert quick.row("worker-docs")["unread"] == 1


def test_a_hook_says_what_would_be_right(quick):
    environ = {name: value for name, value in quick.environ.items() if name != "AGENT_ID"}
    [warning] = quick("hook", "prompt", stdin=b"{}", env=environ).warnings
    assert warning["hint"] == "set AGENT_ID, or give --agent"


def test_a_watch_that_is_to_return_at_once_and_to_stay_is_refused(quick):
    assert quick("watch", "bob", "--once", "--follow").refusal["code"] == "usage"
