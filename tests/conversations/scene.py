"""Two agents and one conversation between them, played in process.  For the tests of this directory; no fixture."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from conversations.dialogue import drafts, faults
from maildir_agents.errors import MailError
from maildir_agents.testing import FailingDisk, Killed, TemporarySpool, temporary_spool

A_MINUTE = 61  # seconds: what nobody committed is litter by then


@contextmanager
def a_spool(**how: Any) -> Iterator[TemporarySpool]:
    """A spool for the block, in memory where the system offers some: sweeps make very many names."""
    from unittest import mock

    shared = "/dev/shm"
    where = shared if os.access(shared, os.W_OK | os.X_OK) else None
    with mock.patch("tempfile.tempdir", where), temporary_spool(**how) as spool:
        yield spool


def start(spool: TemporarySpool, **terms: Any) -> dict[str, Any]:
    return spool.start_conversation(**{"sender": "alice", "recipient": "bob", "goal": "agree on the outline"} | terms)


def other(agent: str) -> str:
    return "alice" if agent == "bob" else "bob"


def answer(spool: TemporarySpool, parent: str, body: str = "done", sender: str = "bob", **more: Any) -> dict[str, Any]:
    """A turn that answers `parent`, an id or a claim's handle."""
    order = {"recipient": other(sender), "subject": "s", "kind": "result" if sender == "bob" else "task"}
    return spool.send(**{"sender": sender, "reply_to": parent, "body": body} | order | more)


def dialogue(spool: TemporarySpool, turns: int, **terms: Any) -> tuple[str, list[str]]:
    """A conversation of so many turns: its id, and the ids of its messages."""
    begun = start(spool, **terms)
    messages = [begun["message_id"]]
    while len(messages) < turns:
        speaker = "bob" if len(messages) % 2 else "alice"
        messages.append(answer(spool, messages[-1], f"turn {len(messages) + 1}", speaker)["id"])
    return begun["conversation_id"], messages


def code_of(call, *given: Any, **named: Any) -> str:
    """The code a call is refused with; "" when it is not."""
    try:
        call(*given, **named)
    except MailError as error:
        return error.code
    return ""


def killed_at(spool: TemporarySpool, call: str, below: str, act, after: bool = False) -> None:
    """Run `act` and kill it before its first such call on a path with `below` in it, or `after` one that succeeded."""
    disk = FailingDisk()
    met = ""

    def look(number: int, name: str, path: str) -> None:
        nonlocal met
        if not met and name == call and below in path:
            met = path
        if met and disk.kill_at is None and (not after or os.path.lexists(met)):
            disk.kill_at = number

    disk.before = look
    try:
        act(spool.another(disk))
    except Killed:
        return
    raise AssertionError(f"there was no {call} of {below}")


def everybody_calls(spool: TemporarySpool) -> list[str]:
    """Everybody calls once more, a minute later; what is wrong then, doctor's findings included.

    Names that begin with a dot are nothing to anybody; doctor removes those that were left, and writes the snapshot
    anew that a writer who died did not come to.
    """
    spool.clock.advance(A_MINUTE)
    fresh = spool.another()
    for agent in ("alice", "bob"):
        with fresh.read(agent, limit=100):
            pass
    for row in fresh.list_conversations()["conversations"]:
        opened(fresh, row["conversation_id"])
    fresh.send(sender="alice", recipient="bob", subject="the last word")  # whoever finds room fills the ballast
    mended = fresh.doctor(fix=True)["findings"]
    found = [f for f in mended if f["code"] not in ("litter", "stale_state")] + fresh.doctor()["findings"]
    return faults(spool.root, finished=True) + [f"doctor: {f['finding']}" for f in found]


def opened(spool: TemporarySpool, conversation: str) -> None:
    """What whoever opens a conversation to write does before he is judged."""
    from maildir_agents.mail.journal import open_to_write

    open_to_write(spool, conversation)


__all__ = ["A_MINUTE", "a_spool", "answer", "code_of", "dialogue", "drafts", "everybody_calls", "faults", "killed_at",
           "opened", "other", "start"]  # fmt: skip
