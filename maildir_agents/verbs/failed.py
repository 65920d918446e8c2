"""failed: dead letters, and what a person may do with one: look, put it back, delete it for good."""

import os

from maildir_agents.disk.guard import Guard
from maildir_agents.disk.listing import names
from maildir_agents.errors import MailError, Malformed
from maildir_agents.mail.deadletter import reason_of, reason_path
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.name import canonical, is_agent
from maildir_agents.mail.reading import as_seen, envelope_at, judge, take_message
from maildir_agents.mail.removal import finish_removals, to_trash
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SHOWN_BYTES = 4096  # of a file that is no message


def listed(spool: SpoolFiles, agent: str | None = None) -> "dict[str, Any]":
    """`{count, failed: [{agent, id, file, code, reason, at, attempts, subject}]}`, of one agent or all."""
    chosen = [agent_name(agent)] if agent is not None else [name for name in names(spool.agents) if is_agent(name)]
    places = [(box, found) for box in (Mailbox(spool, name) for name in chosen) for found in box.listed("failed")]
    rows = [row for box, found in places if (row := _row(box, found))]
    return {"count": len(rows), "failed": rows}


def _row(box: Mailbox, found: Found) -> "dict[str, Any] | None":
    """None: somebody put it back or purged it meanwhile, and its reason went with it."""
    reason = reason_of(box, found)
    envelope = envelope_at(box.where(found))
    if not os.path.lexists(box.where(found)):
        return None
    return {
        "agent": box.agent,
        "id": found.id,
        "file": found.name.text,
        **{key: reason.get(key) for key in ("code", "reason", "at", "attempts")},
        "subject": envelope["subject"] if envelope else None,
    }


def _chosen(spool: SpoolFiles, agent: str, message_id: str) -> tuple[Mailbox, Found]:
    """The dead letter with this id; of several under one id the last."""
    box, wanted = Mailbox(spool, agent_name(agent)), canonical(message_id)
    places = [found for found in box.listed("failed") if found.id == wanted]
    if not places:
        raise MailError("unknown_id", f"{agent} has no dead letter {wanted}", f"agent-mail failed list {agent}")
    return box, places[-1]


def _left(box: Mailbox, found: Found) -> MailError:
    return MailError("unknown_id", f"{found.id} is no longer a dead letter of {box.agent}")


def show(spool: SpoolFiles, agent: str, message_id: str) -> "dict[str, Any]":
    """`{agent, id, file, …reason, message}`; `message` None and `text` (its first 4 KiB) where it is no message."""
    box, found = _chosen(spool, agent, message_id)
    taken = take_message(box.where(found))
    answer = _row(box, found)
    if answer is None:
        raise _left(box, found)
    try:
        answer["message"] = as_seen(judge(taken, found.id, box.agent), found.name)
    except Malformed:
        answer["message"] = None
        answer["text"] = (taken.data or b"")[:SHOWN_BYTES].decode("utf-8", "replace")
    return answer


def requeue(spool: SpoolFiles, agent: str, message_id: str) -> "dict[str, Any]":
    """Back to new/ under the next token: `{agent, id, state, token}`.  Raises dead_letter while it is no message."""
    box, found = _chosen(spool, agent, message_id)
    path = box.where(found)
    try:
        judge(take_message(path), found.id, box.agent)
    except Malformed as error:
        raise MailError(
            "dead_letter",
            f"{path} is still no message: {error.sentence}",
            f"mend the file, or agent-mail failed purge {agent} {found.id}",
        ) from None
    token = str(found.name.token + 1)
    moved = box.move("requeue", found, n=token, q=token)
    if moved is None:
        raise _left(box, found)
    box.sync([moved])
    _drop_reason(box, found)
    spool.note(agent, "requeued", id=found.id)
    return {"agent": agent, "id": found.id, "state": moved.directory, "token": moved.name.token}


def _drop_reason(box: Mailbox, found: Found) -> None:
    try:
        box.spool.disk.discard(reason_path(box, found))
    except MailError:
        pass  # what it belonged to is away already: doctor takes it


def _go_on(spool: SpoolFiles) -> None:
    """Complete what somebody who was killed began to remove: perhaps the same command, now given again."""
    with Guard(spool.disk, f"{spool.root}/upkeep.lock"):
        try:
            finish_removals(spool)
        except MailError as error:
            raise MailError(
                "cannot_write",
                f"an earlier removal cannot be completed: {error.sentence}",
                "nothing was changed: repeat the command",
            ) from error


def purge(spool: SpoolFiles, agent: str, message_id: str) -> "dict[str, Any]":
    """Delete a dead letter and everything that refers to it: `{agent, id, purged}`."""
    if names(f"{spool.root}/trash"):
        _go_on(spool)
    box, found = _chosen(spool, agent, message_id)
    with Guard(spool.disk, f"{spool.root}/upkeep.lock"):
        if to_trash(box, found) is None:
            raise _left(box, found)
        try:
            finish_removals(spool)
        except MailError as error:
            raise MailError(
                "durability_unknown",
                f"{found.id} is a dead letter no longer, but {error.sentence}",
                "the next purge or cleanup completes it",
                id=found.id,
            ) from error
        _drop_reason(box, found)
    spool.disk.sync(f"{box.path}/failed")
    spool.note(agent, "purged", id=found.id)
    return {"agent": agent, "id": found.id, "purged": True}
