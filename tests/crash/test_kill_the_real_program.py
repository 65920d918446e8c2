"""The installed command, killed before every call that changes something, and with a full and a broken disk at each.

`killlib.c` is preloaded and counts the calls below the spool, and the write of the answer.  The situations are those
of the sweeps in process; what the command answered is judged by its exit status and its JSON.
"""

import copy
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from crash import scenarios
from crash.invariants import Reported, check_spool
from crash.sweep import BODY, NOTHING_CHANGED, SUBJECT, Scenario, clone, enough
from maildir_agents.errors import MailError
from maildir_agents.testing import FailingDisk, MovableClock, TemporarySpool

pytestmark = pytest.mark.needs("gcc", "killing the real program at a system call")

SOURCE = Path(__file__).parent / "killlib.c"
UNSURE = {"durability_unknown", "receipt_lost", "shown_not_acknowledged"}  # it was done, wholly or in part
UNDONE = {*NOTHING_CHANGED, "output_lost"}
AT_ONCE = 2  # programs running side by side


@pytest.fixture(scope="session")
def library(tmp_path_factory, needs) -> Path:
    built = tmp_path_factory.mktemp("killlib") / "killlib.so"
    gcc = needs("gcc", "killing the real program at a system call")
    warnings = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([gcc, *warnings, "-shared", "-fPIC", "-o", built, SOURCE, "-ldl"], check=True, timeout=200)
    return built


# ------------------------------------------------------------------------------------------------ what is run


class Words:
    """Beside a scenario: the command that is the act, and the one that comes a minute later."""

    roots_only = False  # sweep only the calls on files that lie in the spool's own directory
    errors = (errno.ENOSPC, errno.EIO)

    def words(self) -> list[str]:
        raise AssertionError("a command has words")

    def later_words(self) -> list[str]:
        return ["read", "b"]

    def answered(self, answer: dict, warnings: str):
        """The answer, as the same verb gives it in process."""
        return answer


class Send(Words, scenarios.Send):
    def words(self):
        return ["send", "--from", "a", "--to", self.to, "--subject", SUBJECT, "--body", BODY]


class FirstSend(Send, scenarios.SendToNobodyYet):
    roots_only, errors = True, (errno.ENOSPC,)


class Reply(Words, scenarios.Reply):
    def words(self):
        return ["send", "--from", "b", "--to", "a", "--subject", SUBJECT, "--body", BODY, "--reply-to", self.parent]

    def later_words(self):
        return ["read", "a"]


class Read(Words, scenarios.Read):
    verb = ("read", "b")

    def words(self):
        return [*self.verb]

    def later_words(self):
        return ["send", "--from", "b", "--to", "a", "--subject", "and another"]

    def answered(self, answer, warnings):
        return SimpleNamespace(messages=answer["messages"], trouble=warnings or None)


class ReadAndAck(Read, scenarios.ReadAndAck):
    verb = ("read", "b", "--ack")

    def unsure(self, reported, error):
        assert error.code == "shown_not_acknowledged"  # some of it may be


class Ack(Words, scenarios.Ack):
    def words(self):
        return ["ack", "b", self.unread, self.read, self.settled]


class Requeue(Words, scenarios.Requeue):
    def words(self):
        return ["failed", "requeue", "b", self.id]


class DeadLetter(Words, scenarios.DeadLetter):
    def words(self):
        return ["read", "b"]

    answered = Read.answered

    def killed(self, reported):
        reported.present["b", scenarios.TORN] = {"new", "failed"}


class Broadcast(Words, scenarios.Broadcast):
    def words(self):
        return ["send", "--from", "a", "--to", "*", "--subject", SUBJECT, "--body", BODY]

    def later_words(self):
        return ["send", "--from", "f", "--to", "*", "--subject", "and another thing"]


COMMANDS = (Send, FirstSend, Reply, Read, ReadAndAck, Ack, Requeue, DeadLetter, Broadcast)


# ------------------------------------------------------------------------------------------------ one run


class Program:
    """The installed command with the library before it."""

    def __init__(self, command: str, library: Path, directory: Path) -> None:
        self.command, self.library, self.directory = command, library, directory
        (directory / "ahead").write_text("61", encoding="ascii")

    def run(self, spool: str, words: list[str], **variables) -> subprocess.CompletedProcess:
        environment = {
            "PATH": os.defpath,
            "HOME": str(self.directory),
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "AGENT_MAIL_SPOOL": spool,
            "LD_PRELOAD": str(self.library),
            "KILL_ROOT": spool,
            "KILL_STDOUT": "1",
            "KILL_NOSYNC": "1",
            **{name: str(value) for name, value in variables.items()},
        }
        return subprocess.run(
            [self.command, *words], env=environment, cwd=self.directory, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=200, check=False,
        )  # fmt: skip

    def a_minute_later(self, spool: str, words: list[str]) -> subprocess.CompletedProcess:
        return self.run(spool, words, KILL_CLOCK=self.directory / "ahead")


class Run:
    """One command with one fault, and what is wrong after the next one."""

    def __init__(self, program: Program, scenario, template: Path, name: str, **fault) -> None:
        self.scenario = copy.copy(scenario)
        self.place, self.log = str(program.directory / name), program.directory / f"{name}.log"
        self.wrong: list[str] = []
        self.reported = Reported()
        if template.exists():
            clone(str(template), self.place)
        try:
            self.scenario.always(self.reported)
            done = program.run(self.place, self.scenario.words(), KILL_LOG=self.log, **fault)
            self.judge(done, fault)
            later = program.a_minute_later(self.place, self.scenario.later_words())
            if later.returncode:
                self.wrong.append(f"the further call failed: {later.stderr.decode()}")
            self.wrong += check_spool(
                self.place, reported=self.reported, reasons=self.scenario.reasons, also=self.scenario.also
            )
        finally:
            shutil.rmtree(self.place, ignore_errors=True)

    @property
    def calls(self) -> list[tuple[str, str]]:
        if not self.log.exists():
            return []
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [(name, path.removeprefix(self.place)) for _, name, path in (line.split(" ", 2) for line in lines)]

    def judge(self, done: subprocess.CompletedProcess, fault: dict) -> None:
        met = len(self.calls) >= next(iter(fault.values()), 0)
        if not met:
            self.wrong.append("the fault was never met")
        elif done.returncode == -signal.SIGKILL:
            self.scenario.taken = done.stdout.endswith(b"}\n")
            self.scenario.killed(self.reported)
        elif "KILL_AT" in fault or "KILL_AFTER" in fault:
            self.wrong.append(f"it was not killed: {done.returncode}")
        elif done.returncode == 0:
            self.told(done)
        else:
            self.refused(done)

    def told(self, done: subprocess.CompletedProcess) -> None:
        try:
            self.scenario.told(self.reported, self.scenario.answered(json.loads(done.stdout), done.stderr.decode()))
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            self.wrong.append(f"answered {done.stdout!r}: {error!r}")

    def refused(self, done: subprocess.CompletedProcess) -> None:
        try:
            told = json.loads(done.stderr)
            error = MailError(told.pop("code"), told.pop("error"), told.pop("hint", None), **told)
            assert done.returncode == error.exit_status
            assert error.code in UNSURE | UNDONE, "that is no answer to a fault of the disk"
            if error.code in UNSURE:
                self.scenario.unsure(self.reported, error)
            else:
                self.scenario.refused(self.reported)
        except (AssertionError, LookupError, ValueError) as error:
            self.wrong.append(f"refused with {done.returncode} {done.stderr!r}: {error!r}")


class Sweep:
    def __init__(self, program: Program, scenario: Scenario, until: str = "") -> None:
        self.program, self.scenario, self.until = program, scenario, until
        self.template = program.directory / "template"
        self.wrong: list[str] = []
        scenario.prepare(TemporarySpool(self.template, disk=FailingDisk(), clock=MovableClock(), durability="full"))
        counted = Run(program, scenario, self.template, "count")
        self.calls = counted.calls
        self.wrong += [f"without a fault: {sentence}" for sentence in counted.wrong]
        if {name for name, _ in self.calls} <= {"stdout"}:
            self.wrong.append("nothing was counted: is the library loaded at all?")
        self.points = 0

    def faults(self):
        for number, (name, path) in enumerate(self.calls, 1):
            if self.scenario.roots_only and path.count("/") > 1:
                continue
            what = f"at {number}, {name} {path}"
            yield f"killed {what}", {"KILL_AT": number}
            for error in self.scenario.errors:
                yield f"{errno.errorcode[error]} {what}", {"FAIL_AT": number, "FAIL_ERRNO": error}
        yield "killed at the end", {"KILL_AFTER": len(self.calls)}

    def run(self) -> "Sweep":
        def one(numbered):
            number, (what, fault) = numbered
            run = Run(self.program, self.scenario, self.template, f"run-{number}", **fault)
            return [f"{what}: {sentence}" for sentence in run.wrong]

        faults = list(enumerate(self.faults()))
        self.points = len(faults)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for wrong in pool.map(one, faults):
                self.wrong += wrong
                if enough(self.wrong, self.until):
                    pool.shutdown(wait=False, cancel_futures=True)
                    break
        return self


# ------------------------------------------------------------------------------------------------ the promises


@pytest.mark.parametrize("scenario", COMMANDS, ids=lambda scenario: scenario.__name__)
def test_whatever_fails_or_kills_the_command_one_further_command_leaves_all_in_order(
    scenario, command, library, memory
):
    sweep = Sweep(Program(command, library, memory), scenario()).run()
    assert not sweep.wrong, "\n".join(sweep.wrong[:20])
    assert sweep.points > 3 * len({name for name, _ in sweep.calls})


def test_the_calls_of_the_command_are_intercepted_and_are_those_that_the_failing_disk_counts(command, library, memory):
    scenario = Send()
    calls = Sweep(Program(command, library, memory), scenario).calls
    assert len(calls) >= 6
    assert {"open", "write", "fsync", "link", "rename", "stdout"} <= {name for name, _ in calls}

    place = memory / "in-process"
    clone(str(memory / "template"), str(place))
    disk = FailingDisk()
    scenario.act(TemporarySpool(place, disk=disk, clock=MovableClock(), durability="full"))
    directories = [(name, os.path.dirname(path)) for name, path in calls if name != "stdout"]
    assert directories == [(name, os.path.dirname(path.removeprefix(str(place)))) for name, path in disk.calls]


def test_a_sweep_over_nothing_fails(command, library, memory):
    class Nothing(Send):
        def words(self):
            return ["status"]

    assert any(
        "nothing was counted" in sentence for sentence in Sweep(Program(command, library, memory), Nothing()).wrong
    )


WRONG = """#!{python} -I
import sys
sys.path.insert(0, {tests!r})
class patch:
    setattr = staticmethod(setattr)
from crash import wrong_orders
wrong_orders.{order}(patch)
from maildir_agents.faces.cli import main
main()
"""


@pytest.mark.parametrize(
    ("order", "scenario", "sentence"),
    [
        ("rename_before_the_anchor", Send, "said not to be sent, but visible"),
        ("acknowledge_before_the_reply", Reply, "acknowledged without an answer"),
        ("mark_before_the_output", Read, "['new'], it is in ['cur']"),
        ("move_to_failed_without_a_reason", DeadLetter, "a dead letter without its reason"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_a_command_with_a_wrong_order_is_caught(order, scenario, sentence, library, memory):
    command = memory / "wrong-agent-mail"
    tests = str(Path(__file__).parent.parent)
    command.write_text(WRONG.format(python=sys.executable, tests=tests, order=order), encoding="utf-8")
    command.chmod(0o700)
    wrong = Sweep(Program(str(command), library, memory), scenario(), until=sentence).run().wrong
    assert any(sentence in line for line in wrong), wrong[:5]


def test_the_clock_of_the_command_is_moved(command, library, memory):
    program = Program(command, library, memory)
    words = ["send", "--from", "a", "--to", "b", "--subject", SUBJECT]
    now = json.loads(program.run(str(memory / "spool"), words).stdout)
    later = json.loads(program.a_minute_later(str(memory / "spool"), words).stdout)
    assert 60 < (int(later["id"][:8] + later["id"][9:13], 16) - int(now["id"][:8] + now["id"][9:13], 16)) / 1000 < 120
