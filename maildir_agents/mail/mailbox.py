"""One agent's mailbox: the names in it, where a message is, and moving it by a verb of the table.

A scan that misses an id while renames run proves nothing, and an id seen twice is in its furthest state (a live claim
first).  Every move goes from the exact name that was read, so of several who want it one succeeds.
"""

import os

from maildir_agents.disk.listing import names, regular, unsorted
from maildir_agents.errors import MailError
from maildir_agents.mail import lifecycle
from maildir_agents.mail.lease import left_ms
from maildir_agents.mail.name import Name, day_of, parse
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LOOKS = 8
STAMP_MS = 2000  # the coarsest time stamps of a file system


class Found:
    """A message where it was seen: the state directory and its exact name."""

    __slots__ = ("directory", "name")

    def __init__(self, directory: str, name: Name) -> None:
        self.directory = directory
        self.name = name

    @property
    def id(self) -> str:
        return self.name.id


class Mailbox:
    """The mailbox of `agent` in `spool`; it need not exist."""

    def __init__(self, spool: SpoolFiles, agent: str) -> None:
        self.spool = spool
        self.agent = agent
        self.path = spool.box(agent)

    @property
    def exists(self) -> bool:
        return os.path.isdir(self.path)

    def where(self, found: Found) -> str:
        """The path of a found message."""
        return self.spool.place(self.agent, found.directory, found.name)

    # names

    def texts(self, directory: str) -> list[str]:
        """File names of new, cur, claimed or failed that look like ours, in the order of their ids.

        Looks are cheap: ten thousand names take a few milliseconds.  A name is checked when it is taken.
        """
        return [text for text in names(f"{self.path}/{directory}") if looks_ours(text)]

    def listed(self, directory: str) -> "Iterator[Found]":
        """The messages of new, cur, claimed or failed, in the order of their ids; foreign names are left out."""
        for text in self.texts(directory):
            name = parse(text)
            if name is not None:
                yield Found(directory, name)

    def regular(self, directory: str) -> "Iterator[Found]":
        """As `listed`, regular files only."""
        return (Found(directory, name) for text in regular(f"{self.path}/{directory}") if (name := parse(text)))

    def holds(self, directory: str, is_mail: "Callable[[Mailbox, Found], bool]") -> bool:
        """Whether there is one message at all: looks until the first file that `is_mail`."""
        try:
            with os.scandir(f"{self.path}/{directory}") as entries:
                return any(
                    (name := parse(entry.name))
                    and entry.is_file(follow_symlinks=False)
                    and is_mail(self, Found(directory, name))
                    for entry in entries
                )
        except FileNotFoundError:
            return False

    def settled(self, message_id: str, directory: str) -> "Iterator[Found]":
        """The names of one id in acked/ or archive/, in no order: one small listing."""
        for text in unsorted(self.spool.settled(self.agent, directory, message_id)):
            if text.startswith(message_id) and (name := parse(text)):
                yield Found(directory, name)

    def all_settled(self, directory: str, floor: str = "", newest: bool = False) -> "Iterator[Found]":
        """Every name in acked/ or archive/, oldest or `newest` first; from the day of the id `floor` on."""
        first = day_of(floor) if floor else ""
        for day in _ordered(f"{self.path}/{directory}", newest):
            if day < first:
                continue
            for minute in _ordered(f"{self.path}/{directory}/{day}", newest):
                for text in _ordered(f"{self.path}/{directory}/{day}/{minute}", newest):
                    if name := parse(text):
                        yield Found(directory, name)

    def claim_left_ms(self, found: Found) -> int:
        """Milliseconds that a claim still holds; 0 or less: it is over, and the message is free."""
        if not {"x", "n"} <= found.name.stamps.keys():
            return 0  # no lease in the name: nobody can hold it
        return left_ms(found.name, self.spool.clock, self.spool.boot)

    def looks(self, *leaves: str) -> "Iterator[None]":
        """One for each scan of new/, cur/ and claimed/ that is needed to have met everything in them.

        A scan in the order of life meets what moves on; only what leaves claimed/, or is renamed in it, can slip past.
        So again while claimed/ changes under the scan, and once more when it did just before, but at most LOOKS times.
        `leaves`: further directories that are scanned after those, and that mail comes back from.
        """
        back = ("claimed", *leaves)
        for look in range(1, LOOKS + 1):
            before = self._changed_ns(back)
            yield
            if before == self._changed_ns(back) and (look > 1 or not self._is_fresh(max(before))):
                return

    def _changed_ns(self, directories: tuple[str, ...]) -> list[int]:
        changed = []
        for directory in directories:
            try:
                changed.append(os.stat(f"{self.path}/{directory}").st_mtime_ns)
            except OSError:
                changed.append(0)
        return changed

    def _is_fresh(self, changed_ns: int) -> bool:
        """Whether a second change could have the same time stamp."""
        return self.spool.clock.wall_ms() - changed_ns // 1_000_000 < STAMP_MS

    def owed(self) -> dict[str, Found]:
        """Where each message is that is not settled, by id, the furthest place of each.

        None is missed because it moved meanwhile.
        """
        held: dict[str, Found] = {}
        for _ in self.looks():
            held.update((found.id, found) for state in ("new", "cur", "claimed") for found in self.regular(state))
        return held

    def state_of(self, found: Found) -> str:
        """In a word: unread, read, claimed, acked, archived or failed.  A claim whose time is over is none."""
        if found.directory == "claimed":
            if self.claim_left_ms(found) > 0:
                return "claimed"
            return "read" if "r" in found.name.stamps else "unread"
        return _IN_A_WORD[found.directory]

    # one message

    def find(self, message_id: str) -> Found | None:
        return self.find_all([message_id]).get(message_id)

    def find_all(self, ids: "Iterable[str]") -> dict[str, Found]:
        """Where each id is, those that are seen.

        The common case, unread, never claimed and with no name but its anchor, is one stat each.
        """
        answer: dict[str, Found] = {}
        wanted = set()
        for message_id in ids:
            if _only_here(f"{self.path}/new/{message_id}.json"):
                answer[message_id] = Found("new", Name(message_id, {}))
            else:
                wanted.add(message_id)
        for _ in self.looks("failed") if wanted else ():
            for found in self._search(wanted):
                self._further(answer, found)
            wanted -= answer.keys()
            if not wanted:
                break
        return answer

    def _search(self, wanted: "set[str]") -> "Iterator[Found]":
        """Every name of these ids, looked for in the order of life: what moves on meanwhile is met again."""
        for directory in lifecycle.STATES:
            if directory in lifecycle.SETTLED:
                for message_id in wanted:
                    yield from self.settled(message_id, directory)
                continue
            for text in unsorted(f"{self.path}/{directory}"):
                if text[:36] in wanted and (name := parse(text)):
                    yield Found(directory, name)

    def _further(self, answer: dict[str, Found], found: Found) -> None:
        before = answer.get(found.id)
        if before is None or self._rank(before) <= self._rank(found):
            answer[found.id] = found

    def _rank(self, found: Found) -> int:
        if found.directory == "claimed" and self.claim_left_ms(found) > 0:
            return len(lifecycle.STATES)
        return lifecycle.STATES.index(found.directory)

    # moving

    def move(self, verb: str, found: Found, **stamps: str) -> Found | None:
        """Move a message by a verb of the table; None: it is no longer under that name.

        On a full disk the verbs that settle free ballast and try again: an ack must not wait for room.
        """
        directory, name = lifecycle.successor(verb, found.directory, found.name, stamps)
        source, target = self.where(found), self.spool.place(self.agent, directory, name)
        while True:
            try:
                return Found(directory, name) if self.spool.disk.move(source, target) else None
            except MailError as error:
                if error.code != "spool_full" or verb not in _NEVER_REFUSED or not self.spool.free_ballast():
                    raise

    def sync(self, places: "Iterable[Found]") -> None:
        """Make the directories that hold these names durable, each once."""
        for directory in sorted({os.path.dirname(self.where(found)) for found in places}):
            self.spool.disk.sync(directory)


def _ordered(directory: str, newest: bool) -> list[str]:
    return names(directory)[::-1] if newest else names(directory)


def looks_ours(text: str) -> bool:
    """Whether a file name looks like a message's: cheap, for names that are only counted."""
    return len(text) > 40 and text[8] == "-" and text[14] == "7" and text[-5:] == ".json"


def _only_here(path: str) -> bool:
    try:
        return os.lstat(path).st_nlink == 2
    except OSError:
        return False


_NEVER_REFUSED = frozenset(("ack", "archive", "fail", "release", "expire"))
_IN_A_WORD = {"new": "unread", "cur": "read", "acked": "acked", "archive": "archived", "failed": "failed"}
