"""The plugin for Claude Code: shipped, consistent with the package, valid by Claude Code's own check."""

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

import maildir_agents
from maildir_agents.faces.cli import VERBS, load
from maildir_agents.faces.cli.words import parse

PLACE = Path(str(files("maildir_agents") / "_plugin"))
PLUGIN = PLACE / "agent-mail"


def read(name):
    return json.loads((PLUGIN / name).read_text(encoding="utf-8"))


def commands() -> list[str]:
    hooks = read("hooks/hooks.json")["hooks"]
    found = [handler["command"] for groups in hooks.values() for group in groups for handler in group["hooks"]]
    return found + [monitor["command"] for monitor in read("monitors/monitors.json")]


def test_it_has_the_package_s_version_and_one_name():
    manifest, market = (
        read(".claude-plugin/plugin.json"),
        json.loads((PLACE / ".claude-plugin/marketplace.json").read_text()),
    )
    assert manifest["version"] == maildir_agents.__version__
    [listed] = market["plugins"]
    assert listed["name"] == manifest["name"] == "agent-mail"
    assert (PLACE / listed["source"] / ".claude-plugin/plugin.json").exists()
    assert (PLUGIN / manifest["experimental"]["monitors"]).exists()


def test_its_hooks_are_commands_that_there_are():
    for command in commands():
        program, verb, *words = command.split()
        assert program == "agent-mail" and verb in VERBS
        assert parse(verb, load(verb).ROW, words, {"AGENT_ID": "worker-x"})["agent"] == "worker-x"
    assert {command.split()[2] for command in commands()} == {"session-start", "prompt", "stop", "monitor"}


def test_its_server_takes_the_agent_from_the_environment():
    assert read(".mcp.json")["mcpServers"] == {
        "mail": {"command": "agent-mail", "args": ["mcp"], "env": {"AGENT_ID": "${AGENT_ID}"}}
    }


def test_its_skill_names_itself_and_only_commands_that_there_are():
    text = (PLUGIN / "skills/agent-mail/SKILL.md").read_text(encoding="utf-8")
    front = re.match(r"---\nname: agent-mail\ndescription: (.+)\n---\n", text)
    assert front and len(front[1]) <= 1536
    _commands_exist(text)


@pytest.mark.parametrize("name", ["protocol.md", "CLAUDE.md", "AGENTS.md"])
def test_the_session_protocol_names_only_commands_that_there_are_and_reads_first(name):
    text = (files("maildir_agents") / "_protocol" / name).read_text(encoding="utf-8")
    _commands_exist(text)
    if name == "protocol.md":
        steps = [line for line in text.splitlines() if re.match(r"\d\. ", line)]
        assert "`agent-mail read {agent}`" in steps[0]
    else:
        assert text.startswith("{protocol}\n6. ")


def _commands_exist(text: str) -> None:
    found = re.findall(r"`agent-mail ([a-z]+)((?: [^`]*)?)`", text)
    assert found
    for verb, rest in found:
        assert verb in VERBS
        row = load(verb).ROW
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in row["args"], f"{verb} {option}"
