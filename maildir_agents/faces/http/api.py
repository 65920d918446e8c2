"""The API on messages and agents: each operation is a call to one verb, and its answer under the network's names.

An agent's key does what that agent may: send in its name, look into its mailbox and its threads, settle its mail.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response

from maildir_agents.errors import MailError
from maildir_agents.faces.http import models
from maildir_agents.faces.http.desk import Desk, asked_of, desk_of
from maildir_agents.faces.http.door import Asked
from maildir_agents.faces.http.keys import EVERYTHING
from maildir_agents.mail.name import EVERYBODY, canonical
from maildir_agents.mail.presence import prospects
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.mail.threads import envelope_of, root_of
from maildir_agents.verbs import ack, mark, messages, send, status, wire

router = APIRouter()

AtDesk = Annotated[Desk, Depends(desk_of)]
By = Annotated[Asked, Depends(asked_of)]
Id = Annotated[str, Path(pattern=models.ID)]
Whose = Annotated[models.Agent | None, Query(description="whose copy; needed for a broadcast")]


@router.post("/messages/", status_code=201, response_model=models.Sent, responses=models.CHANGES)
async def send_message(order: models.MessageCreate, desk: AtDesk, by: By) -> Any:
    """Send a message.  It is durable when this answers."""
    by.require(order.from_agent)
    return await desk.change(lambda spool: post(spool, order, by))


def post(spool: SpoolFiles, order: models.MessageCreate, by: Asked) -> dict[str, Any]:
    """Send what was ordered; a thread without a message to answer means the thread's root, which stays as it is."""
    reply_to = order.reply_to
    if order.thread_id is not None:
        root = root_of(spool, order.thread_id)
        if reply_to is None:
            reply_to = root
        elif root_of(spool, reply_to) != root:
            raise MailError("usage", "reply_to is in another thread than thread_id", "one of the two is enough")
    if reply_to is not None:
        may_see_thread(spool, reply_to, by)
    recipient = EVERYBODY if order.to_agent == "broadcast" else order.to_agent
    delivery = prospects(spool, recipient, order.from_agent)
    receipt = send.send(
        spool, sender=order.from_agent, recipient=recipient, subject=order.subject, body=order.body,
        reply_to=reply_to, acknowledge=order.acknowledge and order.reply_to is not None, refs=order.refs,
        dedup_key=order.dedup_key, conversation=order.conversation_id, kind=order.kind,
        response_timeout_s=order.response_timeout_seconds,
    )  # fmt: skip
    return models.receipt(receipt, delivery)


@router.get("/messages/", response_model=list[models.MessageRead], responses=models.LOOKS)
async def list_messages(
    response: Response,
    desk: AtDesk,
    by: By,
    to_agent: Annotated[models.Agent | None, Query(description="default: all, or the key's agent")] = None,
    unread_only: bool = False,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    after: Annotated[str | None, Query(pattern=models.ID, description="only messages after this id")] = None,
) -> Any:
    """Messages in the order they were made; archived ones are left out, nothing is marked.

    Unread ones: the oldest.  All: the newest, unless `after` is given.  `x-truncated: true`: there are more,
    by `limit` or because their bodies are more than 8 MiB.
    """
    agent = to_agent if by.everything or to_agent else by.caller
    by.require(agent)
    found = await desk.ask(
        lambda spool: messages.messages(spool, agent, unread_only=unread_only, limit=limit, after=after)
    )
    response.headers["x-truncated"] = "true" if found["truncated"] else "false"
    return [models.message(message) for message in found["messages"]]


@router.get("/messages/thread/{thread_id}", response_model=models.Thread, responses=models.LOOKS)
async def get_thread(thread_id: Id, desk: AtDesk, by: By) -> Any:
    """The whole thread of any of its messages, oldest first."""

    def look(spool: SpoolFiles) -> dict[str, Any]:
        found = messages.thread(spool, thread_id)
        judge_part(found["messages"], by)
        return {**found, "messages": [models.message(message) for message in found["messages"]]}

    return await desk.ask(look)


def judge_part(found: list[dict[str, Any]], by: Asked) -> None:
    """Threads are for agents that have a message in them, or where one went to everybody."""
    if not by.everything:
        ends = {message[end] for message in found for end in ("sender", "recipient")}
        if EVERYBODY not in ends:
            by.require(*ends)


def may_see_thread(spool: SpoolFiles, message_id: str, by: Asked) -> None:
    if not by.everything:
        judge_part(messages.thread(spool, message_id)["messages"], by)


@router.post("/messages/{id}/reply", status_code=201, response_model=models.Sent, responses=models.CHANGES)
async def reply(id: Id, order: models.MessageReply, desk: AtDesk, by: By) -> Any:
    """Answer a message in its thread, and acknowledge it.  In a conversation this is the result."""
    return await desk.change(lambda spool: answer(spool, id, order, by))


def answer(spool: SpoolFiles, message_id: str, order: models.MessageReply, by: Asked) -> dict[str, Any]:
    parent = envelope_of(spool, canonical(message_id))
    sender = order.from_agent or (by.caller if not by.everything else None) or str(parent["recipient"])
    if sender in (EVERYBODY, EVERYTHING):
        raise MailError("usage", "this message went to everybody: say who answers", "give from_agent")
    by.require(sender)
    may_see_thread(spool, message_id, by)
    to = wire.addressed(parent, sender, order.subject)
    delivery = prospects(spool, to["recipient"], sender)
    receipt = send.send(
        spool, sender=sender, body=order.body, reply_to=message_id, acknowledge=order.acknowledge,
        refs=order.refs, dedup_key=order.dedup_key, **to,
    )  # fmt: skip
    return models.receipt(receipt, delivery)


@router.patch("/messages/{id}/read", response_model=models.MessageRead, responses=models.CHANGES)
async def mark_read(id: Id, desk: AtDesk, by: By, agent: Whose = None) -> Any:
    """Say that it was read.  It is owed still, until it is acknowledged or answered."""
    return await desk.change(lambda spool: settled(spool, id, agent, by, mark.mark_read))


@router.patch("/messages/{id}/ack", response_model=models.MessageRead, responses=models.CHANGES)
async def acknowledge(id: Id, desk: AtDesk, by: By, agent: Whose = None) -> Any:
    """Say that it has been dealt with.  Again changes nothing."""
    return await desk.change(lambda spool: settled(spool, id, agent, by, lambda s, a, i: ack.ack(s, a, [i])))


@router.patch("/messages/{id}/archive", response_model=models.MessageRead, responses=models.CHANGES)
async def archive(id: Id, desk: AtDesk, by: By, agent: Whose = None) -> Any:
    """Put it away: kept, no longer listed."""
    return await desk.change(lambda spool: settled(spool, id, agent, by, lambda s, a, i: ack.archive(s, a, [i])))


def settled(spool: SpoolFiles, message_id: str, agent: str | None, by: Asked, verb: Any) -> dict[str, Any]:
    if agent is None and not by.everything:
        agent = by.caller
    owner = messages.recipient_of(spool, message_id, agent)
    by.require(owner)
    if not any(row["agent"] == owner for row in status.status(spool, owner)):
        raise MailError("unknown_id", f"{owner} has no message {message_id}")  # and no mailbox is made for it
    verb(spool, owner, message_id)
    return models.message(messages.message(spool, message_id, owner))


@router.get("/agents/", response_model=list[models.AgentStatus], responses=models.LOOKS)
async def list_agents(desk: AtDesk, by: By) -> Any:
    """How every mailbox stands."""
    return await desk.ask(status.status)
