"""A tool killed before or after any program it runs leaves what the protocol says, and the next caller goes on.

Every program that a tool runs to change something is replaced by one that counts, and kills the tool at the nth.
"""

import os
import subprocess
from pathlib import Path

import pytest

from faces.program import Program
from maildir_agents import Spool

CHANGING = ("link", "ln", "mv", "rm", "mkdir", "rmdir", "sync", "awk", "dd")
MOST = 60  # programs that one tool may run

WRAPPER = """#!/bin/sh
n=$(($(cat "$KILLS/count") + 1))
echo $n >"$KILLS/count"
[ "$WHEN $n" != "before $AT" ] || { kill -KILL "$(cat "$KILLS/pid")"; exit 1; }
PATH=$REAL "${0##*/}" "$@"
told=$?
[ "$WHEN $n" != "after $AT" ] || kill -KILL "$(cat "$KILLS/pid")"
exit $told
"""


@pytest.fixture
def kills(tmp_path) -> Path:
    place = tmp_path / "kills"
    (place / "bin").mkdir(parents=True)
    for name in CHANGING:
        (place / "bin" / name).write_text(WRAPPER)
        (place / "bin" / name).chmod(0o755)
    return place


class Scene:
    """A spool with what a verb needs, and the tools on it."""

    def __init__(self, mail: Program, tools: Path, kills: Path) -> None:
        self.mail, self.tools, self.kills = mail, tools, kills
        self.environ = {**mail.environ, "REAL": os.environ["PATH"], "KILLS": str(kills)}
        self.spool = Spool(mail.spool)

    def tool(self, name: str, *words: str, at: int = 0, when: str = "before") -> "subprocess.CompletedProcess[str]":
        (self.kills / "count").write_text("0")
        path = f"{self.kills / 'bin'}:{os.environ['PATH']}" if at else os.environ["PATH"]
        script = 'echo $$ >"$KILLS/pid"; exec "$@"'
        return subprocess.run(
            ["dash", "-c", script, "sh", "dash", str(self.tools / f"spool-{name}"), *words],
            env={**self.environ, "AT": str(at), "WHEN": when, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            timeout=200,
        )

    def left(self) -> list[tuple[str, str]]:
        """(subject, state directory) of every message of bob's."""
        found = []
        for state in ("new", "cur", "claimed", "acked", "failed"):
            for path in (self.mail.spool / "agents/bob" / state).rglob("*.json"):
                found.append((self.tool("show", "--field", "subject", str(path)).stdout, state))
        return sorted(found)

    def doctor(self) -> list[str]:
        for draft in (self.mail.spool / "agents").glob("*/tmp/*"):
            os.utime(draft, (1, 1))  # a minute later
        self.tool("read", "bob"), self.tool("read", "alice")
        return [finding["code"] for finding in self.spool.doctor()["findings"] if finding["code"] != "lone_reason"]


@pytest.fixture
def scene(quick, repository, kills, needs):
    needs("dash", "the shell tools run under it")
    needs("flock", "spool-read holds the read lock")
    for agent in ("alice", "bob"):
        quick("read", agent)
    return Scene(quick, repository / "tools", kills)


def sweep(scene: Scene, act) -> int:
    """Kill at each program in turn until the tool comes to its end; how many that were."""
    for at in range(1, MOST):
        for when in ("before", "after"):
            done = act(at, when)
            if done.returncode == 0:
                return at
            assert done.returncode == -9, (at, when, done.returncode, done.stderr)
    raise AssertionError("it never came to its end")


def test_a_keyed_send_killed_anywhere_and_repeated_arrives_once(scene):
    def act(at, when):
        words = ("--from", "alice", "--to", "bob", "--subject", f"{when} {at}", "--dedup-key", f"{when} {at}")
        done = scene.tool("send", *words, at=at, when=when)
        retry = scene.tool("send", *words)
        assert retry.returncode == 0, retry.stderr
        assert scene.tool("send", *words).stdout == retry.stdout
        assert [state for subject, state in scene.left() if subject == f"{when} {at}"] == ["new"], (at, when)
        return done

    assert sweep(scene, act) > 5
    assert scene.doctor() == []


def test_a_plain_send_killed_anywhere_arrives_once_or_not_at_all(scene):
    arrived = set()

    def act(at, when):
        done = scene.tool("send", "--from", "alice", "--to", "bob", "--subject", f"{when} {at}", at=at, when=when)
        scene.tool("claim", "bob", "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02")  # collects
        states = [state for subject, state in scene.left() if subject == f"{when} {at}"]
        assert states in ([], ["new"]), (at, when)
        arrived.add(len(states))
        return done

    assert sweep(scene, act) > 3
    assert arrived == {0, 1}
    assert scene.doctor() == []


@pytest.mark.parametrize("verb", ["claim", "ack", "read", "release", "renew", "reply", "dead letter"])
def test_a_move_killed_anywhere_leaves_one_state_and_can_be_repeated(scene, verb):
    spool = scene.spool
    begun = {"release": ["claim"], "renew": ["claim"], "ack": ["claim"]}.get(verb, [])
    ends = {"claim": "claimed", "ack": "acked", "read": "cur", "release": "new", "renew": "claimed", "reply": "acked"}

    def act(at, when):
        subject = f"{when} {at}"
        message = spool.send(sender="alice", recipient="bob", subject=subject)["id"]
        if verb == "dead letter":
            path = scene.mail.spool / f"agents/bob/new/{message}~n1.json"
            path.write_text("{}")
            os.utime(path, (1, 1))
        handle = spool.claim("bob", message)["handle"] if begun else message
        words = {
            "claim": ("claim", "bob", message),
            "read": ("read", "bob"),
            "reply": ("send", "--from", "bob", "--to", "alice", "--subject", "re", "--reply-to", message,
                      "--dedup-key", subject),
            "dead letter": ("claim", "bob"),
        }.get(verb, (verb, "--as", "bob", handle))  # fmt: skip
        done = scene.tool(*words, at=at, when=when)
        states = [state for told, state in scene.left() if told == subject]
        assert len(states) == 1, (at, when, states)
        again = scene.tool(*words)
        assert again.returncode in ((0, 77) if verb in ("claim", "release") else (0,)), (again.returncode, again.stderr)
        states = [state for told, state in scene.left() if told == subject]
        if verb != "dead letter":
            assert states == [ends[verb]], (at, when)
        for held in list(spool.read("bob", unacked=True, limit=100, mark=False).__enter__().messages):
            token = held["token"]
            spool.ack("bob", [f"{held['id']}~n{token}" if held["claim_expires_at"] else held["id"]])
        return done

    assert sweep(scene, act) > 1
    assert scene.doctor() == []


FULL = """#!/bin/sh
if [ -e "$AGENT_MAIL_SPOOL/ballast/14" ]; then
    echo "${0##*/}: cannot go on: No space left on device" >&2
    exit 1
fi
PATH=$REAL exec "${0##*/}" "$@"
"""


@pytest.mark.parametrize("program", ["mv", "mkdir"])
def test_on_a_full_disk_an_acknowledgement_takes_ballast_and_a_send_does_not(scene, program):
    message = scene.spool.send(sender="alice", recipient="bob", subject="s")["id"]
    for name in CHANGING:
        (scene.kills / "bin" / name).unlink()
    (scene.kills / "bin" / program).write_text(FULL)
    (scene.kills / "bin" / program).chmod(0o755)
    before = len(list((scene.mail.spool / "ballast").iterdir()))
    assert before == 16
    refused = scene.tool("send", "--from", "alice", "--to", "bob", "--subject", "s", at=1)
    # Before the commit nothing was sent; after it the message is, and whoever comes next delivers it.
    assert refused.returncode == (74 if program == "mv" else 0)
    assert len(list((scene.mail.spool / "ballast").iterdir())) == 16
    done = scene.tool("ack", "--as", "bob", message, at=1)
    assert done.returncode == 0, done.stderr
    assert len(list((scene.mail.spool / "ballast").iterdir())) == 14
    assert ("s", "acked") in scene.left()
