"""The tools finish what another implementation's process left half done: a turn, a broadcast; and new mailboxes."""

import shutil
import subprocess

import pytest

from maildir_agents import Spool


@pytest.fixture
def tool(quick, repository, needs):
    needs("dash", "the shell tools run under it")

    def run(name: str, *words: str) -> str:
        path = str(repository / f"tools/spool-{name}")
        done = subprocess.run(["dash", path, *words], env=quick.environ, capture_output=True, check=False, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_turn_committed_by_its_key_alone_gets_its_entry_and_its_anchor(quick, tool):
    spool, root = Spool(quick.spool), quick.spool
    begun = spool.start_conversation(sender="alice", recipient="bob", goal="g", dedup_key="k")
    message = begun["message_id"]
    draft = root / f"agents/bob/tmp/{message}.json"
    (root / f"agents/bob/new/{message}.json").rename(draft)
    [anchor] = root.glob(f"messages/*/{message}.json")
    entry = root / f"conversations/{begun['conversation_id']}/journal/0000.json"
    anchor.unlink()
    entry.unlink()
    [key] = root.glob("dedup/*/*.json")
    assert key.samefile(draft)
    assert f"/claimed/{message}~n1~" in tool("claim", "bob")
    assert not draft.exists()
    assert anchor.samefile(key)
    assert entry.samefile(key)
    assert spool.doctor()["findings"] == []


def test_a_copy_of_a_broadcast_that_is_still_owed_is_taken(quick, tool):
    spool, root = Spool(quick.spool), quick.spool
    with spool.read("bob"):
        pass
    message = spool.send(sender="alice", recipient="*", subject="all")["id"]
    (root / f"broadcast/{message}.todo").mkdir()
    (root / f"agents/bob/new/{message}.json").rename(root / f"broadcast/{message}.todo/bob.json")
    assert f"/claimed/{message}~n1~" in tool("claim", "bob")
    assert [path.name for path in (root / "broadcast").iterdir()] == [f"{message}.json"]
    assert spool.doctor()["findings"] == []


@pytest.mark.needs("flock", "making a mailbox")
def test_a_mailbox_that_is_made_later_comes_with_the_last_broadcasts_but_not_its_own(quick, tool):
    spool = Spool(quick.spool)
    message = spool.send(sender="alice", recipient="*", subject="all")["id"]
    tool("send", "--from", "carol", "--to", "alice", "--subject", "hello")
    assert tool("ls", "carol").endswith(f"/agents/carol/new/{message}.json\n")
    assert message not in tool("ls", "alice")
    assert spool.doctor()["findings"] == []


@pytest.mark.needs("flock", "making a mailbox")
def test_a_part_of_a_mailbox_is_completed_and_given_the_broadcasts_it_has_not(quick, tool):
    spool = Spool(quick.spool)
    first = spool.send(sender="alice", recipient="*", subject="all")["id"]
    spool.disk.make_dir(f"{spool.box('carol')}/watch")
    tool("send", "--from", "carol", "--to", "alice", "--subject", "hello")
    assert tool("ls", "carol").endswith(f"/agents/carol/new/{first}.json\n")
    tool("read", "carol")
    second = spool.send(sender="alice", recipient="*", subject="all")["id"]
    shutil.rmtree(f"{spool.box('carol')}/new")
    tool("send", "--from", "carol", "--to", "alice", "--subject", "hello")
    assert [path.name for path in (quick.spool / "agents/carol/new").iterdir()] == [f"{second}.json"]
    assert not (quick.spool / "agents/.carol").exists()
    assert spool.doctor()["findings"] == []


@pytest.mark.needs("flock", "making a mailbox")
def test_who_answers_a_broadcast_before_having_a_mailbox_answers_that_one(quick, tool):
    spool = Spool(quick.spool)
    first = spool.send(sender="alice", recipient="*", subject="first")["id"]
    spool.send(sender="alice", recipient="*", subject="second")
    answer = tool("send", "--from", "carol", "--to", "alice", "--subject", "hello", "--reply-to", first).strip()
    with spool.read("alice", mark=False) as batch:
        [told] = batch.messages
    assert (told["id"], told["reply_to"], told["thread_id"]) == (answer, first, first)
    assert [path.name[:36] for path in (quick.spool / "agents/carol/acked").rglob("*.json")] == [first]


def test_a_foreign_file_among_the_conversations_lets_nobody_acknowledge_a_turn(quick, tool, repository):
    begun = Spool(quick.spool).start_conversation(sender="alice", recipient="bob", goal="g")
    (quick.spool / "conversations/000").touch()
    path = str(repository / "tools/spool-ack")
    done = subprocess.run(
        ["dash", path, "--as", "bob", begun["message_id"]],
        env=quick.environ,
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, "not_in_flight" in done.stderr) == (77, True)
    assert tool("ls", "bob").endswith(f"/agents/bob/new/{begun['message_id']}.json\n")


def test_a_broadcast_that_is_not_in_a_mailbox_is_not_said_to_be_on_its_way(quick, repository, needs):
    needs("dash", "the shell tools run under it")
    spool = Spool(quick.spool)
    with spool.read("alice"):
        message = spool.send(sender="alice", recipient="*", subject="all")["id"]
    path = str(repository / "tools/spool-ack")
    done = subprocess.run(
        ["dash", path, "--as", "alice", message], env=quick.environ, capture_output=True, check=False, text=True
    )
    assert (done.returncode, "unknown_id" in done.stderr) == (66, True)
