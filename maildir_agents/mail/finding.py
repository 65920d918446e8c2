"""A finding of doctor: what is wrong, where, and what mends it (nothing, where a person must look)."""

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Finding:
    """`mend` changes the spool and may answer False: it was gone already.  None: beyond mending here."""

    __slots__ = ("code", "fix", "mend", "path", "sentence")

    def __init__(
        self, code: str, path: str, sentence: str, fix: str, mend: "Callable[[], object] | None" = None
    ) -> None:
        self.code = code
        self.path = path
        self.sentence = sentence
        self.fix = fix
        self.mend = mend

    def as_json(self, mended: bool) -> "dict[str, Any]":
        return {"code": self.code, "finding": self.sentence, "path": self.path, "fix": self.fix, "mended": mended}

    def try_to_mend(self) -> bool:
        """Mend it if it can be; what fails is said in the sentence."""
        if self.mend is None:
            return False
        try:
            self.mend()
        except (MailError, OSError) as error:
            reason = error.sentence if isinstance(error, MailError) else str(error)
            self.sentence += f"; mending it failed: {reason}"
            return False
        return True
