"""maildir_agents: mail between coding agents, kept as files.

The house has four floors and imports go down only: `faces` (command line, Python, …) ask `verbs`,
verbs ask `mail` what the files mean, mail asks `disk` how a byte gets to stay; `errors` lies below all.

    from maildir_agents import Spool
    spool = Spool("/path/to/spool")
    spool.send(sender="a", recipient="b", subject="hello", body="…")
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from maildir_agents.errors import MailError as MailError
    from maildir_agents.faces.python import Spool as Spool

__version__ = "0.5.0"
__all__ = ["MailError", "Spool", "__version__"]


def __getattr__(name: str) -> object:
    # Resolved on first use: the command line must not pay for what it does not use.
    if name == "Spool":
        from maildir_agents.faces.python import Spool

        return Spool
    if name == "MailError":
        from maildir_agents.errors import MailError

        return MailError
    raise AttributeError(f"module 'maildir_agents' has no attribute {name!r}")
