"""What the page shows at one moment, gathered by a few calls to verbs."""

from typing import Any, NamedTuple

from maildir_agents.errors import MailError
from maildir_agents.mail.name import EVERYBODY, canonical
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs import conversation, messages, status


class View(NamedTuple):
    """Which part of the mail: of one mailbox or all, unread or everything, how many, and which thread is open."""

    to: str | None
    everything: bool
    show: int
    opened: str | None
    mailbox: str | None


class Opened(NamedTuple):
    """A thread in the list: `message` was chosen, `as_agent` would answer it and `to` would get the answer."""

    message: dict[str, Any]
    messages: list[dict[str, Any]]
    as_agent: str
    to: str


class Seen(NamedTuple):
    agents: list[dict[str, Any]]  # those with unread mail first
    unread: int  # in all mailboxes
    rows: list[dict[str, Any]]
    truncated: bool
    waiting: list[dict[str, Any]]
    opened: Opened | None
    opened_in_rows: bool


def look(spool: SpoolFiles, view: View, ended: set[str]) -> Seen:
    """Gather it; `ended` remembers the conversations that are over, from look to look."""
    agents = sorted(status.status(spool), key=lambda row: (-row["unread"], row["agent"]))
    found = messages.messages(spool, view.to, unread_only=not view.everything, limit=view.show, bodies=False)
    rows = found["messages"]
    for row in rows:
        row["in_thread"] = messages.thread_size(spool, row["thread_id"] or row["id"])
    if view.everything:
        rows.reverse()
    opened = _opened(spool, view)
    return Seen(
        agents=agents,
        unread=sum(row["unread"] for row in agents),
        rows=rows,
        truncated=found["truncated"],
        waiting=conversation.waiting(spool, ended),
        opened=opened,
        opened_in_rows=opened is not None and any(_is_opened(row, opened) for row in rows),
    )


def _is_opened(row: dict[str, Any], opened: Opened) -> bool:
    return bool(row["id"] == opened.message["id"] and row["mailbox"] == opened.message["mailbox"])


def _opened(spool: SpoolFiles, view: View) -> Opened | None:
    if view.opened is None:
        return None
    try:
        return thread_of(spool, view.opened, view.mailbox)
    except MailError:
        return None  # gone meanwhile: the page is shown without it


def thread_of(spool: SpoolFiles, message_id: str, mailbox: str | None) -> Opened:
    """The thread of a message that lies in `mailbox`; raises unknown_id."""
    wanted = canonical(message_id)
    found = messages.thread(spool, wanted)["messages"]
    [chosen] = [message for message in found if message["id"] == wanted][:1] or [found[-1]]
    as_agent = mailbox or chosen["mailbox"] or ""
    to = chosen["recipient"] if chosen["sender"] == as_agent else chosen["sender"]
    return Opened({**chosen, "mailbox": as_agent or None}, found, as_agent, "everybody" if to == EVERYBODY else to)
