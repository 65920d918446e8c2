"""A watch that a harness runs in the background, to wake an idle session.

`rewake` ends with the first news, and its end wakes; `monitor` stays, and each line wakes.  There is one a session and
agent, by a lock, so a harness may start it again after every turn.  It wakes for a message once: for mail that the
session was told of and left unread it does not wake again, or the two would go round in circles.  It is a watch like
others, so the agent is reachable while it sleeps, and it ends with the program whose session it wakes.
"""

import os
import signal
import time

from maildir_agents.faces.hooks.events import sentence, text
from maildir_agents.faces.hooks.session import Session
from maildir_agents.mail.name import handle
from maildir_agents.verbs.guidance import outstanding
from maildir_agents.verbs.owed import owed
from maildir_agents.verbs.watch import follow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from maildir_agents.mail.spool import SpoolFiles
    from maildir_agents.verbs.owed import Owed

    Write = Callable[[int, bytes], None]

WOKEN, ASLEEP = 2, 0
# At the end of a turn the harness starts this and `hook stop` at once.  What that one holds the turn up for is not
# news; by then it has noted it.
GRACE_S = 1.0


class _Over(Exception):
    """The session has ended, or the harness wants no wake any more."""


def rewake(
    spool: "SpoolFiles", agent: str, session: Session, environ: "Mapping[str, str]", write: "Write", ending: str = ""
) -> int:
    """Sleep until mail comes that the session has not been told of; WOKEN then, and ASLEEP for every other end."""
    if is_waited_for(environ):
        return ASLEEP
    try:
        for facts in _news(spool, agent, session, environ, hangup=2):
            write(2, (text(agent, facts, ending) + "\n").encode())
            return WOKEN
    except _Over:
        pass
    return ASLEEP


def monitor(
    spool: "SpoolFiles", agent: str, session: Session, environ: "Mapping[str, str]", write: "Write", ending: str = ""
) -> int:
    """A line on standard output whenever mail comes that the session has not been told of, until the session ends."""
    try:
        for facts in _news(spool, agent, session, environ, hangup=1):
            [step] = outstanding(agent, unread=True, owed=False, reachable=True)
            write(1, f"{sentence(agent, facts)} Owed: {step}{ending}\n".encode())
    except _Over:
        pass
    return ASLEEP


def _news(
    spool: "SpoolFiles", agent: str, session: Session, environ: "Mapping[str, str]", hangup: int
) -> "Iterator[Owed]":
    """What is owed, each time it has grown by mail that the session was not told of; it is told by that."""
    grace_over = time.monotonic() + GRACE_S
    if session.hold() is None:
        return
    end_with(clients(environ))
    for arrival in follow(spool, agent, hangup=hangup):
        time.sleep(max(0.0, grace_over - time.monotonic()))
        if "warning" in arrival or handle(arrival["id"], arrival["token"]) in session.told():
            continue
        facts = owed(spool, agent)
        if not facts.unread:
            continue  # somebody was quicker
        if not session.tell(facts.news):
            return  # it would wake for the same mail again and again
        yield facts


def is_waited_for(environ: "Mapping[str, str]") -> bool:
    """Whether the client would stand still until this ends: Claude Code without a terminal runs such hooks as any."""
    return environ.get("CLAUDE_CODE_ENTRYPOINT", "cli") != "cli"


def clients(environ: "Mapping[str, str]") -> list[int]:
    """The processes this watch belongs to: its parent, and the client where that says which it is."""
    named = environ.get("CLAUDE_PID", "")
    return [os.getppid(), *([int(named)] if named.isdecimal() and len(named) < 10 else [])]


def end_with(processes: list[int]) -> None:
    """Raise _Over in the main thread when one of them ends, and when this process is told to."""
    signal.signal(signal.SIGTERM, _end)
    if 1 in processes:
        raise _Over  # the parent was gone before we looked
    if not hasattr(os, "pidfd_open"):
        return  # then the harness's own signal or the closed pipe ends it
    descriptors = []
    for process in processes:
        try:
            descriptors.append(os.pidfd_open(process))
        except ProcessLookupError:
            raise _Over from None
        except OSError:
            continue  # a kernel or a sandbox that does not allow it
    import threading

    threading.Thread(target=_sit_with, args=(descriptors,), daemon=True).start()


def _sit_with(descriptors: list[int]) -> None:
    import select

    bell = select.poll()
    for descriptor in descriptors:
        bell.register(descriptor, select.POLLIN)
    if descriptors and bell.poll():
        os.kill(os.getpid(), signal.SIGTERM)


def _end(*_: object) -> None:
    raise _Over
