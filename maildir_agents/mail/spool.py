"""A spool, opened: its root, its disk, its clock, its settings, and where everything in it lies.

Every verb takes one as its first argument.  Opening makes nothing and reads one small file; a spool of another user,
or of a newer format, is refused.  It knows every path and moves nothing.
"""

import os

from maildir_agents.disk.clock import Clock
from maildir_agents.disk.jsonfile import encode, read_settings
from maildir_agents.disk.moves import Disk
from maildir_agents.errors import MailError
from maildir_agents.mail.name import Ids, Name, day_of, iso, minute_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

FORMAT = 1
WAITING_LIMIT = 100_000  # messages in one new/
SMALLEST_ENTRY = 20  # bytes a name takes at least in a directory (tmpfs; 48 and more elsewhere)
BALLAST_FILES, BALLAST_BYTES = 16, 64 << 10
DIRECTORIES = ("messages", "dedup", "threads", "agents", "conversations", "broadcast", "trash", "ballast")
LOCKS = ("upkeep.lock", "broadcast.lock")
OWN_NAMES = frozenset((*DIRECTORIES, *LOCKS, "config.json"))
DURABILITIES = ("full", "none")

_makers: dict[str, Ids] = {}  # root -> one for the whole process: its ids increase whichever object sends


def locate(spool: str | None, environ: "Mapping[str, str]") -> tuple[str, str]:
    """(path, where that came from): the argument, AGENT_MAIL_SPOOL, or the user's state directory."""
    given, source = environ.get("AGENT_MAIL_SPOOL") or None, "AGENT_MAIL_SPOOL"
    if spool is not None:
        given, source = spool, "--spool"
    if given is not None:
        if given[:1] != "/":
            raise MailError(
                "usage",
                f"{source} must be an absolute path, not {given!r}",
                "agents run in different directories: a relative spool would be many spools",
            )
        return os.path.normpath(given), source
    state = environ.get("XDG_STATE_HOME", "")
    if state[:1] == "/":
        return f"{state}/agent-mail", "XDG_STATE_HOME"
    return os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local/state/agent-mail"), "default"


class SpoolFiles:
    """An opened spool.  `exists` tells whether there was one; only founding makes one.

    `clock`, `disk` and `randomness` (n -> n bytes) are for tests; `durability` overrides what spool.json says.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        randomness: "Callable[[int], bytes]" = os.urandom,
        durability: str | None = None,
        history: bool = True,
    ) -> None:
        self.root = os.fspath(root)
        self.clock = clock or Clock()
        self.disk = disk or Disk()
        self.ids = _makers.setdefault(self.root, Ids(randomness)) if randomness is os.urandom else Ids(randomness)
        self.randomness = randomness
        self.keeps_history = history
        self.settings: dict[str, Any] = {}
        self.exists = False
        self._wanted = durability
        self.agents = f"{self.root}/agents"
        self._boot: str | None = None
        self.reopen()

    def reopen(self) -> None:
        """Read spool.json again (founding calls it when it has made one)."""
        self._check_owner()
        settings = read_settings(f"{self.root}/spool.json")
        self.exists = settings is not None
        if settings is None and self._is_made_this_moment():
            return self.reopen()
        if settings is None:
            settings = {}
        elif settings.get("format", 0) != FORMAT:
            raise MailError(
                "newer_format",
                f"{self.root} has format {settings.get('format')!r}, this program knows {FORMAT}",
                "use the program version that made it, or a newer one",
            )
        self.settings = settings
        self.durability = self._wanted or settings.get("durability", "full")
        limits = settings.get("limits", {})
        if type(limits) is not dict or not all(type(limits.get(name, 0)) is int for name in ("waiting", "body_bytes")):
            raise MailError("not_a_spool", f"the limits in {self.root}/spool.json are damaged", path=self.root)
        if self.durability not in DURABILITIES:
            raise MailError("not_a_spool", f"durability {self.durability!r} is none of {', '.join(DURABILITIES)}")
        self.disk.durable = self.durability == "full"

    def _is_made_this_moment(self) -> bool:
        """True: it has its spool.json by now.  Refuses a directory that is something else."""
        try:
            entries = os.listdir(self.root)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise MailError("not_a_spool", f"{self.root} cannot be opened: {error.strerror}", path=self.root) from None
        if "spool.json" in entries:
            return True
        # Nothing but a spool's own names: one that somebody is still making.
        if not OWN_NAMES.issuperset(name for name in entries if name[0] != "."):
            raise MailError(
                "not_a_spool",
                f"{self.root} is no spool and not empty",
                "name an empty or missing directory, or the spool you meant",
                path=self.root,
            )
        return False

    def _check_owner(self) -> None:
        # One uid: files of two users lock each other out, and root's would lock out the owner.
        try:
            owner = os.stat(self.root).st_uid
        except FileNotFoundError:
            return
        if owner != os.geteuid():
            raise MailError(
                "wrong_uid",
                f"{self.root} belongs to user {owner}, this is user {os.geteuid()}",
                "run as its owner, or give this user a spool of its own",
            )

    @property
    def boot(self) -> str:
        """This boot and time namespace, as leases name them; asked of the clock once."""
        if self._boot is None:
            self._boot = self.clock.boot()
        return self._boot

    def limit(self, name: str, default: int) -> int:
        """A limit that spool.json sets for those who send."""
        return int(self.settings.get("limits", {}).get(name, default))

    def full(self, agent: str) -> bool:
        """Whether a mailbox has as many messages waiting as it may.  One stat; counts only a large directory."""
        new = f"{self.agents}/{agent}/new"
        try:
            size = os.stat(new).st_size
        except FileNotFoundError:
            return False
        limit = self.limit("waiting", WAITING_LIMIT)
        return size >= limit * SMALLEST_ENTRY and len(os.listdir(new)) >= limit

    def free_ballast(self) -> bool:
        """Give a full disk a little room, for what must not wait; False: none was left."""
        return any(self.disk.discard(self.ballast(number)) for number in reversed(range(BALLAST_FILES)))

    # where everything is

    def box(self, agent: str) -> str:
        return f"{self.agents}/{agent}"

    def draft(self, agent: str, message_id: str) -> str:
        return f"{self.agents}/{agent}/tmp/{message_id}.json"

    def parked(self, agent: str, message_id: str) -> str:
        return f"{self.agents}/{agent}/tmp/{message_id}~gc.json"

    def anchor(self, message_id: str) -> str:
        return f"{self.root}/messages/{day_of(message_id)}/{message_id}.json"

    def thread_directory(self, root_id: str) -> str:
        return f"{self.root}/threads/{root_id}"

    def thread_name(self, root_id: str, message_id: str) -> str:
        return f"{self.root}/threads/{root_id}/{message_id}.json"

    def settled(self, agent: str, directory: str, message_id: str) -> str:
        """The directory of acked/ or archive/ that holds this id, if it is there."""
        return f"{self.agents}/{agent}/{directory}/{day_of(message_id)}/{minute_of(message_id)}"

    def conversation_directory(self, conversation_id: str) -> str:
        return f"{self.root}/conversations/{conversation_id}"

    def entry(self, conversation_id: str, number: int) -> str:
        """The name of a conversation's entry; linking it is what commits it."""
        return f"{self.root}/conversations/{conversation_id}/journal/{number:04d}.json"

    def place(self, agent: str, directory: str, name: Name) -> str:
        """The path of a name in a state directory."""
        if directory in ("acked", "archive"):
            return f"{self.settled(agent, directory, name.id)}/{name.text}"
        return f"{self.agents}/{agent}/{directory}/{name.text}"

    def ballast(self, number: int) -> str:
        return f"{self.root}/ballast/{number:02d}"

    def has_ballast(self, number: int) -> bool:
        """Whether that ballast file is there, whole."""
        try:
            return os.lstat(self.ballast(number)).st_size == BALLAST_BYTES
        except FileNotFoundError:
            return False

    # history: what happened, for people and dashboards; never the truth

    def note(self, agent: str, event: str, **members: object) -> None:
        """Append one line to the agent's history.  Nothing fails because this failed."""
        if not self.keeps_history:
            return
        line = encode({"at": iso(self.clock.wall_ms()), "event": event, **members}) + "\n"
        try:
            self.disk.append(f"{self.agents}/{agent}/history.jsonl", line.encode("utf-8"))
        except OSError:
            pass  # a full or read-only disk costs a line, never a message
