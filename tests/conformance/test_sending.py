"""What a send leaves on disk, whoever sends; and that one implementation finishes what another began."""

import hashlib
import json
from pathlib import Path

import pytest

from conformance.conftest import KNOWN
from conformance.disk import Mailbox
from maildir_agents import Spool

ORDER = ["id", "sender", "recipient", "subject", "kind", "reply_to", "thread_id", "conversation_id", "turn", "hops",
         "response_deadline", "dedup_key", "refs", "headers", "created", "body"]  # fmt: skip
TEXTS = [
    "",
    "\n",
    "two\nlines\n\n",
    "\ttab\r\n",
    'quotes " and \\ backslashes \\n',
    "漢字 🙂 é",
    "%s $HOME `x` $(x)",
    "-n",
]


@pytest.mark.parametrize("body", TEXTS)
def test_a_message_is_written_as_writers_do_and_has_its_anchor(each, body):
    sent = each("send", sender="alice", recipient="bob", subject='a "subject" é', body=body)["id"]
    box = Mailbox(each.spool, "bob")
    state, stamps = box.one(sent)
    assert (state, stamps) == ("new", {})
    assert box.file(sent).samefile(box.anchor(sent))
    assert box.file(sent).stat().st_mode & 0o777 == 0o600
    data = box.file(sent).read_bytes()
    message = json.loads(data)
    assert list(message) == ORDER
    assert data == json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    assert (message["subject"], message["body"]) == ('a "subject" é', body)


def test_a_key_names_the_message_and_is_sent_once(each):
    first = each("send", sender="alice", recipient="bob", subject="s", dedup_key="a ключ")["id"]
    assert each("send", sender="alice", recipient="bob", subject="s", dedup_key="a ключ")["id"] == first
    box = Mailbox(each.spool, "bob")
    digest = hashlib.sha256(b"5:alice,%d:%s," % (len("a ключ".encode()), "a ключ".encode())).hexdigest()
    assert (each.spool / f"dedup/{digest[:2]}/{digest}.json").samefile(box.file(first))
    assert box.one(first)[0] == "new"


def test_a_reply_joins_the_thread_and_then_acknowledges(each):
    task = each("send", sender="alice", recipient="bob", subject="task")["id"]
    done = each("send", sender="bob", recipient="alice", subject="re", reply_to=task)["id"]
    more = each("send", sender="alice", recipient="bob", subject="re", reply_to=done)["id"]
    names = {path.stem for path in (each.spool / "threads" / task).iterdir()}
    assert names == {task, done, more}
    message = json.loads(Mailbox(each.spool, "bob").file(more).read_bytes())
    assert (message["reply_to"], message["thread_id"]) == (done, task)
    assert Mailbox(each.spool, "bob").one(task)[0] == Mailbox(each.spool, "alice").one(done)[0] == "acked"


SENDERS = [name for name in KNOWN if name not in ("tools-busybox", "tools-bash")]


@pytest.fixture(scope="module")
def all_of_them(make, tmp_path_factory):
    """Every implementation on one spool."""
    place = tmp_path_factory.mktemp("together")
    Spool(place / "spool", durability="none").init()
    (place / "mcp").mkdir()
    made = {name: make(name, place / "spool", place / "mcp") for name in SENDERS}
    yield made
    for implementation in made.values():
        implementation.close()


@pytest.mark.needs("dash", "the shell tools run under it")
@pytest.mark.parametrize("one", SENDERS)
@pytest.mark.parametrize("other", SENDERS)
def test_what_one_sent_another_claims_and_settles(all_of_them, one, other):
    sends, works = all_of_them[one], all_of_them[other]
    key = f"{one} {other}"
    sent = sends("send", sender="alice", recipient="bob", subject=key, dedup_key=key)["id"]
    assert works("send", sender="alice", recipient="bob", subject=key, dedup_key=key)["id"] == sent
    handle = works("claim", agent="bob", id=sent)["handle"]
    assert handle == f"{sent}~n1"
    if "look" not in sends.verbs:
        works("release", agent="bob", handle=handle)
        assert sends("claim", agent="bob", id=sent)["handle"] == f"{sent}~n2"
        assert sends("ack", agent="bob", ids=[f"{sent}~n2"])["ids"] == [sent]
    else:
        assert works("ack", agent="bob", ids=[handle])["ids"] == [sent]
    assert Mailbox(sends.spool, "bob").one(sent)[0] == "acked"


def test_doctor_has_nothing_to_say_about_what_they_left_together(all_of_them):
    spool: Path = all_of_them["python"].spool
    assert Spool(spool, durability="none").doctor()["findings"] == []
