"""The listener as a tool: the agent sees and decides whether its own may run."""

import json

import pytest

pytest.importorskip("mcp", reason="needs mcp: the listener as a tool")

import proc
from faces.program import until
from maildir_agents.faces.mcp.desk import Desk
from maildir_agents.mail.spool import SpoolFiles


def test_the_tool_tells_dead_from_disabled_and_starts_it_once(scene):
    desk = Desk(lambda: SpoolFiles(scene.root), "bob", scene.mail.environ)
    none = {"enabled": True, "running": False, "pid": None, "waiting_on": None}
    assert desk.listen("status") == none
    assert desk.listen("disable") == {**none, "enabled": False}
    started = desk.listen("enable")
    assert started == {**none, "running": True, "pid": started["pid"]}
    assert desk.listen("enable") == started
    assert json.loads((scene.box("bob") / "listener.json").read_text())["pid"] == started["pid"]
    assert desk.listen("disable")["enabled"] is False
    until(lambda: not proc.runs(started["pid"]), "it has ended by itself")
    assert desk.listen("status") == {**none, "enabled": False}
