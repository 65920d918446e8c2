"""The unit files: what systemd's own tools say of them, and that they are put in place whole and taken away whole."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from maildir_agents.errors import MailError
from maildir_agents.verbs.units import install_units, started_by, uninstall_units

TOP = Path(__file__).parent.parent.parent / "systemd"
SCOPES = ("user", "system")
ANALYZE = pytest.mark.needs("systemd-analyze", "what systemd says of the unit files")
# The highest exposure a unit may have, in systemd's tenths: 20 is 2.0.
EXPOSED = {"agent-mail-listener@.service": 20, "agent-mail-listener.service": 20, "agent-mail-serve.service": 20,
           "agent-mail-tidy.service": 20}  # fmt: skip


def analyze(tmp_path, *words):
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:  # units of others name sockets in it: it has to be short
        environ = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": runtime, "HOME": str(tmp_path), "LC_ALL": "C"}
        done = subprocess.run(["systemd-analyze", *words], env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def units(directory):
    return sorted(str(path) for path in directory.iterdir() if path.suffix in (".service", ".socket", ".timer"))


def installed(tmp_path, scope, **more):
    """The directory that the units were put in, below a root of the test's own."""
    root, home = tmp_path / scope, "/home-of-nobody"
    program = tmp_path / "a place" / "agent-mail"
    program.parent.mkdir(exist_ok=True)
    program.touch(mode=0o755)
    more = {"program": str(program), **more}
    answer = install_units({"HOME": home}, scope=scope, root=str(root), **more)
    where = f"{home}/.config/systemd/user" if scope == "user" else "/etc/systemd/system"
    return Path(f"{root}{where}"), answer


@ANALYZE
@pytest.mark.parametrize("scope", SCOPES)
def test_systemd_finds_no_fault_with_the_units(tmp_path, scope):
    assert analyze(tmp_path, f"--{scope}", "verify", "--man=no", *units(TOP / scope)) == (0, "")


@ANALYZE
@pytest.mark.parametrize("scope", SCOPES)
def test_systemd_finds_no_fault_with_the_units_as_they_are_installed(tmp_path, scope):
    directory, _ = installed(tmp_path, scope)
    assert analyze(tmp_path, f"--{scope}", "verify", "--man=no", *units(directory)) == (0, "")


@ANALYZE
def test_a_fault_would_be_found(tmp_path):
    faulty = tmp_path / "agent-mail-faulty.service"
    faulty.write_text((TOP / "user/agent-mail-listener.service").read_text().replace("WatchdogSec", "WatchdogSecs"))
    assert "WatchdogSecs" in analyze(tmp_path, "--user", "verify", "--man=no", str(faulty))[1]


@ANALYZE
@pytest.mark.parametrize("name", EXPOSED)
def test_a_system_unit_is_exposed_to_little(tmp_path, name):
    words = ["security", "--offline=true", f"--threshold={EXPOSED[name]}", str(TOP / "system" / name)]
    status, told = analyze(tmp_path, *words)
    assert status == 0, told


@ANALYZE
def test_a_unit_without_restrictions_would_be_refused(tmp_path):
    bare = tmp_path / "agent-mail-bare.service"
    bare.write_text("[Service]\nExecStart=/bin/true\n")
    assert analyze(tmp_path, "security", "--offline=true", "--threshold=20", str(bare))[0] != 0


def test_both_scopes_have_the_same_units_and_differ_where_they_must():
    names = {scope: {Path(path).name for path in units(TOP / scope)} for scope in SCOPES}
    assert names["user"] == names["system"]
    assert {path.name for path in (TOP / "user").glob("*.d/*")} == {"50-limits.conf"}
    for name in names["system"]:
        if name.endswith(".service"):
            text = (TOP / "system" / name).read_text()
            assert "User=agent-mail\n" in text
            assert "AGENT_MAIL_SPOOL=/var/spool/agent-mail\n" in text


@pytest.mark.needs("systemd-sysusers", "the user that owns a system spool")
@pytest.mark.needs("systemd-tmpfiles", "the directories of a system spool")
def test_the_user_and_the_directories_are_made_as_the_units_want_them(tmp_path):
    installed(tmp_path, "system")
    root = tmp_path / "system"
    for tool, *words in (["systemd-sysusers"], ["systemd-tmpfiles", "--create"]):
        done = subprocess.run([tool, f"--root={root}", *words], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    entry = next(line for line in (root / "etc/passwd").read_text().splitlines() if line.startswith("agent-mail:"))
    assert entry.split(":")[5] == "/var/lib/agent-mail"
    assert (root / "var/spool/agent-mail").stat().st_mode & 0o7777 == 0o700
    assert str((root / "var/spool/agent-mail").stat().st_uid) == entry.split(":")[2]


# ------------------------------------------------------------------------------------------------ put in place


@pytest.mark.parametrize("scope", SCOPES)
def test_every_file_that_is_shipped_is_installed_and_only_once(tmp_path, scope):
    directory, answer = installed(tmp_path, scope, version=252)
    shipped = {str(path.relative_to(TOP / scope)) for path in (TOP / scope).rglob("*") if path.is_file()}
    assert {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()} == shipped
    assert {entry["change"] for entry in answer["files"]} == {"made"}
    again = installed(tmp_path, scope, version=252)[1]
    assert {entry["change"] for entry in again["files"]} == {"unchanged"}
    extra = {"etc/sysusers.d/agent-mail.conf", "etc/tmpfiles.d/agent-mail.conf"} if scope == "system" else set()
    assert {name for name in extra if not (tmp_path / scope / name).is_file()} == set()
    assert {oct((path.stat().st_mode) & 0o777) for path in directory.rglob("*.service")} == {"0o644"}


def test_a_dry_run_tells_the_same_and_writes_nothing(tmp_path):
    directory, told = installed(tmp_path, "user", dry_run=True)
    assert not directory.exists()
    done = installed(tmp_path, "user")[1]
    assert told == {**done, "dry_run": True}


def test_what_has_changed_is_written_anew_and_what_others_added_stays(tmp_path):
    directory, _ = installed(tmp_path, "user")
    drop_in = directory / "agent-mail-listener@.service.d/mine.conf"
    drop_in.parent.mkdir(exist_ok=True)
    drop_in.write_text("[Service]\n")
    unit = directory / "agent-mail-listener@.service"
    before = unit.read_text()
    unit.write_text("[Service]\nExecStart=/bin/old\n")
    changes = {Path(entry["path"]).name: entry["change"] for entry in installed(tmp_path, "user")[1]["files"]}
    assert [name for name, change in changes.items() if change != "unchanged"] == ["agent-mail-listener@.service"]
    assert unit.read_text() == before
    told = uninstall_units({"HOME": "/home-of-nobody"}, root=str(tmp_path / "user"), dry_run=True)
    assert unit.exists()
    assert uninstall_units({"HOME": "/home-of-nobody"}, root=str(tmp_path / "user")) == {**told, "dry_run": False}
    assert [path for path in directory.rglob("*") if path.is_file()] == [drop_in]
    assert uninstall_units({"HOME": "/home-of-nobody"}, root=str(tmp_path / "user"))["files"] == []


def test_a_systemd_that_can_wait_ever_longer_is_told_to(tmp_path):
    older, _ = installed(tmp_path, "user", version=253)
    assert not list(older.rglob("50-back-off.conf"))
    newer, _ = installed(tmp_path, "system", version=254)
    found = {str(path.relative_to(newer)) for path in newer.rglob("50-back-off.conf")}
    services = ("agent-mail-listener", "agent-mail-listener@", "agent-mail-serve")
    assert found == {f"{name}.service.d/50-back-off.conf" for name in services}
    assert "RestartSteps=" in (newer / "agent-mail-listener@.service.d/50-back-off.conf").read_text()


def test_the_units_start_the_program_they_were_installed_by():
    unit = "ExecStart=/usr/bin/env PATH=%h/.local/bin:${PATH} agent-mail serve\nExecStop=/usr/bin/env agent-mail x\n"
    assert started_by(unit, "/opt/a b/50%/$x/agent-mail") == (
        'ExecStart=/usr/bin/env "PATH=/opt/a b/50%%/$$x:%h/.local/bin:${PATH}" "/opt/a b/50%%/$$x/agent-mail" serve\n'
        'ExecStop=/usr/bin/env "PATH=/opt/a b/50%%/$$x:${PATH}" "/opt/a b/50%%/$$x/agent-mail" x\n'
    )
    for path in TOP.rglob("*.service"):
        lines = re.findall(r"^Exec\w+=.*$", started_by(path.read_text(), "/opt/agent-mail"), re.M)
        assert lines
        assert all(" /opt/agent-mail " in line for line in lines), path


@pytest.mark.parametrize(("place", "scope", "refused"), [
    ("/home/" + "ann/venv", "system", True), ("/root" + "/venv", "system", True),
    ("/opt/agent-mail", "system", False), ("/home/" + "ann/venv", "user", False),
])  # fmt: skip
def test_a_program_that_the_units_could_not_see_is_refused(tmp_path, monkeypatch, place, scope, refused):
    monkeypatch.setattr("sys.executable", f"{place}/bin/python")
    monkeypatch.setattr("os.access", lambda path, mode: True)
    asked = {"scope": scope, "root": str(tmp_path), "dry_run": True, "version": 252}
    if refused:
        with pytest.raises(MailError, match="home"):
            install_units({"HOME": "/nobody"}, **asked)
    else:
        assert install_units({"HOME": "/nobody"}, **asked)["files"]


def test_what_is_no_scope_is_refused():
    with pytest.raises(MailError) as refused:
        install_units({}, scope="global")
    assert refused.value.code == "usage"


def test_where_nothing_may_be_written_that_is_said(tmp_path):
    (tmp_path / "etc").write_text("a file")
    with pytest.raises(MailError) as refused:
        install_units({}, scope="system", root=str(tmp_path))
    assert refused.value.code == "cannot_write"
