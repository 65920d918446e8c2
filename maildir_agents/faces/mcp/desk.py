"""One agent at its desk: the identity, the spool, and the claims this server process holds.

Every tool is a method here that makes one call to a verb; what waits, and what runs at the same time, is `server`'s
subject.  A bare id that this process has claimed means that claim.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError

from maildir_agents.disk.jsonfile import encode
from maildir_agents.errors import MailError
from maildir_agents.faces.mcp import shapes
from maildir_agents.mail.name import EVERYBODY, agent, canonical, meant, own_claims, parse_handle, recipient
from maildir_agents.mail.presence import prospects
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.mail.threads import envelope_of
from maildir_agents.verbs import ack, agents, claim, conversation, inbox, listener, send, thread, wire

BUDGET = 60_000  # bytes of bodies in one answer, unless asked for otherwise


@contextmanager
def refusals() -> Iterator[None]:
    """A refusal reaches the model as its sentence, code and hint; nothing else of an error does."""
    try:
        yield
    except MailError as error:
        raise ToolError(encode(error.as_json())) from None


class Desk:
    """The mailbox of `identity` as tools see it.  Safe to use from several threads."""

    def __init__(self, open_spool: Callable[[], SpoolFiles], identity: str, environ: Mapping[str, str]) -> None:
        self.identity = agent(identity)
        self._open = open_spool
        self._environ = environ
        self._lock = Lock()
        self._claims: set[tuple[str, int]] = set(own_claims(environ.get("AGENT_MAIL_CLAIM")))

    @property
    def spool(self) -> SpoolFiles:
        return self._open()

    @property
    def mine(self) -> frozenset[tuple[str, int]]:
        with self._lock:
            return frozenset(self._claims)

    def _forget(self, message_id: str) -> None:
        with self._lock:
            self._claims = {held for held in self._claims if held[0] != message_id}

    @contextmanager
    def _by(self, handle: str | None) -> Iterator[None]:
        """A claim that a verb calls lost is this server's no longer."""
        try:
            yield
        except MailError as error:
            if error.code == "lease_lost" and handle is not None:
                with self._lock:
                    self._claims -= {held for held in self._claims if held == parse_handle(handle)}
            raise

    def send_message(self, **order: Any) -> shapes.Sent:
        with refusals():
            spool = self.spool
            delivery = prospects(spool, recipient(order["recipient"]), self.identity)
            given = order.pop("reply_to")
            reply_to = meant(given, self.mine) if given else None
            if given:
                self._part_of(spool, given.partition("~")[0])
            with self._by(reply_to):
                receipt = send.send(spool, sender=self.identity, reply_to=reply_to, **order)
            if receipt.get("acknowledged"):
                self._forget(receipt["acknowledged"])
            return shapes.sent(receipt, delivery)

    def _part_of(self, spool: SpoolFiles, message_id: str) -> None:
        """Refuse an answer to what this agent may not read: it would make it a member of that thread."""
        parent = envelope_of(spool, canonical(message_id))
        if self._is_for_me(parent):
            return
        seen = self._visible(thread.thread(spool, message_id)["messages"])
        if parent["id"] not in [message["id"] for message in seen]:
            raise MailError("not_yours", f"{message_id} is neither from nor to {self.identity}")

    def reply(self, message_id: str, body: str, subject: str | None) -> shapes.Sent:
        with refusals():
            order = wire.addressed(envelope_of(self.spool, canonical(message_id)), self.identity, subject)
        return self.send_message(body=body, reply_to=message_id, **order)

    def messages(self, unread_only: bool, limit: int, from_agent: str | None, max_bytes: int | None) -> shapes.Messages:
        with refusals():
            budget = max_bytes or BUDGET
            found = inbox.inbox(
                self.spool, self.identity, unread_only=unread_only, limit=limit, sender=from_agent, max_bytes=budget,
                mine=self.mine,
            )  # fmt: skip
            return {
                "messages": [shapes.message(message, budget) for message in found["messages"]],
                "cursor": found["cursor"],
                "count": found["count"],
                "truncated": found["truncated"],
            }

    def claim(self, message_id: str, lease_seconds: int) -> shapes.Claimed:
        with refusals():
            mine = self.mine
            handle = meant(message_id, mine)
            with self._by(handle):
                held = claim.claim(self.spool, self.identity, handle, lease_s=lease_seconds, mine=mine)
            with self._lock:
                self._claims = {kept for kept in self._claims if kept[0] != canonical(message_id)}
                self._claims.add((canonical(message_id), held["token"]))
            return {
                "id": canonical(message_id),
                "handle": held["handle"],
                "token": held["token"],
                "claim_expires_at": held["claim_expires_at"],
                "worker": held["worker"],
            }

    def release(self, message_id: str) -> shapes.Released:
        with refusals():
            handle = meant(message_id, self.mine)
            if handle == message_id and "~" not in message_id:
                raise MailError("not_yours", f"this server holds no claim of {message_id}", "claim_message takes one")
            with self._by(handle):
                given = claim.release(self.spool, self.identity, handle)
            self._forget(given["id"])
            return {"id": given["id"], "state": given["state"]}

    def mark_read(self, message_ids: list[str]) -> shapes.Acknowledged:
        """Acknowledge what may be; what is settled, foreign, unknown or another's claim is passed over."""
        done: list[str] = []
        with refusals():
            spool = self.spool
            for message_id in message_ids:
                handle = meant(message_id, self.mine)
                try:
                    with self._by(handle):
                        done += ack.ack(spool, self.identity, [handle], mine=self.mine)["message_ids"]
                except MailError as error:
                    if error.code not in _PASSED_OVER:
                        raise
                else:
                    self._forget(canonical(message_id.partition("~")[0]))
        return {"acknowledged": done}

    def archive(self, message_id: str) -> shapes.Archived:
        with refusals():
            handle = meant(message_id, self.mine)
            with self._by(handle):
                done = ack.archive(self.spool, self.identity, [handle], mine=self.mine)
            for gone in done["message_ids"]:
                self._forget(gone)
            return {"archived": done["message_ids"]}

    def thread(self, thread_id: str) -> shapes.Thread:
        with refusals():
            found = thread.thread(self.spool, thread_id)
            told: list[shapes.Message] = []
            left = BUDGET  # the later bodies of a long thread are cut
            for message in self._visible(found["messages"]):
                told.append(shapes.message(message, left))
                left -= len(told[-1]["body"].encode("utf-8"))
            return {"thread_id": found["thread_id"], "count": len(told), "messages": told}

    def _visible(self, messages: list[Any]) -> list[Any]:
        """The whole thread for whoever has a message in it; where one went to everybody, that one and his own.

        A broadcast makes one thread of what each recipient answers: it is no invitation to read what others wrote.
        """
        if any(m["recipient"] == EVERYBODY for m in messages):
            return [m for m in messages if self._is_for_me(m)]
        if not any(map(self._is_for_me, messages)):
            raise MailError("not_yours", f"{self.identity} has no message in this thread")
        return messages

    def _is_for_me(self, message: Any) -> bool:
        return message["recipient"] == EVERYBODY or self.identity in (message["sender"], message["recipient"])

    def agents(self) -> shapes.Agents:
        with refusals():
            found = agents.agents(self.spool)
            return {"agents": found["agents"], "conventions": found["conventions"]}

    def start(self, **order: Any) -> shapes.Started:
        with refusals():
            return conversation.start(  # type: ignore[return-value]
                self.spool, sender=self.identity, hops=conversation.hops_of(self._environ), **order
            )

    def converse(self, conversation_id: str, action: str) -> shapes.ConversationState:
        with refusals():
            spool = self.spool
            if action == "status":
                found = conversation.status(spool, conversation_id, self.identity)
            else:
                found = conversation.control(spool, conversation_id, action, self.identity)
            return {key: found[key] for key in shapes.ConversationState.__annotations__}  # type: ignore[return-value]

    def listen(self, action: str) -> shapes.ListenerState:
        with refusals():
            spool = self.spool
            if action == "enable":
                found = listener.enable(spool, self.identity, self._environ)
            else:
                found = (listener.disable if action == "disable" else listener.status)(spool, self.identity)
            return {key: found[key] for key in shapes.ListenerState.__annotations__}  # type: ignore[return-value]


_PASSED_OVER = frozenset(
    ("unknown_id", "not_yours", "claimed", "lease_lost", "dead_letter", "bad_id", "in_transit", "settled")
)


def deadline(wait_seconds: float) -> float:
    """When a wait of at most 30 seconds ends, on the monotonic clock."""
    return time.monotonic() + min(max(wait_seconds, 0.0), 30.0)
