"""Settings of five tools: put in, put in again, taken out; everything else in the files stays, byte for byte."""

import json
import os
import stat
import subprocess
import tomllib

import pytest

TOOLS = ["claude", "codex", "gemini", "cursor", "opencode"]
FILES = {
    ("claude", "project"): {".claude/settings.json", ".mcp.json", "CLAUDE.md"},
    ("codex", "project"): {".codex/hooks.json", ".codex/config.toml", "AGENTS.md"},
    ("gemini", "project"): {".gemini/settings.json", "GEMINI.md"},
    ("cursor", "project"): {".cursor/hooks.json", ".cursor/mcp.json", "AGENTS.md"},
    ("opencode", "project"): {"opencode.json", "AGENTS.md"},
    ("claude", "user"): {".claude/settings.json", ".claude.json", ".claude/CLAUDE.md"},
    ("codex", "user"): {".codex/hooks.json", ".codex/config.toml", ".codex/AGENTS.md"},
    ("gemini", "user"): {".gemini/settings.json", ".gemini/GEMINI.md"},
    ("cursor", "user"): {".cursor/hooks.json", ".cursor/mcp.json"},
    ("opencode", "user"): {".config/opencode/opencode.json", ".config/opencode/AGENTS.md"},
}
each = pytest.mark.parametrize("tool, scope", FILES, ids=[" ".join(pair) for pair in FILES])

FOREIGN = {
    "settings.json": '{\n\t"model": "x",  \n\n\t"hooks": { "Stop": [ {"hooks": [ {"command":"own"} ]} ] }\n}',
    "hooks.json": '{"version": 1, "hooks": {"stop": [{"command": "own"}], "Stop": []}}\n',
    ".mcp.json": '{"mcpServers":{"other":{"command":"x"}}}',
    "mcp.json": '{"mcpServers":{}}\n',
    ".claude.json": '{"numStartups": 7, "projects": {"/p": {"mcpServers": {}}}}',
    "config.toml": '# mine\nmodel = "x" # why\n\n[mcp_servers.other]\ncommand = "y"',
    "opencode.json": '{\n  // JSON with comments\n  "theme": "x", /* and commas */\n}\n',
    "CLAUDE.md": "# Rules\r\n\r\nBe kind.\r\n",
    "AGENTS.md": "# Rules\n\nBe kind.",
    "GEMINI.md": "",
}


def top(place, scope):
    return place.repository if scope == "project" else place.home


def contents(directory) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and ".git/" not in str(path)
    }


def install(place, tool, scope="project", *words, agent="worker-x"):
    return place("install", tool, f"--{scope}", "--agent", agent, *words).answer


@each
def test_into_nothing_and_out_again_nothing_is_left(place, tool, scope):
    answer = install(place, tool, scope)
    made = contents(top(place, scope))
    assert set(made) == FILES[tool, scope]
    assert {(os.path.relpath(f["path"], top(place, scope)), f["change"]) for f in answer["files"]} == {
        (name, "made") for name in made
    }
    assert answer["then"]
    again = install(place, tool, scope)
    assert {f["change"] for f in again["files"]} == {"unchanged"}
    assert contents(top(place, scope)) == made
    out = place("uninstall", tool, f"--{scope}").answer
    assert {f["change"] for f in out["files"]} == {"removed"}
    assert contents(top(place, scope)) == {}
    assert [p.name for p in top(place, scope).iterdir() if p.name in (".claude", ".codex", ".gemini", ".cursor")] == []
    assert {f["change"] for f in place("uninstall", tool, f"--{scope}").answer["files"]} == {"unchanged"}


@each
def test_beside_foreign_settings_and_out_again_every_byte_is_back(place, tool, scope):
    for name in FILES[tool, scope]:
        path = top(place, scope) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FOREIGN[path.name].encode())
        path.chmod(0o640)
    before = contents(top(place, scope))
    install(place, tool, scope)
    with_ours = contents(top(place, scope))
    assert all(with_ours[name] != before[name] for name in before)
    install(place, tool, scope)
    assert contents(top(place, scope)) == with_ours
    install(place, tool, scope, agent="worker-y")
    assert all(b"worker-x" not in data for data in contents(top(place, scope)).values())
    place("uninstall", tool, f"--{scope}")
    assert contents(top(place, scope)) == before
    assert {stat.S_IMODE((top(place, scope) / name).stat().st_mode) for name in before} == {0o640}


@each
def test_a_dry_run_shows_a_diff_that_patch_takes_and_writes_nothing(place, tool, scope, needs, tmp_path):
    patch = needs("patch", "a unified diff is one that it takes")
    for name in FILES[tool, scope]:
        path = top(place, scope) / name
        if path.suffix == ".md":
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FOREIGN[path.name].encode())
    before = contents(tmp_path)
    shown = place("install", tool, f"--{scope}", "--agent", "worker-x", "--dry-run")
    assert shown.status == 0
    assert shown.out.startswith("--- ") and "worker-x" in shown.out
    assert contents(tmp_path) == before
    done = subprocess.run([patch, "-p1", "-d", "/"], input=shown.out.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
    assert {f["change"] for f in install(place, tool, scope)["files"]} == {"unchanged"}
    assert place("uninstall", tool, f"--{scope}", "--dry-run").out.startswith("--- ")
    install(place, tool, scope)
    assert place("install", tool, f"--{scope}", "--agent", "worker-x", "--dry-run").out == ""


BROKEN = {
    ".json": [b'{"a": 1,', b"", b"[1, 2]", b'{"a": 1, "a": 2}', b'{"hooks": [], "mcpServers": 1, "mcp": "x"}', b"\xff"],
    ".toml": [
        b"[x",
        b"mcp_servers = {}\n",
        b"[[mcp_servers]]\n",
        b"[mcp_servers.agent-mail]\ncommand = 'mine'\n",
        b"\xff",
    ],
    ".md": [b"<!-- agent-mail: begin worker-x (claude) - -->\nno end\n", b"\xff"],
}


@each
def test_a_broken_file_is_refused_and_none_is_touched(place, tool, scope):
    for name in FILES[tool, scope]:
        path = top(place, scope) / name
        for content in BROKEN[path.suffix]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            before = contents(top(place, scope))
            refused = place("install", tool, f"--{scope}", "--agent", "worker-x")
            assert refused.status == 73, (name, content, refused.out)
            assert refused.refusal["code"] == "broken_settings"
            assert str(path) in refused.refusal["error"]
            assert contents(top(place, scope)) == before
        path.unlink()


def test_a_server_of_the_same_name_that_is_somebody_else_s_is_left_alone(place):
    foreign = '{"mcpServers": {"agent-mail": {"command": "postfix"}}}'
    (place.repository / ".mcp.json").write_text(foreign)
    assert place("install", "claude").refusal["code"] == "broken_settings"
    assert contents(place.repository) == {".mcp.json": foreign.encode()}


def test_hooks_that_were_put_beside_ours_stay(place):
    install(place, "claude")
    path = place.repository / ".claude/settings.json"
    settings = json.loads(path.read_text())
    settings["hooks"]["Stop"][0]["hooks"].insert(0, {"type": "command", "command": "theirs"})
    settings["hooks"]["PreToolUse"] = [{"hooks": []}]
    path.write_text(json.dumps(settings))
    place("uninstall", "claude")
    assert json.loads(path.read_text()) == {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}], "PreToolUse": [{"hooks": []}]}
    }


def test_a_link_is_followed_and_stays_a_link(place):
    real = place.home / "dotfiles.json"
    real.write_text('{"model": "x"}\n')
    real.chmod(0o600)
    (place.home / ".claude").mkdir()
    link = place.home / ".claude/settings.json"
    link.symlink_to(real)
    install(place, "claude", "user")
    assert link.is_symlink() and "hook stop" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    place("uninstall", "claude", "--user")
    assert link.is_symlink() and real.read_text() == '{"model": "x"}\n'


def test_a_link_to_nothing_is_filled_and_emptied_again(place):
    (place.repository / "AGENTS.md").symlink_to(place.home / "agents.md")
    install(place, "opencode")
    assert (place.home / "agents.md").exists()
    place("uninstall", "opencode")
    assert (place.repository / "AGENTS.md").is_symlink() and not (place.home / "agents.md").exists()


def test_two_tools_share_a_block_and_the_last_one_takes_it_along(place):
    for tool in ("codex", "cursor", "opencode"):
        install(place, tool)
    text = (place.repository / "AGENTS.md").read_text()
    assert text.count("You are the agent `worker-x`") == 1
    for tool in ("opencode", "codex"):
        place("uninstall", tool)
        assert "You are the agent" in (place.repository / "AGENTS.md").read_text()
    place("uninstall", "cursor")
    assert contents(place.repository) == {}


def test_the_agent_is_named_after_the_repository_wherever_one_stands_in_it(place):
    assert place("install", "claude", cwd="Kunde X/deep").answer["agent"] == "worker-kunde-x"
    block = (place.repository / "CLAUDE.md").read_text()
    first_step = next(line for line in block.splitlines() if line.startswith("1. "))
    assert "`agent-mail read worker-kunde-x`" in first_step


@pytest.mark.parametrize(
    "name, agent", [("repo", "worker-repo"), ("Ünï Çode!", "worker-n-ode"), ("a" * 200, None), ("...", None)]
)
def test_a_slug_is_a_good_name_or_refused(name, agent):
    from maildir_agents.errors import MailError
    from maildir_agents.faces.install.work import default_agent
    from maildir_agents.mail.name import is_agent

    try:
        made = default_agent(f"/x/{name}")
    except MailError as error:
        assert error.code == "bad_agent" and agent is None
        return
    assert is_agent(made) and agent in (None, made)


@pytest.mark.parametrize("tool", TOOLS)
def test_for_all_repositories_the_agent_must_be_named(place, tool):
    refused = place("install", tool, "--user").refusal
    assert refused["code"] == "usage" and "--agent" in refused["hint"]
    assert place("install", tool, "--user", "--project", "--agent", "a").refusal["code"] == "usage"
    assert place("install", tool, "--agent", "Not A Name").refusal["code"] == "bad_agent"
    assert contents(place.home) == {}


def test_an_uninstall_for_one_agent_leaves_another_s(place):
    install(place, "claude", agent="worker-x")
    before = contents(place.repository)
    place("uninstall", "claude", "--agent", "worker-y")
    assert contents(place.repository) == before
    place("uninstall", "claude", "--agent", "worker-x")
    assert contents(place.repository) == {}


def test_what_is_written_runs_from_anywhere(place, command, tmp_path):
    """The hook as it stands in the settings, run by a shell with nothing in PATH but the system's own."""
    install(place, "codex")
    [group] = json.loads((place.repository / ".codex/hooks.json").read_text())["hooks"]["SessionStart"]
    line = group["hooks"][0]["command"]
    environ = {"HOME": str(place.home), "PATH": "/usr/bin:/bin"}
    place("send", "--from", "peer", "--to", "worker-x", "--subject", "s")
    done = subprocess.run(["sh", "-c", line], env=environ, input=b"{}", capture_output=True, cwd="/", check=False)
    assert b"1 unread" in done.stdout, done.stderr
    server = tomllib.loads((place.repository / ".codex/config.toml").read_text())["mcp_servers"]["agent-mail"]
    environment = {"AGENT_ID": "worker-x"}
    assert server == {"command": command, "args": ["mcp"], "env": environment, "startup_timeout_sec": 30}


def test_another_name_for_the_program_may_be_written_for_settings_that_are_shared(place):
    install(place, "claude", "project", "--command", "agent-mail")
    assert '"agent-mail hook stop --agent worker-x"' in (place.repository / ".claude/settings.json").read_text()


def test_a_spool_that_is_not_the_usual_one_is_written_along(place, tmp_path):
    spool = str(tmp_path / "a spool")
    install(place, "claude", "project", "--spool", spool)
    settings = (place.repository / ".claude/settings.json").read_text()
    assert f"hook stop --agent worker-x --spool '{spool}'" in settings
    server = json.loads((place.repository / ".mcp.json").read_text())["mcpServers"]["agent-mail"]
    assert server["env"] == {"AGENT_ID": "worker-x", "AGENT_MAIL_SPOOL": spool}
    assert f"--spool '{spool}'" in (place.repository / "CLAUDE.md").read_text()
    place("uninstall", "claude")
    assert contents(place.repository) == {}


def test_the_settings_of_opencode_may_be_called_jsonc(place):
    (place.repository / "opencode.jsonc").write_text("{ // mine\n}\n")
    install(place, "opencode")
    assert "agent-mail" in (place.repository / "opencode.jsonc").read_text()
    assert not (place.repository / "opencode.json").exists()
    place("uninstall", "opencode")
    assert contents(place.repository) == {"opencode.jsonc": b"{ // mine\n}\n"}


def test_a_place_that_cannot_be_written_says_what_was_written_before(place):
    (place.repository / ".mcp.json").mkdir()
    refused = place("install", "claude").refusal
    assert refused["code"] == "cannot_read"
    assert contents(place.repository) == {}
    (place.repository / ".mcp.json").rmdir()
    (place.repository / "CLAUDE.md").symlink_to("/proc/nowhere/CLAUDE.md")
    refused = place("install", "claude").refusal
    assert [os.path.basename(path) for path in refused["written"]] == ["settings.json", ".mcp.json"]
    assert not list(place.repository.rglob("*.agent-mail")), "no draft is left"


def test_what_is_installed_is_told_as_json_and_a_plugin_only_named(place):
    answer = place("install", "claude", "--plugin").answer
    assert os.path.exists(f"{answer['plugin']}/.claude-plugin/plugin.json")
    assert contents(place.repository) == {} and contents(place.home) == {}
    assert place("install", "codex", "--plugin").refusal["code"] == "usage"
