"""read: show messages oldest first, and mark them read only when their output was taken.

Two phases: `with read(…) as batch:` shows, leaving the block marks; an exception in it marks nothing, so a reader that
dies consumed nothing.  The mailbox's read lock is held in between, so one name is shown to one reader.
"""

from maildir_agents.disk.guard import Guard
from maildir_agents.errors import MailError
from maildir_agents.mail.founding import ensure_mailbox
from maildir_agents.mail.intake import Unread
from maildir_agents.mail.lifecycle import SETTLED
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.mending import collect, expire
from maildir_agents.mail.message import PUBLIC, shown
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.name import stamp
from maildir_agents.mail.presence import armed, never_heard_of
from maildir_agents.mail.reading import as_seen, whole_at
from maildir_agents.mail.settle import MOVED_ON, owes, settle
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs.guidance import outstanding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Any

    from maildir_agents.mail.message import Json

LIMIT = 20
_PLACES = ("new", "cur", "claimed")


class Reading:
    """A batch being read.  `messages`, `warnings` (files passed over), `answer` (what the command line prints)."""

    def __init__(
        self,
        spool: SpoolFiles,
        agent: str,
        *,
        everything: bool = False,
        unacked: bool = False,
        sender: str | None = None,
        thread: str | None = None,
        limit: int = LIMIT,
        fields: tuple[str, ...] = PUBLIC,
        mark: bool = True,
        ack: bool = False,
        max_bytes: int | None = None,
        mine: frozenset[tuple[str, int]] = frozenset(),
    ) -> None:
        if limit < 1 or (max_bytes is not None and max_bytes < 1):
            raise MailError("usage", "a limit is at least 1")
        self.box = Mailbox(spool, agent_name(agent))
        self._sender = agent_name(sender) if sender is not None else None
        self._thread = _thread_root(spool, thread) if thread is not None else None
        if everything and unacked:
            raise MailError("usage", "read everything kept, or what is not acknowledged: not both")
        self._everything, self._limit, self._fields, self._max_bytes = everything, limit, fields, max_bytes
        self._unacked = unacked
        self._mark, self._ack, self._mine = mark, ack, mine
        self._guard: Guard | None = None
        self._shown: list[Found] = []
        self.messages: list[Json] = []
        self.warnings: list[dict[str, str]] = []
        self.trouble: MailError | None = None
        self.answer: dict[str, Any] = {}

    @property
    def _writes(self) -> bool:
        return self._mark or self._ack

    def __enter__(self) -> "Reading":
        if self._writes:
            if ensure_mailbox(self.box.spool, self.box.agent):
                self.warnings += never_heard_of(self.box.spool, self.box.agent)
            self._guard = Guard(self.box.spool.disk, f"{self.box.path}/read.lock").__enter__()
        try:
            if self._writes:
                collect(self.box)
                expire(self.box, self._mine)
            self._gather()
        except BaseException:
            self._release()
            raise
        return self

    def _gather(self) -> None:
        unread = Unread(self.box, mend=self._writes)
        if self._everything:
            self._take(_kept(self.box, unread, settled=True), newest=True)
        elif self._unacked:
            self._take(reversed(list(_kept(self.box, unread, settled=False))))
        else:
            self._take(iter(unread))
        self.warnings += unread.warnings
        marked = (
            sum(found.directory != "cur" for found in self._shown if "r" not in found.name.stamps)
            if self._writes
            else 0
        )
        reachable = armed(self.box.spool, self.box.agent, tidy=self._writes)
        self.answer = {
            "agent": self.box.agent,
            "messages": [shown(message, self._fields) for message in self.messages],
            "count": len(self.messages),
            "reachable": reachable,
            "next": outstanding(
                self.box.agent, unread=unread.admitted + unread.left > marked, owed=self._owes(), reachable=reachable
            ),
        }

    def _owes(self) -> bool:
        """Whether anything is left to settle once this batch is marked (or acknowledged)."""
        settled = {found.name.text for found in self._shown} if self._ack else set()
        return owes(self.box, self._mine, settled)

    def _take(self, source: "Iterator[tuple[Found, Json]]", newest: bool = False) -> None:
        size = 0
        for found, message in source:
            if not self._wanted(message):
                continue
            size += len(str(message["body"]).encode("utf-8"))
            if self._max_bytes is not None and self.messages and size > self._max_bytes:
                break
            self._shown.append(found)
            self.messages.append(message)
            if len(self.messages) >= self._limit:
                break
        if newest:
            self._shown.reverse()
            self.messages.reverse()

    def _wanted(self, message: "Json") -> bool:
        if self._sender is not None and message["sender"] != self._sender:
            return False
        return self._thread is None or self._thread in (message["thread_id"], message["id"])

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: "TracebackType | None") -> None:
        try:
            if kind is None and self._writes:
                self._settle()
        finally:
            self._release()

    def _settle(self) -> None:
        """Mark (or acknowledge) what was shown.  What fails is kept in `trouble`: it was shown all the same."""
        now = stamp(self.box.spool.clock.wall_ms())
        done: list[Found] = []
        refused: dict[str, str] = {}  # id: what became of it meanwhile
        try:
            for found in self._shown:
                if self._ack and found.directory in ("new", "cur"):
                    self._acknowledge(found, done, refused)
                elif not self._ack and found.directory == "new" and (moved := self.box.move("read", found, r=now)):
                    done.append(moved)
            if self._ack:
                self.box.sync(done)
        except MailError as error:
            self.trouble = error
        if done:
            self.box.spool.note(self.box.agent, "acknowledged" if self._ack else "read", ids=[f.id for f in done])
        if refused and self.trouble is None:
            self.trouble = MailError("shown_not_acknowledged", "; ".join(refused.values()), ids=list(refused))

    def _acknowledge(self, found: Found, done: list[Found], refused: dict[str, str]) -> None:
        """Under whatever name it has by now, unless it is no longer free."""
        try:
            if moved := settle(self.box, found, None, "ack"):
                done.append(moved)
        except MailError as error:
            if error.code not in MOVED_ON:
                raise
            refused[found.id] = error.sentence

    def _release(self) -> None:
        if self._guard is not None:
            self._guard.__exit__()
            self._guard = None


def _thread_root(spool: SpoolFiles, message_id: str) -> str:
    from maildir_agents.mail.threads import root_of

    return root_of(spool, message_id)


def _kept(box: Mailbox, unread: Unread, settled: bool) -> "Iterator[tuple[Found, Json]]":
    """All that is kept for the agent (or only what is not `settled`), newest first, each id in its furthest state."""
    places: dict[str, Found] = {found.id: found for found, _ in unread}
    known, standing = set(unread.candidates), sorted(box.owed().values(), key=lambda found: found.id)
    # What came, or came back, to new/ meanwhile is judged like all that lies there.
    late = [(found.directory, found.name.text) for found in standing if found.directory == "new"]
    unread.candidates += [pair for pair in late if pair not in known]
    places.update((found.id, found) for found, _ in unread)
    places.update((found.id, found) for found in standing if found.directory != "new")
    for directory in SETTLED if settled else ():
        places.update((found.id, found) for found in box.all_settled(directory))
    for message_id in sorted(places, reverse=True):
        place, message = places[message_id], whole_at(box.where(places[message_id]))
        if message is None and (moved := box.find(message_id)) and (settled or moved.directory in _PLACES):
            place, message = moved, whole_at(box.spool.anchor(message_id))  # that name stays, whoever moves the other
        if message is not None:
            yield place, as_seen(message, place.name)
