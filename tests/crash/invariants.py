"""What must hold of a spool whenever nobody is in the middle of a call, whoever was killed in the middle of one before.

Pure reading with os and json, from the format's description alone: nothing of the package is used, so that a fault in
it cannot hide behind itself.

    wrong = check_spool(root, reported=reported)
    assert wrong == []
"""

import hashlib
import json
import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

STATES = ("new", "cur", "claimed", "acked", "archive", "failed")
DIVIDED = ("acked", "archive")  # by the day and minute of the id
PLACES = ("tmp", *STATES)
ROOT = {
    "spool.json",
    "config.json",
    "upkeep.lock",
    "broadcast.lock",
    "messages",
    "dedup",
    "threads",
    "agents",
    "conversations",
    "broadcast",
    "trash",
    "ballast",
}
BALLAST, BALLAST_BYTES = {f"{number:02d}" for number in range(16)}, 64 << 10
EVERYBODY = "*"

_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_NAME = re.compile(rf"({_ID})((?:~[a-z][A-Za-z0-9._-]*)*)\.json")
_TIME = r"\d{8}T\d{6}\.\d{3}Z"
_NUMBER = r"[1-9]\d{0,8}"
_STAMPS = {
    "r": _TIME,
    "n": _NUMBER,
    "q": _NUMBER,
    "x": _TIME,
    "b": r"[0-9a-f]{16}-\d{1,13}",
    "w": r"[a-z0-9._-]{1,48}",
    "a": _TIME,
    "z": _TIME,
    "d": _NUMBER,
}
_ORDER = "".join(_STAMPS)
# state: stamps that must be there, stamps that must not
_WEARS = {
    "new": ("", "rxbwazd"),
    "cur": ("r", "xbwazd"),
    "claimed": ("nxbw", "azd"),
    "acked": ("ra", "xbwzd"),
    "archive": ("z", "xbwd"),
    "failed": ("", "xbwaz"),
}
_AGENT = re.compile(r"(?=.{1,100}\Z)[a-z0-9][a-z0-9._-]*(?::[a-z0-9][a-z0-9._-]*)?")
_LOOSE = {"read.lock", "history.jsonl", "listener.lock", "listener.json", "listener.log", "listener.disabled"}
_REQUIRED = ("id", "sender", "recipient", "subject", "created", "body")


class Reported:
    """What callers were told, to be held against what is there."""

    def __init__(self) -> None:
        self.present: dict[tuple[str, str], set[str]] = {}  # (agent, id): the states it may be in, one of them
        self.gone: set[tuple[str, str]] = set()  # (agent, id) in no state any more, and without any other name
        self.unsent: set[str] = set()  # subjects that "nothing was sent" was said of
        self.once: dict[str, set[str]] = {}  # subject: the agents that must have it, each exactly once
        self.at_most_once: set[str] = set()  # subjects that no agent may have twice
        self.bodies: dict[str, str] = {}  # subject: the body, to the last byte


class Place(NamedTuple):
    """Where a message is; `subject` is "" where it is none."""

    agent: str
    state: str
    id: str
    subject: str


class _Message:
    """One name of a message in a state directory."""

    def __init__(self, agent: str, state: str, path: str, message_id: str, found: os.stat_result) -> None:
        self.agent, self.state, self.path, self.id = agent, state, path, message_id
        self.inode, self.links = found.st_ino, found.st_nlink
        self.content: dict = {}


def check_spool(
    root: str | os.PathLike[str],
    *,
    reported: Reported | None = None,
    finished: bool = False,
    reasons: int = 0,
    drafts: bool = False,
    also: Callable[[list[Place]], list[str]] | None = None,
) -> list[str]:
    """Everything that is wrong, a sentence each.

    `finished`: nothing may be left for the next caller either: no mailbox half made, no ballast missing.
    `reasons`: how many reason files without their dead letter may lie about (doctor takes them).
    `drafts`: a broadcast that nobody committed may wait for the next one.
    `also`: what else is wrong, from where every message is.
    """
    survey = _Survey(os.fspath(root), finished, drafts)
    survey.look()
    survey.compare()
    if len(survey.lone_reasons) > reasons:
        survey.wrong += [f"a reason without its dead letter: {path}" for path in survey.lone_reasons]
    if reported is not None:
        survey.hold_against(reported)
    if also is not None:
        survey.wrong += also([Place(m.agent, m.state, m.id, m.content.get("subject", "")) for m in survey.messages])
    return survey.wrong


class _Survey:
    def __init__(self, root: str, finished: bool = False, drafts: bool = False) -> None:
        self.root, self.finished, self.drafts = root, finished, drafts
        self.wrong: list[str] = []
        self.messages: list[_Message] = []
        self.names: dict[int, list[str]] = defaultdict(list)  # inode: every name a message has here
        self.anchors: dict[str, int] = {}  # id: inode
        self.keys: dict[str, int] = {}  # path below dedup/: inode
        self.threads: dict[tuple[str, str], int] = {}  # (root id, id): inode
        self.bodies: dict[str, int] = {}  # id of a broadcast: inode
        self.lone_reasons: list[str] = []
        self.agents: list[str] = []

    def say(self, sentence: str) -> None:
        self.wrong.append(sentence.replace(f"{self.root}/", ""))

    def entries(self, *parts: str) -> list[str]:
        """The names in a directory; checks that it is one, and that its mode is right."""
        path = os.path.join(self.root, *parts)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            self.say(f"missing: {path}")
            return []
        if not stat.S_ISDIR(found.st_mode):
            self.say(f"no directory: {path}")
            return []
        if stat.S_IMODE(found.st_mode) != 0o700:
            self.say(f"mode {stat.S_IMODE(found.st_mode):o}: {path}")
        return sorted(os.listdir(path))

    def file(self, path: str) -> os.stat_result:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            self.say(f"no regular file: {path}")
        elif stat.S_IMODE(found.st_mode) != 0o600:
            self.say(f"mode {stat.S_IMODE(found.st_mode):o}: {path}")
        return found

    # ---------------------------------------------------------------- look

    def look(self) -> None:
        for name in sorted(ROOT.symmetric_difference(self.entries())):
            self.say(f"missing: {name}" if name in ROOT else f"stray: {name}")
        for name in ("spool.json", "config.json"):
            self.settings(f"{self.root}/{name}")
        for name in ("upkeep.lock", "broadcast.lock"):
            if os.path.lexists(f"{self.root}/{name}"):
                self.file(f"{self.root}/{name}")
        self.ballast()
        self.look_at_messages()
        self.look_at_keys()
        self.look_at_threads()
        self.look_at_broadcasts()
        for name in self.entries("trash"):
            self.say(f"an unfinished removal: trash/{name}")
        self.look_at_conversations()
        for name in self.entries("agents"):
            self.look_at_agent(name)

    def settings(self, path: str) -> None:
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
        except FileNotFoundError:
            return  # said already
        except ValueError as error:
            self.say(f"damaged: {path}: {error}")
            return
        self.file(path)
        if path.endswith("spool.json") and content.get("format") != 1:
            self.say(f"{path} has format {content.get('format')}")

    def ballast(self) -> None:
        found = set(self.entries("ballast"))
        for name in sorted(found - BALLAST):
            self.say(f"stray: ballast/{name}")
        if self.finished and found != BALLAST:
            self.say(f"ballast missing: {sorted(BALLAST - found)}")
        for name in sorted(found & BALLAST):
            if (size := os.lstat(f"{self.root}/ballast/{name}").st_size) != BALLAST_BYTES:
                self.say(f"ballast/{name} has {size} bytes")

    def index_name(self, path: str, message_id: str) -> int:
        found = self.file(path)
        self.names[found.st_ino].append(path)
        content = self.parse(path)
        if content is not None and content["id"] != message_id:
            self.say(f"{path} is the message {content['id']}")
        return found.st_ino

    def look_at_messages(self) -> None:
        for day in self.entries("messages"):
            for name in self.entries("messages", day):
                path = f"{self.root}/messages/{day}/{name}"
                match = re.fullmatch(rf"({_ID})\.json", name)
                if not match or _day(match[1]) != day:
                    self.say(f"stray: {path}")
                else:
                    self.anchors[match[1]] = self.index_name(path, match[1])

    def look_at_keys(self) -> None:
        for first in self.entries("dedup"):
            for name in self.entries("dedup", first):
                path = f"{self.root}/dedup/{first}/{name}"
                if not re.fullmatch(r"[0-9a-f]{64}\.json", name) or name[:2] != first:
                    self.say(f"stray: {path}")
                    continue
                self.keys[f"{first}/{name}"] = self.file(path).st_ino
                self.names[self.file(path).st_ino].append(path)
                content = self.parse(path)
                if content is not None and _key(content) != f"{first}/{name}":
                    self.say(f"{path} is not the key of its message")

    def look_at_threads(self) -> None:
        for root in self.entries("threads"):
            for name in self.entries("threads", root):
                path = f"{self.root}/threads/{root}/{name}"
                match = re.fullmatch(rf"({_ID})\.json", name)
                if not match or not re.fullmatch(_ID, root):
                    self.say(f"stray: {path}")
                else:
                    self.threads[root, match[1]] = self.index_name(path, match[1])

    def look_at_broadcasts(self) -> None:
        for name in self.entries("broadcast"):
            path = f"{self.root}/broadcast/{name}"
            if name.endswith(".todo"):
                self.say(f"copies still owed: {path} {self.entries('broadcast', name)}")
                for copy in self.entries("broadcast", name):
                    self.names[os.lstat(f"{path}/{copy}").st_ino].append(f"{path}/{copy}")
            elif match := re.fullmatch(rf"({_ID})\.json", name):
                self.bodies[match[1]] = self.index_name(path, match[1])
            elif self.drafts and re.fullmatch(rf"\.{_ID}\.json", name) and os.lstat(path).st_nlink == 1:
                continue
            else:
                self.say(f"stray: {path}")

    def look_at_conversations(self) -> None:
        """Names of turns, and that the entries have no gap; what they say is looked at by tests/conversations."""
        for conversation in self.entries("conversations"):
            entries = self.entries("conversations", conversation, "journal")
            if entries != [f"{number:04}.json" for number in range(len(entries))]:
                self.say(f"a gap in the journal of {conversation}: {entries}")
            for text in entries:
                path = f"{self.root}/conversations/{conversation}/journal/{text}"
                self.names[self.file(path).st_ino].append(path)

    def look_at_agent(self, agent: str) -> None:
        path = f"{self.root}/agents/{agent}"
        if agent[0] == "." and _AGENT.fullmatch(agent[1:]):
            if self.finished or os.path.lexists(f"{self.root}/agents/{agent[1:]}"):
                self.say(f"a mailbox half made: {path}")
            return
        if not _AGENT.fullmatch(agent) or agent == "broadcast":
            self.say(f"stray: {path}")
            return
        self.agents.append(agent)
        for name in sorted(set(PLACES).union(self.entries("agents", agent)) - _LOOSE):
            if name in PLACES:
                self.look_at_place(agent, name)
            elif name == "watch":
                for lock in self.entries("agents", agent, name):
                    if not re.fullmatch(r"[0-9a-f]{32}\.lock", lock):
                        self.say(f"stray: {path}/watch/{lock}")
            elif name != ".index":
                self.say(f"stray: {path}/{name}")

    def look_at_place(self, agent: str, place: str) -> None:
        path = f"{self.root}/agents/{agent}/{place}"
        if place == "tmp":
            for name in self.entries("agents", agent, place):
                self.say(f"a draft was left: {path}/{name}")
                self.names[os.lstat(f"{path}/{name}").st_ino].append(f"{path}/{name}")
        elif place in DIVIDED:
            for day in self.entries("agents", agent, place):
                for minute in self.entries("agents", agent, place, day):
                    for name in self.entries("agents", agent, place, day, minute):
                        self.message(agent, place, f"{path}/{day}/{minute}/{name}", f"{day}/{minute}")
        else:
            names = self.entries("agents", agent, place)
            for name in names:
                if place == "failed" and name.endswith(".reason.json"):
                    self.reason(f"{path}/{name}", name.removesuffix(".reason.json") + ".json" in names)
                else:
                    self.message(agent, place, f"{path}/{name}")
                    if place == "failed" and name.removesuffix(".json") + ".reason.json" not in names:
                        self.say(f"a dead letter without its reason: {path}/{name}")

    def reason(self, path: str, wanted: bool) -> None:
        self.file(path)
        if not wanted:
            self.lone_reasons.append(path)
            return
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
            if not {"id", "code", "reason", "at"} <= content.keys():
                self.say(f"no reason: {path}")
        except ValueError as error:
            self.say(f"damaged: {path}: {error}")

    def message(self, agent: str, state: str, path: str, minute: str | None = None) -> None:
        match = _NAME.fullmatch(os.path.basename(path))
        if not match:
            self.say(f"stray: {path}")
            return
        found = self.file(path)
        message = _Message(agent, state, path, match[1], found)
        self.messages.append(message)
        self.names[found.st_ino].append(path)
        self.stamps(path, state, match[2])
        if minute is not None and minute != f"{_day(match[1])}/{_minute(match[1])}":
            self.say(f"in the wrong directory: {path}")
        content = self.parse(path, quiet=state == "failed")
        if content is None:
            return
        message.content = content
        if state == "failed":
            return
        if content["id"] != match[1]:
            self.say(f"{path} says it is {content['id']}")
        if content["recipient"] not in (agent, EVERYBODY):
            self.say(f"{path} is for {content['recipient']}")

    def stamps(self, path: str, state: str, text: str) -> None:
        given = [(part[0], part[1:]) for part in text.split("~")[1:]]
        letters = "".join(letter for letter, _ in given)
        for letter, value in given:
            if letter in _STAMPS and not re.fullmatch(_STAMPS[letter], value):
                self.say(f"stamp {letter}{value}: {path}")
        known = [letter for letter in letters if letter in _ORDER]
        if len(set(letters)) != len(letters) or known != sorted(known, key=_ORDER.index):
            self.say(f"stamps twice or in another order: {path}")
        must, must_not = _WEARS[state]
        if not set(must) <= set(letters) or set(must_not) & set(letters):
            self.say(f"a name that does not belong into {state}/: {path}")

    def parse(self, path: str, quiet: bool = False) -> dict | None:
        """The message in a file; None, and said unless `quiet`, when it is none."""
        try:
            with open(path, encoding="utf-8", newline="") as file:
                content = json.load(file, object_pairs_hook=_each_once, parse_constant=_no_constant)
            if missing := [field for field in _REQUIRED if not isinstance(content.get(field), str)]:
                raise ValueError(f"without {', '.join(missing)}")
        except (ValueError, AttributeError) as error:
            if not quiet:
                self.say(f"no message: {path}: {error}")
            return None
        return content

    # ---------------------------------------------------------------- compare

    def compare(self) -> None:
        places: dict[tuple[str, str], list[_Message]] = defaultdict(list)
        for message in self.messages:
            places[message.agent, message.id].append(message)
        for found in places.values():
            if len(found) > 1:
                self.say("in several states: " + ", ".join(message.path for message in found))
        for message in self.messages:
            if message.content and message.state != "failed":
                self.compare_message(message)
        for inode, names in self.names.items():
            if (links := os.lstat(names[0]).st_nlink) != len(names):
                self.say(f"{links} links, but {len(names)} names (inode {inode}): {', '.join(names)}")
        self.compare_index(places)

    def compare_message(self, message: _Message) -> None:
        content, path = message.content, message.path
        if self.anchors.get(message.id) != message.inode:
            self.say(f"without its anchor: {path}")
        root = content.get("thread_id")
        if root is not None:
            if self.threads.get((root, message.id)) != message.inode:
                self.say(f"not in its thread: {path}")
            if root in self.anchors and self.threads.get((root, root)) != self.anchors[root]:
                self.say(f"a thread without its root: {root}")
        if content.get("dedup_key") is not None and self.keys.get(_key(content)) != message.inode:
            self.say(f"without its key: {path}")
        if content["recipient"] == EVERYBODY and self.bodies.get(message.id) != message.inode:
            self.say(f"a copy of a broadcast without its body: {path}")

    def compare_index(self, places: dict[tuple[str, str], list[_Message]]) -> None:
        there = {message_id for _, message_id in places}
        inodes = set(self.anchors.values())
        for message_id in self.anchors:
            if message_id not in there and message_id not in self.bodies:
                self.say(f"lost: {message_id} has an anchor and is in no mailbox")
        for message_id, inode in self.bodies.items():
            if self.anchors.get(message_id) != inode:
                self.say(f"a broadcast without its anchor: {message_id}")
        for name, inode in self.keys.items():
            if inode not in inodes:
                self.say(f"a key without its message: dedup/{name}")
        for (root, message_id), inode in self.threads.items():
            if self.anchors.get(message_id) != inode:
                self.say(f"a thread with a message that is none: threads/{root}/{message_id}.json")

    # ---------------------------------------------------------------- hold against what was said

    def hold_against(self, reported: Reported) -> None:
        where: dict[tuple[str, str], set[str]] = defaultdict(set)
        subjects: dict[str, list[_Message]] = defaultdict(list)
        for message in self.messages:
            where[message.agent, message.id].add(message.state)
            if message.content:
                subjects[message.content["subject"]].append(message)
        for (agent, message_id), states in reported.present.items():
            found = where[agent, message_id]
            if not found & states:
                self.say(f"{agent} was told of {message_id} in {sorted(states)}, it is in {sorted(found) or 'nothing'}")
        for agent, message_id in reported.gone:
            if where[agent, message_id] or message_id in self.anchors:
                self.say(f"{agent} was told that {message_id} is gone, it is in {sorted(where[agent, message_id])}")
        for subject in reported.unsent:
            for message in subjects[subject]:
                self.say(f"said not to be sent, but visible: {message.path}")
        for subject in reported.at_most_once | reported.once.keys():
            self.count(subject, subjects[subject], reported.once.get(subject))
        for subject, body in reported.bodies.items():
            for message in subjects[subject]:
                if message.content["body"] != body:
                    self.say(f"another text than was sent: {message.path}")

    def count(self, subject: str, found: list[_Message], wanted: set[str] | None) -> None:
        having = [message.agent for message in found]
        for agent in sorted({agent for agent in having if having.count(agent) > 1}):
            self.say(f"{agent} has {subject!r} {having.count(agent)} times")
        if wanted is not None and set(having) != wanted:
            self.say(f"{subject!r} is with {sorted(set(having))}, not with {sorted(wanted)}")


def _each_once(pairs: list) -> dict:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key stands there twice")
    return content


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _key(content: dict) -> str | None:
    """Where the message lies under its sender's key: the hash of two netstrings."""
    if content.get("dedup_key") is None:
        return None
    digest = hashlib.sha256()
    for part in (content["sender"].encode(), content["dedup_key"].encode()):
        digest.update(b"%d:%b," % (len(part), part))
    return f"{digest.hexdigest()[:2]}/{digest.hexdigest()}.json"


def _time(message_id: str) -> time.struct_time:
    return time.gmtime(int(message_id[:8] + message_id[9:13], 16) / 1000)


def _day(message_id: str) -> str:
    return time.strftime("%Y-%m-%d", _time(message_id))


def _minute(message_id: str) -> str:
    return time.strftime("%H%M", _time(message_id))
