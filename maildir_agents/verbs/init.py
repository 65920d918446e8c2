"""init: make a spool, or complete one that lacks something.  Sends make one by themselves; this is for choosing."""

from maildir_agents.errors import MailError
from maildir_agents.mail.founding import complete_spool
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def init(spool: SpoolFiles) -> "dict[str, Any]":
    """`{spool, created, durability, file_system}`; `created` is False when there was one."""
    existed, stored = spool.exists, spool.settings.get("durability", "full")
    if existed and stored != spool.durability:
        raise MailError(
            "usage",
            f"{spool.root} is a spool of durability {stored}",
            f'to change it, write "durability": "{spool.durability}" into {spool.root}/spool.json',
        )
    complete_spool(spool)
    return {
        "spool": spool.root,
        "created": not existed,
        "durability": spool.durability,
        "file_system": spool.settings.get("file_system", {}),
    }
