"""What goes in and comes out, as types: FastAPI makes the OpenAPI document from them.

The rules of a message are kept below, where every face meets them; the types here say the same as far as a schema can.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from maildir_agents.mail.message import MAX_BODY, MAX_KEY, MAX_REFS, MAX_SUBJECT
from maildir_agents.verbs import wire

AGENT = r"^(?:[a-z0-9][a-z0-9._-]*:)?[a-z0-9][a-z0-9._-]*$"
ID = r"^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-7[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}$"
LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$"
TEXT = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$"

Agent = Annotated[str, Field(max_length=100, pattern=AGENT)]
Recipient = Annotated[
    str,
    Field(
        max_length=100, pattern=rf"^\*$|{AGENT}", description="an agent; `*` or `broadcast`: everybody but the sender"
    ),
]
MessageId = Annotated[str, Field(pattern=ID, description="UUIDv7")]
Subject = Annotated[str, Field(min_length=1, max_length=MAX_SUBJECT, pattern=LINE)]
Body = Annotated[str, Field(max_length=MAX_BODY, pattern=TEXT, description="at most 1 MiB of UTF-8; TAB, LF, CR")]
Key = Annotated[str, Field(min_length=1, max_length=MAX_KEY, pattern=LINE)]
Ref = Annotated[str, Field(min_length=1, max_length=4096, pattern=LINE)]
Refs = Annotated[list[Ref], Field(max_length=MAX_REFS, description="files, commits or URLs it is about")]
Kind = Literal["task", "result", "notice"]


class _Given(BaseModel):
    """A request.  A member that is not known is refused: it was meant to do something."""

    model_config = ConfigDict(extra="forbid", strict=True)


class MessageCreate(_Given):
    from_agent: Agent
    to_agent: Recipient
    subject: Subject
    body: Body = ""
    reply_to: MessageId | None = Field(default=None, description="answers that message, and acknowledges it")
    thread_id: MessageId | None = Field(default=None, description="joins that thread; acknowledges nothing by itself")
    acknowledge: bool = Field(default=True, description="whether a reply acknowledges what it answers")
    refs: Refs = []
    dedup_key: Key | None = Field(default=None, description="send once for this key and sender")
    conversation_id: MessageId | None = None
    kind: Kind | None = Field(default=None, description="only in a conversation")
    response_timeout_seconds: int | None = Field(
        default=None, ge=1, le=2**31, description="recorded as response_deadline; more than 3600 is 3600"
    )


class MessageReply(_Given):
    body: Body
    subject: Subject | None = Field(default=None, description="default: Re: and the subject of what it answers")
    from_agent: Agent | None = Field(default=None, description="default: whom the message went to, or the key's agent")
    acknowledge: bool = True
    refs: Refs = []
    dedup_key: Key | None = None


class Delivery(BaseModel):
    known: bool = Field(description="whether there was such a mailbox before")
    watch_state: str | None = Field(description="armed, released, stale or never; null of a broadcast")
    waiting: int | str | None
    oldest_age: int | None = Field(description="seconds")
    did_you_mean: list[str]


class Sent(BaseModel):
    """A receipt: durable when it comes."""

    id: str
    from_agent: str
    to_agent: str
    subject: str
    kind: str | None
    created_at: str
    duplicate: bool = Field(description="this dedup_key was sent before, and nothing was sent now")
    content_differs: bool = False
    delivery: Delivery
    acknowledged: str | None = Field(default=None, description="the id that this reply acknowledged")
    warning: str | None = None


class MessageRead(BaseModel):
    id: str
    from_agent: str
    to_agent: str = Field(description="`*`: went to everybody")
    subject: str
    trust: str
    body: str
    refs: list[str]
    kind: str | None
    reply_to: str | None
    thread_id: str | None = Field(description="the root's id in every reply; null in a root")
    conversation_id: str | None
    turn: int | None
    response_deadline: str | None
    created_at: str
    read_at: str | None
    acked_at: str | None
    archived_at: str | None
    claim_expires_at: str | None
    token: int
    mailbox: str | None = Field(description="whose copy this is; null: a broadcast in a thread, which is in many")
    state: str | None = Field(description="unread, read, claimed, acked, archived or failed")


class Thread(BaseModel):
    thread_id: str
    count: int
    messages: list[MessageRead]


class AgentStatus(BaseModel):
    agent: str
    unread: int
    unacked: int
    claimed: int
    failed: int
    watching: bool
    watch_state: str
    listener: str
    last_seen: str | None
    oldest_unread: str | None


class ConversationStart(_Given):
    from_agent: Agent
    to_agent: Agent
    goal: Annotated[str, Field(min_length=1, max_length=3000, pattern=TEXT)]
    subject: Subject | None = None
    body: Body | None = None
    max_turns: int = Field(default=8, ge=0, le=2**31, description="clamped to 2..20")
    expires_in_seconds: int = Field(default=3600, ge=0, le=2**31, description="clamped to 60..86400")
    dedup_key: Key | None = None


class Started(BaseModel):
    conversation_id: str
    message_id: str
    duplicate: bool
    state: str
    turn_count: int
    max_turns: int
    expires_at: str


class Control(_Given):
    agent: Agent | None = Field(
        default=None, description="the member who does it; default: the key's agent, or a person"
    )


class Resume(_Given):
    add_turns: int = Field(default=0, ge=0, le=20)
    extend_seconds: int = Field(default=0, ge=0, le=86_400)


class Transition(BaseModel):
    state: str
    at: str
    by: str


class Conversation(BaseModel):
    conversation_id: str
    state: str = Field(description="active, completed, cancelled, needs_human, blocked; or expired: active, and late")
    members: list[str]
    turn_count: int
    max_turns: int
    expires_at: str
    transitions: list[Transition]
    in_flight: str | None


class Refusal(BaseModel):
    """Nothing was changed, unless the code says otherwise."""

    model_config = ConfigDict(extra="allow")
    error: str
    code: str
    hint: str | None = None


def message(found: dict[str, Any]) -> dict[str, Any]:
    """A message as verbs tell it, as MessageRead."""
    return {**wire.told(found), "trust": wire.TRUST}


def receipt(found: dict[str, Any], delivery: dict[str, Any]) -> dict[str, Any]:
    """A receipt as Sent."""
    return {**wire.told(found), "delivery": delivery}


_MEANINGS = {
    401: "no key, or one that is not known",
    403: "another site sent it, or the key is another's",
    404: "no such message, conversation or address",
    405: "this address does not take that method",
    408: "the request came too slowly",
    409: "another's claim, or a rule of the conversation",
    413: "too large",
    415: "from a browser, and not JSON",
    421: "this server does not go by that Host",
    422: "not what is asked for here",
    500: "failed; durability_unknown: done, do not repeat it",
    501: "not installed",
    503: "busy, or the spool cannot be written: try again",
    507: "the disk is full",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What else an operation may answer, for the OpenAPI document; what the guard may say is always among it."""
    always = (401, 403, 421, 422, 500, 503)
    return {s: {"model": Refusal, "description": _MEANINGS[s]} for s in sorted({*always, *statuses})}


LOOKS = refusals(404)
CHANGES = refusals(404, 408, 409, 413, 415, 507)
