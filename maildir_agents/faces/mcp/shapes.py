"""What the tools answer, as types: the SDK makes the output schemas from them.

Their names for the fields of a message are those of `verbs.wire`.
"""

from typing import Any

from typing_extensions import TypedDict  # typing's own loses nested schemas before Python 3.12

from maildir_agents.verbs import wire


class Delivery(TypedDict):
    known: bool
    watch_state: str | None
    waiting: int | str | None
    oldest_age: int | None
    did_you_mean: list[str]


class Sent(TypedDict):
    id: str
    from_agent: str
    to_agent: str
    subject: str
    kind: str | None
    created_at: str
    duplicate: bool
    content_differs: bool
    delivery: Delivery
    acknowledged: str | None
    warning: str | None


class Message(TypedDict):
    id: str
    from_agent: str
    to_agent: str
    subject: str
    trust: str
    body: str
    body_truncated: bool
    refs: list[str]
    kind: str | None
    reply_to: str | None
    thread_id: str | None
    conversation_id: str | None
    turn: int | None
    response_deadline: str | None
    created_at: str
    read_at: str | None
    acked_at: str | None
    claim_expires_at: str | None
    token: int
    owned_by_current_worker: bool


class Messages(TypedDict):
    messages: list[Message]
    cursor: str | None
    count: int
    truncated: bool


class Thread(TypedDict):
    thread_id: str
    count: int
    messages: list[Message]


class Claimed(TypedDict):
    id: str
    handle: str
    token: int
    claim_expires_at: str
    worker: str


class Released(TypedDict):
    id: str
    state: str


class Acknowledged(TypedDict):
    acknowledged: list[str]


class Archived(TypedDict):
    archived: list[str]


class Transition(TypedDict):
    state: str
    at: str
    by: str


class Started(TypedDict):
    conversation_id: str
    message_id: str
    duplicate: bool
    state: str
    turn_count: int
    max_turns: int
    expires_at: str


class ConversationState(TypedDict):
    conversation_id: str
    state: str
    members: list[str]
    turn_count: int
    max_turns: int
    expires_at: str
    transitions: list[Transition]
    in_flight: str | None


class ListenerState(TypedDict):
    enabled: bool
    running: bool
    pid: int | None
    waiting_on: str | None


class Agent(TypedDict):
    agent: str
    watch_state: str


class Agents(TypedDict):
    agents: list[Agent]
    conventions: dict[str, str]


def message(found: "dict[str, Any]", budget: int | None = None) -> Message:
    """A message as this face shows it; a body beyond `budget` bytes is cut at a character, and says so."""
    told = wire.told(found)
    body = str(told["body"])
    cut = body.encode("utf-8")[:budget].decode("utf-8", "ignore") if budget is not None else body
    told.update(trust=wire.TRUST, body=cut, body_truncated=cut != body)
    told.setdefault("owned_by_current_worker", False)
    for field in ("read_at", "acked_at", "claim_expires_at"):
        told.setdefault(field, None)
    told.setdefault("token", 0)
    return {field: told[field] for field in Message.__annotations__}  # type: ignore[return-value]


def sent(receipt: "dict[str, Any]", delivery: "dict[str, Any]") -> Sent:
    """A receipt as this face shows it."""
    told = wire.told(receipt)
    told["delivery"] = {field: delivery[field] for field in Delivery.__annotations__}
    told.setdefault("content_differs", False)
    for field in ("acknowledged", "warning"):
        told.setdefault(field, None)
    return {field: told[field] for field in Sent.__annotations__}  # type: ignore[return-value]
