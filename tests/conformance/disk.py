"""What lies in a spool, read without any implementation: names by the regular expressions of spool/README.md."""

import json
import os
import re
from pathlib import Path

STATES = ("new", "cur", "claimed", "acked", "archive", "failed")
_README = (Path(__file__).parents[2] / "spool/README.md").read_text(encoding="utf-8")
_PATTERNS = dict(
    re.findall(r"^(id|time|number|boot|worker|unknown) +(\S+)$", _README.split("As regular expressions", 1)[1], re.M)
)
_VALUES = {"r": "time", "n": "number", "q": "number", "x": "time", "b": "boot", "w": "worker", "a": "time", "z": "time",
           "d": "number"}  # fmt: skip


def stamps(name: str) -> dict[str, str]:
    """The stamps of a message name, which must be one: the known ones in their order, then the unknown ones."""
    assert name.endswith(".json"), name
    message_id, *parts = name.removesuffix(".json").split("~")
    assert re.fullmatch(_PATTERNS["id"], message_id), name
    found = {part[0]: part[1:] for part in parts}
    assert len(found) == len(parts), name
    known = [letter for letter in found if letter in _VALUES]
    assert list(found)[: len(known)] == known == sorted(known, key="rnqxbwazd".index), name
    for letter in known:
        assert re.fullmatch(_PATTERNS[_VALUES[letter]], found[letter]), name
    return found


class Mailbox:
    def __init__(self, spool: Path, agent: str) -> None:
        self.spool, self.path = spool, spool / "agents" / agent

    def where(self, message_id: str) -> list[tuple[str, dict[str, str]]]:
        """(state, stamps) of every name of an id."""
        return [
            (state, stamps(path.name))
            for state in STATES
            for path in sorted((self.path / state).rglob(f"{message_id}*.json"))
            if not path.name.endswith(".reason.json")
        ]

    def one(self, message_id: str) -> tuple[str, dict[str, str]]:
        [place] = self.where(message_id)
        return place

    def file(self, message_id: str) -> Path:
        [path] = [p for s in STATES for p in (self.path / s).rglob(f"{message_id}*.json") if ".reason." not in p.name]
        return path

    def reasons(self) -> dict[str, str]:
        """id -> code of every dead letter."""
        told = [json.loads(path.read_bytes()) for path in (self.path / "failed").glob("*.reason.json")]
        return {reason["id"]: reason["code"] for reason in told}

    def put(self, state: str, message_id: str, data: bytes, more: str = "") -> Path:
        """A file under a name in a state, written some time ago."""
        day, minute = when(message_id)
        directory = self.path / state / (f"{day}/{minute}" if state in ("acked", "archive") else "")
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{message_id}{more}.json"
        path.write_bytes(data)
        os.utime(path, (1_790_000_000, 1_790_000_000))
        return path

    def anchor(self, message_id: str) -> Path:
        return self.spool / "messages" / when(message_id)[0] / f"{message_id}.json"

    def anchored(self, path: Path, message_id: str) -> None:
        self.anchor(message_id).parent.mkdir(exist_ok=True)
        os.link(path, self.anchor(message_id))


def when(message_id: str) -> tuple[str, str]:
    """The day and the minute of an id."""
    from datetime import UTC, datetime

    instant = datetime.fromtimestamp(int(message_id[:13].replace("-", ""), 16) / 1000, UTC)
    return instant.strftime("%Y-%m-%d"), instant.strftime("%H%M")
