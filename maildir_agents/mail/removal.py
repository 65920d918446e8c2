"""Deleting a message: its state name goes to trash/ first, then what refers to it, at last the trash name.

A file in trash/ is an unfinished removal; the next one that removes anything goes on with it.  Index names are only
unlinked when they are this very message.  The caller holds upkeep.lock.
"""

import os

from maildir_agents.disk.listing import names
from maildir_agents.errors import MailError
from maildir_agents.mail import journal
from maildir_agents.mail.conversation import ENDED
from maildir_agents.mail.dedup import key_path
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import EVERYBODY, TRASHED, Name, is_id, parse
from maildir_agents.mail.publish import same_message
from maildir_agents.mail.reading import envelope_at
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from maildir_agents.mail.message import Json

BODY = "body"  # how the stamp of a broadcast's body begins, which its copies' do not


def ended_conversations(spool: SpoolFiles, gone: "Set[str]" = frozenset()) -> list[str]:
    """Every conversation that has ended and of which no message is kept, those in `gone` left out."""
    return [conversation_id for conversation_id in journal.all_ids(spool) if _is_over(spool, conversation_id, gone)]


def _is_over(spool: SpoolFiles, conversation_id: str, gone: "Set[str]") -> bool:
    try:
        found = journal.read(spool, conversation_id)
    except MailError:
        return False  # damaged, or being started: not ours to remove
    return found.state in ENDED and not any(
        turn["id"] not in gone and os.path.lexists(spool.anchor(turn["id"])) for turn in found.turns
    )


def conversation_to_trash(spool: SpoolFiles, conversation_id: str) -> bool:
    """Take a conversation away, whole, by one rename."""
    return spool.disk.move(spool.conversation_directory(conversation_id), f"{spool.root}/trash/{conversation_id}")


def _remove_tree(spool: SpoolFiles, path: str) -> None:
    for text in os.listdir(path):
        inner = f"{path}/{text}"
        if os.path.isdir(inner) and not os.path.islink(inner):
            _remove_tree(spool, inner)
        else:
            spool.disk.discard(inner)
    spool.disk.drop_dir(path)


def to_trash(box: Mailbox, found: Found) -> str | None:
    """Take a message out of its mailbox, by its exact name; its path in trash/, or None: it moved meanwhile."""
    # Copies of a broadcast may carry equal names: a random stamp keeps them apart.
    name = found.name.becoming({TRASHED: box.spool.randomness(8).hex()})
    path = f"{box.spool.root}/trash/{name.text}"
    return path if box.spool.disk.move(box.where(found), path) else None


def finish_removals(spool: SpoolFiles) -> int:
    """Remove what lies in trash/, with everything that refers to it; how many messages went."""
    trash = f"{spool.root}/trash"
    for text in names(trash):
        if is_id(text):
            _remove_tree(spool, f"{trash}/{text}")
    waiting = [f"{trash}/{text}" for text in names(trash) if parse(text)]
    if not waiting:
        return 0
    spool.disk.sync(trash)
    touched = {os.path.dirname(name) for path in waiting for name in _unlink_index(spool, path)}
    spool.disk.sync_all(sorted(touched))
    for path in waiting:
        spool.disk.discard(path)
    return len(waiting)


def _unlink_index(spool: SpoolFiles, path: str) -> list[str]:
    """Unlink the key, the anchor and then the thread name of a message in trash/; the names that were unlinked."""
    message = envelope_at(path)
    if message is not None and message["recipient"] == EVERYBODY and not _is_body(path):
        return []  # a mailbox's copy of a broadcast, whose body has a removal of its own
    refers = _index_names(spool, message) if message is not None else _names_of_file(spool, path)
    return [name for name in refers if same_message(path, name) and spool.disk.discard(name)]


def _is_body(path: str) -> bool:
    name = parse(os.path.basename(path))
    return name is not None and name.stamps.get(TRASHED, "").startswith(BODY)


def body_to_trash(spool: SpoolFiles, message_id: str) -> bool:
    """Take the body of a broadcast away, with what refers to it to follow; the caller holds broadcast.lock too."""
    name = Name(message_id, {TRASHED: BODY + spool.randomness(6).hex()})
    return spool.disk.move(f"{spool.root}/broadcast/{message_id}.json", f"{spool.root}/trash/{name.text}")


def _index_names(spool: SpoolFiles, message: "Json") -> list[str]:
    key = [key_path(spool, message["sender"], message["dedup_key"])] if message["dedup_key"] else []
    thread = spool.thread_name(message["thread_id"] or message["id"], message["id"])
    return [*key, spool.anchor(message["id"]), thread]


def _names_of_file(spool: SpoolFiles, path: str) -> "Iterator[str]":
    """Where a file that is no message (any more) may have been linked when it was one: any key or thread."""
    if os.path.lexists(path) and os.lstat(path).st_nlink > 1:
        yield spool.anchor(os.path.basename(path)[:36])
        for top in ("dedup", "threads"):
            for directory in names(f"{spool.root}/{top}"):
                yield from (f"{spool.root}/{top}/{directory}/{t}" for t in names(f"{spool.root}/{top}/{directory}"))
