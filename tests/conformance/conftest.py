"""`each` is one implementation on a spool of its own, for a whole file; AGENT_MAIL_IMPLEMENTATION adds a third."""

import os
import shutil
from itertools import count
from pathlib import Path

import pytest

from conformance.adapters import Command, Implementation, Mcp, Python, Third, Tools
from maildir_agents import Spool

HERE = Path(__file__).parent
PROGRAM = os.environ.get("AGENT_MAIL_IMPLEMENTATION")
VERBS = {"python": Python.verbs, "command": Command.verbs, "tools": Tools.verbs, "mcp": Mcp.verbs,
         "third": Third.asked(PROGRAM) if PROGRAM else frozenset()}  # fmt: skip
KNOWN = ["python", "command", "tools-dash", "tools-busybox", "tools-bash", "mcp", *(["third"] if PROGRAM else [])]
SHELLS = {"dash": ("dash",), "busybox": ("busybox", "sh"), "bash": ("bash", "--posix")}
_numbers = count(1)


def pytest_collection_modifyitems(config, items) -> None:
    """Leave out what asks an implementation for a verb that it has not; no test passes by not looking."""
    left_out = []
    for item in items:
        parameters = (getattr(item, "callspec", None) and item.callspec.params) or {}
        if item.path.parent == HERE and "each" in parameters:
            wanted = {verb for mark in item.iter_markers("asks") for verb in mark.args}
            wanted |= {parameters["verb"]} if "verb" in parameters else set()
            if not wanted <= VERBS[parameters["each"].partition("-")[0]]:
                left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(scope="session")
def make(command, repository, needs):
    """`make(name, spool, place)` -> that implementation; skips where its shell is missing."""

    def made(name: str, spool, place) -> Implementation:
        kind, _, shell = name.partition("-")
        if shell:
            needs(shell, "the shell tools run under it")
            return Tools(spool, repository / "tools", *SHELLS[shell])
        if kind == "mcp":
            return Mcp(spool, command, place)
        if kind == "third":
            return Third(spool, str(PROGRAM))
        return Python(spool) if kind == "python" else Command(spool, command)

    return made


@pytest.fixture(scope="module", params=KNOWN)
def each(request, make, tmp_path_factory):
    place = tmp_path_factory.mktemp(request.param)
    spool = Spool(place / "spool", durability="none")
    spool.init()
    for agent in ("alice", "bob"):
        with spool.read(agent):
            pass
    implementation = make(request.param, place / "spool", place)
    implementation.verbs = VERBS[request.param.partition("-")[0]]
    yield implementation
    implementation.close()
    shutil.rmtree(place)


@pytest.fixture
def fresh():
    """A new id each time it is called."""
    return lambda: f"01a22dc8-4ffb-7e11-9d3f-{next(_numbers):012x}"
