"""MCP under /mcp: the official client over HTTP, as the agent that its key was issued for."""

import asyncio
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from faces.http.served import Served


def call(served: Served, headers: dict[str, str], *calls: tuple[str, dict[str, Any]], mode: str = "auto") -> list[Any]:
    async def session() -> list[Any]:
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            transport = streamable_http_client(f"{served.address}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                return [(await client.call_tool(name, arguments)).structured_content for name, arguments in calls]

    return asyncio.run(session())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_key_says_who_the_agent_is(keyed, mode):
    order = {"from_agent": "hub", "to_agent": "worker-docs", "subject": "by HTTP", "body": "b"}
    message = keyed.ask("POST", "/messages/", order, keyed.bearer()).json["id"]
    got, sent, claimed, marked = call(
        keyed, keyed.bearer("worker-docs"), ("get_messages", {}),
        ("send_message", {"to_agent": "hub", "subject": "s", "body": "b"}),
        ("claim_message", {"message_id": message}), ("mark_read", {"message_ids": [message]}), mode=mode,
    )  # fmt: skip
    assert [m["id"] for m in got["messages"]] == [message]
    assert sent["from_agent"] == "worker-docs"
    assert claimed["token"] == 1
    assert marked == {"acknowledged": [message]}
    states = {m["id"]: m["state"] for m in keyed.ask("GET", "/messages/", headers=keyed.bearer()).json}
    assert states == {message: "acked", sent["id"]: "unread"}
    assert keyed.log.read_text() == ""


def test_the_key_of_a_person_has_to_name_an_agent(keyed):
    refused = keyed.ask("POST", "/mcp", {}, keyed.bearer())
    assert (refused.status, refused.json["code"]) == (403, "not_yours")
    [agents] = call(keyed, keyed.bearer() | {"x-agent-id": "visitor"}, ("list_agents", {}))
    assert agents["agents"] == []
    assert keyed.ask("POST", "/mcp", {}, keyed.bearer() | {"x-agent-id": "../x"}).status == 422


def test_a_message_reads_alike_in_both(keyed):
    order = {"from_agent": "hub", "to_agent": "worker-docs", "subject": "alike", "body": "b", "refs": ["x"]}
    keyed.ask("POST", "/messages/", order, keyed.bearer())
    [got] = call(keyed, keyed.bearer("worker-docs"), ("get_messages", {}))
    [by_mcp] = got["messages"]
    [by_http] = keyed.ask("GET", "/messages/", headers=keyed.bearer("worker-docs")).json
    own = {"body_truncated", "owned_by_current_worker"}
    assert {key: value for key, value in by_mcp.items() if key not in own} == {
        key: by_http[key] for key in by_mcp.keys() - own
    }


def test_more_agents_than_there_are_rooms_all_get_in_and_claims_stay(open_door):
    """A room that nobody is in and that holds no claim makes way for the next agent; the one with the claim stays."""

    def ask(agent: str, method: str = "tools/list", **params):
        order = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        kinds = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        return open_door.ask("POST", "/mcp", order, kinds | {"x-agent-id": agent})

    sent = open_door.send("holder")
    claimed = ask("holder", "tools/call", name="claim_message", arguments={"message_id": sent})
    assert '"isError":false' in claimed.text, claimed
    assert [ask(f"agent-{number}").status for number in range(260)] == [200] * 260
    assert open_door.ask("GET", "/messages/?to_agent=holder").json[0]["state"] == "claimed"
    given = ask("holder", "tools/call", name="release_message", arguments={"message_id": sent})
    assert '"isError":false' in given.text, given
