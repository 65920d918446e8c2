"""The negative controls: each of these breaks one rule of the format on purpose, and the harness has to say so.

A harness that finds nothing here would find nothing anywhere.
"""

import pytest

from crash import scenarios, wrong_orders
from crash.meetings import Meeting, abandoned, wake
from crash.sweep import Sweep

MUTANTS = [
    (wrong_orders.rename_before_the_anchor, scenarios.Send, "said not to be sent, but visible"),
    (wrong_orders.rename_before_the_anchor, scenarios.SendWithKey, "said not to be sent, but visible"),
    (wrong_orders.acknowledge_before_the_reply, scenarios.Reply, "acknowledged without an answer"),
    (wrong_orders.no_sync_of_the_file, scenarios.Send, "before it was synced"),
    (wrong_orders.no_sync_of_the_directory, scenarios.Send, "reported and not synced"),
    (wrong_orders.no_sync_of_the_directory, scenarios.Ack, "reported and not synced"),
    (wrong_orders.no_sync_of_the_directory, scenarios.SendWithKey, "delivered before its commit was synced"),
    (wrong_orders.no_sync_of_a_new_directory, scenarios.SendToANewMailbox, "never synced in its parent"),
    (wrong_orders.sync_again_what_could_not_be_synced, scenarios.Send, "synced again after its sync had failed"),
    (wrong_orders.mark_before_the_output, scenarios.Read, "['new'], it is in ['cur']"),
    (wrong_orders.mark_before_the_output, scenarios.ReadAndAck, "['new'], it is in ['acked']"),
    (wrong_orders.say_not_sent_after_the_commit, scenarios.Send, "said not to be sent, but visible"),
    (wrong_orders.move_to_failed_without_a_reason, scenarios.DeadLetter, "a dead letter without its reason"),
    (wrong_orders.purge_the_state_first, scenarios.Purge, "has an anchor and is in no mailbox"),
    (wrong_orders.leave_the_draft, scenarios.Send, "a draft was left"),
    (wrong_orders.leave_the_draft, scenarios.Helper, "a draft was left"),
]


@pytest.mark.parametrize(
    ("mutate", "scenario", "sentence"), MUTANTS, ids=[f"{m.__name__}-{s.__name__}" for m, s, _ in MUTANTS]
)
def test_the_harness_reports(mutate, scenario, sentence, memory, monkeypatch):
    sweep = Sweep(scenario(), memory, until=sentence)  # the situation is prepared by the right code
    mutate(monkeypatch)
    wrong = sweep.run().wrong
    assert any(sentence in line for line in wrong), wrong[:5]


def test_the_harness_reports_a_collector_that_unlinks_what_it_has_not_set_aside(memory, monkeypatch):
    meeting = Meeting(memory, abandoned, wake)
    wrong_orders.unlink_what_is_not_set_aside(monkeypatch)
    assert any("has an anchor and is in no mailbox" in sentence for sentence in meeting.sweep())
