"""The recipes for coding agents, as dry runs: a program of that name records what it was given."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from listener.rehearsal import rehearsal

TOP = Path(__file__).parent.parent.parent
PAGE = (TOP / "docs/how-to/dispatch-workers.md").read_text(encoding="utf-8")
RECIPES = {
    entry["command"][1]: entry["command"]
    for text in re.findall(r"^```json\n(.*?)^```", PAGE, re.M | re.S)
    if '"auto"' in text
    for entry in json.loads(text)["auto"].values()
}
STUB = """#!/bin/sh
for word in "$@"; do printf '%s\\0' "$word"; done > "$RECORDED.argv"
cat > "$RECORDED.stdin"
exit "$STATUS"
"""


def files() -> dict[str, str]:
    """What the page lets its reader write."""
    return dict(re.findall(r"^<!-- file: (mail-worker\S*) -->\n```\w+\n(.*?)^```", PAGE, re.M | re.S))


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name, text in files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("RECORDED", f"{tmp_path}/recorded")
    return tmp_path


def dispatched(place, program, status, monkeypatch) -> tuple[str, str, list[str], str]:
    """(the conversation's state, the message's id, the program's arguments, its input)."""
    (place / "bin" / program).write_text(STUB, encoding="utf-8")
    (place / "bin" / program).chmod(0o755)
    monkeypatch.setenv("STATUS", str(status))
    with rehearsal() as play:
        command = [word.replace("/opt/agents/", f"{place}/") for word in RECIPES[program]]
        play.configure(json.dumps({"auto": {"worker-docs": {"command": command}}}))
        begun = play.spool.start_conversation(sender="hub", recipient="worker-docs", goal="write", body="a secret\n")
        play.open("worker-docs")
        play.play()
        state = play.of(begun["conversation_id"])
    argv = (place / "recorded.argv").read_text(encoding="utf-8").split("\0")[:-1]
    return state, begun["message_id"], argv, (place / "recorded.stdin").read_text(encoding="utf-8")


def test_there_is_a_recipe_for_each_harness():
    assert list(RECIPES) == ["claude", "codex", "gemini", "opencode"]
    assert sorted(files()) == ["mail-worker", "mail-worker.md"]


@pytest.mark.parametrize("program", RECIPES)
def test_the_harness_gets_its_instructions_and_the_message_and_its_arguments_tell_nothing(place, program, monkeypatch):
    state, message, argv, given = dispatched(place, program, 0, monkeypatch)
    assert argv == RECIPES[program][2:]
    instructions = files()["mail-worker.md"]
    assert given.startswith(instructions)
    told = json.loads(given.removeprefix(instructions))
    assert (told["id"], told["body"], told["recipient"]) == (message, "a secret\n", "worker-docs")
    assert not any(part in word for word in argv for part in (message, "secret"))
    assert state == "needs_human", "a harness that ends without an answer leaves it to a human"


def test_what_the_harness_ends_with_is_the_workers_status(place, monkeypatch):
    state, *_ = dispatched(place, "claude", 100, monkeypatch)
    assert state == "needs_human"
    state, *_ = dispatched(place, "claude", 3, monkeypatch)
    assert state == "active", "it is tried again"


@pytest.mark.needs("shellcheck", "the script of the recipes")
def test_the_script_is_sound(place):
    subprocess.run(["shellcheck", str(place / "mail-worker")], check=True)
