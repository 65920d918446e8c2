"""conversation: bounded dialogues of two agents: start one, see how it stands, end it, hand it to a person."""

from maildir_agents.errors import MailError
from maildir_agents.mail import conversation as rules
from maildir_agents.mail import journal
from maildir_agents.mail.conversation import Conversation
from maildir_agents.mail.dedup import key_path
from maildir_agents.mail.listening import knock
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.mending import complete
from maildir_agents.mail.name import EVERYBODY, canonical
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.publish import post
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs.send import compose, ensure_sender, gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from maildir_agents.mail.message import Json


def start(
    spool: SpoolFiles,
    *,
    sender: str,
    recipient: str,
    goal: str,
    subject: str | None = None,
    body: str | None = None,
    max_turns: int = rules.USUAL_TURNS,
    expires_s: int = rules.USUAL_S,
    dedup_key: str | None = None,
    hops: int = 0,
) -> "dict[str, Any]":
    """Start a conversation and post its root task as turn 1.

    `max_turns` is clamped to 2..20, `expires_s` to 60..86400 seconds.  `hops`: how many dispatched workers in a row led
    here; beyond 8 it is refused.  The same (sender, dedup_key): the conversation there is, `duplicate: true`.
    Answers `{conversation_id, message_id, state, duplicate, max_turns, expires_at, turn_count}`.
    """
    if recipient in (EVERYBODY, "broadcast", sender):
        raise MailError("usage", "a conversation is between two agents", "name one other agent")
    if hops > rules.MOST_HOPS:
        raise MailError(
            "loop_limit", f"{hops} workers in a row have started conversations, allowed are {rules.MOST_HOPS}"
        )
    if not goal.strip():
        raise MailError("usage", "a conversation needs a goal")
    message = _opening(spool, sender, recipient, goal, subject, body, max_turns, expires_s, dedup_key, hops)
    gate(spool, message["recipient"])
    ensure_sender(spool, sender)
    key = key_path(spool, sender, dedup_key) if dedup_key is not None else None
    original, _ = post(spool, message, key or spool.entry(message["conversation_id"], 0))
    if original is not None and key is not None:
        complete(spool, original, key)
        return _started(spool, original, duplicate=True)
    spool.note(sender, "sent", id=message["id"], to=recipient)
    journal.snapshot(spool, Conversation(message))
    return _started(spool, message, duplicate=False)


def _opening(
    spool: SpoolFiles,
    sender: str,
    recipient: str,
    goal: str,
    subject: str | None,
    body: str | None,
    max_turns: int,
    expires_s: int,
    dedup_key: str | None,
    hops: int,
) -> "Json":
    now = spool.clock.wall_ms()
    message = compose(
        spool,
        sender=sender,
        recipient=agent_name(recipient),
        subject=subject if subject is not None else goal.strip().splitlines()[0].replace("\t", " ")[:200],
        body=body if body is not None else goal,
        dedup_key=dedup_key,
        headers={"conversation": rules.terms(goal, [sender, recipient], max_turns, expires_s, now)},
    )
    message.update(kind="task", conversation_id=spool.ids.next(now), turn=1, hops=hops)
    return message


def _started(spool: SpoolFiles, message: "Json", duplicate: bool) -> "dict[str, Any]":
    if message["conversation_id"] is None:
        raise MailError("bad_key", f"this key is already the message {message['id']}, which started no conversation")
    status = journal.read(spool, message["conversation_id"]).status(spool.clock.wall_ms())
    kept = ("conversation_id", "state", "turn_count", "max_turns", "expires_at")
    return {"message_id": message["id"], "duplicate": duplicate, **{key: status[key] for key in kept}}


def hops_of(environ: "Mapping[str, str]") -> int:
    """The hops of a conversation started now: one more than that of the worker's own, which its listener tells it."""
    told = environ.get("AGENT_MAIL_HOPS", "")
    return int(told) + 1 if told.isdecimal() else 0


def status(spool: SpoolFiles, conversation_id: str, agent: str | None = None) -> "dict[str, Any]":
    """How it stands: `{conversation_id, state, members, turn_count, max_turns, expires_at, transitions, in_flight}`.

    Never the goal or a text; changes nothing.  `agent`: asked by that agent, to whom another's conversation is unknown.
    """
    found = journal.read(spool, canonical(conversation_id))
    if agent is not None:
        rules.judge_member(found, agent_name(agent))
    return found.status(spool.clock.wall_ms())


PERSON = "person"
"""Who has done something to a conversation, where that was no agent."""


def control(spool: SpoolFiles, conversation_id: str, action: str, agent: str | None) -> "dict[str, Any]":
    """complete, cancel or needs_human, by a member (None: by a person): its status afterwards, and `changed`.

    The same state again changes nothing; another end is refused (`not_active`).
    """
    found = journal.read(spool, canonical(conversation_id))
    if agent is not None:
        rules.judge_member(found, agent_name(agent))
    after, changed = journal.write_control(spool, found.id, action, agent or PERSON)
    return {**after.status(spool.clock.wall_ms()), "changed": changed}


def resume(
    spool: SpoolFiles, conversation_id: str, by: str, *, add_turns: int = 0, extend_s: int = 0
) -> "dict[str, Any]":
    """Let a person put a conversation back to work, with more turns or time where those were used up.

    Never beyond 20 turns in all.  Raises turn_limit or expired when it would have no room to go on.
    """

    def terms(found: Conversation) -> "Json":
        limit, expires_at = rules.resumed(found, add_turns, extend_s, spool.clock.wall_ms())
        return {"max_turns": limit, "expires_at": expires_at}

    found = journal.read(spool, canonical(conversation_id))
    if rules.used_up(found, spool.clock.wall_ms()):  # nobody has said so yet: as the next writer this one does
        terms(found)
        journal.write_control(spool, found.id, "needs_human", by, still=lambda c: c.state == rules.ACTIVE)
    after, changed = journal.write_control(spool, found.id, "resume", by, terms=terms)
    knock(Mailbox(spool, after.last_turn["recipient"]))  # its listener has left that message alone
    return {**after.status(spool.clock.wall_ms()), "changed": changed}


def listed(spool: SpoolFiles, agent: str | None = None) -> "dict[str, Any]":
    """`{count, conversations, warnings}`: how each stands, of one agent or all, oldest first."""
    now = spool.clock.wall_ms()
    rows: list[dict[str, Any]] = []
    warnings: list[dict[str, str]] = []
    for conversation_id in journal.all_ids(spool):
        try:
            found = journal.read(spool, conversation_id)
        except MailError as error:
            if error.code != "unknown_conversation":
                warnings.append({"warning": error.sentence, "code": error.code})
            continue
        if agent is None or agent_name(agent) in found.members:
            rows.append(found.status(now))
    return {"count": len(rows), "conversations": rows, "warnings": warnings}


def waiting(spool: SpoolFiles, ended: set[str]) -> "list[dict[str, Any]]":
    """Those that a person has to decide on, oldest first: their status, and `subject`, `since`, `by`, `used_up`.

    `ended` remembers which are over for good, for whoever looks again and again: they are not read any more.
    """
    rows: list[dict[str, Any]] = []
    for conversation_id in journal.all_ids(spool):
        if conversation_id in ended:
            continue
        try:
            found = journal.read(spool, conversation_id)
        except MailError:
            continue  # `listed` warns of it
        if found.state in rules.ENDED:
            ended.add(conversation_id)
        status = found.status(spool.clock.wall_ms())
        if status["state"] not in (rules.ACTIVE, *rules.ENDED):
            last = found.transitions[-1]
            told = {"subject": found.last_turn["subject"], "since": last["at"], "by": last["by"]}
            rows.append({**status, **told, "used_up": len(found.turns) >= found.max_turns})
    return rows
