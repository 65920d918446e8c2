"""Making a spool, or a mailbox: rare, and all or nothing for whoever looks.

A spool's spool.json comes last and by one rename.  A mailbox is built under a dot name with the broadcasts it should
still get, and becomes known by one rename.  Both under the lock that broadcasts hold, so two founders make one spool.
"""

import os

from maildir_agents.disk.guard import Guard
from maildir_agents.disk.jsonfile import pretty
from maildir_agents.disk.listing import names
from maildir_agents.disk.moves import refusal, same_file
from maildir_agents.errors import MailError
from maildir_agents.mail.message import MAX_BODY
from maildir_agents.mail.name import iso, ms_of, parse
from maildir_agents.mail.spool import (
    BALLAST_BYTES,
    BALLAST_FILES,
    DIRECTORIES,
    FORMAT,
    LOCKS,
    WAITING_LIMIT,
    SpoolFiles,
)

MAILBOX_DIRS = ("tmp", "new", "cur", "claimed", "acked", "archive", "failed")
BROADCASTS_KEPT_MS = 7 * 86_400_000  # a new mailbox still gets those of the last week
LOCK_MS = 10_000

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def make_spool(spool: SpoolFiles) -> bool:
    """Make what is missing of a spool.  False: it was complete.  Raises cannot_write, spool_full, read_only."""
    if spool.exists:
        return False
    complete_spool(spool)
    return True


def complete_spool(spool: SpoolFiles) -> None:
    """Make whatever a spool lacks, spool.json last: what has one is a spool."""
    spool.disk.make_dir(spool.root)
    with Guard(spool.disk, f"{spool.root}/broadcast.lock", LOCK_MS):
        for directory in DIRECTORIES:
            spool.disk.make_dir(f"{spool.root}/{directory}")
        for lock in LOCKS:
            _touch(spool, f"{spool.root}/{lock}")
        fill_ballast(spool)
        _settle(spool, "config.json", lambda: {"auto": {}, "retention_days": None})
        _settle(spool, "spool.json", lambda: _settings(spool))
        spool.disk.sync_made(spool.root)
    spool.reopen()


def _touch(spool: SpoolFiles, path: str) -> None:
    try:
        os.close(spool.disk.open_lock(path))
    except OSError as error:
        raise refusal(error, path) from error


def _settle(spool: SpoolFiles, name: str, content: "Callable[[], dict[str, object]]") -> None:
    """A file that only the first maker writes, whole or not at all; what a dead maker left of it is removed."""
    draft, path = f"{spool.root}/.{name}", f"{spool.root}/{name}"
    if not os.path.lexists(path):
        spool.disk.discard(draft)
        spool.disk.write_new(draft, (pretty(content()) + "\n").encode("utf-8"))
        spool.disk.move(draft, path)


def _settings(spool: SpoolFiles) -> dict[str, object]:
    from maildir_agents.disk.probe import probe

    try:
        found = probe(spool.root)
    except OSError as error:
        raise refusal(error, spool.root) from error
    return {
        "format": FORMAT,
        "node": os.uname().nodename,
        "durability": spool.durability,
        "created": iso(spool.clock.wall_ms()),
        "limits": {"waiting": WAITING_LIMIT, "body_bytes": MAX_BODY},
        "file_system": found,
    }


def fill_ballast(spool: SpoolFiles) -> None:
    """Write the ballast files that are missing: room that an ack may free on a full disk.

    Random bytes, for a file system that compresses would keep nothing free with zeros.
    """
    for number in range(BALLAST_FILES):
        path = spool.ballast(number)
        if not spool.has_ballast(number):
            try:
                spool.disk.discard(path)  # half of one, from a maker that died
                spool.disk.write_new(path, spool.randomness(BALLAST_BYTES))
            except FileExistsError:
                pass  # another filled it meanwhile
            except FileNotFoundError:
                spool.disk.make_dir(os.path.dirname(path))
                return fill_ballast(spool)


def make_mailbox(spool: SpoolFiles, agent: str) -> bool:
    """Make an agent's mailbox (and the spool).  False: it was there; directories that it lacked are made."""
    make_spool(spool)
    with Guard(spool.disk, f"{spool.root}/broadcast.lock", LOCK_MS):
        if not os.path.isdir(f"{spool.box(agent)}/new"):
            build_mailbox(spool, agent)
            return True
        for directory in MAILBOX_DIRS:
            spool.disk.make_dir(f"{spool.box(agent)}/{directory}")
        return False


def build_mailbox(spool: SpoolFiles, agent: str) -> None:
    """Build a mailbox aside and make it known; the caller holds broadcast.lock."""
    box, building = spool.box(agent), f"{spool.agents}/.{agent}"
    for directory in MAILBOX_DIRS:
        spool.disk.make_dir(f"{building}/{directory}")
    _late_broadcasts(spool, agent, f"{building}/new")
    try:
        if not spool.disk.move(building, box):
            raise MailError("busy", f"the mailbox of {agent} was being made by another", "try again")
    except MailError:
        if not os.path.isdir(box):
            raise
        _fill(spool, building, box)
    spool.disk.sync_made(spool.agents)


def _fill(spool: SpoolFiles, building: str, box: str) -> None:
    """Complete what stands there without being a mailbox: a verb whose mailbox went away has made a part of it."""
    for directory in MAILBOX_DIRS:
        if directory != "new":
            spool.disk.make_dir(f"{box}/{directory}")
            spool.disk.drop_dir(f"{building}/{directory}")
    spool.disk.move(f"{building}/new", f"{box}/new")  # last: by its new/ a mailbox is known
    spool.disk.sync_made(box)
    spool.disk.drop_dir(building)


def _late_broadcasts(spool: SpoolFiles, agent: str, new: str) -> None:
    """Link the last week's broadcasts into a mailbox being built; what a dead maker left there is cleared first."""
    from maildir_agents.mail.mailbox import Mailbox
    from maildir_agents.mail.reading import envelope_at

    for stale in names(new):
        spool.disk.discard(f"{new}/{stale}")
    oldest = spool.clock.wall_ms() - BROADCASTS_KEPT_MS
    box = Mailbox(spool, agent)
    for text in sorted(os.listdir(f"{spool.root}/broadcast") if os.path.isdir(f"{spool.root}/broadcast") else ()):
        name, body = parse(text.removeprefix(".")), f"{spool.root}/broadcast/{text}"
        if name is None or ms_of(name.id) < oldest or (text[0] == "." and not is_committed(spool, body)):
            continue
        envelope = envelope_at(body)
        if envelope is not None and envelope["sender"] != agent:
            if box.find(name.id) is None:  # of a mailbox that has lost its new/ the rest may be there
                spool.disk.publish(body, f"{new}/{name.text}")
            spool.disk.discard(f"{spool.root}/broadcast/{name.id}.todo/{agent}.json")  # owed to an earlier mailbox
    spool.disk.sync_made(new)


def is_committed(spool: SpoolFiles, dot: str) -> bool:
    """Whether a broadcast's dot file, whose maker is dead, is committed: when its key is this very file."""
    from maildir_agents.mail.dedup import key_path
    from maildir_agents.mail.reading import envelope_at, take_message

    message = envelope_at(dot)
    if message is None and take_message(dot).trouble == "unreadable":
        raise MailError("cannot_read", f"{dot} cannot be read", path=dot)  # not to be taken for half written
    key = message["dedup_key"] if message is not None else None
    return message is not None and key is not None and same_file(dot, key_path(spool, message["sender"], key))


def ensure_mailbox(spool: SpoolFiles, agent: str) -> bool:
    """True when the mailbox had to be made.  One stat when it is there."""
    return not os.path.isdir(f"{spool.box(agent)}/new") and make_mailbox(spool, agent)
