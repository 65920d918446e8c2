"""watch: block until there is unread mail; envelopes, no bodies, nothing is marked.

Look, and only when there is nothing: arm, look again, sleep.  An event is a reason to look, never news by itself.
While it sleeps the agent is reachable; it sleeps no longer than the earliest claim of another lasts.
"""

import time

from maildir_agents.mail.founding import ensure_mailbox
from maildir_agents.mail.intake import Unread
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.mending import collect, expire
from maildir_agents.mail.message import PUBLIC, shown
from maildir_agents.mail.name import agent as agent_name
from maildir_agents.mail.name import handle, life
from maildir_agents.mail.presence import armed, never_heard_of
from maildir_agents.mail.settle import owes
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs.guidance import outstanding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set
    from typing import Any

    from maildir_agents.mail.message import Json

    Claims = frozenset[tuple[str, int]]  # (id, token)

SHOWN = 20
FOLLOWED = 500  # envelopes read before any of them is told
UNFINISHED_MS = 2100
DEFAULT_S = 55 * 60
ENVELOPE = tuple(field for field in PUBLIC if field != "body")


class Look:
    """One look into a mailbox: unread envelopes, how many are unread in all, and when to look again by itself."""

    __slots__ = ("again_ms", "count", "envelopes", "warnings")

    def __init__(self, box: Mailbox, mine: "Claims", most: int = SHOWN, skip: "Set[str]" = frozenset()) -> None:
        """At most `most` envelopes, the oldest first, without the lives in `skip`; `mine` are the caller's claims."""
        collect(box)
        self.again_ms = expire(box, mine)  # milliseconds, None: not before an arrival
        unread = Unread(box, mend=True)
        if skip or mine:
            held = {message_id for message_id, _ in mine}  # and so is no news, also when its time is over
            unread.candidates = [
                (directory, text)
                for directory, text in unread.candidates
                if life(text) not in skip and (directory != "claimed" or text[:36] not in held)
            ]
        self.envelopes: list[Json] = []
        for _, message in unread:
            self.envelopes.append(shown(message, ENVELOPE))
            if len(self.envelopes) >= most:
                break
        self.count = len(self.envelopes) + unread.left
        self.warnings = unread.warnings
        if unread.unfinished:  # a slow writer: its file is looked at again when it must be whole
            self.again_ms = min(self.again_ms or UNFINISHED_MS, UNFINISHED_MS)


def watch(
    spool: SpoolFiles,
    agent: str,
    *,
    timeout_s: float = DEFAULT_S,
    once: bool = False,
    hangup: int | None = None,
    warn: "Callable[[dict[str, str]], None] | None" = None,
    mine: "Claims" = frozenset(),
) -> "Json | None":
    """Wait for unread mail to `agent`, at most `timeout_s` seconds; `once` looks and returns.

    Answers `{agent, messages, count, timeout, reachable, next}`; a timeout is an empty answer.  None: whoever was to
    read the answer (the pipe or terminal at descriptor `hangup`) went away.
    """
    box = Mailbox(spool, agent_name(agent))
    made = ensure_mailbox(spool, agent)
    for warning in never_heard_of(spool, agent) if made and warn else ():
        warn(warning)  # type: ignore[misc]
    look: Look | None = Look(box, mine)
    if look is not None and not look.count and not once:
        look = _wait(box, time.monotonic() + timeout_s, hangup, mine)
    if look is None:
        return None
    for warning in look.warnings if warn else ():
        warn(warning)  # type: ignore[misc]
    return _answer(box, look, mine)


def _wait(box: Mailbox, deadline: float, hangup: int | None, mine: "Claims") -> Look | None:
    """The first look that finds something, or the last before the deadline; None: hung up."""
    with _Armed(box, deadline, hangup) as armed_watch:
        while True:
            look = Look(box, mine)
            if look.count or armed_watch.over:
                return look
            if not armed_watch.sleep(look):
                return None


def follow(
    spool: SpoolFiles,
    agent: str,
    *,
    timeout_s: float | None = None,
    hangup: int | None = None,
    mine: "Claims" = frozenset(),
) -> "Iterator[Json]":
    """Every unread envelope, once each, as it comes, for as long as this is iterated (or `timeout_s` seconds).
    Mail that a worker gave back comes again.

    The agent is reachable meanwhile.  A file passed over comes as a warning: `{warning, code, path}`.
    """
    box = Mailbox(spool, agent_name(agent))
    ensure_mailbox(spool, agent)
    told: set[str] = set()
    warned: set[str] = set()
    with _Armed(box, None if timeout_s is None else time.monotonic() + timeout_s, hangup) as armed_watch:
        while True:
            look = Look(box, mine, most=FOLLOWED, skip=told)
            for warning in look.warnings:
                if warning["path"] not in warned:
                    warned.add(warning["path"])
                    yield warning
            for envelope in look.envelopes:
                told.add(handle(envelope["id"], envelope["token"]))
                yield envelope
            if look.count > len(look.envelopes):
                continue
            told &= {life(text) for text in box.texts("new")}  # what was read is forgotten: memory stays bounded
            if armed_watch.over or not armed_watch.sleep(look):
                return


class _Armed:
    """A watch while it is armed: the bell hears arrivals, the presence tells senders that somebody listens."""

    def __init__(self, box: Mailbox, deadline: float | None, hangup: int | None) -> None:
        from maildir_agents.disk.doorbell import Doorbell
        from maildir_agents.mail.presence import Presence

        silent = box.spool.settings.get("file_system", {}).get("inotify") is False
        self._bell = Doorbell([f"{box.path}/new"], hangup=hangup, poll_only=silent)
        self._presence = Presence(box.spool, box.agent)
        self._box, self._deadline = box, deadline

    def __enter__(self) -> "_Armed":
        self._bell.__enter__()
        try:
            self._presence.__enter__()
            self._box.spool.note(self._box.agent, "watching")
        except BaseException:
            try:
                self._presence.abandon()
            finally:
                self._bell.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._presence.__exit__()
        finally:
            self._bell.__exit__(None, None, None)

    @property
    def over(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def sleep(self, look: Look) -> bool:
        """Sleep until an arrival, the deadline, or the time to look again; False: hung up."""
        left = None if self._deadline is None else self._deadline - time.monotonic()
        if look.again_ms is not None:
            again = look.again_ms / 1000 + 0.001
            left = again if left is None else min(left, again)
        if self._bell.wait(left) == "hangup":
            return False
        if not self._presence.is_visible:
            ensure_mailbox(self._box.spool, self._box.agent)
            self._presence.renew()
        return True


def _answer(box: Mailbox, look: Look, mine: "Claims") -> "dict[str, Any]":
    reachable = armed(box.spool, box.agent, tidy=True)
    return {
        "agent": box.agent,
        "messages": look.envelopes,
        "count": look.count,
        "timeout": not look.count,
        "reachable": reachable,
        "next": outstanding(box.agent, unread=bool(look.count), owed=owes(box, mine), reachable=reachable),
    }
