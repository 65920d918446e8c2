"""dispatch: which mail starts work.  Looks through a mailbox for its listener, oldest first, and claims what is work.

`verdict` is the rule, and pure.  Before a claim the conversation's journal is folded, so what is left alone costs no
attempt.  Whatever is no work stays ordinary mail, for whoever reads it.
"""

import os

from maildir_agents.errors import MailError
from maildir_agents.mail import conversation as rules
from maildir_agents.mail import journal
from maildir_agents.mail.claim import available, take
from maildir_agents.mail.conversation import Conversation
from maildir_agents.mail.intake import Unread
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.mending import collect, expire
from maildir_agents.mail.name import parse
from maildir_agents.mail.reading import envelope_at
from maildir_agents.mail.settle import MOVED_ON, settle
from maildir_agents.verbs.auto import Terms
from maildir_agents.verbs.outcome import Job, attempts, give_up, in_flight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from maildir_agents.mail.message import Json

LEASE_S = 300  # of a worker's claim; whoever started it renews it
OPENED = 500  # envelopes opened before others get their turn
LISTED_MS = 1000  # how old a listing may be while it is worked off
UNFINISHED_MS = 2100

START, ANSWERED, LATE, SPENT, LEAVE = "start", "answered", "late", "spent", "leave"


def verdict(message: "Json", found: Conversation | None, agent: str, attempts: int, most: int, now_ms: int) -> str:
    """What to do about a message, by its conversation (None: it has none, or none that can be read).

    Work is a task, or a result of a conversation that its recipient began; in a conversation only what its journal
    knows.  What is left alone stays ordinary mail.
    """
    if not _is_work(message, found, agent):
        return LEAVE
    if found is not None:
        if found.last_turn["id"] != message["id"]:
            return ANSWERED
        if found.state == rules.BLOCKED and attempts >= most:
            return SPENT  # whoever gave it up died of it
        if found.state != rules.ACTIVE:
            return LEAVE
        if now_ms > found.expires_ms:
            return LATE
    return SPENT if attempts >= most else START


def _is_work(message: "Json", found: Conversation | None, agent: str) -> bool:
    if message["kind"] not in rules.TURNS or message["recipient"] != agent:
        return False
    if found is None:
        return message["kind"] == "task" and message["conversation_id"] is None
    known = any(turn["id"] == message["id"] for turn in found.turns)
    return known and (message["kind"] == "task" or found.members[0] == agent)


class Backlog:
    """What lies before one agent: names not looked at yet, and what is known to be no work.

    `again`: when to look by itself, on the boot clock in milliseconds (None: not before an arrival).  `warnings` are
    there to be taken.
    """

    __slots__ = ("_left", "_list_by", "_names", "_plain", "again", "box", "warnings")

    def __init__(self, box: Mailbox) -> None:
        self.box = box
        self.again: int | None = None
        self.warnings: list[dict[str, str]] = []
        self._names: list[tuple[str, str]] = []  # (directory, file name), the oldest last
        self._list_by = 0  # on the boot clock: the names are used up by then, or listed anew
        self._plain: set[str] = set()  # ids that never are work: messages do not change
        self._left: dict[str, str] = {}  # id -> the journal entry that would change the verdict, once it is there

    def next(self, terms: Terms, worker: str) -> Job | None:
        """Claim the oldest work there is; None: look again by `again`, or when something came."""
        if not self._names or self.box.spool.clock.boot_ms() >= self._list_by:
            self._list()
        for _ in range(OPENED):
            if not self._names:
                return None
            if job := self._consider(*self._names.pop(), terms, worker):
                return job
        self.again = 0
        return None

    def _list(self) -> None:
        """What comes while the names are worked off is younger than they, so a listing is good for a while."""
        collect(self.box)
        now, left = self.box.spool.clock.boot_ms(), expire(self.box)
        self.again = now + left + 1 if left is not None else None
        self._list_by = now + LISTED_MS
        names = available(self.box)
        ids = {text[:36] for _, text in names}
        self._plain &= ids
        self._left = {message_id: entry for message_id, entry in self._left.items() if message_id in ids}
        self._names = [pair for pair in reversed(names) if pair[1][:36] not in self._plain]

    def _consider(self, directory: str, text: str, terms: Terms, worker: str) -> Job | None:
        name = parse(text)
        if name is None:
            self._plain.add(text[:36])
            return None
        if (entry := self._left.get(name.id)) and not os.path.lexists(entry):
            return None
        found = Found(directory, name)
        envelope = envelope_at(self.box.where(found))
        if envelope is not None and envelope["kind"] not in rules.TURNS:
            self._plain.add(name.id)
            return None
        admitted = self._admit(found)
        return self._act(*admitted, terms, worker) if admitted else None

    def _admit(self, found: Found) -> "tuple[Found, Json] | None":
        """Judge a file whole, anchor and fold it, as every reader does."""
        one = Unread(self.box, mend=True, candidates=[(found.directory, found.name.text)])
        admitted = next(iter(one), None)
        self.warnings += one.warnings
        if one.unfinished:
            soon = self.box.spool.clock.boot_ms() + UNFINISHED_MS
            self.again = soon if self.again is None else min(self.again, soon)
        elif admitted is None and not one.gone:
            self._plain.add(found.id)  # said once
        return admitted

    def _act(self, found: Found, message: "Json", terms: Terms, worker: str) -> Job | None:
        box = self.box
        talk = self._conversation(message)
        tried = attempts(found, talk)
        what = verdict(message, talk, box.agent, tried, terms.attempts, box.spool.clock.wall_ms())
        if what == START and (claimed := take(box, found, LEASE_S, worker)):
            box.spool.note(box.agent, "claimed", id=found.id, token=claimed.name.token, worker=worker)
            return Job(message, claimed, talk, terms.attempts)
        if what == ANSWERED:
            _settle_answered(box, found)
        elif what == SPENT:
            give_up(box, found, message, "attempts", f"{tried} workers were started for it, none did it")
        elif what in (LATE, LEAVE):
            self._leave(message, talk, late=what == LATE)
        return None

    def _conversation(self, message: "Json") -> Conversation | None:
        if message["conversation_id"] is None:
            return None
        try:
            return journal.open_to_write(self.box.spool, message["conversation_id"])
        except MailError as error:
            if error.code not in ("unknown_conversation", "cannot_read"):
                raise
            if error.code == "cannot_read" and message["id"] not in self._left:
                self.warnings.append({"warning": error.sentence, "code": error.code, "path": str(error.detail["path"])})
            return None

    def _leave(self, message: "Json", talk: Conversation | None, late: bool) -> None:
        if talk is not None and late:
            talk, _ = journal.write_control(
                self.box.spool, talk.id, "needs_human", self.box.agent, still=in_flight(message["id"])
            )
        if talk is None and message["conversation_id"] is None:
            self._plain.add(message["id"])
        else:
            entry = self.box.spool.entry(message["conversation_id"], talk.entries if talk else 0)
            self._left[message["id"]] = entry


def _settle_answered(box: Mailbox, found: Found) -> None:
    try:
        moved = settle(box, found, None, "ack")
    except MailError as error:
        if error.code not in MOVED_ON:
            raise
        return
    if moved:
        box.sync([moved])
        box.spool.note(box.agent, "acknowledged", ids=[found.id], why="settled by its answer")
