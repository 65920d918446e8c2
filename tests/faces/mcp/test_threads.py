"""Whose threads an agent reads: its own, and of what went to everybody not what others made of it."""

import json

import pytest
from mcp.server.mcpserver.exceptions import ToolError

from maildir_agents.faces.mcp.desk import Desk
from maildir_agents.testing import temporary_spool


@pytest.fixture
def desk():
    with temporary_spool() as spool:
        for agent in ("hub", "docs", "stranger"):
            spool.ack(agent, everything=True)
        yield lambda agent: Desk(spool.another, agent, {})


def bodies(desk: Desk, message_id: str) -> list[str]:
    return [message["body"] for message in desk.thread(message_id)["messages"]]


def refused(act) -> str:
    with pytest.raises(ToolError) as refusal:
        act()
    return json.loads(str(refusal.value))["code"]


def test_who_answers_a_message_to_everybody_does_not_read_what_others_answered(desk):
    hub, docs, stranger = desk("hub"), desk("docs"), desk("stranger")
    everybody = hub.send_message(recipient="*", subject="who is there?", body="say so", reply_to=None)["id"]
    private = docs.reply(everybody, "for the hub alone", None)["id"]
    assert bodies(stranger, private) == ["say so"]
    assert refused(lambda: stranger.reply(private, "let me in", None)) == "not_yours"
    stranger.reply(everybody, "me, too", None)
    assert bodies(stranger, private) == bodies(stranger, everybody) == ["say so", "me, too"]
    assert refused(lambda: stranger.reply(private, "let me in", None)) == "not_yours"
    assert bodies(docs, everybody) == ["say so", "for the hub alone"]
    assert bodies(hub, everybody) == ["say so", "for the hub alone", "me, too"]


def test_a_thread_of_two_is_read_whole_by_both_and_by_nobody_else(desk):
    hub, docs, stranger = desk("hub"), desk("docs"), desk("stranger")
    sent = hub.send_message(recipient="docs", subject="s", body="one", reply_to=None)["id"]
    docs.reply(sent, "two", None)
    assert bodies(hub, sent) == bodies(docs, sent) == ["one", "two"]
    assert refused(lambda: stranger.thread(sent)) == "not_yours"
