"""Whatever lies in new/: the mail behind it flows in the same call, nothing hangs, and what is refused is said.

Three things can become of it by the rules of the protocol: it *stays* where it is (no file, no name of a message, not
readable, still being written), it becomes a *dead letter* with its reason, or it is *mail* after all.
"""

import json
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from faces.program import SOON, Done, Program, until
from maildir_agents import Spool
from maildir_agents.disk.clock import Clock
from maildir_agents.errors import MailError
from maildir_agents.mail import intake
from maildir_agents.mail.name import Ids, day_of, parse

STAYS, DEAD, MAIL = "stays", "dead letter", "mail"
ID = "00000000-0001-7000-8000-000000000001"  # from 1970: whatever lies under this name is looked at first
OTHER = "00000000-0001-7000-8000-000000000002"
TIME = "20261130T184712.123Z"
MEMORY = 400 << 10  # KiB of address space: an interpreter needs a tenth of it
HUGE = 10 << 30


def message(message_id: str = ID, **changed: object) -> bytes:
    good = {"id": message_id, "sender": "alice", "recipient": "bob", "subject": "dropped", "body": "body",
            "created": "2026-11-30T18:47:12.123Z"}  # fmt: skip
    return json.dumps(good | changed).encode()


class Bad(NamedTuple):
    lies: Callable[[Path], None]  # puts it into a directory that is the mailbox's new/
    becomes: str
    code: str = ""  # of the dead letter; of the warning about what stays, "" for none
    message_id: str = ID


def file(data: bytes, name: str = f"{ID}.json", age: float = 10) -> Callable[[Path], None]:
    def lies(new: Path) -> None:
        path = new / name
        path.write_bytes(data)
        os.utime(path, (time.time() - age, time.time() - age))

    return lies


def link_to(target: str) -> Callable[[Path], None]:
    return lambda new: os.symlink(target, new / f"{ID}.json")


def link_to_a_message(new: Path) -> None:
    outside = new.parents[3] / "outside.json"
    outside.write_bytes(message())
    os.symlink(outside, new / f"{ID}.json")


def directory(new: Path) -> None:
    (new / f"{ID}.json").mkdir()
    (new / f"{ID}.json" / "inside").write_bytes(b"kept")


def a_socket(new: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(new)  # a socket's path is short
        try:
            listening.bind(f"{ID}.json")
        finally:
            os.chdir(here)


def sparse(new: Path) -> None:
    with open(new / f"{ID}.json", "wb") as hole:
        hole.truncate(HUGE)


def deep(levels: int) -> bytes:
    return message()[:-1] + b', "x": ' + b"[" * levels + b"]" * levels + b"}"


NOT_A = "not_a_message"
BAD = {
    "a FIFO": Bad(lambda new: os.mkfifo(new / f"{ID}.json"), STAYS, NOT_A),
    "a link to a message": Bad(link_to_a_message, STAYS, NOT_A),
    "a link to a system file": Bad(link_to("/etc/passwd"), STAYS, NOT_A),
    "a link to nothing": Bad(link_to("/nowhere/at/all"), STAYS, NOT_A),
    "a link to itself": Bad(link_to(f"{ID}.json"), STAYS, NOT_A),
    "a link to a directory": Bad(link_to("/"), STAYS, NOT_A),
    "a directory": Bad(directory, STAYS, NOT_A),
    "a socket": Bad(a_socket, STAYS, NOT_A),
    "a huge sparse file": Bad(sparse, DEAD, "too_large"),
    "torn, old": Bad(file(message()[:-20]), DEAD, "not_json"),
    "empty, old": Bad(file(b""), DEAD, "not_json"),
    "half written, old": Bad(file(b'{"a":'), DEAD, "not_json"),
    "from the future, torn": Bad(file(message()[:-20], age=-3600), DEAD, "not_json"),
    "no text": Bad(file(bytes(range(256)) * 64), DEAD, "not_json"),
    "two objects": Bad(file(message() + message()), DEAD, "not_json"),
    "with a byte order mark": Bad(file(b"\xef\xbb\xbf" + message()), DEAD, "not_json"),
    "UTF-16": Bad(file(message().decode().encode("utf-16")), DEAD, "not_json"),
    "half a surrogate pair": Bad(file(message().replace(b"body", b"\\ud800")), DEAD, "not_json"),
    "equal keys": Bad(file(message()[:-1] + b', "sender": "mallory"}'), DEAD, "duplicate_key"),
    "equal keys, spelled differently": Bad(file(message()[:-1] + b', "s\\u0065nder": "m"}'), DEAD, "duplicate_key"),
    "equal keys, deep inside": Bad(file(message()[:-1] + b', "x": [{"a": 1, "a": 2}]}'), DEAD, "duplicate_key"),
    "not a number": Bad(file(message()[:-1] + b', "x": NaN}'), DEAD, "bad_number"),
    "too large a number": Bad(file(message()[:-1] + b', "x": 9007199254740993}'), DEAD, "bad_number"),
    "nested too deep": Bad(file(deep(40)), DEAD, "too_deep"),
    "nested absurdly deep": Bad(file(deep(100_000)), DEAD, "too_deep"),
    "a list": Bad(file(b"[" + message() + b"]"), DEAD, "not_an_object"),
    "another id inside": Bad(file(message(OTHER)), DEAD, "bad_id"),
    "another recipient inside": Bad(file(message(recipient="carol")), DEAD, "not_yours"),
    "a path for a sender": Bad(file(message(sender="../../etc")), DEAD, "bad_agent"),
    "an escape sequence in the subject": Bad(file(message(subject="\x1b[2J")), DEAD, "bad_subject"),
    "a body over the limit": Bad(file(message(body="x" * (2**20 + 1))), DEAD, "too_large"),
    "an envelope over the limit": Bad(file(message(refs=["r" * 4000] * 3)), DEAD, "too_large"),
    "a path for a thread": Bad(file(message(thread_id="../../../outside")), DEAD, "bad_id"),
    "a word of its own": Bad(file(message(), "notes.txt"), STAYS, NOT_A),
    "an id in capitals": Bad(file(message(), "00000000-0001-7000-8000-00000000000A.json"), STAYS, NOT_A),
    "another ending": Bad(file(message(), f"{ID}.txt"), STAYS, NOT_A),
    "an id of another version": Bad(file(message(), ID.replace("-7", "-4") + ".json"), STAYS, NOT_A),
    "a dot name": Bad(file(message(), f".{ID}.json"), STAYS),
    "a backup of an editor": Bad(file(message(), f"{ID}.json~"), STAYS),
    "a swap file of an editor": Bad(file(message(), f".{ID}.json.swp"), STAYS),
    "a name that tells a lie": Bad(file(message(), f"{ID}~n1~n2.json"), STAYS, NOT_A),
    "a name that nothing fits behind": Bad(file(message(), f"{ID}~p{'x' * 120}.json"), STAYS, NOT_A),
    "the longest name there is": Bad(file(message(), f"{ID}~p{'x' * 212}.json"), STAYS, NOT_A),
    "a name that is no text": Bad(file(message(), os.fsdecode(b"\xff\xfe.json")), STAYS, NOT_A),
    "nearly a name, and no text": Bad(file(message(), os.fsdecode(ID.encode() + b"\xff.json")), STAYS, NOT_A),
    "a name with a line break": Bad(file(message(), f"{ID}~p\n.json"), STAYS, NOT_A),
    "a stamp of a later version": Bad(file(message(), f"{ID}~pfuture.json"), MAIL),
    "fields of a later version": Bad(file(message(priority="high", tags={"a": [1]})), MAIL),
    "a word for kind that nobody knows": Bad(file(message(kind="progress")), MAIL),
    "a body before the rest": Bad(file(json.dumps({"body": "b", **json.loads(message())}).encode()), MAIL),
}


@pytest.fixture(params=BAD)
def bad(request) -> Bad:
    return BAD[request.param]


class Lair:
    """A mailbox of bob's with something bad in it, and good mail behind that."""

    def __init__(self, mail: Program, bad: Bad) -> None:
        self.mail, self.bad = mail, bad
        self.spool = Spool(mail.spool)
        self.good = [self.send(), self.send()]
        self.new = mail.spool / "agents/bob/new"
        before = set(os.listdir(self.new))
        bad.lies(self.new)
        [self.name] = set(os.listdir(self.new)) - before

    def send(self) -> str:
        return self.spool.send(sender="alice", recipient="bob", subject="good")["id"]

    @property
    def expected(self) -> list[str]:
        """What bob's unread mail is."""
        return [self.bad.message_id, *self.good] if self.bad.becomes == MAIL else self.good

    def names(self, state: str) -> list[str]:
        return sorted(os.listdir(self.mail.spool / "agents/bob" / state))

    def holds_by_the_rules(self, done: Done) -> None:
        """The bad thing is where it belongs, and `done`, which saw it first, has said so."""
        told = [warning for warning in done.warnings if warning["code"] == self.bad.code]
        if self.bad.becomes == STAYS:
            assert self.name in self.names("new")
            assert self.names("failed") == []
            assert len(told) == (1 if self.bad.code else 0), done.err
            assert all(os.fsencode(warning["path"]).endswith(os.fsencode(self.name)) for warning in told)
        elif self.bad.becomes == DEAD:
            assert self.names("failed") == [f"{ID}.json", f"{ID}.reason.json"]
            assert self.name not in self.names("new")
            assert len(told) == 1, done.err
            [row] = self.mail("failed", "list", "bob").answer["failed"]
            assert (row["agent"], row["id"], row["file"], row["code"]) == ("bob", ID, f"{ID}.json", self.bad.code)
            assert row["reason"]
        else:
            assert self.names("failed") == []
            assert done.warnings == []


@pytest.fixture
def lair(quick, bad) -> Lair:
    return Lair(quick, bad)


def ids(answer: dict) -> list[str]:
    return [message["id"] for message in answer["messages"]]


def tree(place: Path, but: Path) -> dict[str, tuple[int, int, int]]:
    """What is below `place` but not below `but`."""
    found = (path for path in place.rglob("*") if path != but and but not in path.parents)
    return {str(path): ((info := path.lstat()).st_size, info.st_mtime_ns, info.st_nlink) for path in found}


# ------------------------------------------------------------------------------------------------ the promises


def test_read_shows_the_mail_behind_it_in_the_same_call(lair):
    done = lair.mail("read", "bob")
    assert ids(done.answer) == lair.expected
    lair.holds_by_the_rules(done)
    again = lair.mail("read", "bob")
    assert again.answer["count"] == 0


def test_watch_wakes_for_the_mail_behind_it_in_the_same_call(lair):
    done = lair.mail("watch", "bob", "--once")
    assert ids(done.answer) == lair.expected
    assert done.answer["count"] == len(lair.expected)
    lair.holds_by_the_rules(done)


def test_the_commands_that_next_names_come_to_an_end(lair):
    answer = lair.mail("watch", "bob", "--once").answer
    said = lair.mail.follow("bob", answer["next"])
    assert said[0] == ["agent-mail read bob", "agent-mail ack bob --all", "agent-mail watch bob"]
    assert said[-1] == ["agent-mail watch bob"]
    assert len(lair.spool.thread(lair.good[0])["messages"]) == 1
    assert lair.mail.row("bob")["unacked"] == 0


def test_acknowledging_everything_settles_the_mail_and_only_that(lair):
    done = lair.mail("ack", "bob", "--all")
    assert done.answer["message_ids"] == lair.expected
    assert done.answer["next"] == ["agent-mail watch bob"]
    if lair.bad.becomes == STAYS:
        assert lair.name in lair.names("new")
    elif lair.bad.becomes == DEAD:
        assert lair.names("failed") == [f"{ID}.json", f"{ID}.reason.json"]
    settled = [path.name for path in (lair.mail.spool / "agents/bob/acked").rglob("*.json")]
    assert len(settled) == len(lair.expected)
    assert lair.mail("ack", "bob", "--all").answer["count"] == 0


def test_naming_it_settles_nothing_that_is_no_mail(lair):
    done = lair.mail("ack", "bob", lair.good[0], lair.bad.message_id)
    if lair.bad.becomes == MAIL:
        assert done.answer["message_ids"] == [lair.good[0], lair.bad.message_id]
        return
    assert done.refusal["code"] in ("unknown_id", "dead_letter")
    assert list((lair.mail.spool / "agents/bob/acked").rglob("*.json")) == []
    assert ids(lair.mail("read", "bob").answer) == lair.good


def test_answering_it_sends_nothing_when_it_is_no_mail(lair):
    done = lair.mail("send", "--from", "bob", "--to", "alice", "--subject", "re", "--reply-to", lair.bad.message_id)
    if lair.bad.becomes == MAIL:
        assert done.answer["acknowledged"] == lair.bad.message_id
        return
    assert done.refusal["code"] == "unknown_id"
    assert lair.mail.row("alice")["unread"] == 0


def test_looking_at_it_changes_nothing(lair):
    before = tree(lair.mail.spool, lair.mail.spool / "nothing")
    assert ids(lair.mail("read", "bob", "--no-mark-read").answer) == lair.expected
    lair.mail("read", "bob", "--no-mark-read", "--all")
    row = lair.mail.row("bob")
    assert row["unread"] in (len(lair.expected), len(lair.expected) + 1)  # a file is not opened by status
    assert row["failed"] == 0
    lair.mail("trace", lair.bad.message_id)
    lair.mail("thread", lair.bad.message_id)
    lair.mail("failed", "list")
    assert tree(lair.mail.spool, lair.mail.spool / "nothing") == before


def test_everything_that_is_kept_is_shown_past_it(lair):
    assert ids(lair.mail("read", "bob", "--all").answer) == lair.expected
    assert ids(lair.mail("read", "bob", "--all").answer) == lair.expected


def test_nothing_outside_the_spool_is_touched(lair):
    outside = lair.mail.place
    before = tree(outside, lair.mail.spool)
    passwords = Path("/etc/passwd").stat()
    for words in (("watch", "bob", "--once"), ("read", "bob"), ("ack", "bob", "--all"), ("read", "bob", "--all")):
        assert lair.mail(*words).status == 0
    assert tree(outside, lair.mail.spool) == before
    assert Path("/etc/passwd").stat().st_nlink == passwords.st_nlink


def test_a_dead_letter_is_shown_stays_dead_until_it_is_mended_and_can_be_deleted(quick):
    lair = Lair(quick, BAD["torn, old"])
    quick("read", "bob")
    shown = quick("failed", "show", "bob", ID).answer
    assert (shown["message"], shown["text"]) == (None, message()[:-20].decode())
    assert quick("failed", "requeue", "bob", ID).refusal["code"] == "dead_letter"
    failed = quick.spool / f"agents/bob/failed/{ID}.json"
    failed.write_bytes(message())
    assert quick("failed", "requeue", "bob", ID).answer["state"] == "new"
    assert ids(quick("read", "bob").answer) == [ID]
    assert quick("failed", "list").answer == {"count": 0, "failed": []}
    BAD["torn, old"].lies(lair.new)
    quick("read", "bob")
    assert quick("failed", "purge", "bob", ID).answer["purged"] is True
    assert lair.names("failed") == []


@pytest.mark.parametrize("kind", ["a huge sparse file", "nested absurdly deep", "a body over the limit"])
def test_memory_stays_low_whatever_its_size(quick, kind):
    lair = Lair(quick, BAD[kind])
    if os.path.getsize(lair.new / lair.name) == HUGE:
        reading = [sys.executable, "-I", "-c", f"len(open({str(lair.new / lair.name)!r}, 'rb').read())"]
        limited = ["sh", "-c", f'ulimit -v {MEMORY}; exec "$@"', "sh", *reading]
        control = subprocess.run(limited, capture_output=True, check=False)
        assert b"MemoryError" in control.stderr  # who reads it all does not get away with it
    under = ("sh", "-c", f'ulimit -v {MEMORY}; exec "$@"', "sh")
    for words in (("read", "bob", "--no-mark-read"), ("watch", "bob", "--once"), ("read", "bob"),
                  ("failed", "list"), ("failed", "show", "bob", ID), ("status",), ("trace", ID)):  # fmt: skip
        done = quick(*words, under=under)
        assert done.status in (0, 66), done.err
        if words[0] in ("read", "watch"):
            assert ids(done.answer) == lair.good


def test_the_limit_of_memory_is_one_that_an_interpreter_keeps():
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    assert hard == resource.RLIM_INFINITY or hard > MEMORY << 10, soft


# ------------------------------------------------------------------------------------------------ still being written


@pytest.fixture
def swift(quick, tmp_path):
    """The command as on a machine where nothing takes long: to it bob's file ID is a second old at most."""
    command, path = tmp_path / "agent-mail", quick.spool / f"agents/bob/new/{ID}.json"
    command.write_text(f"""#!{sys.executable}
import os
from maildir_agents.disk.clock import Clock
from maildir_agents.faces.cli import main
wall_ms = Clock.wall_ms
def soon(clock):
    try:
        return min(wall_ms(clock), os.stat({str(path)!r}).st_mtime_ns // 1000000 + 1000)
    except OSError:
        return wall_ms(clock)
Clock.wall_ms = soon
main()
""")
    command.chmod(0o755)
    quick.command = str(command)
    return quick


@pytest.mark.parametrize("torn", [b"", b'{"a":', message()[:-1]])
def test_a_young_file_is_left_alone_and_read_when_it_is_whole(swift, torn):
    lair = Lair(swift, Bad(file(torn, age=0), STAYS))
    done = swift("read", "bob")
    assert ids(done.answer) == lair.good
    assert done.warnings == []
    assert lair.name in lair.names("new")
    (lair.new / lair.name).write_bytes(message())
    assert ids(swift("read", "bob").answer) == [ID]


def test_next_says_nothing_about_a_file_that_is_still_being_written(swift):
    Lair(swift, Bad(file(b'{"a":', age=0), STAYS))
    answer = swift("read", "bob").answer
    assert answer["next"] == ["agent-mail ack bob --all", "agent-mail watch bob"]
    assert swift("ack", "bob", "--all").answer["next"] == ["agent-mail watch bob"]


def test_a_file_that_never_becomes_whole_wakes_nobody_and_is_a_dead_letter_two_seconds_later(quick):
    quick("init")
    Spool(quick.spool).send(sender="alice", recipient="bob", subject="first")
    quick("ack", "bob", "--all")
    watch = quick.watching("bob")
    new = quick.spool / "agents/bob/new"
    file(b'{"a":', age=0)(new)
    until(lambda: os.listdir(quick.spool / "agents/bob/failed"), "the torn file is a dead letter")
    assert watch.poll() is None
    sent = quick.send("alice", "bob")
    out, _ = watch.communicate(timeout=SOON)
    assert ids(json.loads(out)) == [sent["id"]]


def test_a_slow_writer_wakes_the_watch_when_the_file_is_whole(swift):
    Spool(swift.spool).send(sender="alice", recipient="bob", subject="first")
    swift("ack", "bob", "--all")
    watch = swift.watching("bob")
    whole = message()
    path = swift.spool / f"agents/bob/new/{ID}.json"
    with path.open("wb", buffering=0) as writing:
        writing.write(whole[:20])
        assert swift("watch", "bob", "--once").answer["count"] == 0
        writing.write(whole[20:])
    out, _ = watch.communicate(timeout=SOON)
    assert ids(json.loads(out)) == [ID]


class Stopped(Clock):
    now = 1_796_064_432_123

    def wall_ms(self) -> int:
        return self.now

    def write(self, path: Path, data: bytes, ago_ms: int) -> None:
        path.write_bytes(data)
        os.utime(path, ns=((self.now - ago_ms) * 1_000_000,) * 2)


def test_a_file_that_became_whole_after_it_was_read_is_no_dead_letter(quick, monkeypatch):
    """A reader that sleeps, longer than a writer may, between its reading half of a file and its judging it."""
    clock = Stopped()
    spool = Spool(quick.spool, clock=clock)
    spool.send(sender="alice", recipient="bob", subject="first")
    spool.ack("bob", everything=True)
    path = quick.spool / f"agents/bob/new/{ID}.json"
    clock.write(path, message()[:20], ago_ms=1900)

    def judge_late(*given):
        monkeypatch.undo()
        clock.now += 3000
        clock.write(path, message(), ago_ms=1500)
        return intake.judge(*given)

    monkeypatch.setattr(intake, "judge", judge_late)
    with spool.read("bob") as batch:
        assert batch.messages == []
    with spool.read("bob") as batch:
        assert [found["id"] for found in batch.messages] == [ID]


# ------------------------------------------------------------------------------------------------ one id, two names


def copy_of(source: Path, target: Path, how: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if how == "same inode":
        os.link(source, target)
    else:
        shutil.copyfile(source, target)
        if how == "different bytes":
            target.write_bytes(target.read_bytes().replace(b"good", b"evil"))


@pytest.mark.parametrize("how", ["same inode", "same bytes", "different bytes"])
@pytest.mark.parametrize("dropped", [False, True], ids=["sent", "dropped by a script"])
@pytest.mark.parametrize("state", ["cur", "acked", "archive"])
def test_a_message_that_is_also_further_on_is_not_shown_again(quick, how, dropped, state):
    """A restored backup, or a script that made a copy: the further name counts, the mail behind it flows."""
    spool = Spool(quick.spool)
    first = spool.send(sender="alice", recipient="bob", subject="good")["id"]
    new = quick.spool / "agents/bob/new"
    if dropped:
        first = Ids(os.urandom).next(1)
        (new / f"{first}.json").write_bytes(message(first, subject="good"))
    with spool.read("bob") as batch:
        assert first in [shown["id"] for shown in batch.messages]
    if state != "cur":
        spool.ack("bob", [first])
    if state == "archive":
        quick("archive", "bob", first)
    [further] = (quick.spool / f"agents/bob/{state}").rglob(f"{first}*")
    copy_of(further, new / f"{first}.json", how)
    behind = spool.send(sender="alice", recipient="bob", subject="behind")["id"]

    assert ids(quick("read", "bob", "--no-mark-read").answer) == [behind]
    seen = quick("watch", "bob", "--once")
    assert ids(seen.answer) == [behind]
    assert [warning["code"] for warning in seen.warnings] == ["id_clash" if how == "different bytes" else NOT_A]
    assert not (new / f"{first}.json").exists()
    assert further.exists()
    failed = [path.name for path in (quick.spool / "agents/bob/failed").iterdir()]
    assert len(failed) == (2 if how == "different bytes" else 0)
    assert ids(quick("read", "bob").answer) == [behind]
    assert quick.follow("bob", ["agent-mail read bob"])[-1] == ["agent-mail watch bob"]


@pytest.mark.parametrize("how", ["same bytes", "different bytes"])
def test_a_copy_further_on_counts_also_when_it_is_the_copy(quick, how):
    spool = Spool(quick.spool)
    first = spool.send(sender="alice", recipient="bob", subject="good")["id"]
    new = quick.spool / f"agents/bob/new/{first}.json"
    copy_of(new, quick.spool / f"agents/bob/cur/{first}~r{TIME}.json", how)
    behind = spool.send(sender="alice", recipient="bob", subject="behind")["id"]
    assert quick.row("bob")["unread"] == 1
    assert ids(quick("read", "bob").answer) == [behind]
    assert not new.exists()
    assert len(os.listdir(quick.spool / "agents/bob/failed")) == (2 if how == "different bytes" else 0)
    assert quick.follow("bob", ["agent-mail ack bob --all"])[-1] == ["agent-mail watch bob"]


def test_one_file_under_two_ids_is_the_message_it_says_it_is(quick):
    lair = Lair(quick, Bad(file(message(OTHER), f"{OTHER}.json"), MAIL, message_id=OTHER))
    os.link(lair.new / lair.name, lair.new / f"{ID}.json")
    done = quick("read", "bob")
    assert ids(done.answer) == lair.expected
    assert [warning["code"] for warning in done.warnings] == ["bad_id"]
    assert lair.names("failed") == [f"{ID}.json", f"{ID}.reason.json"]
    assert spool_knows(lair.spool, OTHER)


@pytest.mark.parametrize("how", ["same inode", "same bytes", "different bytes"])
def test_one_id_under_two_names_in_new_is_shown_once(quick, how):
    lair = Lair(quick, BAD["a stamp of a later version"])
    copy_of(lair.new / lair.name, lair.new / f"{ID}.json", how)
    assert quick.row("bob")["unread"] == 3
    assert ids(quick("read", "bob").answer) == lair.expected
    assert lair.names("new") == []
    assert len(lair.names("cur")) == 3
    acknowledged = quick("ack", "bob", "--all").answer
    assert sorted(acknowledged["message_ids"]) == sorted(lair.expected)
    assert lair.names("cur") == []


@pytest.mark.parametrize("how", ["same inode", "same bytes"])
def test_one_id_under_two_names_in_new_is_acknowledged_once(quick, how):
    lair = Lair(quick, BAD["a stamp of a later version"])
    copy_of(lair.new / lair.name, lair.new / f"{ID}.json", how)
    acknowledged = quick("ack", "bob", "--all").answer
    assert sorted(acknowledged["message_ids"]) == sorted(lair.expected)
    assert acknowledged["count"] == len(lair.expected)
    assert quick("ack", "bob", "--all").answer["count"] == 0


def test_a_file_with_a_second_name_elsewhere_is_mail_like_any_other(quick):
    """Delivered by `ln` instead of `mv`: the draft's name is still there."""
    spool = Spool(quick.spool)
    spool.send(sender="alice", recipient="bob", subject="first")
    box = quick.spool / "agents/bob"
    file(message(), f"../tmp/{ID}.json", age=0)(box / "new")
    os.link(box / f"tmp/{ID}.json", box / f"new/{ID}.json")
    assert ids(quick("read", "bob").answer)[0] == ID
    assert spool_knows(spool, ID)
    assert quick.send("bob", "alice", "--reply-to", ID)["acknowledged"] == ID


def spool_knows(spool: Spool, message_id: str) -> bool:
    try:
        return spool.thread(message_id)["count"] > 0
    except MailError:
        return False


def test_a_stamp_that_nobody_knows_goes_all_the_way_with_its_message(quick):
    Lair(quick, BAD["a stamp of a later version"])
    seen = []
    for words in (("read", "bob"), ("ack", "bob", ID), ("archive", "bob", ID)):
        assert quick(*words).status == 0
        [path] = [path for path in (quick.spool / "agents/bob").rglob(f"{ID}*") if path.is_file()]
        seen.append(parse(path.name).stamps["p"])
    assert seen == ["future"] * 3


def test_fields_that_nobody_knows_are_still_in_the_file(quick):
    lair = Lair(quick, BAD["fields of a later version"])
    written = (lair.new / lair.name).read_bytes()
    quick("read", "bob")
    quick("ack", "bob", ID)
    [path] = (quick.spool / "agents/bob/acked").rglob(f"{ID}*")
    assert path.read_bytes() == written
    assert Path(lair.spool.anchor(ID)).samefile(path)


# ------------------------------------------------------------------------------------------------ what needs a right


def test_a_device_stays_and_the_mail_behind_it_flows(quick):
    lair = Lair(quick, BAD["a dot name"])
    path = lair.new / f"{ID}.json"
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # endless zeros
    except PermissionError:
        pytest.skip("needs mknod: a device in a mailbox")
    done = quick("read", "bob")
    assert ids(done.answer) == lair.good
    assert [warning["code"] for warning in done.warnings] == [NOT_A]
    assert path.is_char_device()


NOBODY = 65534


@pytest.fixture
def unprivileged():
    """A directory of somebody who is not root, and a function that runs another there as that user.

    Permission bits mean nothing to root: a test of them as root would prove nothing.
    """
    place = tempfile.mkdtemp(dir="/tmp")
    uid = NOBODY if os.geteuid() == 0 else os.geteuid()
    os.chown(place, uid, -1)

    def run(act: Callable[[Path], object]) -> object:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                os.close(reader)
                if os.geteuid() == 0:
                    os.setgroups([])
                    os.setegid(NOBODY)
                    os.seteuid(uid)
                os.write(writer, json.dumps(act(Path(place))).encode())
                status = 0
            except BaseException as error:  # the parent is told
                os.write(writer, json.dumps({"raised": repr(error)}).encode())
            finally:
                os._exit(status)
        os.close(writer)
        with open(reader, "rb") as pipe:
            told = json.loads(pipe.read())
        os.waitpid(child, 0)
        assert not (isinstance(told, dict) and "raised" in told), told
        return told

    yield run
    shutil.rmtree(place)


def test_an_unreadable_file_is_reported_and_left_and_does_not_come_back_for_ever(unprivileged):
    def act(place: Path) -> object:
        spool = Spool(place / "spool", durability="none")
        good = spool.send(sender="alice", recipient="bob", subject="good")["id"]
        path = place / f"spool/agents/bob/new/{ID}.json"
        path.write_bytes(message())
        path.chmod(0)
        try:
            path.read_bytes()
        except PermissionError:
            control = True
        else:
            control = False  # whoever may read it cannot be shown to cope
        seen = spool.watch("bob", once=True)
        with spool.read("bob") as batch:
            shown, warned, after_read = [m["id"] for m in batch.messages], batch.warnings, batch.answer["next"]
        acked = spool.ack("bob", everything=True)
        again = spool.ack("bob", everything=True)
        return {"control": control, "seen": [m["id"] for m in seen["messages"]] == [good], "shown": shown == [good],
                "codes": [w["code"] for w in warned], "after_read": after_read, "acked": acked["message_ids"] == [good],
                "next": [acked["next"], again["next"]], "stays": path.exists(),
                "failed": os.listdir(place / "spool/agents/bob/failed")}  # fmt: skip

    assert unprivileged(act) == {
        "control": True, "seen": True, "shown": True, "codes": [NOT_A],
        "after_read": ["agent-mail ack bob --all", "agent-mail watch bob"], "acked": True,
        "next": [["agent-mail watch bob"]] * 2, "stays": True, "failed": [],
    }  # fmt: skip


def test_a_committed_draft_that_cannot_be_read_is_kept_until_it_can(unprivileged):
    """Its sender died before the delivery; nobody has found that it is not committed."""

    def act(place: Path) -> object:
        spool = Spool(place / "spool", durability="none")
        sent = spool.send(sender="alice", recipient="bob", subject="s")["id"]
        draft = place / f"spool/agents/bob/tmp/{sent}.json"
        os.rename(place / f"spool/agents/bob/new/{sent}.json", draft)
        os.utime(draft, (1, 1))
        draft.chmod(0)
        spool.watch("bob", once=True)
        control, kept = not os.access(draft, os.R_OK, effective_ids=True), os.listdir(draft.parent) == [draft.name]
        os.chmod(place / f"spool/messages/{day_of(sent)}/{sent}.json", 0o600)
        with spool.read("bob") as batch:
            return {"control": control, "kept": kept, "shown": [m["id"] for m in batch.messages] == [sent]}

    assert unprivileged(act) == {"control": True, "kept": True, "shown": True}


def test_a_mailbox_that_may_not_be_written_is_shown_and_says_why_it_was_not_marked(unprivileged):
    def act(place: Path) -> object:
        spool = Spool(place / "spool", durability="none")
        spool.send(sender="alice", recipient="bob", subject="good")
        new = place / "spool/agents/bob/new"
        new.chmod(0o500)
        try:
            with spool.read("bob") as batch:
                count = len(batch.messages)
            return {"count": count, "trouble": batch.trouble and batch.trouble.code, "left": len(os.listdir(new))}
        finally:
            new.chmod(0o700)

    assert unprivileged(act) == {"count": 1, "trouble": "read_only", "left": 1}
