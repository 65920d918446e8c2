"""What a conversation on disk must be, read with os and json alone, so that a fault in the package can't hide there.

wrong = faults(root)                    # after any call, whoever died in it
wrong = faults(root, finished=True)     # after everybody has called once more, a minute later
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

Json = dict[str, Any]
TABLE = Path(__file__).parent.parent.parent / "spool" / "conversation.tsv"
TURNS = ("task", "result")
CONTROLS = ("complete", "cancel", "needs_human", "blocked", "resume")
ENDS = ("completed", "cancelled")
MOST_TURNS = 20
STATES = ("new", "cur", "claimed", "acked", "archive", "failed")


def table() -> dict[tuple[str, str], str]:
    """The table that the format publishes: (state, event) -> the state after it."""
    head, *rows = (line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines())
    assert head == ["state", "event", "next"]
    assert len({(state, event) for state, event, _ in rows}) == len(rows)
    return {(state, event): after for state, event, after in rows}


def ids(root: str | os.PathLike[str]) -> list[str]:
    return sorted(os.listdir(f"{root}/conversations"))


def journal(root: str | os.PathLike[str], conversation: str) -> list[Json]:
    """Its entries by number, up to the first that is missing."""
    found: list[Json] = []
    while True:
        try:
            with open(f"{root}/conversations/{conversation}/journal/{len(found):04d}.json", encoding="utf-8") as file:
                found.append(json.load(file))
        except FileNotFoundError:
            return found


def turns(entries: list[Json]) -> list[Json]:
    return [entry for entry in entries if "control" not in entry]


def controls(entries: list[Json]) -> list[str]:
    return [entry["control"] for entry in entries if "control" in entry]


class Fold:
    """What a list of entries comes to; `wrong` are the entries that could not lawfully follow."""

    def __init__(self, entries: list[Json]) -> None:
        lawful, terms = table(), entries[0]["headers"]["conversation"]
        self.wrong: list[str] = []
        self.state, self.turns = "active", [entries[0]]
        self.max_turns, self.expires_at = terms["max_turns"], terms["expires_at"]
        if not (entries[0]["turn"] == 1 and entries[0]["kind"] == "task" and 2 <= self.max_turns <= MOST_TURNS):
            self.wrong.append(f"entry 0 opens nothing: {entries[0]}")
        for number, entry in enumerate(entries[1:], 1):
            event = entry.get("control") or entry["kind"]
            after = lawful.get((self.state, event))
            if after is None:
                self.wrong.append(f"entry {number}: {event} while it is {self.state}")
            if "control" not in entry:
                self._turn(number, entry)
            elif event == "resume":
                self._resume(number, entry)
            self.state = after or self.state

    def _turn(self, number: int, entry: Json) -> None:
        last = self.turns[-1]
        self.turns.append(entry)
        if entry["reply_to"] != last["id"]:
            self.wrong.append(f"entry {number} answers {entry['reply_to']} and not {last['id']}, which is in flight")
        if (entry["sender"], entry["recipient"]) != (last["recipient"], last["sender"]):
            self.wrong.append(f"entry {number} goes from {entry['sender']} to {entry['recipient']}")
        if entry["turn"] != len(self.turns) or entry["turn"] > self.max_turns:
            self.wrong.append(f"entry {number} is turn {entry['turn']}, the {len(self.turns)}th of {self.max_turns}")
        if entry["created"] > self.expires_at:
            self.wrong.append(f"entry {number} is of {entry['created']}, the time was over at {self.expires_at}")

    def _resume(self, number: int, entry: Json) -> None:
        self.max_turns, self.expires_at = entry["max_turns"], entry["expires_at"]
        if not len(self.turns) < self.max_turns <= MOST_TURNS:
            self.wrong.append(f"entry {number} allows {self.max_turns} turns after {len(self.turns)}")
        if self.expires_at <= entry["created"]:
            self.wrong.append(f"entry {number} leaves no time")


def places(root: str | os.PathLike[str]) -> dict[str, list[tuple[str, str]]]:
    """Message id -> every (agent, state) in which it is."""
    found: dict[str, list[tuple[str, str]]] = {}
    for agent in os.listdir(f"{root}/agents"):
        for state in STATES:
            for _, _, names in os.walk(f"{root}/agents/{agent}/{state}"):
                for name in names:
                    if name[0] != "." and not name.endswith(".reason.json"):
                        found.setdefault(name[:36], []).append((agent, state))
    return found


def drafts(root: str | os.PathLike[str]) -> list[str]:
    """Everything that lies in a tmp/, and snapshots that were never finished."""
    found = [f"agents/{a}/tmp/{n}" for a in os.listdir(f"{root}/agents") for n in os.listdir(f"{root}/agents/{a}/tmp")]
    for conversation in ids(root):
        here = f"conversations/{conversation}"
        found += [f"{here}/{name}" for name in os.listdir(f"{root}/{here}") if name[0] == "."]
        if os.path.isdir(f"{root}/{here}/tmp"):
            found += [f"{here}/tmp/{name}" for name in os.listdir(f"{root}/{here}/tmp")]
    return found


def undelivered(root: str | os.PathLike[str]) -> list[str]:
    """Turns that are committed and in nobody's mailbox."""
    there = places(root)
    return [t["id"] for conversation in ids(root) for t in turns(journal(root, conversation)) if t["id"] not in there]


def faults(root: str | os.PathLike[str], finished: bool = False) -> list[str]:
    """Everything that is wrong, a sentence each.  `finished`: every turn is delivered and nothing lies about."""
    wrong: list[str] = []
    where = places(root)
    for conversation in ids(root):
        entries = journal(root, conversation)
        if entries:
            wrong += [f"{conversation}: {sentence}" for sentence in _of_one(str(root), conversation, entries)]
        elif files := [name for _, _, names in os.walk(f"{root}/conversations/{conversation}") for name in names]:
            wrong.append(f"{conversation} has no opening entry, but {files}")
        for turn in turns(entries):
            having = where.get(turn["id"], [])
            if [agent for agent, _ in having] != [turn["recipient"]] and (finished or having):
                wrong.append(f"turn {turn['turn']} of {conversation}, to {turn['recipient']}, is in {having}")
    wrong += [f"delivered and not committed: {name}" for name in _uncommitted(str(root), where)]
    return wrong + ([f"left behind: {path}" for path in drafts(root)] if finished else [])


def _of_one(root: str, conversation: str, entries: list[Json]) -> list[str]:
    fold = Fold(entries)
    wrong = list(fold.wrong)
    names = sorted(os.listdir(f"{root}/conversations/{conversation}/journal"))
    if names != [f"{number:04d}.json" for number in range(len(entries))]:
        wrong.append(f"a hole in the journal: {names}")
    again = [one for one, count in Counter(entry["id"] for entry in entries).items() if count > 1]
    wrong += [f"{one} is there twice" for one in again]
    wrong += [f"an entry of {e['conversation_id']}" for e in entries if e["conversation_id"] != conversation]
    return wrong + _snapshot(f"{root}/conversations/{conversation}/state.json", entries)


def _snapshot(path: str, entries: list[Json]) -> list[str]:
    """state.json tells how it stood after the entry that it names."""
    try:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
    except FileNotFoundError:
        return []
    known = [entry["id"] for entry in entries]
    if told["last_entry"] not in known:
        return [f"state.json names {told['last_entry']}, which is no entry"]
    fold = Fold(entries[: known.index(told["last_entry"]) + 1])
    flying = None if fold.state in ENDS else fold.turns[-1]["id"]
    said = (told["turn_count"], told["max_turns"], told["expires_at"], told["in_flight"])
    right = (len(fold.turns), fold.max_turns, fold.expires_at, flying)
    fits = told["state"] == fold.state or (told["state"], fold.state) == ("expired", "active")
    return [] if said == right and fits else [f"state.json says {told}, after that entry it is {fold.state}, {right}"]


def _uncommitted(root: str, where: dict[str, list[tuple[str, str]]]) -> list[str]:
    """Turns in a mailbox that no journal has: delivered before their commit."""
    known = {entry["id"] for conversation in ids(root) for entry in journal(root, conversation)}
    found = []
    for message, having in sorted(where.items()):
        path = f"{root}/messages/{_day(message)}/{message}.json"
        if message not in known and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
            if content.get("turn") is not None:
                found.append(f"{message} in {having}")
    return found


def _day(message: str) -> str:
    import time

    return time.strftime("%Y-%m-%d", time.gmtime(int(message[:8] + message[9:13], 16) / 1000))
