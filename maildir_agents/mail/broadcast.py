"""Broadcasts: one body, a link of it for every mailbox made before the commit, each delivered by renaming its link.

The link that is still in the todo directory is the mark, so a copy is delivered once whoever finishes the job.  All of
it happens under broadcast.lock; the next holder finishes what was committed and removes what was not.
"""

import os

from maildir_agents.disk.guard import Guard
from maildir_agents.disk.jsonfile import encode
from maildir_agents.disk.listing import names
from maildir_agents.disk.moves import EXISTS, refusal, same_file
from maildir_agents.errors import MailError
from maildir_agents.mail.founding import build_mailbox, is_committed, make_spool
from maildir_agents.mail.message import lay_out
from maildir_agents.mail.name import is_agent, is_id
from maildir_agents.mail.publish import address, join_thread
from maildir_agents.mail.reading import envelope_at, whole_at
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from maildir_agents.mail.message import Json

LOCK_MS = 10_000


def _lock(spool: SpoolFiles) -> Guard:
    return Guard(spool.disk, f"{spool.root}/broadcast.lock", LOCK_MS)


def _body(spool: SpoolFiles, message_id: str, dot: str = "") -> str:
    return f"{spool.root}/broadcast/{dot}{message_id}.json"


def _todo(spool: SpoolFiles, message_id: str) -> str:
    return f"{spool.root}/broadcast/{message_id}.todo"


def broadcast(spool: SpoolFiles, message: "Json", key: str | None = None) -> "Json | None":
    """Send a checked message to every mailbox but its sender's; the message that its key already was, or None."""
    make_spool(spool)
    with _lock(spool):
        _finish_all(spool)  # what cannot be finished waits for the next one: it does not keep this one back
        address(spool, message)
        dot = _body(spool, message["id"], ".")
        spool.disk.write_new(dot, lay_out(message, encode))
        try:
            _owe(spool, message, dot)
            original = _commit(spool, message, dot, key)
        except BaseException:
            _undo(spool, message["id"], key)
            raise
        if original is None:
            _deliver(spool, message)
        return original


def _owe(spool: SpoolFiles, message: "Json", dot: str) -> None:
    """Link the draft for every mailbox there is but its sender's, durably."""
    todo = _todo(spool, message["id"])
    spool.disk.make_dir(todo)
    with os.scandir(spool.agents) as entries:
        boxes = sorted(entry.name for entry in entries if is_agent(entry.name) and entry.is_dir())
    for agent in boxes:
        if agent != message["sender"]:
            spool.disk.publish(dot, f"{todo}/{agent}.json")
    spool.disk.sync_made(todo)


def _commit(spool: SpoolFiles, message: "Json", dot: str, key: str | None) -> "Json | None":
    """Give a broadcast that is owed its key, if it has one, and its name; the message that the key already was."""
    while key and spool.disk.publish(dot, key) == EXISTS:
        if original := _original(key):
            _undo(spool, message["id"], key)
            return original
    try:
        if key:
            spool.disk.sync(os.path.dirname(key))
        spool.disk.move(dot, _body(spool, message["id"]))
    except MailError as error:
        raise (_sent_but(message["id"], error) if key else error) from error
    return None


def _sent_but(message_id: str, error: MailError) -> MailError:
    return MailError(
        "durability_unknown",
        f"broadcast {message_id} was sent, but {error.sentence}",
        "do not send it again: the next caller goes on with it",
        id=message_id,
    )


def _original(key: str) -> "Json | None":
    """The message that holds a key; None when it was cleaned up meanwhile (then the key is free again)."""
    original = whole_at(key)
    if original is None and os.path.lexists(key):
        raise MailError(
            "cannot_read",
            f"{key} is damaged, so whether this was sent before is not known",
            "agent-mail doctor; nothing was sent",
            path=key,
        )
    return original


def _undo(spool: SpoolFiles, message_id: str, key: str | None) -> None:
    """Remove what was not committed, the todo links first."""
    dot, todo = _body(spool, message_id, "."), _todo(spool, message_id)
    if os.path.lexists(_body(spool, message_id)) or (key and same_file(dot, key)):
        return  # committed: the next holder finishes it
    for text in names(todo):
        spool.disk.discard(f"{todo}/{text}")
    spool.disk.drop_dir(todo)
    spool.disk.discard(dot)


def _deliver(spool: SpoolFiles, message: "Json") -> None:
    """Anchor a committed broadcast, then rename every link that is still to be done into its mailbox's new/."""
    message_id, todo = message["id"], _todo(spool, message["id"])
    try:
        spool.disk.publish(_body(spool, message_id), spool.anchor(message_id))
        join_thread(spool, _body(spool, message_id), message)
        spool.disk.sync(f"{spool.root}/broadcast")
        spool.disk.sync(os.path.dirname(spool.anchor(message_id)))
        reached, trouble = _hand_over_all(spool, todo, message_id)
        spool.disk.sync_all(reached)
        spool.disk.drop_dir(todo)
        if trouble:
            raise trouble
    except MailError as error:
        raise _sent_but(message_id, error) from error


def _hand_over_all(spool: SpoolFiles, todo: str, message_id: str) -> tuple[list[str], MailError | None]:
    """The directories that got a copy, and the first refusal: one mailbox that takes none does not stop the others."""
    reached, trouble = [], None
    for text in names(todo):
        agent = text[:-5]
        if text[-5:] != ".json" or not is_agent(agent):
            continue
        try:
            # Somebody took the mailbox away, or there was never more than a part: the copy is owed to it all the same.
            if not os.path.isdir(f"{spool.box(agent)}/new"):
                build_mailbox(spool, agent)
            if _hand_over(spool, todo, agent, message_id):
                reached.append(f"{spool.box(agent)}/new")
        except (MailError, OSError) as error:
            trouble = trouble or (refusal(error, spool.box(agent)) if isinstance(error, OSError) else error)
    return reached, trouble


def _hand_over(spool: SpoolFiles, todo: str, agent: str, message_id: str) -> bool:
    """Deliver one copy, unless the mailbox is full, or gone: then its link waits for the next caller."""
    new = f"{spool.box(agent)}/new"
    if spool.full(agent):
        return False
    return spool.disk.move(f"{todo}/{agent}.json", f"{new}/{message_id}.json", grow=False)


def finish(spool: SpoolFiles) -> None:
    """Complete every committed broadcast that somebody left half done, and remove the uncommitted."""
    with _lock(spool):
        if trouble := _finish_all(spool):
            raise trouble


def _finish_all(spool: SpoolFiles) -> MailError | None:
    """Go through all that is half done; the first refusal met, if any, when the rest is done."""
    trouble: MailError | None = None
    try:
        entries = os.listdir(f"{spool.root}/broadcast")
    except FileNotFoundError:
        return None
    half = {text[1:37] for text in entries if text[0] == "." and text[37:] == ".json"}
    for message_id in sorted(half | {text[:36] for text in entries if text[36:] == ".todo"}):
        try:
            if is_id(message_id):
                _finish_one(spool, message_id)
        except MailError as error:
            trouble = trouble or error
    return trouble


def _finish_one(spool: SpoolFiles, message_id: str) -> None:
    dot, body = _body(spool, message_id, "."), _body(spool, message_id)
    if not os.path.lexists(body):
        if not is_committed(spool, dot):
            return _undo(spool, message_id, None)
        spool.disk.move(dot, body)
    message = envelope_at(body)
    if message is not None:
        _deliver(spool, message)


def help_myself(spool: SpoolFiles, agent: str) -> None:
    """Take this agent's copies of committed broadcasts that are still to be delivered: that needs no lock.

    One that only its key committed is finished under the lock, unless somebody is at it.
    """
    for text in names(f"{spool.root}/broadcast"):
        if not text.endswith(".todo") or not is_id(text[:36]):
            continue
        if not os.path.lexists(_body(spool, text[:36])):
            return _try_to_finish(spool)
        if os.path.lexists(f"{_todo(spool, text[:36])}/{agent}.json"):
            spool.disk.publish(_body(spool, text[:36]), spool.anchor(text[:36]))
            if _hand_over(spool, _todo(spool, text[:36]), agent, text[:36]):
                spool.disk.sync(f"{spool.box(agent)}/new")
        spool.disk.drop_dir(_todo(spool, text[:36]))


def _try_to_finish(spool: SpoolFiles) -> None:
    try:
        with Guard(spool.disk, f"{spool.root}/broadcast.lock", 0):
            _finish_all(spool)  # what cannot be finished is no reader's trouble
    except MailError as error:
        if error.code != "busy":
            raise
