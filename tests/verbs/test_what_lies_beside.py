"""Whatever lies where the spool's own files belong: no command hangs, none ends in a traceback, nothing is written
through a link, and mail goes on where that place is not needed."""

import json
import os
import stat
from pathlib import Path

import pytest

from faces.program import Program
from maildir_agents import Spool
from maildir_agents.errors import CODES
from maildir_agents.mail.dedup import key_path
from maildir_agents.mail.name import day_of, minute_of

ID = "00000000-0001-7000-8000-000000000001"
TIME = "20261130T184712.123Z"
BOX = "agents/bob"
PLACES = {
    "history": f"{BOX}/history.jsonl",
    "history of the sender": "agents/alice/history.jsonl",
    "readers' lock": f"{BOX}/read.lock",
    "a watch": f"{BOX}/watch/{'0' * 32}.lock",
    "watches": f"{BOX}/watch",
    "listener's lock": f"{BOX}/listener.lock",
    "a draft": f"{BOX}/tmp/{ID}.json",
    "a draft set aside": f"{BOX}/tmp/{ID}~gc.json",
    "a read message": f"{BOX}/cur/{ID}~r{TIME}.json",
    "a claim": f"{BOX}/claimed/{ID}~n1~x20991130T184712.123Z~wme.json",
    "a settled message": f"{BOX}/acked/{day_of(ID)}/{minute_of(ID)}/{ID}~r{TIME}~a{TIME}.json",
    "a dead letter": f"{BOX}/failed/{ID}.json",
    "the reason of a dead letter": f"{BOX}/failed/{ID}.reason.json",
    "an anchor": f"messages/{day_of(ID)}/{ID}.json",
    "a name in a thread": f"threads/{ID}/{ID}.json",
    "a thread": f"threads/{ID}",
    "a key": "dedup/KEY",
    "a broadcast": f"broadcast/{ID}.json",
    "an unfinished broadcast": f"broadcast/.{ID}.json",
    "copies to be delivered": f"broadcast/{ID}.todo",
    "a mailbox": "agents/dave",
    "a mailbox being made": "agents/.dave",
    "ballast": "ballast/15",
    "something in the trash": f"trash/{ID}~t0123456789abcdef.json",
    "config.json": "config.json",
}
HARMLESS = (
    "history",
    "a draft",
    "a read message",
    "a settled message",
    "a dead letter",
    "an anchor",
    "a name in a thread",
    "a watch",
    "something in the trash",
)
COMMANDS = [
    ["send", "--from", "alice", "--to", "bob", "--subject", "s", "--dedup-key", "k"],
    ["send", "--from", "alice", "--to", "dave", "--subject", "s"],
    ["send", "--from", "alice", "--to", "*", "--subject", "s"],
    ["send", "--from", "bob", "--to", "alice", "--subject", "s", "--reply-to", ID],
    ["watch", "bob", "--once"],
    ["read", "bob"],
    ["ack", "bob", ID],
    ["ack", "bob", "--all"],
    ["status"],
    ["thread", ID],
    ["trace", ID],
    ["failed", "list"],
    ["failed", "purge", "bob", ID],
]


@pytest.fixture
def outside(tmp_path) -> Path:
    path = tmp_path / "outside.json"
    path.write_text('{"mine": true}\n')
    return path


def lay(path: Path, kind: str, outside: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a directory":
        (path / "inside").mkdir(parents=True)
    elif kind == "a link":
        path.symlink_to(outside)
    else:
        path.write_bytes(b"\0torn{")


@pytest.fixture
def used(quick) -> Program:
    """A spool with three mailboxes, of which bob's has mail."""
    spool = Spool(quick.spool)
    spool.send(sender="bob", recipient="alice", subject="both have mailboxes")
    spool.send(sender="alice", recipient="bob", subject="unread")
    return quick


@pytest.mark.parametrize("kind", ["a FIFO", "a link"])
@pytest.mark.parametrize("place", PLACES)
def test_no_command_hangs_breaks_or_writes_through_it(used, outside, place, kind):
    where = (
        PLACES[place] if place != "a key" else os.path.relpath(key_path(Spool(used.spool), "alice", "k"), used.spool)
    )
    lay(used.spool / where, kind, outside)
    before = (outside.read_bytes(), outside.stat().st_mtime_ns, outside.stat().st_nlink)
    statuses = {}
    for words in COMMANDS:
        done = used(*words)  # a command that hangs is killed, and fails here
        assert "Traceback" not in done.err, done.err
        statuses[" ".join(words[:2])] = done.status
        if done.status == 0:
            assert json.loads(done.out) is not None
        else:
            told = done.refusal
            assert CODES[told["code"]][0] == done.status
    assert (outside.read_bytes(), outside.stat().st_mtime_ns, outside.stat().st_nlink) == before
    assert statuses["status"] == 0


@pytest.mark.parametrize("place", HARMLESS)
@pytest.mark.parametrize("kind", ["a FIFO", "a directory", "a link", "torn"])
def test_mail_goes_on_past_it(used, outside, place, kind):
    lay(used.spool / PLACES[place], kind, outside)
    sent = used.send("alice", "bob", subject="later")["id"]
    shown = [message["id"] for message in used("read", "bob").answer["messages"]]
    assert len(shown) == 2
    assert shown[-1] == sent
    assert used.send("bob", "alice", "--reply-to", sent)["acknowledged"] == sent
    assert shown[0] in used("ack", "bob", "--all").answer["message_ids"]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_modes_do_not_depend_on_the_umask(mail, umask):
    under = ("sh", "-c", f'umask {umask:03o}; exec "$@"', "sh")
    sent = mail("send", "--from", "alice", "--to", "bob", "--subject", "s", "--dedup-key", "k", under=under).answer
    mail("read", "bob", under=under)
    mail("send", "--from", "bob", "--to", "alice", "--subject", "s", "--reply-to", sent["id"], under=under)
    (mail.spool / f"agents/bob/new/{ID}.json").write_text("torn")
    os.utime(mail.spool / f"agents/bob/new/{ID}.json", (0, 0))
    (mail.spool / f"agents/bob/new/{ID}.json").chmod(0o600)
    mail("read", "bob", under=under)
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in mail.spool.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(path.lstat().st_mode) for path in [mail.spool, *mail.spool.rglob("*")] if path.is_dir()} == {
        0o700
    }
    assert (mail.spool / f"agents/bob/failed/{ID}.reason.json").exists()


def test_a_spool_behind_a_link_is_the_same_spool(used, tmp_path):
    (tmp_path / "link").symlink_to(used.spool)
    through = used("read", "bob", "--spool", str(tmp_path / "link")).answer
    assert through["count"] == 1
    assert used("read", "bob").answer["count"] == 0
