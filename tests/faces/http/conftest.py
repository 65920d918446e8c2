import pytest

from faces.http.served import Served
from faces.program import Program
from maildir_agents import Spool


def _place(command, place):
    with Program(command, place) as program:
        Spool(program.spool, durability="none").init()
        yield program


@pytest.fixture
def post(command, tmp_path):
    """The command on a spool of this test's own that syncs nothing."""
    yield from _place(command, tmp_path)


@pytest.fixture
def open_door(post):
    """A server that asks for no key."""
    with Served(post, "--no-auth") as served:
        yield served


def _keyed(post):
    assert post("serve", "--key-file", str(post.place / "http-keys"), "--new-key", "worker-docs").status == 0
    with Served(post) as served:
        yield served


@pytest.fixture
def keyed(post):
    """A server that asks for keys; worker-docs has one, too."""
    yield from _keyed(post)


@pytest.fixture(scope="module")
def locked(command, tmp_path_factory):
    """The same, for a whole file."""
    for program in _place(command, tmp_path_factory.mktemp("locked")):
        yield from _keyed(program)


@pytest.fixture(scope="module")
def shared(command, tmp_path_factory):
    """An open server for a whole file, whose tests look at their own messages only."""
    for program in _place(command, tmp_path_factory.mktemp("shared")):
        with Served(program, "--no-auth") as served:
            yield served
