"""doctor on damaged spools: it finds each damage, changes nothing unless asked to, mends it or says that it cannot, and
has nothing to do the second time.  Nothing is delivered twice, and nothing is lost that is not beyond mending."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from crash.sweep import clone
from fleet.fleet import A_MINUTE, DAY, Fleet, counted, memory, names_of, read
from fleet.test_cleanup import tree
from maildir_agents.errors import MailError
from maildir_agents.mail.conservation import Conservation
from maildir_agents.mail.deadletter import fail
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import is_id
from maildir_agents.testing import FailingDisk, Killed, MovableClock, TemporarySpool

STRANGE_ID = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"
BOXES = ("tmp", "new", "cur", "claimed", "acked", "archive", "failed")


class Spool(TemporarySpool):
    """A spool with something in every state, and names for it."""

    ids: dict[str, str]

    def path(self, what: str, agent: str = "bob", state: str | None = None) -> str:
        """The one name of a message in a mailbox's states."""
        [found] = [path for path in self.paths(what, agent) if state is None or f"/{agent}/{state}/" in path]
        return found

    def paths(self, what: str, agent: str = "bob") -> list[str]:
        return [str(path) for path in Path(self.box(agent)).rglob(f"{self.named[what]}*") if "reason" not in path.name]

    def anchor_of(self, what: str) -> str:
        return self.anchor(self.named[what])

    def key_of(self, what: str) -> str:
        [found] = [
            str(path)
            for path in Path(self.root, "dedup").rglob("*.json")
            if os.path.samefile(path, self.anchor_of(what))
        ]
        return found

    def thread_of(self, what: str, root: str = "question") -> str:
        return self.thread_name(self.named[root], self.named[what])


def populate(spool: Spool) -> dict[str, str]:
    """The life of three agents so far: {what: id}."""

    def sent(subject: str, sender: str = "ann", recipient: str = "bob", **more) -> str:
        return spool.send(sender=sender, recipient=recipient, subject=subject, body="b", **more)["id"]

    for agent in ("ann", "bob", "cat"):
        read(spool, agent)
    named = {"acked": sent("acked", dedup_key="k"), "archived": sent("archived"), "failed": sent("failed")}
    spool.ack("bob", [named["acked"]])
    spool.archive("bob", [named["archived"]])
    box = Mailbox(spool, "bob")
    fail(box, box.find(named["failed"]), "worker_failed", "it could not be worked on")
    named["question"] = sent("question")
    named["read"] = sent("read")
    read(spool, "bob")
    named["answer"] = sent("answer", "bob", "ann", reply_to=named["question"], dedup_key="answer")
    named["claimed"] = sent("claimed")
    spool.claim("bob", named["claimed"], lease_s=3600)
    named["unread"] = sent("unread")
    named["to all"] = sent("to all", recipient="*", dedup_key="all")
    spool.ack("cat", [named["to all"]])
    return named


@pytest.fixture(scope="module")
def template():
    with memory() as place:
        spool = Spool(place / "spool", disk=FailingDisk(), clock=MovableClock(), durability="full")
        yield spool.root, populate(spool)


@pytest.fixture
def spool(template):
    source, named = template
    with memory() as place:
        clone(source, f"{place}/spool")
        opened = Spool(f"{place}/spool", disk=FailingDisk(), clock=MovableClock(), durability="full")
        opened.named = named
        yield opened


def everything(spool: Spool) -> Counter[tuple[str, str]]:
    """(agent, id) of each name of a message in a state; a repaired or damaged message counts under its file's id."""
    return Counter(
        (agent, name[:36])
        for agent in os.listdir(spool.agents)
        for _, name in names_of(spool.box(agent))
        if is_id(name[:36])
    )


def codes(answer: dict) -> set[str]:
    return {finding["code"] for finding in answer["findings"]}


# ------------------------------------------------------------------------------------------------ damages


def unlink(*paths: str) -> None:
    for path in paths:
        os.unlink(path)


def write(path: str, data: bytes = b"?", mode: int = 0o600) -> str:
    with open(path, "xb") as file:
        os.chmod(path, mode)
        file.write(data)
    return path


def flip(path: str) -> None:
    with open(path, "r+b") as file:
        file.seek(5)
        file.write(b"\xff")


def state_name(what: str) -> Callable[[Spool], None]:
    return lambda spool: unlink(spool.path(what))


def anchor(what: str) -> Callable[[Spool], None]:
    return lambda spool: unlink(spool.anchor_of(what))


def both_but_the_thread(spool: Spool) -> None:
    unlink(spool.key_of("answer"), spool.path("answer", "ann"), spool.anchor_of("answer"))


def both_but_the_key(spool: Spool) -> None:
    unlink(spool.path("acked"), spool.anchor_of("acked"))


def second_name_same_inode(spool: Spool) -> None:
    os.link(spool.path("read"), spool.box("bob") + f"/new/{spool.named['read']}.json")


def second_name_of_a_dead_letter(spool: Spool) -> None:
    os.link(spool.path("failed"), spool.box("bob") + f"/new/{spool.named['failed']}.json")


def second_name_same_bytes(spool: Spool) -> None:
    shutil.copy2(spool.path("acked"), spool.box("bob") + f"/new/{spool.named['acked']}.json")


def second_name_other_bytes(spool: Spool) -> None:
    data = Path(spool.path("acked")).read_bytes().replace(b'"acked"', b'"other"')
    write(spool.box("bob") + f"/cur/{spool.named['acked']}~r20261130T184712.123Z.json", data)


def second_name_of_a_live_claim(spool: Spool) -> None:
    settled = spool.settled("bob", "acked", spool.named["claimed"])
    os.makedirs(settled, 0o700, exist_ok=True)
    name = f"{spool.named['claimed']}~r20261130T184712.123Z~n1~a20261130T184712.123Z.json"
    os.link(spool.path("claimed"), f"{settled}/{name}")


def draft(committed: str | None, aside: bool = False, age: float = 120) -> Callable[[Spool], None]:
    """A sender that died: before its commit, or after it was committed by its anchor or its key."""

    def damage(spool: Spool) -> None:
        disk, met = FailingDisk(), []

        def before(number, name, path):
            if name == "link" and not met:
                met.append(path)
            if met and (committed is None or os.path.lexists(met[0])):
                disk.kill_at = disk.kill_at or number

        disk.before = before
        with pytest.raises(Killed):
            spool.another(disk).send(
                sender="ann",
                recipient="bob",
                subject="half way",
                body="b",
                dedup_key="half" if committed == "key" else None,
            )
        [name] = os.listdir(spool.box("bob") + "/tmp")
        spool.named["half way"] = name[:36]
        path = spool.box("bob") + f"/tmp/{name}"
        old = os.stat(path).st_mtime - age
        os.utime(path, (old, old))
        if aside:
            os.rename(path, spool.box("bob") + f"/tmp/{name[:36]}~gc.json")

    return damage


def restored(spool: Spool) -> None:
    """cp -r: every name is a file of its own."""
    os.rename(spool.root, f"{spool.root}-before")
    shutil.copytree(f"{spool.root}-before", spool.root, symlinks=True)
    shutil.rmtree(f"{spool.root}-before")


def restored_with_a_damaged_anchor(spool: Spool) -> None:
    restored(spool)
    flip(spool.anchor_of("unread"))


def modes(*chosen: tuple[str, int]) -> Callable[[Spool], None]:
    def damage(spool: Spool) -> None:
        for path, mode in chosen:
            os.chmod(os.path.join(spool.root, path), mode)

    return damage


def mode_of(what: str, mode: int) -> Callable[[Spool], None]:
    return lambda spool: os.chmod(spool.path(what), mode)


def inner_directories(spool: Spool) -> None:
    for path in (
        os.path.dirname(spool.anchor_of("acked")),
        os.path.dirname(spool.path("acked")),
        os.path.dirname(spool.key_of("acked")),
        spool.thread_directory(spool.named["question"]),
    ):
        os.chmod(path, 0o755)


def flipped(what: str, agent: str = "bob") -> Callable[[Spool], None]:
    return lambda spool: flip(spool.path(what, agent))


def only_a_damaged_anchor(spool: Spool) -> None:
    unlink(spool.path("unread"))
    flip(spool.anchor_of("unread"))


def lying(what: str) -> Callable[[Spool], None]:
    """Somebody gave the file another message's name."""

    def damage(spool: Spool) -> None:
        path = spool.path(what)
        os.rename(path, path.replace(spool.named[what], spool.named[what][:-4] + "0000"))

    return damage


def lying_key(spool: Spool) -> None:
    path = spool.key_of("acked")
    unlink(path)
    os.link(spool.anchor_of("unread"), path)


def lying_thread(spool: Spool) -> None:
    os.link(spool.anchor_of("unread"), spool.thread_name(spool.named["question"], STRANGE_ID))


def lying_thread_of_a_stranger(spool: Spool) -> None:
    """Its file is the only one of a message that is nowhere else."""
    data = Path(spool.anchor_of("unread")).read_bytes().replace(spool.named["unread"].encode(), STRANGE_ID.encode())
    write(spool.thread_name(spool.named["question"], spool.named["unread"]), data)


def wrong_minute(spool: Spool) -> None:
    path = Path(spool.path("acked"))
    other = path.parent.parent / ("0000" if path.parent.name != "0000" else "0001")
    os.mkdir(other, 0o700)
    os.rename(path, other / path.name)


def wrong_day(spool: Spool) -> None:
    os.mkdir(f"{spool.root}/messages/2020-01-01", 0o700)
    os.rename(spool.anchor_of("unread"), f"{spool.root}/messages/2020-01-01/{spool.named['unread']}.json")


def foreign_everywhere(spool: Spool) -> None:
    for directory, _, _ in list(os.walk(spool.root)):
        for name in ("NOTES", ".hidden", "saved~", f"{STRANGE_ID}~Z1.json"):
            write(f"{directory}/{name}")


def special(kind: str) -> Callable[[Spool], None]:
    def damage(spool: Spool) -> None:
        for number, place in enumerate(BOXES):
            directory = spool.box("bob") + f"/{place}"
            if place in ("acked", "archive"):
                directory = spool.settled("bob", place, STRANGE_ID)
                os.makedirs(directory, 0o700)
                os.chmod(os.path.dirname(directory), 0o700)
            path = f"{directory}/{STRANGE_ID[:-1]}{number}.json"
            if kind == "fifo":
                os.mkfifo(path, 0o600)
            elif kind == "symlink":
                os.symlink(spool.anchor_of("unread"), path)
            elif kind == "directory":
                os.mkdir(path, 0o700)
            else:
                with socket.socket(socket.AF_UNIX) as made:
                    made.bind(f"{spool.root}/../s")
                os.rename(f"{spool.root}/../s", path)

    return damage


def lone_reason(spool: Spool) -> None:
    unlink(spool.path("failed"))
    path = spool.box("bob") + f"/failed/{STRANGE_ID}.reason.json"
    os.rename(spool.box("bob") + f"/failed/{spool.named['failed']}.reason.json", path)
    os.utime(path, (1, 1))
    os.link(spool.anchor_of("failed"), spool.box("bob") + f"/cur/{spool.named['failed']}~r20261130T184712.123Z.json")


def half_made(spool: Spool) -> None:
    os.makedirs(f"{spool.agents}/.zed/new", 0o700)
    os.chmod(f"{spool.agents}/.zed", 0o700)


def without(*paths: str) -> Callable[[Spool], None]:
    def damage(spool: Spool) -> None:
        for path in paths:
            whole = os.path.join(spool.root, path)
            (shutil.rmtree if os.path.isdir(whole) else os.unlink)(whole)

    return damage


def half_a_ballast(spool: Spool) -> None:
    os.unlink(spool.ballast(3))
    write(spool.ballast(3))


def dead_watch(spool: Spool) -> None:
    os.mkdir(spool.box("bob") + "/watch", 0o700)
    write(spool.box("bob") + f"/watch/{'0123456789abcdef' * 2}.lock", b"")


def removal(spool: Spool) -> None:
    """A purge that was killed right after it took the dead letter away."""
    disk = FailingDisk()

    def before(number, name, path):
        if "/messages/" in path:
            disk.kill_at = disk.kill_at or number

    disk.before = before
    with pytest.raises(Killed):
        spool.another(disk).failed_purge("bob", spool.named["failed"])
    assert len(os.listdir(f"{spool.root}/trash")) == 1


def thread_index(spool: Spool) -> None:
    shutil.rmtree(spool.thread_directory(spool.named["question"]))


def thread_root(spool: Spool) -> None:
    unlink(spool.thread_of("question"))


def owed_to_nobody_known(spool: Spool) -> None:
    todo = f"{spool.root}/broadcast/{spool.named['to all']}.todo"
    os.mkdir(todo, 0o700)
    os.link(f"{spool.root}/broadcast/{spool.named['to all']}.json", f"{todo}/zed.json")


def foreign_in_a_todo(spool: Spool) -> None:
    owed_to_nobody_known(spool)
    write(f"{spool.root}/broadcast/{spool.named['to all']}.todo/README")


def body(spool: Spool) -> None:
    unlink(f"{spool.root}/broadcast/{spool.named['to all']}.json")


def mailbox(spool: Spool) -> None:
    shutil.rmtree(spool.box("bob"))


def file_for_a_mailbox(spool: Spool) -> None:
    write(f"{spool.agents}/zed")
    os.mkdir(f"{spool.agents}/UPPER", 0o700)


def litter(spool: Spool) -> None:
    """What died aside: a draft of a history, of an anchor being linked anew, of the probe."""
    for path in (
        spool.box("bob") + "/.history.jsonl",
        f"{spool.root}/.probe",
        os.path.dirname(spool.anchor_of("unread")) + f"/.{spool.named['unread']}.json",
    ):
        os.utime(write(path), (1, 1))


def config(text: str) -> Callable[[Spool], None]:
    def damage(spool: Spool) -> None:
        with open(f"{spool.root}/config.json", "w", encoding="utf-8") as file:
            file.write(text)

    return damage


def dead_letter_without_its_reason(spool: Spool) -> None:
    unlink(spool.path("failed").removesuffix(".json") + ".reason.json")


def talk(spool: Spool, completed: bool = False) -> str:
    """Let two agents talk; the directory of their conversation."""
    told = spool.start_conversation(sender="ann", recipient="bob", goal="a goal")
    answer = spool.send(sender="bob", recipient="ann", subject="s", kind="result", reply_to=told["message_id"])
    spool.named |= {"turn 1": told["message_id"], "turn 2": answer["id"]}
    if completed:
        spool.end_conversation(told["conversation_id"], "complete", "ann")
    return f"{spool.root}/conversations/{told['conversation_id']}"


def in_a_dialogue(damage: Callable[[Spool, str], object], completed: bool = False) -> Callable[[Spool], None]:
    return lambda spool: damage(spool, talk(spool, completed)) and None


def old_control_draft(spool: Spool, here: str) -> None:
    os.utime(write(f"{here}/tmp/{STRANGE_ID}.json", b"{}"), (1, 1))


def state_of_before(spool: Spool, here: str) -> None:
    with open(f"{here}/state.json", "r+", encoding="utf-8") as file:
        told = json.load(file) | {"turn_count": 1}
        file.seek(0)
        json.dump(told, file)
        file.truncate()


def nothing_in_the_journal(spool: Spool) -> None:
    told = spool.start_conversation(sender="ann", recipient="bob", goal="a goal")
    spool.named["turn 1"] = told["message_id"]
    shutil.rmtree(f"{spool.root}/conversations/{told['conversation_id']}/journal")


def edited(spool: Spool, path: str, **members: object) -> None:
    """Another file in the place of an entry, well-formed as it was."""
    with open(path, encoding="utf-8") as file:
        told = json.load(file) | members
    unlink(path)
    write(path, json.dumps(told).encode())


def turn_known_to_the_journal_alone(spool: Spool, here: str) -> None:
    unlink(spool.path("turn 2", "ann"), spool.anchor_of("turn 2"), spool.thread_of("turn 2", "turn 1"))


def foreign_in_a_conversation(spool: Spool, here: str) -> None:
    for name in ("notes", "journal/notes", "tmp/notes"):
        write(f"{here}/{name}")


class Row:
    """A damage and what is to become of it.

    `codes` are what plain doctor finds.  `mended`: --fix mends all of it.  `whole`: the spool is right in every other
    respect afterwards, too.  `gone`: messages that are in no state any more; `new`: that are in new/ again.
    """

    def __init__(self, damage, codes: str, *, mended=True, whole=None, gone=(), new=(), came=(), later=0.0) -> None:
        self.damage, self.codes, self.mended = damage, set(codes.split()), mended
        self.whole = mended if whole is None else whole
        self.gone, self.new, self.came, self.later = set(gone), set(new), set(came), later


TALK = [("bob", "turn 1"), ("ann", "turn 2")]
ROWS = {
    "a torn config.json": Row(config("{"), "bad_config", mended=False),
    "a config.json that says nothing one can start": Row(
        config('{"auto": {"bob": {"command": "sh"}}, "retention_days": "some"}'), "bad_config", mended=False
    ),
    "a dead letter without its reason": Row(dead_letter_without_its_reason, "no_reason"),
    "a turn that is damaged": Row(
        in_a_dialogue(lambda spool, here: flip(f"{here}/journal/0001.json")),
        "damaged",
        mended=False,
        came=TALK,
        later=3,
    ),
    "a control entry that is damaged": Row(
        in_a_dialogue(lambda spool, here: flip(f"{here}/journal/0002.json"), completed=True),
        "damaged",
        mended=False,
        came=TALK,
    ),
    "an entry that is missing": Row(
        in_a_dialogue(lambda spool, here: unlink(f"{here}/journal/0001.json"), completed=True),
        "gap",
        mended=False,
        came=TALK,
    ),
    "no opening entry": Row(
        in_a_dialogue(lambda spool, here: unlink(f"{here}/journal/0000.json")), "gap", mended=False, came=TALK
    ),
    "the last turn lost": Row(
        in_a_dialogue(lambda spool, here: unlink(f"{here}/journal/0001.json")), "lost_entry", came=TALK
    ),
    "all turns lost": Row(nothing_in_the_journal, "lost_entry", came=TALK[:1]),
    "all of several entries lost": Row(
        in_a_dialogue(lambda spool, here: shutil.rmtree(f"{here}/journal")), "lost_entry", mended=False, came=TALK
    ),
    "a conversation lost": Row(
        in_a_dialogue(lambda spool, here: shutil.rmtree(here)), "no_journal", mended=False, came=TALK
    ),
    "the end lost": Row(
        in_a_dialogue(lambda spool, here: unlink(f"{here}/journal/0002.json"), completed=True),
        "lost_entry",
        mended=False,
        came=TALK,
    ),
    "a turn that is not what was sent": Row(
        in_a_dialogue(lambda spool, here: edited(spool, f"{here}/journal/0001.json", body="another")),
        "damaged",
        mended=False,
        came=TALK,
    ),
    "a turn of another number": Row(
        in_a_dialogue(lambda spool, here: os.link(f"{here}/journal/0001.json", f"{here}/journal/0002.json")),
        "damaged",
        mended=False,
        came=TALK,
    ),
    "an end of another conversation": Row(
        in_a_dialogue(
            lambda spool, here: edited(spool, f"{here}/journal/0002.json", conversation_id=STRANGE_ID), completed=True
        ),
        "damaged",
        mended=False,
        came=TALK,
    ),
    "a draft of a control entry": Row(in_a_dialogue(old_control_draft, completed=True), "draft", came=TALK),
    "a state.json of before": Row(in_a_dialogue(state_of_before), "stale_state", came=TALK),
    "no state.json": Row(in_a_dialogue(lambda spool, here: unlink(f"{here}/state.json")), "stale_state", came=TALK),
    "a turn that only its journal knows": Row(
        in_a_dialogue(turn_known_to_the_journal_alone), "no_anchor", new=["turn 2"], came=TALK
    ),
    "a journal that others may read": Row(
        in_a_dialogue(lambda spool, here: os.chmod(f"{here}/journal", 0o755)), "wide_permissions", came=TALK
    ),
    "foreign files in a conversation": Row(
        in_a_dialogue(foreign_in_a_conversation, completed=True), "foreign", mended=False, came=TALK
    ),
    "a state name removed, unread": Row(state_name("unread"), "nowhere", new=["unread"]),
    "a state name removed, acknowledged": Row(state_name("acked"), "nowhere", new=["acked"]),
    "a state name removed, claimed": Row(state_name("claimed"), "nowhere", new=["claimed"]),
    "a state name removed, archived": Row(state_name("archived"), "nowhere", new=["archived"]),
    "an anchor removed": Row(anchor("unread"), "no_anchor"),
    "the anchor of a keyed one removed": Row(anchor("acked"), "no_anchor"),
    "the anchor of an answer removed": Row(anchor("answer"), "no_anchor"),
    "the anchor of a thread's root removed": Row(anchor("question"), "no_anchor"),
    "the anchor of a broadcast removed": Row(anchor("to all"), "no_anchor"),
    "both removed, the thread is left": Row(both_but_the_thread, "no_anchor", whole=False, new=["answer"]),
    "both removed, the key is left": Row(both_but_the_key, "no_anchor", new=["acked"]),
    "two names, one file": Row(second_name_same_inode, "doubled"),
    "two names, one of them a dead letter": Row(second_name_of_a_dead_letter, "doubled"),
    "two names, the same bytes": Row(second_name_same_bytes, "doubled"),
    "two names, other bytes": Row(second_name_other_bytes, "doubled", whole=False, came=[("bob", "acked")]),
    "two names, one is claimed": Row(second_name_of_a_live_claim, "doubled", mended=False, came=[("bob", "claimed")]),
    "a draft nobody committed": Row(draft(None), "draft"),
    "a draft nobody committed, parked": Row(draft(None, aside=True), "draft"),
    "a draft committed by its anchor": Row(draft("anchor", age=0), "draft", came=[("bob", "half way")]),
    "a draft committed by its key": Row(draft("key", age=0), "draft no_anchor", came=[("bob", "half way")]),
    "a draft committed and parked": Row(draft("anchor", aside=True), "draft", came=[("bob", "half way")]),
    "hard links lost": Row(restored, "restored", whole=False),
    "hard links lost, an anchor damaged": Row(restored_with_a_damaged_anchor, "restored damaged", whole=False),
    "the root open to others": Row(modes(("", 0o755)), "wide_permissions"),
    "a mailbox and its new/ open": Row(modes(("agents/bob", 0o750), ("agents/bob/new", 0o777)), "wide_permissions"),
    "files open": Row(modes(("spool.json", 0o644), ("upkeep.lock", 0o666)), "wide_permissions"),
    "a message open": Row(mode_of("unread", 0o644), "wide_permissions"),
    "inner directories open": Row(inner_directories, "wide_permissions"),
    "a directory its owner may not use": Row(modes(("agents/bob/cur", 0o500)), "narrow_permissions"),
    "a flipped byte, unread": Row(flipped("unread"), "damaged", mended=False, later=3),
    "a flipped byte, acknowledged": Row(flipped("acked"), "damaged", mended=False, later=3),
    "a flipped byte, claimed": Row(flipped("claimed"), "damaged", mended=False, later=3),
    "a flipped byte, the only file": Row(only_a_damaged_anchor, "damaged", mended=False, gone=["unread"]),
    "a name that lies, unread": Row(lying("unread"), "damaged", whole=False, gone=["unread"], later=3),
    "a name that lies, acknowledged": Row(lying("acked"), "damaged", mended=False, gone=["acked"]),
    "a key that is another message": Row(lying_key, "misnamed", whole=False),
    "a thread with a message that is not in it": Row(lying_thread, "misnamed"),
    "a thread with the only file of a message": Row(lying_thread_of_a_stranger, "misnamed no_anchor", whole=True),
    "in the directory of another minute": Row(wrong_minute, "misplaced"),
    "an anchor under another day": Row(wrong_day, "foreign no_anchor", mended=False),
    "foreign files everywhere": Row(foreign_everywhere, "foreign", mended=False),
    "a FIFO in every state": Row(special("fifo"), "special", mended=False),
    "a symbolic link in every state": Row(special("symlink"), "special", mended=False),
    "a directory in every state": Row(special("directory"), "special", mended=False),
    "a socket in every state": Row(special("socket"), "special", mended=False),
    "a reason without its dead letter": Row(lone_reason, "lone_reason"),
    "a mailbox half made": Row(half_made, "half_made", came=[("zed", "to all")]),
    "directories of a mailbox missing": Row(without("agents/bob/tmp", "agents/cat/archive"), "missing"),
    "directories missing": Row(without("trash", "conversations", "ballast"), "missing"),
    "no threads/": Row(without("threads"), "missing not_in_thread"),
    "no messages/": Row(without("messages"), "missing no_anchor"),
    "no broadcast/": Row(without("broadcast"), "missing no_body"),
    "no ballast": Row(without(*(f"ballast/{number:02d}" for number in range(16))), "missing"),
    "half a ballast file": Row(half_a_ballast, "missing"),
    "no locks": Row(without("upkeep.lock", "broadcast.lock"), "missing"),
    "no config.json": Row(without("config.json"), "missing"),
    "a dead watch": Row(dead_watch, "dead_watch"),
    "a removal not finished": Row(removal, "unfinished_removal lone_reason", gone=["failed"], later=A_MINUTE),
    "a thread's directory missing": Row(thread_index, "not_in_thread"),
    "a thread without its root": Row(thread_root, "not_in_thread"),
    "a copy owed to a mailbox nobody knows": Row(
        owed_to_nobody_known, "unfinished_broadcast", came=[("zed", "to all")]
    ),
    "a foreign file among owed copies": Row(
        foreign_in_a_todo, "unfinished_broadcast foreign", mended=False, came=[("zed", "to all")]
    ),
    "a broadcast without its body": Row(body, "no_body"),
    "a mailbox taken away": Row(
        mailbox, "nowhere", whole=False, new=["acked", "archived", "failed", "question", "read", "claimed", "unread"]
    ),
    "a file in a mailbox's place": Row(file_for_a_mailbox, "foreign", mended=False),
    "litter": Row(litter, "litter", later=A_MINUTE),
}


@pytest.mark.parametrize("what", ROWS)
def test_each_damage_is_found_and_mended_or_said_to_be_beyond_mending(spool, what):
    row = ROWS[what]
    before = everything(spool)
    row.damage(spool)
    spool.clock.advance(row.later)

    damaged = tree(spool.root)
    plain = spool.another().doctor()
    assert (codes(plain), plain["clean"]) == (row.codes, False)
    assert tree(spool.root) == damaged, "it was only asked to look"

    fixed = spool.another().doctor(fix=True)
    assert codes(fixed) >= row.codes - {"no_anchor"}, "an anchor may come along with what is mended before"
    assert fixed["clean"] == row.mended, fixed["findings"]

    mended = tree(spool.root)
    again = spool.another().doctor(fix=True)
    assert again["clean"] == row.mended
    assert [finding for finding in again["findings"] if finding["mended"]] == []
    assert tree(spool.root) == mended, "the second time there was still something to do"
    if row.mended:
        assert again["findings"] == []
    if row.whole:
        assert spool_is_whole(spool)

    after = everything(spool)
    for agent, name in row.came:
        before[agent, spool.named[name]] += 1
    for name in row.gone:
        before.pop(("bob", spool.named[name]))
        after = Counter({key: count for key, count in after.items() if key[1][:-4] != spool.named[name][:-4]})
    strangers = {key for key in after if key[1][:-1] == STRANGE_ID[:-1]}
    assert {key: count for key, count in after.items() if key not in strangers} == before
    for name in row.new:
        agent = "ann" if name in ("answer", "turn 2") else "bob"
        assert f"/{agent}/new/" in spool.path(name, agent)


def spool_is_whole(spool: Spool) -> bool:
    from crash.invariants import check_spool

    assert check_spool(spool.root, finished=True) == []
    return True


def test_there_are_more_than_twenty_damages():
    assert len(ROWS) > 20


def test_a_healthy_spool_is_clean_and_left_as_it_is(spool):
    before = tree(spool.root)
    assert spool.another().doctor()["findings"] == []
    assert tree(spool.root) == before
    assert spool.another().doctor(fix=True)["findings"] == []
    assert {name: what for name, what in tree(spool.root).items() if name != "upkeep.lock"} == {
        name: what for name, what in before.items() if name != "upkeep.lock"
    }


# ------------------------------------------------------------------------------------------------ more about some


def test_every_foreign_file_is_named_wherever_it_lies(spool):
    before = set(tree(spool.root))
    foreign_everywhere(spool)
    found = {finding["path"].replace(f"{spool.root}/", "") for finding in spool.another().doctor()["findings"]}
    assert found == set(tree(spool.root)) - before


def test_what_keeps_empty_directories_in_an_archive_is_nobody_s_fault(spool):
    """The skeleton that the specification ships, put where a spool is."""
    for directory in ("agents", "messages", "dedup", "threads", "conversations", "broadcast", "trash", "ballast"):
        write(f"{spool.root}/{directory}/.keep", b"")
    assert spool.another().doctor()["findings"] == []


def test_a_message_that_is_put_back_gets_a_token_above_all_that_were_ever_given(spool):
    """Whoever still holds the old claim finds that it has lost it."""
    unlink(spool.path("claimed"))
    spool.another().doctor(fix=True)
    [(_, name)] = [found for found in names_of(spool.box("bob"), ("new",)) if spool.named["claimed"] in found[1]]
    assert name == f"{spool.named['claimed']}~n1001~q1001.json"
    with pytest.raises(MailError) as lost:
        spool.renew("bob", f"{spool.named['claimed']}~n1")
    assert lost.value.code == "lease_lost"
    assert spool.claim("bob", spool.named["claimed"])["token"] == 1002


def test_a_young_draft_a_young_reason_and_a_file_being_written_are_nobody_s_fault(spool):
    draft(None, age=0)(spool)
    write(spool.box("bob") + f"/failed/{STRANGE_ID}.reason.json", b"{}")
    write(spool.box("bob") + f"/new/{STRANGE_ID}.json", b'{"id": "01a2')
    before = tree(spool.root)
    assert spool.another().doctor()["findings"] == []
    assert spool.another().doctor(fix=True)["findings"] == []
    assert set(tree(spool.root)) == set(before)


def test_a_claim_that_stood_in_the_way_is_folded_when_it_is_over(spool):
    second_name_of_a_live_claim(spool)
    assert not spool.another().doctor(fix=True)["clean"]
    spool.clock.advance(DAY)
    assert spool.another().doctor(fix=True)["clean"]
    assert len(spool.paths("claimed")) == 1


def test_in_a_restored_spool_nothing_is_put_back_before_its_links_are_right(spool):
    restored(spool)
    unlink(spool.path("unread"))
    first = spool.another().doctor(fix=True)
    assert (first["clean"], spool.paths("unread")) == (False, [])
    assert spool.another().doctor(fix=True)["clean"]
    assert "/new/" in spool.path("unread")
    assert spool.another().doctor(fix=True)["findings"] == []


def test_a_damaged_message_can_be_purged_and_then_all_is_clean(spool):
    flip(spool.path("unread"))
    spool.clock.advance(3)
    assert not spool.another().doctor(fix=True)["clean"]
    spool.failed_purge("bob", spool.named["unread"])
    assert spool.another().doctor()["findings"] == []
    assert [name for name in tree(spool.root) if spool.named["unread"] in name] == []


def test_of_a_lost_conversation_mail_can_be_acknowledged_and_then_all_is_clean(spool):
    told = spool.start_conversation(sender="ann", recipient="bob", goal="a goal")
    shutil.rmtree(f"{spool.root}/conversations/{told['conversation_id']}")
    [finding] = spool.doctor()["findings"]
    assert finding["code"] == "no_journal"
    assert "ack the message" in finding["fix"]
    spool.ack("bob", [told["message_id"]])
    assert spool.doctor()["findings"] == []


@pytest.mark.parametrize(("what", "state"), [("unread", "cur"), ("read", "claimed"), ("question", "acked")])
def test_a_message_that_moves_while_it_is_listed_is_not_in_two_states(spool, monkeypatch, what, state):
    """It was seen where it was, and is met again where it went."""
    moves = {
        "cur": lambda: read(spool.another(), "bob"),
        "claimed": lambda: spool.claim("bob", spool.named[what]),
        "acked": lambda: None,
    }
    spool.another().release("bob", f"{spool.named['claimed']}~n1")
    if state == "acked":
        os.rename(spool.path(what), spool.box("bob") + f"/cur/{spool.named[what]}~r20261130T184712.123Z.json")
        moves["acked"] = lambda: spool.ack("bob", [spool.named[what]])
    listed, settled = Mailbox.listed, Mailbox.all_settled

    def move(box: Mailbox, directory: str) -> None:
        if (box.agent, directory) == ("bob", state) and moves:
            act = moves[state]
            moves.clear()
            act()

    def listed_later(box, directory):
        move(box, directory)
        return listed(box, directory)

    def settled_later(box, directory):
        move(box, directory)
        return settled(box, directory)

    monkeypatch.setattr(Mailbox, "listed", listed_later)
    monkeypatch.setattr(Mailbox, "all_settled", settled_later)
    before = everything(spool)
    assert [finding.code for finding in Conservation(spool.another()).findings()] == []
    assert moves == {}
    assert everything(spool) == before


def test_what_is_only_being_done_is_looked_at_again_before_it_is_reported(spool, monkeypatch):
    """A keyed message between its commit and its anchor at the first look; its recipient takes it before the second."""
    draft("key", age=0)(spool)
    first = codes(spool.another().doctor())
    assert first == {"draft", "no_anchor"}, "its sender is dead: that is reported"
    monkeypatch.setattr("maildir_agents.verbs.doctor.time.sleep", lambda _: read(spool.another(), "bob"))
    assert spool.another().doctor()["findings"] == []


HOLDER = """
import fcntl, os, sys
with open(sys.argv[1], "r+b", buffering=0) as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write(b"%10d\\n" % os.getpid())
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("lock", "damage"),
    [
        ("broadcast.lock", "a copy owed to a mailbox nobody knows"),
        ("broadcast.lock", "a mailbox half made"),
        ("upkeep.lock", "a removal not finished"),
    ],
)
def test_what_the_holder_of_the_lock_is_at_is_no_finding_before_a_minute_is_over(spool, lock, damage):
    ROWS[damage].damage(spool)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, f"{spool.root}/{lock}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        holder.stdout.readline()
        assert spool.another().doctor()["findings"] == []
        spool.clock.advance(A_MINUTE)
        assert codes(spool.another().doctor()) >= ROWS[damage].codes - {"lone_reason"}
        holder.stdin.close()
    assert not spool.another().doctor()["clean"]


@pytest.mark.parametrize("key", [None, "once"])
def test_a_broadcast_cut_at_each_step_is_delivered_to_all_or_taken_back(tmp_path, key):
    with memory() as place:
        fleet = Fleet(place, ("ann", "bob", "cat", "dan"))

        def act(spool):
            return spool.send(sender="ann", recipient="*", subject="to all", dedup_key=key)

        fleet.wipe()
        calls = counted(fleet, act)
        for number in range(1, len(calls) + 1):
            fleet.wipe()
            with pytest.raises(Killed):
                act(fleet.open(FailingDisk(kill_at=number)))
            at = f"cut before call {number}, {' '.join(calls[number - 1])}"
            before = tree(fleet.root)
            left = any(name.startswith("broadcast/") for name in before)
            done = sum(1 for agent in fleet.agents for _ in names_of(fleet.box(agent)))
            plain = fleet.open().doctor()
            unfinished = any(name[:10] == "broadcast/" and (name.endswith(".todo") or "/." in name) for name in before)
            assert codes(plain) - {"no_anchor"} == ({"unfinished_broadcast"} if unfinished else set()), at
            assert tree(fleet.root) == before, at
            assert fleet.open().doctor(fix=True)["clean"], at
            mended = tree(fleet.root)
            assert fleet.open().doctor(fix=True)["findings"] == [], at
            assert tree(fleet.root) == mended, at
            copies = sum(1 for agent in fleet.agents for _ in names_of(fleet.box(agent)))
            assert copies in ({3} if done else {0, 3}) and (left or not copies), at
            assert fleet.wrong(finished=True) == [], at


def test_a_spool_json_that_was_cut_off_is_refused_with_a_sentence(mail):
    mail.send("ann", "bob")
    path = mail.spool / "spool.json"
    path.write_bytes(path.read_bytes()[:20])
    before = tree(mail.spool)
    send = ("send", "--from", "a", "--to", "b", "--subject", "s")
    for words in (("doctor",), ("doctor", "--fix"), ("read", "bob"), send):
        done = mail(*words)
        assert (done.status, done.refusal["code"]) == (73, "not_a_spool")
        assert "Traceback" not in done.err
        assert str(path) in done.refusal["error"]
    assert tree(mail.spool) == before


def test_without_its_spool_json_it_is_no_spool_until_init_makes_it_one(mail):
    sent = mail.send("ann", "bob")["id"]
    os.unlink(mail.spool / "spool.json")
    done = mail("doctor")
    assert (done.status, [finding["code"] for finding in json.loads(done.out)["findings"]]) == (1, ["no_spool"])
    mail("init")
    assert mail("doctor").status == 0
    assert [message["id"] for message in mail("read", "bob").answer["messages"]] == [sent]


def test_the_command_says_by_its_exit_status_whether_anything_is_left(mail):
    sent = mail.send("ann", "bob")["id"]
    assert (mail("doctor").status, mail("doctor", "--fix").status) == (0, 0)
    os.unlink(mail.spool / "agents" / "bob" / "new" / f"{sent}.json")
    assert (mail("doctor").status, mail("doctor", "--fix").status, mail("doctor").status) == (1, 0, 0)
    (mail.spool / "agents" / "bob" / "new" / "NOTES").write_bytes(b"?")
    assert (mail("doctor").status, mail("doctor", "--fix").status) == (1, 1)
    assert [message["id"] for message in mail("read", "bob").answer["messages"]] == [sent]


def test_a_mending_that_fails_is_not_called_mended(spool):
    """The disk is read-only: every finding says what came in between, and the answer is not clean."""
    unlink(spool.path("unread"), spool.anchor_of("read"))
    disk = FailingDisk(error=30)

    def before(number, name, path):
        disk.fail_at = number if name == "link" else None

    disk.before = before
    answer = spool.another(disk).doctor(fix=True)
    assert not answer["clean"]
    assert [finding["mended"] for finding in answer["findings"]] == [False] * len(answer["findings"])
    assert all("failed" in finding["finding"] for finding in answer["findings"])
    assert spool.another().doctor(fix=True)["clean"]


def test_whoever_dies_of_mending_leaves_it_to_the_next(template):
    """Killed at each call of --fix, on a spool with many damages; the next --fix ends where an undisturbed one does."""
    source, named = template
    damages = [
        ROWS[what].damage
        for what in (
            "a state name removed, unread",
            "the anchor of a keyed one removed",
            "a thread's directory missing",
            "two names, one file",
            "a draft committed by its anchor",
            "a mailbox half made",
            "no config.json",
            "directories of a mailbox missing",
            "a dead watch",
            "a removal not finished",
        )
    ]
    with memory() as place:

        def damaged(name: str, disk: FailingDisk) -> Spool:
            clone(source, f"{place}/{name}")
            opened = Spool(f"{place}/{name}", disk=FailingDisk(), clock=MovableClock(), durability="full")
            opened.named = dict(named)
            for damage in damages:
                damage(opened)
            opened.clock.advance(A_MINUTE)
            opened.disk = disk
            return opened

        whole = damaged("whole", FailingDisk())
        assert whole.doctor(fix=True)["clean"]
        count = len(whole.disk.calls)
        wanted = {key: number for key, number in everything(whole).items() if key[1] in named.values()}
        assert count > 30
        for number in range(1, count + 1):
            opened = damaged(f"at{number}", FailingDisk(kill_at=number))
            with pytest.raises(Killed):
                opened.doctor(fix=True)
            at = f"killed before call {number}, {' '.join(opened.disk.calls[-1])}"
            following = opened.another()
            following.clock.advance(A_MINUTE)
            assert following.doctor(fix=True)["clean"], at
            assert following.doctor(fix=True)["findings"] == [], at
            assert {key: n for key, n in everything(opened).items() if key[1] in named.values()} == wanted, at
            spool_is_whole(opened)
            shutil.rmtree(opened.root)
