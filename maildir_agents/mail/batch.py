"""Sending many messages as one durable batch: write all, sync once, commit and deliver all, sync each mailbox once.

Nothing is visible until every draft is on the disk; what fails before that leaves nothing behind.
"""

import os

from maildir_agents.disk.jsonfile import encode
from maildir_agents.disk.moves import DONE
from maildir_agents.errors import MailError
from maildir_agents.mail.founding import ensure_mailbox
from maildir_agents.mail.message import lay_out
from maildir_agents.mail.publish import address, post, publish
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from maildir_agents.mail.message import Json


def post_many(spool: SpoolFiles, messages: "Sequence[Json]") -> None:
    """Send checked messages without keys, each to one mailbox, in their order; their ids are filled in."""
    for recipient in sorted({message["recipient"] for message in messages}):
        ensure_mailbox(spool, recipient)
    drafts: list[str] = []
    try:
        for message in messages:
            address(spool, message)
            drafts.append(spool.draft(message["recipient"], message["id"]))
            spool.disk.write_new(drafts[-1], lay_out(message, encode), sync=False)
        spool.disk.sync_files(drafts)
        if spool.disk.publish(drafts[0], spool.anchor(messages[0]["id"])) != DONE:
            raise MailError("busy", "a draft was taken away before it was sent", "nothing was sent: try again")
    except (MailError, OSError):
        for draft in drafts:
            spool.disk.discard(draft)
        raise
    _deliver(spool, messages)


def _deliver(spool: SpoolFiles, messages: "Sequence[Json]") -> None:
    # The first is committed: from here on the batch goes on to its end, or says how far it came.
    try:
        for message in messages:
            if not publish(spool, message["recipient"], message) and not os.path.lexists(spool.anchor(message["id"])):
                address(spool, message)  # a collector took its draft for abandoned: a new id, from the beginning
                post(spool, message)
        spool.disk.sync_all(sorted({f"{spool.box(message['recipient'])}/new" for message in messages}))
    except MailError as error:
        # The one that failed may have been committed: then whoever comes next delivers it.
        sent = [message["id"] for message in messages if os.path.lexists(spool.anchor(message["id"]))]
        raise MailError(
            "durability_unknown",
            f"{len(sent)} of {len(messages)} messages were sent, then {error.sentence}",
            "the ids that were sent are in `ids`; send only the others again",
            ids=sent,
        ) from error
