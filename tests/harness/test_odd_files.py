"""Settings that are no ordinary files, that few may read, or that others write at the same moment."""

import json
import os
import subprocess

import pytest

from harness.test_install import contents, install
from maildir_agents.errors import MailError
from maildir_agents.faces.install import files


@pytest.mark.needs("mknod", "a device that may be replaced")
def test_a_link_to_a_device_is_refused_and_the_device_stays_one(place, tmp_path):
    """People link a file to /dev/null to be left alone; root would replace /dev/null by a file of instructions."""
    device = tmp_path / "null"
    if subprocess.run(["mknod", device, "c", "1", "3"], check=False, capture_output=True).returncode:
        device = "/dev/null"  # not root, so it can only be refused
    (place.repository / "CLAUDE.md").symlink_to(device)
    refused = place("install", "claude", "--agent", "worker-x").refusal
    assert refused["code"] == "broken_settings" and refused["path"].endswith("CLAUDE.md")
    assert place("uninstall", "claude").refusal["code"] == "broken_settings"
    assert os.path.exists(device) and not os.path.isfile(device)
    assert sorted(path.name for path in place.repository.iterdir()) == [".git", "CLAUDE.md", "deep"]


def test_a_pipe_is_refused_and_not_waited_for(place):
    os.mkfifo(place.repository / ".mcp.json")
    assert place("install", "claude", "--agent", "worker-x").refusal["code"] == "broken_settings"


def test_links_in_a_circle_are_refused(place):
    (place.repository / ".mcp.json").symlink_to(".mcp.json")
    assert place("install", "claude", "--agent", "worker-x").refusal["code"] == "cannot_read"
    assert sorted(path.name for path in place.repository.iterdir()) == [".git", ".mcp.json", "deep"]


def test_a_draft_of_secret_settings_is_never_readable_by_more(monkeypatch, tmp_path):
    path = tmp_path / "settings.json"
    path.write_text("a secret")
    path.chmod(0o600)
    seen, real = [], os.open

    def opened(path, flags, *mode, **more):
        fd = real(path, flags, *mode, **more)
        if flags & os.O_CREAT:
            seen.append(os.fstat(fd).st_mode & 0o777)
        return fd

    old = os.umask(0)
    try:
        monkeypatch.setattr(os, "open", opened)
        files.write(str(path), "a secret", "another")
        files.write(str(tmp_path / "new"), None, "no secret")
    finally:
        monkeypatch.undo()
        os.umask(old)
    assert seen == [0o600, 0o666], "the second is the control: what is new is as the umask has it"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_stays_its_owner_s(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text("x")
    if os.geteuid() == 0:
        os.chown(path, 12345, 54321)
    before = path.stat()
    files.write(str(path), "x", "y")
    after = path.stat()
    assert path.read_text() == "y"
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)


def test_what_another_wrote_meanwhile_is_not_undone(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text("read")
    path.write_text("and then written by its tool")
    with pytest.raises(MailError) as refused:
        files.write(str(path), "read", "ours")
    assert refused.value.code == "busy"
    with pytest.raises(MailError):
        files.write(str(path), "read", None)
    assert path.read_text() == "and then written by its tool"
    with pytest.raises(MailError):
        files.write(str(path), None, "ours")
    assert os.listdir(tmp_path) == ["settings.json"], "no draft is left"


def test_a_draft_that_a_killed_one_left_is_in_nobody_s_way(place):
    for number in range(200):
        (place.repository / f"..mcp.json.{os.getpid() + number}.agent-mail").write_text("")
    install(place, "claude")
    assert "agent-mail" in (place.repository / ".mcp.json").read_text()


def test_installed_for_all_tools_at_once_each_is_there_or_has_said_that_it_is_not(place):
    """AGENTS.md is of three of them."""
    tools = ["codex", "cursor", "opencode"]
    running = {
        tool: subprocess.Popen(
            [place.command, "install", tool, "--agent", "worker-x"], cwd=place.repository, env=place.environ,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for tool in tools
    }  # fmt: skip
    said = {tool: process.communicate(timeout=60) for tool, process in running.items()}
    for tool, process in running.items():
        if process.returncode:
            assert json.loads(said[tool][1])["code"] == "busy", said[tool]
            install(place, tool)
    first = (place.repository / "AGENTS.md").read_text().splitlines()[0]
    assert "(codex, cursor, opencode)" in first
    for tool in tools:
        place("uninstall", tool)
    assert contents(place.repository) == {}


def test_from_a_directory_that_is_gone_only_one_s_own_settings_are_written(place, tmp_path):
    line = f'mkdir "{tmp_path}/gone" && cd "{tmp_path}/gone" && rmdir "{tmp_path}/gone" && exec "$0" install "$@"'

    def from_nowhere(*words):
        return subprocess.run(
            ["sh", "-c", line, place.command, *words], env=place.environ, capture_output=True, check=False
        )

    refused = from_nowhere("claude", "--agent", "worker-x")
    assert (refused.returncode, json.loads(refused.stderr)["code"]) == (64, "usage")
    assert contents(place.home) == {} and contents(place.repository) == {}
    assert from_nowhere("claude", "--user", "--agent", "worker-x").returncode == 0
    assert contents(place.home)
