"""The API on conversations.  An agent's key speaks for that agent; what a person does is done with the key of `*`."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from maildir_agents.faces.http import models
from maildir_agents.faces.http.api import AtDesk, By, Id
from maildir_agents.faces.http.door import Asked
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs import conversation

router = APIRouter()

Action = Annotated[str, Path(pattern="^(?:cancel|complete|needs-human)$")]


@router.get("/conversations/", response_model=list[models.Conversation], responses=models.LOOKS)
async def list_conversations(desk: AtDesk, by: By, agent: models.Agent | None = None) -> Any:
    """How each stands, oldest first.  Never a goal or a text."""
    member = agent if by.everything or agent else by.caller
    by.require(member)
    return (await desk.ask(lambda spool: conversation.listed(spool, member)))["conversations"]


@router.post("/conversations/", status_code=201, response_model=models.Started, responses=models.CHANGES)
async def start(order: models.ConversationStart, desk: AtDesk, by: By) -> Any:
    """Start a bounded dialogue; the first task is sent as turn 1."""
    by.require(order.from_agent)
    given = order.model_dump(exclude={"from_agent", "to_agent", "expires_in_seconds"})
    given |= {"sender": order.from_agent, "recipient": order.to_agent, "expires_s": order.expires_in_seconds}
    return await desk.change(lambda spool: conversation.start(spool, **given))


@router.get("/conversations/{id}", response_model=models.Conversation, responses=models.LOOKS)
async def get_conversation(id: Id, desk: AtDesk, by: By) -> Any:
    """How it stands."""
    member = None if by.everything else by.caller
    return await desk.ask(lambda spool: conversation.status(spool, id, member))


@router.post("/conversations/{id}/resume", response_model=models.Conversation, responses=models.CHANGES)
async def resume(id: Id, desk: AtDesk, by: By, order: models.Resume | None = None) -> Any:
    """Put it back to work, with more turns or time where those were used up.  For people: needs the key of `*`."""
    by.require_everything()
    given = order or models.Resume()
    return await desk.change(
        lambda spool: conversation.resume(
            spool, id, conversation.PERSON, add_turns=given.add_turns, extend_s=given.extend_seconds
        )
    )


@router.post("/conversations/{id}/{action}", response_model=models.Conversation, responses=models.CHANGES)
async def control(id: Id, action: Action, desk: AtDesk, by: By, order: models.Control | None = None) -> Any:
    """cancel, complete or needs-human.  The same state again changes nothing; another end is refused."""
    given = order.agent if order else None
    return await desk.change(lambda spool: act(spool, id, action, given, by))


def act(spool: SpoolFiles, conversation_id: str, action: str, agent: str | None, by: Asked) -> dict[str, Any]:
    """Do it as `agent`, as the key's agent, or, with the key of `*` and without a name, as a person."""
    member = agent or (None if by.everything else by.caller)
    by.require(member)
    return conversation.control(spool, conversation_id, action.replace("-", "_"), member)
