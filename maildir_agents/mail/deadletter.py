"""Dead letters: what cannot be mail, or could not be worked on, goes to failed/ with its reason beside it.

The reason is written first; making its file reserves the name, so nothing in failed/ is ever replaced.  Who then
loses the rename leaves a lone reason for doctor.
"""

import os

from maildir_agents.disk.jsonfile import pretty, read_settings
from maildir_agents.errors import MailError
from maildir_agents.mail import lifecycle
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import iso

TYPE_CHECKING = False
if TYPE_CHECKING:
    from maildir_agents.mail.message import Json


def reason_path(box: Mailbox, found: Found) -> str:
    """Where the reason of a dead letter is."""
    return f"{box.path}/failed/{found.name.text.removesuffix('.json')}.reason.json"


def fail(box: Mailbox, found: Found, code: str, reason: str, by: str | None = None) -> Found | None:
    """Move a message to failed/ with its reason, durably; None: it was no longer under that name."""
    name = found.name
    attempts = name.token - int(name.stamps.get("q", "0"))
    content = {
        "id": found.id,
        "code": code,
        "reason": reason,
        "at": iso(box.spool.clock.wall_ms()),
        "by": by,
        "attempts": attempts,
    }
    number = 0
    while True:
        stamps = {"d": str(number)} if number else {}
        _, after = lifecycle.successor("fail", found.directory, name, stamps)
        target = Found("failed", after)
        if _reserve(box, target, content):
            moved = box.move("fail", found, **stamps)
            if moved:
                box.sync([moved])
                box.spool.note(box.agent, "failed", id=found.id, code=code)
            return moved
        number += 1


def _reserve(box: Mailbox, target: Found, content: "Json") -> bool:
    path = reason_path(box, target)
    data = (pretty(content) + "\n").encode("utf-8")
    try:
        box.spool.disk.write_new(path, data)
    except FileExistsError:
        return False
    except FileNotFoundError:
        box.spool.disk.make_dir(f"{box.path}/failed")
        return _reserve(box, target, content)
    except MailError as error:
        if error.code != "spool_full" or not box.spool.free_ballast():
            raise
        return _reserve(box, target, content)
    if os.path.lexists(box.where(target)):
        box.spool.disk.discard(path)
        return False
    return True


def explain(box: Mailbox, found: Found) -> None:
    """Write the reason of a dead letter that has none: that it is not known."""
    content = {**reason_of(box, found), "at": iso(box.spool.clock.wall_ms()), "by": "doctor"}
    box.spool.disk.write_new(reason_path(box, found), (pretty(content) + "\n").encode("utf-8"))


def reason_of(box: Mailbox, found: Found) -> "Json":
    """The reason of a dead letter; a sentence that says so when it is missing or damaged."""
    try:
        reason = read_settings(reason_path(box, found))
    except MailError:
        reason = None
    return reason or {
        "id": found.id,
        "code": "unknown",
        "reason": "its reason file is missing or damaged",
        "at": None,
        "by": None,
        "attempts": found.name.token,
    }
