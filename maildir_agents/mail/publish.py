"""Commit and delivery: a message is committed by one link from its finished draft, delivered by one rename of it.

Between the two its sender may die; then whoever comes next runs the same `publish`.  Nobody else knows what a commit
is; who the next caller is and when it looks is the subject of `mending`.
"""

import os

from maildir_agents.disk.jsonfile import encode
from maildir_agents.disk.moves import DONE, EXISTS, GONE, same_file
from maildir_agents.errors import MailError
from maildir_agents.mail.message import lay_out
from maildir_agents.mail.name import iso
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from maildir_agents.mail.message import Json

TRIES = 8


def address(spool: SpoolFiles, message: "Json") -> None:
    """Give a message a fresh id, and the time it was made."""
    now = spool.clock.wall_ms()
    message["id"], message["created"] = spool.ids.next(now), iso(now)


def post(spool: SpoolFiles, message: "Json", key: str | None = None) -> "tuple[Json | None, bool]":
    """Send a checked, addressed message to one mailbox: (what its key already was, whether the mailbox was made).

    It is committed by its anchor, or by `key`, the path of its dedup name.  Until that link it may be started again
    (a collected draft, another's id: new id); after it never, and what fails then is `durability_unknown`.
    """
    made = False
    for _ in range(TRIES):
        draft, founded = write_draft(spool, message["recipient"], message["id"], lay_out(message, encode))
        made = made or founded
        linked = _link(spool, draft, key or spool.anchor(message["id"]))
        if linked == DONE:
            finish(spool, message, key, anchored=key is None)
            return None, made
        original = _original(spool, draft, key) if linked == EXISTS and key else None
        spool.disk.discard(draft)
        if original is not None:
            return original, made
        address(spool, message)
    raise MailError(
        "busy", f"the draft was taken away {TRIES} times before it was sent", "is the clock right? agent-mail doctor"
    )


def write_draft(spool: SpoolFiles, agent: str, message_id: str, data: bytes) -> tuple[str, bool]:
    """Write a message aside, whole and synced.  (its path, whether the recipient's mailbox had to be made)."""
    path = spool.draft(agent, message_id)
    try:
        spool.disk.write_new(path, data)
        return path, False
    except FileNotFoundError:
        from maildir_agents.mail.founding import make_mailbox

        made = make_mailbox(spool, agent)
        spool.disk.write_new(path, data)
        return path, made


def _original(spool: SpoolFiles, draft: str, key: str) -> "Json | None":
    """The message that holds a key; None when it was cleaned up meanwhile (then the key is free again)."""
    from maildir_agents.mail.reading import whole_at

    original = whole_at(key)
    if original is None and os.path.lexists(key):
        spool.disk.discard(draft)
        raise MailError(
            "cannot_read",
            f"{key} is damaged, so whether this was sent before is not known",
            "agent-mail doctor; nothing was sent",
            path=key,
        )
    return original


def finish(spool: SpoolFiles, message: "Json", key: str | None = None, anchored: bool = False) -> None:
    """Deliver a committed message and make durable what its sender reports; a commit by key is synced first."""
    try:
        if key:
            spool.disk.sync(os.path.dirname(key))
        publish(spool, message["recipient"], message, anchored)
        spool.disk.sync(f"{spool.box(message['recipient'])}/new")
    except MailError as error:
        # Whoever comes next delivers it.  Sending it again without a key would send it twice.
        raise MailError(
            "durability_unknown",
            f"message {message['id']} was sent, but {error.sentence}",
            "do not send it again",
            id=message["id"],
        ) from error


def deliver_left(spool: SpoolFiles, agent: str, message: "Json") -> None:
    """Deliver what its sender committed and left.  Its commit is durable before anybody can see the message."""
    if message["turn"] is not None and message["conversation_id"]:
        spool.disk.sync_made(os.path.dirname(spool.entry(message["conversation_id"], 0)))
    if message["dedup_key"] is not None:
        from maildir_agents.mail.dedup import key_path

        spool.disk.sync_made(os.path.dirname(key_path(spool, message["sender"], message["dedup_key"])))
    if publish(spool, agent, message):
        spool.disk.sync(f"{spool.box(agent)}/new")


def publish(spool: SpoolFiles, agent: str, message: "Json", anchored: bool = False) -> bool:
    """Finish a committed message: give it its index names, deliver it.  False: another had done it.

    `anchored`: the caller has just committed it by its anchor.
    The same for its sender, a helper and the collector.  Every link comes from the draft, whose path is never
    another message's; ENOENT there means that it has been published.
    """
    message_id = message["id"]
    for draft in (spool.draft(agent, message_id), spool.parked(agent, message_id)):
        if _index(spool, draft, message, anchored) and _enter(spool, agent, draft):
            return True
    return False


def _enter(spool: SpoolFiles, agent: str, draft: str) -> bool:
    """The rename into new/.  False: the draft is gone.

    A new/ that is missing is not made for one message: by it a mailbox is known, and the next would not be made whole.
    """
    place = f"{spool.box(agent)}/new/{os.path.basename(draft)[:36]}.json"
    if spool.disk.move(draft, place, grow=False):
        return True
    if not os.path.lexists(draft):
        return False
    from maildir_agents.mail.founding import make_mailbox

    make_mailbox(spool, agent)
    return spool.disk.move(draft, place)


def _index(spool: SpoolFiles, draft: str, message: "Json", anchored: bool) -> bool:
    """Link what must exist before anybody can see the message.  False: there is no such draft."""
    if message["turn"] is not None and not _join_conversation(spool, draft, message):
        return False
    linked = DONE if anchored else _link(spool, draft, spool.anchor(message["id"]))
    if linked == EXISTS:
        raise MailError("id_clash", f"another message has the id {message['id']}", "agent-mail doctor shows both")
    return linked == DONE and join_thread(spool, draft, message)


def _join_conversation(spool: SpoolFiles, draft: str, message: "Json") -> bool:
    """The opening entry of turn 1, the key of a later turn.  False: there is no such draft.

    A turn's commit is its journal entry, so its key may have become another message's meanwhile: that is no clash.
    """
    if message["turn"] == 1 and message["conversation_id"]:
        linked = _link(spool, draft, spool.entry(message["conversation_id"], 0))
        if linked == EXISTS:
            raise MailError("id_clash", f"conversation {message['conversation_id']} was opened by another message")
        if linked == DONE and message["dedup_key"] is not None:  # without a key this link is the commit, synced as such
            spool.disk.sync(os.path.dirname(spool.entry(message["conversation_id"], 0)))
        return linked == DONE
    if message["dedup_key"] is None:
        return True
    from maildir_agents.mail.dedup import key_path

    return _link(spool, draft, key_path(spool, message["sender"], message["dedup_key"])) != GONE


def join_thread(spool: SpoolFiles, name: str, message: "Json") -> bool:
    """Link a reply, by one of its names, into its thread; nothing for a root.  False: that name is gone.

    The root joins with the first reply; one that was cleaned up leaves the replies a thread.
    """
    root = message["thread_id"]
    if not root:
        return True
    spool.disk.publish(spool.anchor(root), spool.thread_name(root, root))
    return _link(spool, name, spool.thread_name(root, message["id"])) != GONE


def _link(spool: SpoolFiles, draft: str, name: str) -> str:
    linked = spool.disk.publish(draft, name)
    if linked == EXISTS and same_message(draft, name):
        return DONE
    # Whoever made that name may have delivered the draft meanwhile: then there is nothing to compare it with.
    return GONE if linked == EXISTS and not os.path.lexists(draft) else linked


def same_message(one: str, other: str) -> bool:
    """One inode, or (a spool restored without its hard links) the same bytes."""
    if same_file(one, other):
        return True
    from maildir_agents.mail.reading import take_message

    a, b = take_message(one), take_message(other)
    return a.data is not None and a.data == b.data


def committed(spool: SpoolFiles, draft: str, message: "Json") -> bool:
    """Whether a draft is committed: asked of the names by path, never of the link count."""
    if same_message(draft, spool.anchor(message["id"])):
        return True
    if message["turn"] is not None and message["conversation_id"]:
        return _in_journal(spool, draft, message["conversation_id"]) or _keyed(spool, draft, message)
    return _keyed(spool, draft, message)


def _keyed(spool: SpoolFiles, draft: str, message: "Json") -> bool:
    if message["dedup_key"] is None:
        return False
    from maildir_agents.mail.dedup import key_path

    return same_message(draft, key_path(spool, message["sender"], message["dedup_key"]))


def _in_journal(spool: SpoolFiles, draft: str, conversation_id: str) -> bool:
    # Entry by entry to the first that is missing: the slot is not in the message.
    number = 0
    while os.path.lexists(entry := spool.entry(conversation_id, number)):
        if same_message(draft, entry):
            return True
        number += 1
    return False
