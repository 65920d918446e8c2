"""A spool, a cache directory and the installed command, as a harness on this machine would meet them."""

import json
import os

import pytest

from faces.program import Program
from maildir_agents import Spool

WITHOUT_PRIVILEGES = (
    ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search")
    if os.geteuid() == 0
    else ()
)
"""Put before a command: for it permission bits count, also where the tests run as root."""


@pytest.fixture
def mail(command, tmp_path):
    """The command on a spool that syncs nothing, with `worker-x` and `peer` in it; XDG_CACHE_HOME is the test's own."""
    with Program(command, tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"), HOME=str(tmp_path / "home")) as program:
        spool = Spool(program.spool, durability="none")
        spool.init()
        spool.ack("worker-x", [spool.send(sender="peer", recipient="worker-x", subject="settled long ago")["id"]])
        yield program


@pytest.fixture
def hook(mail):
    """`hook("stop", {"session_id": …}, dialect="codex")` -> the answer, None for silence; the exit status is 0."""

    def run(event, told=None, *, agent="worker-x", dialect="claude", **rest):
        told = {"session_id": "s1"} if told is None else told
        data = told if isinstance(told, bytes) else json.dumps(told).encode()
        done = mail("hook", event, "--agent", agent, "--dialect", dialect, stdin=data, **rest)
        assert done.status == 0, done.err
        assert done.err == "", "a session has nothing to hear of a hook that went well"
        return json.loads(done.out) if done.out else None

    return run


@pytest.fixture
def place(command, tmp_path):
    """`place("install", "claude")` runs the command in a repository called Kunde X, with a HOME of its own."""
    (tmp_path / "Kunde X/.git").mkdir(parents=True)
    (tmp_path / "Kunde X/deep").mkdir()
    (tmp_path / "home").mkdir()
    with Program(command, tmp_path, HOME=str(tmp_path / "home")) as program:
        for name in ("AGENT_MAIL_SPOOL", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
            program.environ.pop(name, None)
        place = program

        def run(*words, cwd="Kunde X", **rest):
            return place(*words, cwd=tmp_path / cwd, **rest)

        run.command, run.environ = command, program.environ
        run.repository, run.home = tmp_path / "Kunde X", tmp_path / "home"
        yield run
