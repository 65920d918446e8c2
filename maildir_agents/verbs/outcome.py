"""outcome: what a worker's end means for its message, by one table.  The listener's other half of dispatch.

Nothing is settled but by the claim's handle, so whoever lost it changes nothing; every act may be repeated after an
error or a crash.
"""

from maildir_agents.errors import MailError
from maildir_agents.mail import conversation as rules
from maildir_agents.mail import journal
from maildir_agents.mail.claim import held, release, renew
from maildir_agents.mail.conversation import Conversation
from maildir_agents.mail.deadletter import fail
from maildir_agents.mail.lifecycle import SETTLED
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import handle
from maildir_agents.mail.reading import as_seen
from maildir_agents.mail.settle import settle
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs.send import send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from maildir_agents.mail.message import Json

FIRST_PAUSE_S, LONGEST_PAUSE_S = 30, 3600
NEEDS_HUMAN = 100  # the exit status of a worker that wants a person to decide


class Job:
    """A message that was claimed for a worker: the claim is (id, token), `attempt` counts its worker starts from 1."""

    __slots__ = ("attempt", "conversation", "hops", "message", "most", "token")

    def __init__(self, message: "Json", claimed: Found, conversation: Conversation | None, most: int) -> None:
        self.message, self.token, self.most = as_seen(message, claimed.name), claimed.name.token, most
        self.attempt = max(attempts(claimed, conversation), 1)
        self.conversation: str | None = conversation.id if conversation else None
        self.hops: int = conversation.hops if conversation else message["hops"] or 0

    @property
    def id(self) -> str:
        return str(self.message["id"])

    @property
    def handle(self) -> str:
        return handle(self.id, self.token)


def attempts(found: Found, conversation: Conversation | None = None) -> int:
    """How often a message was claimed since it came or was put back by a person.

    A start that ended in "needs a human" was no failure: it is given back by the person who resumes the conversation.
    """
    starts = found.name.token - int(found.name.stamps.get("q", "0"))
    return max(starts - (conversation.resumed if conversation else 0), 0)


def in_flight(message_id: str) -> "Callable[[Conversation], bool]":
    """Whether that message is what an active conversation waits for."""
    return lambda found: found.in_flight == message_id and found.state == rules.ACTIVE


DONE, HUMAN, RETRY, DEAD, LOST = "acknowledged", "needs_human", "retry", "dead", "lost"
_BY_STATUS = {0: DONE, NEEDS_HUMAN: HUMAN}


def outcome(status: int, lost: bool, attempt: int, most: int) -> str:
    """What a worker's end means: its exit status (negative: the signal that killed it), whether its claim was lost."""
    if lost:
        return LOST
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return DEAD if attempt >= most else RETRY


def pause_s(attempt: int) -> int:
    """How long to wait after the attempt with that number has failed: 30 s, doubled each time, at most an hour."""
    return min(FIRST_PAUSE_S << min(attempt - 1, 10), LONGEST_PAUSE_S)


def conclude(box: Mailbox, job: Job, status: int, lost: bool, why: str) -> str:
    """Do what a worker's end means; the word for it: an outcome, or `settled` where its worker had done that.

    `why` tells people how it ended.  May be repeated after an error.
    """
    decided = outcome(status, lost, job.attempt, job.most)
    try:
        return _ACTS[decided](box, job, why)
    except MailError as error:
        if error.code not in _GONE:
            raise
        if not was_settled(box, job):
            return LOST
        box.sync(found for directory in SETTLED for found in box.settled(job.id, directory))  # what is reported, is
        return "settled"


_GONE = frozenset(("lease_lost", "unknown_id", "in_transit"))  # the last two: the whole mailbox was taken away


def was_settled(box: Mailbox, job: Job) -> bool:
    """Whether the message was acknowledged or put away under this very claim: its worker did that."""
    places = [found for directory in SETTLED for found in box.settled(job.id, directory)]
    return any(found.name.token == job.token for found in places)


def _acknowledge(box: Mailbox, job: Job, why: str) -> str:
    moved = settle(box, held(box, job.id, job.token), job.token, "ack")
    if moved is None:
        return "settled"
    box.sync([moved])
    box.spool.note(box.agent, "acknowledged", ids=[job.id])
    return DONE


def _put_off(box: Mailbox, job: Job, why: str) -> str:
    """Keep the claim for as long as nobody shall try again; at its end it is expired and taken anew."""
    renew(box, job.id, job.token, pause_s(job.attempt))
    return RETRY


def _ask_a_human(box: Mailbox, job: Job, why: str) -> str:
    """The conversation needs a human, and the message stays, to be worked on when that resumes it."""
    if job.conversation is None:
        give_up(box, held(box, job.id, job.token), job.message, "needs_human", f"its worker asked for a human: {why}")
        return HUMAN
    _end(box.spool, job.conversation, "needs_human", box.agent)
    if not was_settled(box, job):
        release(box, job.id, job.token)
    return HUMAN


def _bury(box: Mailbox, job: Job, why: str) -> str:
    reason = f"{job.attempt} workers were started for it, the last one {why}"
    give_up(box, held(box, job.id, job.token), job.message, "attempts", reason)
    return DEAD


def _nothing(box: Mailbox, job: Job, why: str) -> str:
    return LOST


_ACTS: "dict[str, Callable[[Mailbox, Job, str], str]]" = {
    DONE: _acknowledge,
    HUMAN: _ask_a_human,
    RETRY: _put_off,
    DEAD: _bury,
    LOST: _nothing,
}


def give_up(box: Mailbox, found: Found, message: "Json", code: str, reason: str) -> None:
    """A dead letter: its conversation is blocked if it was in flight, its sender is told, then it goes to failed/.

    In this order, so that whoever repeats it after a crash completes it and tells nobody twice.
    """
    if message["conversation_id"] is not None:
        _end(box.spool, message["conversation_id"], "blocked", box.agent, still=in_flight(message["id"]))
    _tell_sender(box, found, message, reason)
    by = found.name.stamps.get("w") or box.agent
    while fail(box, found, code, reason, by=by) is None and found.directory == "claimed":
        found = held(box, found.id, found.name.token)  # it may have been renewed; lease_lost if it was not


def _end(
    spool: SpoolFiles,
    conversation_id: str,
    control: str,
    by: str,
    still: "Callable[[Conversation], bool] | None" = None,
) -> None:
    try:
        journal.write_control(spool, conversation_id, control, by, still=still)
    except MailError as error:
        if error.code not in ("not_active", "unknown_conversation"):
            raise


def _tell_sender(box: Mailbox, found: Found, message: "Json", reason: str) -> None:
    notice: dict[str, Any] = {}
    if message["conversation_id"] is not None:
        notice = {"kind": "notice", "conversation": message["conversation_id"]}
    try:
        send(
            box.spool,
            sender=box.agent,
            recipient=message["sender"],
            subject=f"Not done: {message['subject']}"[:500],
            body=f"Your message {message['id']} to {box.agent} is a dead letter there: {reason}.\n",
            reply_to=message["id"],
            acknowledge=False,
            dedup_key=f"dead letter {handle(found.id, found.name.token)}",
            **notice,
        )
    except MailError as error:
        # A sender that cannot be told (a full mailbox, no conversation of that id) must not keep it from being dead.
        box.spool.note(box.agent, "not told", id=message["id"], to=message["sender"], code=error.code)
