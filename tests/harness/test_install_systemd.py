"""`install systemd`: unit files where systemd looks for them, shown first if asked to, and taken away again."""

import os
import subprocess

import pytest


def units(place) -> dict[str, str]:
    top = place.home / ".config/systemd/user"
    return {str(file.relative_to(top)): file.read_text("utf-8") for file in top.rglob("*") if file.is_file()}


def test_the_units_are_put_there_once_and_taken_away_again(place):
    first = place("install", "systemd").answer
    assert {file["change"] for file in first["files"]} == {"made"}
    there = units(place)
    assert "agent-mail-listener@.service" in there and len(there) == len(first["files"])
    assert "systemctl --user daemon-reload" in first["then"]
    assert {file["change"] for file in place("install", "systemd").answer["files"]} == {"unchanged"}
    assert units(place) == there
    gone = place("uninstall", "systemd").answer
    assert {file["path"] for file in gone["files"]} == {file["path"] for file in first["files"]}
    assert units(place) == {}


def test_a_dry_run_shows_a_diff_that_patch_takes_and_writes_nothing(place, needs):
    patch = needs("patch", "a unified diff is one that it takes")
    shown = place("install", "systemd", "--dry-run").out
    assert units(place) == {}
    subprocess.run([patch, "-p1", "-s", "-d", "/"], input=shown, text=True, check=True)
    patched = units(place)
    assert {file["change"] for file in place("install", "systemd").answer["files"]} == {"unchanged"}
    assert units(place) == patched
    assert place("uninstall", "systemd", "--dry-run").out.count("+++ /dev/null") == len(patched)
    assert units(place) == patched


def test_a_masked_unit_stays_masked(place):
    """A link to /dev/null is how a person says that this unit shall never start."""
    top = place.home / ".config/systemd/user"
    top.mkdir(parents=True)
    mask = top / "agent-mail-listener.service"
    mask.symlink_to("/dev/null")
    for more in ((), ("--dry-run",)):
        refused = place("install", "systemd", *more).refusal
        assert refused["code"] == "cannot_write" and "unmask" in refused["hint"]
    assert os.listdir(top) == [mask.name] and os.readlink(mask) == "/dev/null"
    mask.unlink()
    place("install", "systemd")
    mask.unlink()
    mask.symlink_to("/dev/null")
    assert str(mask) not in {file["path"] for file in place("uninstall", "systemd").answer["files"]}
    assert mask.is_symlink() and units(place) == {}


def test_installed_by_several_at_once_all_succeed(place):
    running = [
        subprocess.Popen([place.command, "install", "systemd"], env=place.environ, stdout=subprocess.DEVNULL)
        for _ in range(6)
    ]
    assert [process.wait(60) for process in running] == [0] * 6
    there = units(place)
    assert {file["change"] for file in place("install", "systemd").answer["files"]} == {"unchanged"}
    assert not [name for name in there if "/." in f"/{name}"], "no draft is left"


@pytest.mark.parametrize(
    "words", [("systemd", "--agent", "a"), ("systemd", "--project"), ("systemd", "--plugin"), ("claude", "--system")]
)
def test_what_means_nothing_there_is_refused(place, words):
    refused = place("install", *words)
    assert (refused.status, refused.refusal["code"]) == (64, "usage")
    assert units(place) == {}
    assert os.listdir(place.home / ".config") == [] if (place.home / ".config").exists() else True
