"""The Python face: `Spool`, an opened spool with every verb as a method.

It creates and looks like the command line does, in process; errors are `MailError` with the same codes.  Times are
RFC 3339 UTC text, ids UUIDv7 text, sizes bytes, durations seconds unless a name says `_ms`.
"""

from maildir_agents.faces.python.mail import Mail
from maildir_agents.faces.python.upkeep import Upkeep
from maildir_agents.faces.python.work import Work


class Spool(Mail, Work, Upkeep):
    """A spool of mail.

    `root` is its directory (default: AGENT_MAIL_SPOOL, else the user's state directory); it need not exist: the first
    send, read, watch or ack makes it.  `durability` "none" skips every fsync.  `disk`, `clock` and `randomness` are for
    tests (see `maildir_agents.testing`).  Objects are cheap, hold no open file and may be used after fork.
    """
