"""The checker finds what it is for: each of these breaks a good spool in one way, and it has to be said."""

import json
import os
import shutil
from pathlib import Path

import pytest

from crash.invariants import Place, Reported, check_spool
from crash.scenarios import drop, sent, written
from crash.sweep import BODY, take
from maildir_agents.testing import temporary_spool


@pytest.fixture
def spool():
    """A question that was read, its answer, a broadcast, a message under a key, and a dead letter."""
    with temporary_spool() as made:
        question = sent(made, "the question")
        take(made, "b")
        sent(made, "the answer", sender="b", recipient="a", reply_to=question, acknowledge=False)
        sent(made, "to all", recipient="*")
        made.known = {"question": question, "keyed": sent(made, "keyed", dedup_key="k")}
        drop(made, "b", "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02", b"torn")
        take(made, "b")
        made.known["unread"] = sent(made, "unread")
        yield made


def one(spool, pattern: str) -> Path:
    """The file or directory that a pattern names."""
    found = sorted(Path(spool.root).glob(pattern))
    assert found, pattern
    return found[0]


def test_a_good_spool_is_good(spool):
    assert check_spool(spool.root, finished=True) == []


def write(path: Path, text: str = "{}", mode: int = 0o600) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        file.write(text)


def unread(spool) -> Path:
    return one(spool, f"agents/b/new/{spool.known['unread']}.json")


def a_draft(spool):
    shutil.copy2(unread(spool), one(spool, "agents/b/tmp") / "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f09.json")


def two_states(spool):
    name = f"{spool.known['unread']}~r20261130T184712.123Z.json"
    os.link(unread(spool), one(spool, "agents/b/cur") / name)


def no_anchor(spool):
    one(spool, f"messages/*/{spool.known['unread']}.json").unlink()


def an_anchor_alone(spool):
    unread(spool).unlink()


def another_anchor(spool):
    path = one(spool, f"messages/*/{spool.known['unread']}.json")
    path.unlink()
    shutil.copy2(unread(spool), path)


def torn(spool):
    write(unread(spool), '{"id": ')


def equal_keys(spool):
    write(unread(spool), unread(spool).read_text(encoding="utf-8").replace('{"id"', '{"body":"x","id"', 1))


def another_id(spool):
    content = json.loads(unread(spool).read_text(encoding="utf-8"))
    write(unread(spool), json.dumps(content | {"id": spool.known["question"]}))


def another_mailbox(spool):
    shutil.move(unread(spool), one(spool, "agents/a/new"))


def another_minute(spool):
    spool.ack("b", [spool.known["unread"]])
    path = one(spool, f"agents/b/acked/*/*/{spool.known['unread']}*")
    (path.parent.parent / "0001").mkdir(0o700)
    shutil.move(path, path.parent.parent / "0001")


def a_stamp_of_another_state(spool):
    unread(spool).rename(unread(spool).with_name(f"{spool.known['unread']}~r20261130T184712.123Z.json"))


def a_stamp_that_is_none(spool):
    unread(spool).rename(unread(spool).with_name(f"{spool.known['unread']}~n07.json"))


def stamps_in_another_order(spool):
    unread(spool).rename(unread(spool).with_name(f"{spool.known['unread']}~q1~n1.json"))


def no_thread(spool):
    one(spool, "threads/*/*").unlink()


def no_key(spool):
    one(spool, "dedup/*/*.json").unlink()


def a_key_alone(spool):
    path = one(spool, "dedup/*/*.json")
    data = path.read_bytes()
    path.unlink()
    write(path, data.decode())


def another_key(spool):
    path = one(spool, "dedup/*/*.json")
    path.rename(path.with_name(f"{path.name[:2]}{'0' * 62}.json"))


def no_body(spool):
    one(spool, "broadcast/*.json").unlink()


def a_dot_file(spool):
    write(one(spool, "broadcast") / ".01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02.json")


def a_todo(spool):
    (one(spool, "broadcast") / "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02.todo").mkdir(0o700)


def no_reason(spool):
    one(spool, "agents/b/failed/*.reason.json").unlink()


def a_lone_reason(spool):
    one(spool, "agents/b/failed/01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02.json").unlink()


def trash(spool):
    write(one(spool, "trash") / "x")


def a_probe(spool):
    write(Path(spool.root) / ".probe")


def a_stray_file(spool):
    write(Path(spool.root) / "notes.txt")


def a_stray_name(spool):
    write(one(spool, "agents/b/new") / "hello.json")


def a_hidden_watch(spool):
    (one(spool, "agents/b") / "watch").mkdir(0o700)
    write(one(spool, "agents/b/watch") / f".{'0' * 32}")


def half_a_mailbox(spool):
    (one(spool, "agents") / ".c").mkdir(0o700)


def no_directory(spool):
    one(spool, "agents/a/claimed").rmdir()


def half_of_the_ballast(spool):
    os.truncate(one(spool, "ballast/07"), 100)


def no_ballast(spool):
    one(spool, "ballast/15").unlink()


def damaged_settings(spool):
    write(Path(spool.root) / "spool.json", "{")


def a_name_outside(spool):
    os.link(unread(spool), f"{spool.root}.elsewhere")


def open_to_others(spool):
    unread(spool).chmod(0o644)


def a_directory_open_to_others(spool):
    one(spool, "agents/b/new").chmod(0o755)


def a_symbolic_link(spool):
    (one(spool, "agents/b/new") / "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f09.json").symlink_to(unread(spool))


WAYS = {
    a_draft: "a draft was left",
    two_states: "in several states",
    no_anchor: "without its anchor",
    an_anchor_alone: "lost: ",
    another_anchor: "without its anchor",
    torn: "no message",
    equal_keys: "a key stands there twice",
    another_id: "says it is",
    another_mailbox: "is for b",
    another_minute: "in the wrong directory",
    a_stamp_of_another_state: "does not belong into new/",
    a_stamp_that_is_none: "stamp n07",
    stamps_in_another_order: "in another order",
    no_thread: "a thread without its root",
    no_key: "without its key",
    a_key_alone: "a key without its message",
    another_key: "is not the key of its message",
    no_body: "without its body",
    a_dot_file: "stray: broadcast/.",
    a_todo: "copies still owed",
    no_reason: "a dead letter without its reason",
    a_lone_reason: "a reason without its dead letter",
    trash: "an unfinished removal",
    a_probe: "stray: .probe",
    a_stray_file: "stray: notes.txt",
    a_stray_name: "stray: agents/b/new/hello.json",
    a_hidden_watch: "stray: agents/b/watch/.",
    half_a_mailbox: "a mailbox half made",
    no_directory: "missing: agents/a/claimed",
    half_of_the_ballast: "ballast/07 has 100 bytes",
    no_ballast: "ballast missing",
    damaged_settings: "damaged: spool.json",
    a_name_outside: "links, but",
    open_to_others: "mode 644",
    a_directory_open_to_others: "mode 755",
    a_symbolic_link: "no regular file",
}


@pytest.mark.parametrize("spoil", WAYS, ids=lambda spoil: spoil.__name__)
def test_it_is_said(spool, spoil):
    spoil(spool)
    wrong = check_spool(spool.root, finished=True)
    assert any(WAYS[spoil] in sentence for sentence in wrong), wrong


def test_what_is_not_finished_is_said_only_of_a_finished_spool(spool):
    half_a_mailbox(spool)
    no_ballast(spool)
    assert check_spool(spool.root) == []
    a_lone_reason(spool)
    assert check_spool(spool.root, reasons=1) == []
    a_dot_file(spool)
    assert check_spool(spool.root, reasons=1, drafts=True) == []


def test_what_was_said_is_held_against_what_is_there(spool):
    message_id = spool.known["unread"]
    reported = Reported()
    reported.present["b", message_id] = {"new"}
    reported.once["unread"] = {"b"}
    reported.at_most_once.add("unread")
    reported.bodies["unread"] = BODY
    reported.unsent.add("never said")
    reported.gone.add(("b", "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f0f"))
    assert check_spool(spool.root, reported=reported) == []


@pytest.mark.parametrize(
    ("tell", "sentence"),
    [
        (lambda said, i: said.present.update({("b", i): {"acked"}}), "told of"),
        (lambda said, i: said.present.update({("a", i): {"new"}}), "it is in nothing"),
        (lambda said, i: said.gone.add(("b", i)), "is gone"),
        (lambda said, i: said.unsent.add("unread"), "said not to be sent"),
        (lambda said, i: said.once.update({"unread": {"a", "b"}}), "is with ['b']"),
        (lambda said, i: said.once.update({"nothing": {"b"}}), "is with []"),
        (lambda said, i: said.bodies.update({"unread": "another"}), "another text"),
    ],
)
def test_a_report_that_is_not_true_is_said(spool, tell, sentence):
    reported = Reported()
    tell(reported, spool.known["unread"])
    wrong = check_spool(spool.root, reported=reported)
    assert any(sentence in line for line in wrong), wrong


def test_a_message_that_came_twice_under_two_ids_is_said(spool):
    reported = Reported()
    reported.at_most_once.add("unread")
    sent(spool, "unread")
    assert check_spool(spool.root, reported=reported) == ["b has 'unread' 2 times"]


def test_a_caller_may_ask_for_more(spool):
    def also(found: list[Place]) -> list[str]:
        return [place.subject for place in found if place == Place("b", "new", spool.known["unread"], "unread")]

    assert check_spool(spool.root, also=also) == ["unread"]


def test_it_looks_without_the_package_and_changes_nothing(spool):
    drop(spool, "b", "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f07", written("x", "a", "b", "s"))
    before = {path: path.stat() for path in Path(spool.root).rglob("*")}
    check_spool(spool.root)
    after = {path: path.stat() for path in Path(spool.root).rglob("*")}
    assert {path: (s.st_ino, s.st_mtime_ns, s.st_mode) for path, s in before.items()} == {
        path: (s.st_ino, s.st_mtime_ns, s.st_mode) for path, s in after.items()
    }
    source = Path(__file__).with_name("invariants.py").read_text(encoding="utf-8")
    assert "maildir_agents" not in source
