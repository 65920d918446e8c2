"""What every test stands on: a private environment, the installed command, honest skips, nothing left behind.

Nothing here is to be imported; tests ask for fixtures and marks.

* `command`: path of the installed `agent-mail`.
* `mail` and `quick`: that command on a spool of the test's own.
* `@pytest.mark.needs("gcc", "kill sweep on the real program")`: skips with the reason
  "needs gcc: kill sweep on the real program" where the program is missing; the fixture `needs` is the same
  as a function, for use inside a test or fixture, and answers the program's path.
* `AGENT_MAIL_SKIPS=FILE`: each skip (expected failures count as such) is written there, one line
  "test id <TAB> reason"; .ci/run compares the reasons with its list.
* `say`: a line in the summary.  `TEST_SEED=N` there, and in the environment, begins all dice.
* After each test: no child process, no thread, no open file and no temporary file more than before it.
"""

import gc
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import settings

from faces.program import Program
from maildir_agents import Spool

COMMAND = Path(sys.executable).parent / "agent-mail"
SKIPS = os.environ.get("AGENT_MAIL_SKIPS")
FOR_TESTS = (
    "AGENT_MAIL_CMD",
    "AGENT_MAIL_LONG",
    "AGENT_MAIL_IMPLEMENTATION",
    "AGENT_MAIL_REAL_CLIENTS",
    "AGENT_MAIL_CLIENTS",
)
GRACE = 30.0  # seconds something that is on its way out may take to be gone


def _private_environment() -> None:
    """The caller's own mailbox, identity and settings are nothing to a test."""
    for name in [n for n in os.environ if n.startswith("AGENT_MAIL_") and n not in FOR_TESTS]:
        del os.environ[name]
    for name in ("AGENT_ID", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "PYTHONPATH"):
        os.environ.pop(name, None)
    # Read by tests/acceptance/conftest.py when it is loaded, which is after this file.
    os.environ.setdefault("AGENT_MAIL_CMD", shlex.quote(str(COMMAND)))


_private_environment()
os.environ.setdefault("TEST_SEED", str(random.randrange(1 << 32)))
# Under nohup, or in the background of a script, they are ignored, and so by every program that is started here.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadlines: the machine may be busy. No database: a run depends on nothing an earlier one left.
settings.register_profile(
    "house", deadline=None, database=None, print_blob=True, derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("house")


# ------------------------------------------------------------------------------------ what a run says at its end


_skips: set[tuple[str, str]] = set()  # test, reason
_said: list[str] = []


def _note(report) -> None:
    if not report.skipped:
        return
    reason = getattr(report, "wasxfail", None)
    if reason is None:
        reason = report.longrepr[2].removeprefix("Skipped: ")
    _skips.add((report.nodeid, " ".join(reason.split())))


def pytest_runtest_logreport(report) -> None:
    _note(report)


def pytest_collectreport(report) -> None:
    _note(report)


@pytest.fixture(scope="session")
def say():
    """Says something at the end of the run: what was tortured and how much, with the seed that all tests share."""
    return _said.append


def pytest_sessionfinish(session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:  # one of several processes: the one that started them speaks for all
        output.update(skips=sorted(_skips), said=_said)
    elif SKIPS:
        Path(SKIPS).write_text("".join(f"{test}\t{reason}\n" for test, reason in sorted(_skips)), encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    output = getattr(node, "workeroutput", {})  # a process that died has none
    _skips.update(map(tuple, output.get("skips", ())))
    _said.extend(output.get("said", ()))


def pytest_terminal_summary(terminalreporter) -> None:
    for line in (*_said, f"TEST_SEED={os.environ['TEST_SEED']}"):
        terminalreporter.write_line(line)


# ------------------------------------------------------------------------------------------------ skips


def _need(program: str, what_for: str) -> str:
    path = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        pytest.skip(f"needs {program}: {what_for}")
    return path


def pytest_runtest_setup(item) -> None:
    for mark in item.iter_markers("needs"):
        _need(*mark.args, **mark.kwargs)


@pytest.fixture(scope="session")
def needs():
    """`needs(program, what_for)` -> its path; skips the test where it is missing."""
    return _need


# ------------------------------------------------------------------------------------------------ places


@pytest.fixture(scope="session")
def command() -> str:
    """Path of the `agent-mail` that belongs to this interpreter, installed as users have it."""
    assert COMMAND.exists(), f"{COMMAND} is missing: run the tests with `make test`"
    return str(COMMAND)


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).parent.parent


@pytest.fixture(scope="session", autouse=True)
def _private_directories(tmp_path_factory):
    """HOME and the place for temporary files are this run's own, for its child processes too."""
    place = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        for name, directory in (("HOME", place / "home"), ("TMPDIR", place / "tmp")):
            directory.mkdir()
            patch.setenv(name, str(directory))
        patch.setattr(tempfile, "tempdir", os.environ["TMPDIR"])
        yield


@pytest.fixture
def mail(command, tmp_path):
    """`mail("read", "bob")` runs the command on a spool of this test's own, which does not exist yet."""
    with Program(command, tmp_path) as program:
        yield program


@pytest.fixture
def quick(mail):
    """The same, on a spool that syncs nothing."""
    Spool(mail.spool, durability="none").init()
    return mail


# ------------------------------------------------------------------------------------------------ leaks


def _children() -> set[str]:
    """Child processes, zombies too; multiprocessing's own helpers live as long as the run."""
    found = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            pids = Path(f"/proc/self/task/{thread}/children").read_text(encoding="ascii").split()
        except OSError:  # the thread has ended, or the kernel does not tell
            continue
        for pid in pids:
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if "multiprocessing.resource_tracker" not in line and "multiprocessing.forkserver" not in line:
                found.add(f"process {pid} {line.strip() or '(ended, not waited for)'}")
    return found


def _threads() -> set[str]:
    return {f"thread {t.name} {t.ident}" for t in threading.enumerate()}


def _descriptors() -> set[str]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # the listing's own descriptor
            continue
        if "/proc/" not in target:
            found.add(f"descriptor {number} {target}")
    return found


def _temporary() -> set[str]:
    return {f"temporary file {name}" for name in os.listdir(tempfile.gettempdir())}


def _standing() -> set[str]:
    return _children() | _threads() | _descriptors() | _temporary()


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(_private_directories):
    """Set up first and so torn down last: what the test's own fixtures clean away is gone by then."""
    before = _standing()
    yield
    end = time.monotonic() + GRACE
    while left := _standing() - before:
        gc.collect()  # a file object in a cycle is garbage, not a leak
        if time.monotonic() > end:
            pytest.fail("left behind: " + "; ".join(sorted(left)), pytrace=False)
        time.sleep(0.01)
