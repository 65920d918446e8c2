"""A file that is replaced is the old one or the new one, whole, and a failure leaves no draft behind."""

import errno
import os

import pytest

from maildir_agents.disk.replacing import replace


def content(directory) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in directory.iterdir()}


def test_the_text_is_there_with_the_mode_that_was_asked_for(tmp_path):
    path = tmp_path / ("n" * 255)
    replace(str(path), "héllo\n", mode=0o600)
    assert content(tmp_path) == {path.name: "héllo\n"}
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o2640)
    replace(str(path), "again", mode=0o600, like=path.stat(), durable=False)
    assert content(tmp_path) == {path.name: "again"}
    assert path.stat().st_mode & 0o7777 == 0o2640


def test_a_bare_name_is_drafted_in_the_working_directory(monkeypatch, tmp_path):
    real, drafts = os.rename, []
    monkeypatch.setattr(os, "rename", lambda draft, path: drafts.append(os.path.abspath(draft)) or real(draft, path))
    monkeypatch.chdir(tmp_path)
    replace("file", "ours", mode=0o600)
    assert [os.path.dirname(draft) for draft in drafts] == [str(tmp_path)]
    assert content(tmp_path) == {"file": "ours"}


def test_a_link_in_the_place_is_replaced_and_what_it_points_to_is_not_written(tmp_path):
    (tmp_path / "target").write_text("another's")
    (tmp_path / "file").symlink_to("target")
    replace(str(tmp_path / "file"), "ours", mode=0o600)
    assert not (tmp_path / "file").is_symlink()
    assert content(tmp_path) == {"file": "ours", "target": "another's"}


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("call", ["fsync", "rename", "fchmod"])
def test_a_failure_leaves_what_was_there_and_nothing_else(monkeypatch, tmp_path, call, there):
    path = tmp_path / "file"
    path.write_text("old")
    seen = path.stat()
    if not there:
        path.unlink()
    before = content(tmp_path)

    def fail(*_):
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="no"):
        replace(str(path), "new", mode=0o600, like=seen)
    assert content(tmp_path) == before


def test_a_full_disk_leaves_what_was_there(tmp_path):
    """A write that takes less than it was given fails, too: here by the limit on the size of a file."""
    import resource
    import signal

    path = tmp_path / "file"
    path.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    told = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        with pytest.raises(OSError, match="large"):
            replace(str(path), "x" * 5000, mode=0o600)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, told)
    assert content(tmp_path) == {"file": "old"}
