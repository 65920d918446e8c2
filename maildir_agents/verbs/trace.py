"""trace: one message's whole life, a line an event, and where it is now.  Changes nothing.

Told from the file's names (what is true) and the histories of its sender and recipients (what is remembered).
"""

from maildir_agents.disk.listing import names
from maildir_agents.errors import MailError
from maildir_agents.mail.history import about
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import EVERYBODY, canonical, is_agent, iso, iso_of_stamp, ms_of
from maildir_agents.mail.reading import envelope_at
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.mail.threads import unopened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.mail.message import Json

_STAMPED = {"r": "read", "a": "acknowledged", "z": "archived", "x": "claimed until"}


def trace(spool: SpoolFiles, message_id: str) -> "dict[str, Any]":
    """`{id, sender, recipient, subject, places: [{agent, state, file}], events: [{at, event, agent, …}]}`."""
    wanted = canonical(message_id)
    envelope = envelope_at(spool.anchor(wanted))
    boxes = [Mailbox(spool, agent) for agent in _agents(spool, envelope)]
    found = {box.agent: place for box in boxes if (place := box.find(wanted))}
    if envelope is None and not found:
        raise MailError(
            "unknown_id", f"there is no message {wanted}", "agent-mail read AGENT --all lists an agent's messages"
        )
    told = (
        envelope
        or unopened(spool, wanted)
        or {"sender": None, "recipient": None, "subject": None, "created": iso(ms_of(wanted))}
    )
    events = [{"at": told["created"], "event": "created", "agent": told["sender"]}]
    for box in boxes:
        events += [
            {"at": e.pop("at"), "event": e.pop("event"), "agent": box.agent, **e}
            for e in about(spool, box.agent, wanted)
        ]
        events += _stamped(box, found.get(box.agent), events)
    events.sort(key=lambda event: str(event["at"]))
    return {
        "id": wanted,
        **{key: told[key] for key in ("sender", "recipient", "subject")},
        "places": [
            {"agent": agent, "state": place.directory, "file": place.name.text} for agent, place in found.items()
        ],
        "events": events,
    }


def _agents(spool: SpoolFiles, envelope: "Json | None") -> list[str]:
    """Whose mailboxes know of it: its sender and recipient, or everybody."""
    everybody = [name for name in names(spool.agents) if is_agent(name)]
    if envelope is None or envelope["recipient"] == EVERYBODY:
        return everybody
    return [name for name in everybody if name in (envelope["sender"], envelope["recipient"])]


def _stamped(box: Mailbox, found: Found | None, known: "list[Json]") -> "list[Json]":
    """What the name says and no history line does."""
    told = {(event["event"].split()[0], event["agent"]) for event in known}
    stamps = found.name.stamps if found else {}
    return [
        {"at": iso_of_stamp(stamps[letter]), "event": event, "agent": box.agent}
        for letter, event in _STAMPED.items()
        if letter in stamps and (event, box.agent) not in told
    ]
