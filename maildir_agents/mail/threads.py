"""Threads: the root's directory in threads/ holds every member under its id; a root without replies has none."""

from maildir_agents.disk.listing import names
from maildir_agents.errors import MailError
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import EVERYBODY, canonical, is_agent, is_id
from maildir_agents.mail.reading import envelope_at, whole_at
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from maildir_agents.mail.message import Json


def root_of(spool: SpoolFiles, message_id: str) -> str:
    """The root's id of the thread that a message is in; unknown_id when there is no such message."""
    member = canonical(message_id)
    return str(envelope_of(spool, member)["thread_id"] or member)


def envelope_of(spool: SpoolFiles, message_id: str) -> "Json":
    """The envelope of a message by its id; unknown_id when there is no such message."""
    envelope = envelope_at(spool.anchor(message_id)) or unopened(spool, message_id)
    if envelope is None:
        raise MailError(
            "unknown_id", f"there is no message {message_id}", "agent-mail read AGENT --all lists an agent's messages"
        )
    return envelope


def members(spool: SpoolFiles, root: str, asked: str) -> "list[Json]":
    """The messages of a thread, oldest first, as they were sent; `asked` is one of them that is known to exist."""
    ids = {text[:36] for text in names(spool.thread_directory(root)) if text[36:] == ".json" and is_id(text[:36])}
    found = (
        whole_at(spool.anchor(i)) or whole_at(spool.thread_name(root, i)) or unopened(spool, i)
        for i in sorted(ids | {root, canonical(asked)})
    )
    return [message for message in found if message is not None]


def unopened(spool: SpoolFiles, message_id: str) -> "Json | None":
    """A message without an anchor: a script dropped it into a mailbox, and nobody has opened it yet."""
    for agent in names(spool.agents):
        box = Mailbox(spool, agent)
        found = box.find(message_id) if is_agent(agent) else None
        message = whole_at(box.where(found)) if found else None
        if message and message["id"] == message_id and message["recipient"] in (agent, EVERYBODY):
            return message
    return None
