"""`maildir_agents.testing`: the fakes do what their documentation says, and stand before every call that matters."""

import ast
import errno
import inspect
import os
from pathlib import Path

import pytest

import maildir_agents
import proc
from maildir_agents.disk.clock import Clock
from maildir_agents.disk.moves import Disk
from maildir_agents.errors import MailError
from maildir_agents.testing import FailingDisk, Killed, MovableClock, temporary_spool

CHANGING = {
    *("open", "write", "pwrite", "ftruncate", "truncate", "fsync", "fdatasync", "link", "symlink", "rename", "replace"),
    *("unlink", "remove", "mkdir", "makedirs", "rmdir", "removedirs", "chmod", "utime", "sendfile"),
}


def asks_the_system(function) -> bool:
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function)))
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(isinstance(c, ast.Attribute) and ast.unparse(c.value) == "os" and c.attr in CHANGING for c in calls)


def test_the_failing_disk_stands_before_every_call_that_changes_something():
    def reads_only(name: str) -> bool:
        source = inspect.getsource(getattr(Disk, name))
        return source.count("os.open(") == source.count("os.O_RDONLY") and "os.open(" in source

    seam = {name for name, member in vars(Disk).items() if inspect.isfunction(member) and asks_the_system(member)}
    seam = {name for name in seam if not reads_only(name)} | {"_syncfs"}
    assert seam == {"_open", "_write", "_fsync", "_link", "_rename", "_unlink", "_mkdir", "_rmdir", "_syncfs"}
    assert seam <= vars(FailingDisk).keys()


# A history is opened for reading; a listener opens the log of the process that it starts; unit files are no mail.
BESIDE_THE_DISK = {"mail/history.py", "verbs/listener.py", "verbs/units.py"}


def test_mail_is_moved_through_the_disk_and_by_nothing_else():
    package = Path(maildir_agents.__file__).parent
    found = set()
    for path in sorted((*package.glob("mail/*.py"), *package.glob("verbs/*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            reading = any("O_RDONLY" in ast.unparse(argument) for argument in node.args[1:])
            if ast.unparse(node.func.value) == "os" and node.func.attr in CHANGING and not reading:
                found.add(str(path.relative_to(package)))
    assert found <= BESIDE_THE_DISK


# ------------------------------------------------------------------------------------------------ the disk


def test_it_counts_by_name_and_path(tmp_path):
    disk = FailingDisk()
    disk.write_new(f"{tmp_path}/a", b"text")
    disk.publish(f"{tmp_path}/a", f"{tmp_path}/new/b")
    disk.move(f"{tmp_path}/a", f"{tmp_path}/c")
    disk.discard(f"{tmp_path}/c")
    disk.discard(f"{tmp_path}/new/b")
    disk.drop_dir(f"{tmp_path}/new")
    assert [(name, path.removeprefix(str(tmp_path))) for name, path in disk.calls] == [
        ("open", "/a"), ("write", "/a"), ("fsync", "/a"), ("link", "/new/b"), ("mkdir", "/new"), ("fsync", ""),
        ("link", "/new/b"), ("rename", "/c"), ("unlink", "/c"), ("unlink", "/new/b"), ("rmdir", "/new"),
    ]  # fmt: skip
    assert not disk.offences and not disk.struck


def test_a_disk_that_is_not_durable_syncs_nothing(tmp_path):
    disk = FailingDisk(durable=False)
    disk.write_new(f"{tmp_path}/a", b"text")
    disk.sync(str(tmp_path))
    assert [name for name, _ in disk.calls] == ["open", "write"]


def test_one_call_fails_and_does_nothing(tmp_path):
    disk = FailingDisk(fail_at=2, error=errno.ENOSPC)
    disk._mkdir(f"{tmp_path}/one")
    with pytest.raises(OSError, match="No space left") as raised:
        disk._mkdir(f"{tmp_path}/two")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, f"{tmp_path}/two")
    assert disk.struck and os.listdir(tmp_path) == ["one"]
    disk._mkdir(f"{tmp_path}/two")


def test_all_calls_from_one_on_fail(tmp_path):
    disk = FailingDisk(fail_at=1, error=errno.EROFS, lasting=True)
    for _ in range(3):
        with pytest.raises(OSError, match="Read-only"):
            disk._mkdir(f"{tmp_path}/one")


@pytest.mark.parametrize(("fault", "made"), [({"kill_at": 1}, False), ({"kill_after": 1}, True)])
def test_a_killed_process_asks_nothing_more_of_the_disk(tmp_path, fault, made):
    disk = FailingDisk(**fault)
    with pytest.raises(Killed):
        try:
            disk.make_dir(f"{tmp_path}/one")
        finally:
            disk.drop_dir(f"{tmp_path}/one")
    assert os.path.isdir(f"{tmp_path}/one") is made and disk.struck


def test_killed_after_opening_leaves_a_file_and_no_descriptor(tmp_path):
    before = proc.descriptors()
    for fault in ({"kill_after": 1}, {"kill_at": 2}, {"kill_after": 3}):
        with pytest.raises(Killed):
            FailingDisk(**fault).write_new(f"{tmp_path}/{next(iter(fault))}-{fault}", b"text")
    assert len(os.listdir(tmp_path)) == 3
    assert proc.descriptors() == before


def test_killed_is_no_exception_that_a_program_would_catch():
    assert not issubclass(Killed, Exception)


def test_somebody_else_may_do_something_before_a_call(tmp_path):
    seen = []
    disk = FailingDisk(before=lambda *call: seen.append(call))
    disk._mkdir(f"{tmp_path}/one")
    assert seen == [(1, "mkdir", f"{tmp_path}/one")]


def test_it_says_what_nobody_may_ask_of_a_disk(tmp_path):
    disk = FailingDisk(fail_at=3)
    fd = disk.create(f"{tmp_path}/a")
    disk._write(fd, b"text")
    with pytest.raises(OSError, match="Input/output"):
        disk._fsync(fd)
    disk._fsync(fd)
    disk._write(fd, b"more")
    os.close(fd)
    disk.move(f"{tmp_path}/a", f"{tmp_path}/b")
    assert [sentence.removeprefix(f"{tmp_path}/") for sentence in disk.offences] == [
        "a was synced again after its sync had failed",
        f"a became {tmp_path}/b before it was synced",
    ]


def test_many_directories_are_synced_at_once_or_else_one_by_one(tmp_path):
    directories = []
    for number in range(12):
        directories.append(f"{tmp_path}/{number}")
        os.mkdir(directories[-1])
    disk = FailingDisk()
    disk.sync_all(directories)
    assert [name for name, _ in disk.calls] == ["syncfs"]
    disk = FailingDisk(fail_at=1)
    disk.sync_all(directories)
    assert [name for name, _ in disk.calls] == ["syncfs"] + ["fsync"] * 12
    disk = FailingDisk(really_sync=True)
    disk.sync_all(directories)
    disk.sync(directories[0])
    assert [name for name, _ in disk.calls] == ["syncfs", "fsync"]


# ------------------------------------------------------------------------------------------------ the clock


def test_the_clock_moves_and_runs_on():
    clock, real = MovableClock(), Clock()
    assert abs(clock.wall_ms() - real.wall_ms()) < 10_000 and clock.boot() == real.boot()
    clock.advance(3600)
    assert 3_590_000 < clock.wall_ms() - real.wall_ms() <= 3_600_000
    assert 3_590_000 < clock.boot_ms() - real.boot_ms() <= 3_600_000
    clock.set_wall(1_000_000)
    assert 1_000_000 <= clock.wall_ms() < 1_010_000
    assert clock.boot_ms() - real.boot_ms() > 3_590_000


def test_a_boot_ends():
    clock = MovableClock()
    before = clock.boot()
    clock.reboot()
    assert clock.boot()[:8] != before[:8] and clock.boot()[8:] == before[8:]
    assert clock.boot_ms() < 10_000
    again = clock.boot()
    clock.reboot()
    assert clock.boot() not in (before, again)


def test_a_claim_of_another_boot_is_free():
    with temporary_spool() as spool:
        spool.send(sender="a", recipient="b", subject="work")
        spool.claim("b", lease_s=3600)
        assert spool.another().claim("b")["handle"] is None
        spool.clock.reboot()
        assert spool.another().claim("b")["token"] == 2


# ------------------------------------------------------------------------------------------------ the spool


def test_a_temporary_spool_is_not_there_before_and_not_afterwards():
    with temporary_spool() as spool:
        root = spool.root
        assert not os.path.exists(root) and not spool.exists
        spool.send(sender="a", recipient="b", subject="hello")
        assert os.path.isdir(root) and "fsync" in {name for name, _ in spool.disk.calls}
    assert not os.path.exists(os.path.dirname(root))


def test_a_temporary_spool_is_as_durable_as_it_is_asked_to_be():
    with temporary_spool(durability="none") as spool:
        spool.send(sender="a", recipient="b", subject="hello")
        assert "fsync" not in {name for name, _ in spool.disk.calls}
        assert spool.another().durability == "none"


def test_the_example_in_the_documentation_holds():
    with temporary_spool(disk=FailingDisk(kill_at=4)) as spool:
        with pytest.raises(Killed):
            spool.send(sender="a", recipient="b", subject="half way")
        spool.clock.advance(61)
        with spool.another().read("b") as batch:
            assert batch.messages == []


def test_a_refusal_names_the_path_and_the_error():
    with temporary_spool() as spool:
        spool.send(sender="a", recipient="b", subject="hello")
        full = spool.another(FailingDisk(fail_at=2, error=errno.ENOSPC))
        with pytest.raises(MailError) as refused:
            full.send(sender="a", recipient="b", subject="never")
        assert refused.value.code == "spool_full"
        assert refused.value.detail["errno"] == "ENOSPC" and "/agents/b/tmp/" in str(refused.value.detail["path"])
