"""The real clients, with model APIs of our own on loopback, each in a network namespace with nothing else in it.

Asked for by AGENT_MAIL_REAL_CLIENTS=1: it installs three programs from npm (half a gigabyte) and starts them.
AGENT_MAIL_CLIENTS=DIR takes the `node_modules` that is there.  docs/reference/hooks.md records a run.
"""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex", "gemini": "@google/gemini-cli"}
STAGE = Path(__file__).parent / "real/stage.py"
NEWS = "Mail for worker-x: "

pytestmark = [
    pytest.mark.skipif(not os.environ.get("AGENT_MAIL_REAL_CLIENTS"), reason="asked for by AGENT_MAIL_REAL_CLIENTS=1"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="session")
def clients(needs, tmp_path_factory) -> Path:
    """The directory with the clients' programs."""
    needs("ip", "a network namespace with loopback")
    if given := os.environ.get("AGENT_MAIL_CLIENTS"):
        return Path(given) / ".bin"
    npm, place = needs("npm", "real coding agents"), tmp_path_factory.mktemp("clients")
    subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", *(f"{name}@latest" for name in PACKAGES.values())],
        cwd=place,
        check=True,
        timeout=500,
    )
    installer = place / "node_modules" / PACKAGES["claude"] / "install.cjs"
    if installer.exists():  # npm may not have run it
        subprocess.run([needs("node", "real coding agents"), installer], check=True, timeout=100)
    return place / "node_modules/.bin"


@pytest.fixture
def play(clients, needs, command, tmp_path):
    """`play("claude_turn")` -> what was seen in that scenario of real/stage.py."""
    unshare = needs("unshare", "a network namespace")

    def run(scenario):
        client = clients / scenario.partition("_")[0]
        place = tmp_path / "stage"
        place.mkdir()
        script = 'ip link set lo up && exec "$@"'
        alone = [unshare, "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh"]
        words = [*alone, sys.executable, str(STAGE), scenario, str(client), command, str(place)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=400)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_the_stage_reaches_nothing_but_loopback(needs):
    """The negative control: in such a namespace no address but loopback has a route."""
    unshare = needs("unshare", "a network namespace")
    script = "ip link set lo up && ip route get 127.0.0.1 && ! ip route get 192.0.2.1 && ! ip -6 route get 2001:db8::1"
    subprocess.run([unshare, "--net", "sh", "-c", script], check=True, capture_output=True)


@pytest.mark.parametrize("client", PACKAGES)
def test_the_start_of_a_session_tells_of_mail_and_its_end_is_held_up_three_times(play, client):
    seen = play(f"{client}_turn")
    assert seen["status"] == 0, seen
    texts = seen["texts"]
    assert len(texts) == 4, "one turn, held up three times, then let go"
    told = [text.count(NEWS) for text in texts]
    assert told[0] >= 1
    assert [later - earlier for earlier, later in itertools.pairwise(told)] == [told[1] - told[0]] * 3
    assert told[1] > told[0]


@pytest.mark.parametrize("client", PACKAGES)
def test_the_mail_is_read_and_acknowledged_by_tools(play, client):
    seen = play(f"{client}_tools")
    assert seen["status"] == 0, seen
    assert seen["unacked"] == 0
    assert any(name.endswith("send_message") for name in seen["tools"])
    assert "by tool" in seen["texts"][-1]


def test_an_idle_session_of_claude_code_is_woken_again_and_again(play):
    seen = play("claude_rewake")
    assert "failed" not in seen, seen
    assert seen["before"] == 0, "nobody typed anything"
    assert {"woken_1_s", "woken_2_s"} <= seen.keys()
    assert seen["watching_after"] is False


def test_the_plugin_of_claude_code_is_valid_and_its_monitor_wakes(play):
    seen = play("claude_plugin")
    assert "failed" not in seen, seen
    assert (seen["validated"], seen["added"], seen["installed"]) == (0, 0, 0), seen["said"]
    assert any("Monitor event" in text and NEWS in text for text in seen["texts"])
