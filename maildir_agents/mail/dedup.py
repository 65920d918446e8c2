"""One message for each sender and key: the key's name in dedup/ is a further link of the message itself.

So it is complete or absent, it is remembered as long as the message is kept, and of two senders with one key the
second finds the first one's message and finishes it (`publish.post`).
"""

import hashlib

from maildir_agents.mail.reading import whole_at
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from maildir_agents.mail.message import Json


def key_path(spool: SpoolFiles, sender: str, key: str) -> str:
    """Where the message of this sender and key is.  Two netstrings, so ("a", "bc") and ("ab", "c") are two keys."""
    digest = hashlib.sha256()
    for part in (sender.encode("utf-8"), key.encode("utf-8")):
        digest.update(b"%d:%b," % (len(part), part))
    name = digest.hexdigest()
    return f"{spool.root}/dedup/{name[:2]}/{name}.json"


def winner(spool: SpoolFiles, sender: str, key: str) -> "Json | None":
    """The message that this key already is; None: there is none (or it was cleaned up)."""
    return whole_at(key_path(spool, sender, key))
