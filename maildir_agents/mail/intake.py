"""Taking unread mail: what lies in new/ is opened, judged, anchored, folded, or put among the dead letters.

Anything may lie there, for a shell script may drop it: the mail behind it flows in the same call, nothing hangs, and
what is refused is said.  A file that does not parse and is younger than two seconds may still be being written.
"""

import os
import stat

from maildir_agents.disk.jsonfile import Taken
from maildir_agents.disk.listing import names, regular
from maildir_agents.disk.moves import EXISTS, same_file
from maildir_agents.errors import MailError, Malformed
from maildir_agents.mail import deadletter
from maildir_agents.mail.lifecycle import SETTLED
from maildir_agents.mail.mailbox import Found, Mailbox, looks_ours
from maildir_agents.mail.name import parse
from maildir_agents.mail.publish import join_thread, same_message
from maildir_agents.mail.reading import as_seen, judge, take_message
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from maildir_agents.mail.message import Json

WRITING_MS = 2000


def being_written(spool: SpoolFiles, path: str, taken: Taken) -> bool:
    """Whether somebody may still be writing a file that was not whole when it was taken.

    By now it may be: whoever took it may have slept since.
    """
    try:
        written_ms = os.lstat(path).st_mtime_ns // 1_000_000
    except OSError:
        written_ms = taken.modified_ms
    return 0 <= spool.clock.wall_ms() - written_ms < WRITING_MS


class Unread:
    """The unread messages of a mailbox, oldest first.  `mend`: the caller may change the mailbox.

    Iterating yields (Found, message).  Afterwards `warnings` holds a sentence and a path for each file passed over,
    and `unfinished` is True when one may still be being written.
    """

    def __init__(self, box: Mailbox, mend: bool, candidates: "list[tuple[str, str]] | None" = None) -> None:
        self.box = box
        self.mend = mend
        self.warnings: list[dict[str, str]] = []
        self.unfinished = False
        self.trouble: MailError | None = None  # why a message could not be taken in, the first time
        self.gone: list[tuple[str, str]] = []  # candidates that others moved on meanwhile
        self.admitted = 0
        self.candidates = self._unread_names() if candidates is None else candidates  # (directory, file name)
        # Listed before any candidate is opened: what a reader moves on meanwhile is gone under its old name.
        self._in_cur = {text[:36]: text for text in regular(f"{box.path}/cur")} if self.candidates else {}
        self._next = 0

    def __iter__(self) -> "Iterator[tuple[Found, Json]]":
        while self._next < len(self.candidates):
            directory, text = self.candidates[self._next]
            self._next += 1
            name = parse(text)
            found = Found(directory, name) if name else None
            if found is None:
                self._foreign(directory, text)
            elif message := self._admit(found):
                self.admitted += 1
                yield found, message

    def _unread_names(self) -> list[tuple[str, str]]:
        """(directory, file name) of what was never read and is free: new/, and overdue claims without a read stamp.

        Who mends has freed those claims; who only looks may miss one that another frees just now, and looks again.
        """
        waiting: list[tuple[str, str]] = []
        for _ in (None,) if self.mend else self.box.looks():
            self.warnings.clear()
            fresh = self._listed()
            if waiting:
                ids = {text[:36] for _, text in fresh}
                fresh = sorted(fresh + [pair for pair in waiting if pair[1][:36] not in ids], key=lambda pair: pair[1])
            waiting = fresh
        return waiting

    def _listed(self) -> list[tuple[str, str]]:
        waiting = []
        for text in names(f"{self.box.path}/new"):
            if looks_ours(text):
                waiting.append(("new", text))
            else:
                self._foreign("new", text)
        claims = list(self.box.listed("claimed"))
        if not claims:
            return waiting
        live = {found.id for found in claims if self.box.claim_left_ms(found) > 0}
        over = [("claimed", f.name.text) for f in claims if f.id not in live and "r" not in f.name.stamps]
        return sorted([pair for pair in waiting if pair[1][:36] not in live] + over, key=lambda pair: pair[1])

    @property
    def left(self) -> int:
        """Names not looked at yet."""
        return len(self.candidates) - self._next

    def _foreign(self, directory: str, text: str) -> None:
        path = f"{self.box.path}/{directory}/{text}"
        self._warn(path, f"{path} has no message name; it stays where it is")

    def _admit(self, found: Found) -> "Json | None":
        path = self.box.where(found)
        taken = take_message(path)
        if taken.trouble in ("gone", "special", "unreadable"):
            if taken.trouble == "gone":
                self.gone.append((found.directory, found.name.text))
            else:
                self._warn(path, f"{path} is no message: {_KINDS[taken.trouble]}; it stays where it is")
            return None
        try:
            return self._taken_in(found, path, taken)
        except MailError as error:  # a full disk, say: the mail behind it may need no mending
            self.trouble = self.trouble or error
            self._warn(path, f"{path} was passed over: {error.sentence}", error.code)
            return None

    def _taken_in(self, found: Found, path: str, taken: Taken) -> "Json | None":
        try:
            message = judge(taken, found.id, self.box.agent)
            self._anchor(found, path, taken, message)
        except Malformed as error:
            self._refuse(found, path, taken, error)
            return None
        if self._may_be_elsewhere(found, taken, message) and self._folded(found, path, taken):
            return None
        return as_seen(message, found.name)

    def _anchor(self, found: Found, path: str, taken: Taken, message: "Json") -> None:
        """A file without an anchor was dropped by a script (or restored): from here on it is ordinary mail.

        A reply with two names was anchored by somebody who died before it was in its thread.
        """
        anchor = self.box.spool.anchor(found.id)
        in_thread = message["thread_id"] is not None
        if not self.mend or (taken.links > 1 + in_thread and same_file(path, anchor)):
            return
        if self.box.spool.disk.publish(path, anchor) == EXISTS and not same_message(path, anchor):
            raise Malformed("id_clash", f"another message has the id {found.id}")
        join_thread(self.box.spool, path, message)

    def _refuse(self, found: Found, path: str, taken: Taken, error: Malformed) -> None:
        if taken.trouble != "large" and error.code == "not_json" and being_written(self.box.spool, path, taken):
            self.unfinished = True
        elif self.mend and deadletter.fail(self.box, found, error.code, error.sentence):
            self._warn(path, f"{path} is no message ({error.sentence}); it was moved to failed/", error.code)
        elif not self.mend:
            self._warn(path, f"{path} is no message: {error.sentence}", error.code)

    def _may_be_elsewhere(self, found: Found, taken: Taken, message: "Json") -> bool:
        usual = 2 + (message["thread_id"] is not None)  # its own name, its anchor, its thread
        return taken.links != usual or found.id in self._in_cur or self._after(found) is not None

    def _after(self, found: Found) -> Found | None:
        """The next candidate, if it has the same id."""
        directory, text = self.candidates[self._next] if self.left else ("", "")
        name = parse(text) if text[:36] == found.id else None
        return Found(directory, name) if name else None

    def _folded(self, found: Found, path: str, taken: Taken) -> bool:
        """True when this id is further on under another name: the furthest counts, this name goes."""
        name = parse(self._in_cur.get(found.id, "")) if found.directory != "cur" else None
        further = [Found("cur", name)] if name else []
        if found.directory != "claimed":
            further += (f for f in self.box.listed("claimed") if f.id == found.id)
        further += (f for d in SETTLED for f in self.box.settled(found.id, d))
        if (twin := self._after(found)) and same_message(path, self.box.where(twin)):
            further.append(twin)
        if not further or not self.mend:
            return bool(further)
        same = all(same_message(path, self.box.where(other)) for other in further)
        # Looked at afterwards: what has been there all the time was compared, the rest is on the move.
        if not os.path.lexists(path):
            self.gone.append((found.directory, found.name.text))
        elif same:
            self.box.spool.disk.discard(path)  # never used again, so nobody else's state is removed
            self._warn(path, f"{path} was a second name of a message in {further[-1].directory}/")
        elif all(os.path.lexists(self.box.where(other)) for other in further):
            self._refuse(
                found, path, taken, Malformed("id_clash", f"another message has the id {found.id}, further on")
            )
        return True

    def _warn(self, path: str, sentence: str, code: str = "not_a_message") -> None:
        self.warnings.append({"warning": sentence, "code": code, "path": path})


_KINDS = {"special": "not a regular file", "unreadable": "it cannot be read"}


def adopt_all(box: Mailbox, places: list[Found]) -> list[Found]:
    """Those of `places` that are messages, each id once; what has no anchor is judged and anchored before it moves."""
    seen: set[str] = set()
    twice = {found.id for found in places if found.id in seen or seen.add(found.id)}  # type: ignore[func-returns-value]
    kept, doubtful = set(), []
    for found in places:
        try:
            info = os.lstat(box.where(found))
        except FileNotFoundError:
            kept.add((found.directory, found.name.text))  # moved meanwhile: the mover decides
            continue
        if not stat.S_ISREG(info.st_mode):
            continue
        if info.st_nlink > 1 and found.id not in twice and _anchored(box, found):
            kept.add((found.directory, found.name.text))
        else:
            doubtful.append((found.directory, found.name.text))
    judged = Unread(box, mend=True, candidates=doubtful)
    kept.update((found.directory, found.name.text) for found, _ in judged)
    kept.update(judged.gone)
    if judged.trouble:
        raise judged.trouble
    return [found for found in places if (found.directory, found.name.text) in kept]


def is_mail(box: Mailbox, found: Found) -> bool:
    """Whether what lies under a name is a message that could be settled; if it moved on, it was.  Changes nothing."""
    if _anchored(box, found):
        return True
    one = Unread(box, mend=False, candidates=[(found.directory, found.name.text)])
    return any(True for _ in one) or bool(one.gone)


def _anchored(box: Mailbox, found: Found) -> bool:
    return same_file(box.where(found), box.spool.anchor(found.id))
