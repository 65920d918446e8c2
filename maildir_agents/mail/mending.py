"""What the next caller completes: drafts whose sender died, half-done broadcasts, claims whose time is over.

Whoever reads, watches, claims or waits runs this over its own mailbox first, with the same procedures the first doer
ran.  doctor does it for all mailboxes.
"""

import os
import stat

from maildir_agents.errors import MailError
from maildir_agents.mail import broadcast
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import EVERYBODY, is_id
from maildir_agents.mail.publish import committed, deliver_left, finish
from maildir_agents.mail.reading import envelope_at, take_message
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from maildir_agents.mail.message import Json

ABANDONED_MS = 60_000  # a draft that nobody committed by then is litter


def complete(spool: SpoolFiles, original: "Json", key: str) -> None:
    """Complete the message that a key already is: its sender may have died after its commit."""
    if original["recipient"] != EVERYBODY:
        return finish(spool, original, key)
    try:
        broadcast.finish(spool)
        spool.disk.sync_all([os.path.dirname(key), f"{spool.root}/broadcast"])
    except MailError as error:
        raise MailError(
            "durability_unknown",
            f"broadcast {original['id']} was sent, but {error.sentence}",
            "do not send it again",
            id=original["id"],
        ) from error


def collect(box: Mailbox) -> None:
    """Look into the mailbox's own tmp/: publish what is committed, remove what nobody committed for a minute.

    An abandoned draft is parked under `~gc` first and asked again, so a sender that wakes up finds it gone and
    starts anew.  What cannot be mended now waits for the next caller.
    """
    _help_broadcasts(box)
    try:
        drafts = os.listdir(f"{box.path}/tmp")
    except FileNotFoundError:
        return
    for text in drafts:
        try:
            _collect(box, text)
        except MailError:
            continue  # a full or read-only disk, a clash: mail that is whole is not held up by mail that is not


def _help_broadcasts(box: Mailbox) -> None:
    """Take this mailbox's copies of broadcasts that somebody left half done.

    Such a broadcast has a directory in broadcast/; the link count tells whether there is one without a listing
    (2: none; 1: this file system does not count).
    """
    broadcasts = f"{box.spool.root}/broadcast"
    try:
        if os.stat(broadcasts).st_nlink == 2:
            return
    except FileNotFoundError:
        return
    try:
        broadcast.help_myself(box.spool, box.agent)
    except MailError:
        pass  # its links wait for the next caller


def _collect(box: Mailbox, text: str) -> None:
    spool, message_id, parked = box.spool, text[:36], text[36:] == "~gc.json"
    if not is_id(message_id) or not (parked or text[36:] == ".json"):
        return
    path = f"{box.path}/tmp/{text}"
    if not is_file(path):
        return  # gone meanwhile, or something that nobody moves: doctor reports it
    message = envelope_at(path)
    if message is None and take_message(path).trouble == "unreadable":
        return  # so nobody knows whether it is committed
    if message is not None and message["id"] == message_id and committed(spool, path, message):
        deliver_left(spool, box.agent, message)
        _drop_second_name(spool, path)
    elif not parked and age_ms(spool, path) > ABANDONED_MS:
        if spool.disk.move(path, spool.parked(box.agent, message_id)):
            _collect(box, f"{message_id}~gc.json")
    elif parked:
        spool.disk.discard(path)


def _drop_second_name(spool: SpoolFiles, path: str) -> None:
    # rename(2) between two names of one inode does nothing and says 0: after a repair the draft may still be there.
    spool.disk.discard(path)


def is_draft(text: str) -> bool:
    """Whether a name in tmp/ is a draft's, parked or not."""
    return is_id(text[:36]) and text[36:] in (".json", "~gc.json")


def is_abandoned(box: Mailbox, text: str) -> bool:
    """Whether a draft is committed and not delivered, or was left for a minute."""
    path = f"{box.path}/tmp/{text}"
    message = envelope_at(path)
    return (message is not None and committed(box.spool, path, message)) or age_ms(box.spool, path) > ABANDONED_MS


def is_file(path: str) -> bool:
    """Whether a name is a regular file's; a symbolic link is none."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def age_ms(spool: SpoolFiles, path: str) -> int:
    """How long ago a file was written; 0 when it is gone."""
    try:
        return spool.clock.wall_ms() - os.lstat(path).st_mtime_ns // 1_000_000
    except OSError:
        return 0


def expire(box: Mailbox, mine: frozenset[tuple[str, int]] = frozenset()) -> int | None:
    """Free every claim whose lease is over, but none of the caller's own (id, token).

    Milliseconds until the earliest of the others ends; None: there are none.
    """
    earliest: int | None = None
    for found in box.listed("claimed"):
        if (found.id, found.name.token) in mine:
            continue
        left = box.claim_left_ms(found)
        if left > 0:
            earliest = left if earliest is None else min(earliest, left)
            continue
        try:
            box.move("expire", found)
        except MailError:
            pass  # it counts as free all the same
    return earliest
