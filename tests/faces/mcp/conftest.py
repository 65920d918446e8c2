import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from faces.mcp.seat import Seat
from faces.program import Program
from maildir_agents import Spool


def _place(command: str, place: Path) -> Iterator[Program]:
    with Program(command, place) as program:
        Spool(program.spool, durability="none").init()
        yield program


@pytest.fixture
def post(command, tmp_path):
    """The command on a spool of this test's own that syncs nothing."""
    yield from _place(command, tmp_path)


@pytest.fixture(scope="module")
def shared(command, tmp_path_factory):
    """The same, for a whole file."""
    yield from _place(command, tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def hub(shared):
    """One who speaks the protocol of today; for tests that look at their own messages only."""
    with Seat(shared, "hub") as seat:
        yield seat


@pytest.fixture(scope="module")
def docs(shared):
    """One who shakes hands as clients did before."""
    with Seat(shared, "docs", mode="legacy") as seat:
        yield seat


@pytest.fixture(scope="module")
def stranger(shared):
    with Seat(shared, "stranger") as seat:
        yield seat


@pytest.fixture
def later(tmp_path):
    """The command under a clock of the test's own: (the command on a spool, its file of milliseconds to add)."""
    ahead, command = tmp_path / "ahead", tmp_path / "agent-mail"
    ahead.write_text("0")
    command.write_text(f"""#!{sys.executable}
from pathlib import Path
from maildir_agents.disk.clock import Clock
from maildir_agents.faces.cli import main
wall_ms = Clock.wall_ms
Clock.wall_ms = lambda clock: wall_ms(clock) + int(Path({str(ahead)!r}).read_text())
main()
""")
    command.chmod(0o755)
    for program in _place(str(command), tmp_path / "place"):
        yield program, ahead
