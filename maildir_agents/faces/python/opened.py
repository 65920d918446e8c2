"""An opened spool as Python callers hold it: which one it is, and which claims this process has."""

import os

from maildir_agents.mail.spool import SpoolFiles, locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from maildir_agents.disk.clock import Clock
    from maildir_agents.disk.moves import Disk


class Opened(SpoolFiles):
    """A spool by its directory, or the one that the environment names."""

    def __init__(
        self,
        root: "str | os.PathLike[str] | None" = None,
        *,
        disk: "Disk | None" = None,
        clock: "Clock | None" = None,
        randomness: "Callable[[int], bytes]" = os.urandom,
        durability: str | None = None,
        history: bool = True,
    ) -> None:
        path, _ = locate(os.fspath(root) if root is not None else None, os.environ)
        super().__init__(path, disk=disk, clock=clock, randomness=randomness, durability=durability, history=history)

    @property
    def mine(self) -> frozenset[tuple[str, int]]:
        """The claims of this process: the one its listener gave it in AGENT_MAIL_CLAIM, as (id, token)."""
        from maildir_agents.mail.name import own_claims

        return own_claims(os.environ.get("AGENT_MAIL_CLAIM"))

    def _meant(self, text: str) -> str:
        from maildir_agents.mail.name import meant

        return meant(text, self.mine)
