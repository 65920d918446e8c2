"""What there is to know of an agent's listener: whether it may run, whether it does, what it works on.

listener.lock (disk.sole) is the truth and dies with its holder; listener.json is a label; listener.disabled forbids
new work.  Whoever changes what a listener should see knocks: a dot file that comes and goes in new/ rings its bell.
"""

import os

from maildir_agents.disk.jsonfile import pretty, read_settings
from maildir_agents.disk.sole import UNKNOWN, holder
from maildir_agents.errors import MailError
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import iso

TYPE_CHECKING = False
if TYPE_CHECKING:
    from maildir_agents.mail.message import Json


def lock_of(box: Mailbox) -> str:
    """The lock of whoever is this agent's listener."""
    return f"{box.path}/listener.lock"


def log_of(box: Mailbox) -> str:
    """Where workers' output goes, and that of a listener without a terminal."""
    return f"{box.path}/listener.log"


def _marker(box: Mailbox) -> str:
    return f"{box.path}/listener.disabled"


def is_disabled(box: Mailbox) -> bool:
    return os.path.lexists(_marker(box))


def disable(box: Mailbox) -> None:
    """Forbid new work, durably; a listener that runs hears of it now."""
    content = pretty({"at": iso(box.spool.clock.wall_ms())}) + "\n"
    try:
        box.spool.disk.write_new(_marker(box), content.encode("utf-8"))
    except FileExistsError:
        pass
    box.spool.disk.sync(box.path)
    knock(box)


def allow(box: Mailbox) -> None:
    """Take the marker away, durably."""
    box.spool.disk.discard(_marker(box))
    box.spool.disk.sync(box.path)
    knock(box)


def knock(box: Mailbox) -> None:
    """Wake whoever waits at this mailbox; nothing comes.  Nothing fails because this failed."""
    path = f"{box.path}/new/.{box.spool.ids.next(box.spool.clock.wall_ms())}.json"
    try:
        box.spool.disk.write_new(path, b"", sync=False)
        box.spool.disk.discard(path)
    except (MailError, OSError):
        pass


# the label


def label(box: Mailbox, pid: int, started: str, waiting_on: str | None) -> None:
    """Say who listens since when, and which message its worker has.  Nothing fails because this failed."""
    draft = f"{box.path}/.listener.json"
    told = pretty({"pid": pid, "started": started, "waiting_on": waiting_on}) + "\n"
    try:
        box.spool.disk.discard(draft)  # of one who died of it
        box.spool.disk.write_new(draft, told.encode("utf-8"), sync=False)
        box.spool.disk.move(draft, f"{box.path}/listener.json")
    except (MailError, OSError):
        pass


def unlabel(box: Mailbox) -> None:
    """Take the label away: this listener did not die, it ended."""
    try:
        box.spool.disk.discard(f"{box.path}/listener.json")
    except MailError:
        pass


def _told(box: Mailbox) -> "Json":
    try:
        return read_settings(f"{box.path}/listener.json") or {}
    except MailError:
        return {}


def seen(box: Mailbox) -> "Json":
    """`{enabled, running, pid, waiting_on, died}`; `died`: it left its label and holds no lock."""
    told, pid = _told(box), holder(lock_of(box))
    while pid is None and (later := _told(box)) != told:  # one began or ended just then
        told, pid = later, holder(lock_of(box))
    running = pid is not None
    # With another process id the label is of a listener before this one.
    waiting_on = told.get("waiting_on") if pid in (told.get("pid"), UNKNOWN) else None
    return {
        "enabled": not is_disabled(box),
        "running": running,
        "pid": pid or None,
        "waiting_on": waiting_on if running and isinstance(waiting_on, str) else None,
        "died": bool(told) and not running,
    }
