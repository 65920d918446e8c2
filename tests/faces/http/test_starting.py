"""How it starts: where it listens, with which key file, and what it says to what cannot be."""

import os
import socket
import stat

import pytest

from faces.http.served import Served


def refused(post, *words: str) -> dict:
    return post("serve", "--key-file", str(post.place / "keys"), "--port", "0", *words).refusal


def test_an_empty_path_is_no_socket_and_opens_no_port_without_a_key(post):
    """Say of a variable that is not set: it would have listened on every address, for everybody."""
    told = refused(post, "--socket", "", "--host", "0.0.0.0", "--no-auth")
    assert told["code"] == "usage"
    assert "--socket" in told["error"]


@pytest.mark.parametrize("host", ["a" * 80 + ".example", "a..b", "no-such-host.invalid", ""])
def test_a_host_that_cannot_be_is_refused_in_a_sentence(post, host):
    post.environ["RES_OPTIONS"] = "timeout:1 attempts:1"  # a machine without a name server asks it for long
    assert refused(post, "--host", host)["code"] == "cannot_write"


def test_a_port_that_is_taken_is_said(post):
    with Served(post, "--no-auth") as served:
        told = post("serve", "--no-auth", "--port", str(served.port)).refusal
        assert (told["code"], str(served.port) in told["error"]) == ("cannot_write", True)


@pytest.mark.parametrize("kind", ["file", "link", "directory", "long"])
def test_a_socket_takes_the_place_of_nothing_else(post, tmp_path, kind):
    path = tmp_path / ("s" * 120 if kind == "long" else "place")
    aim = tmp_path / "aim"
    aim.write_text("keep")
    if kind == "file":
        path.write_text("keep")
    elif kind == "link":
        path.symlink_to(aim)
    elif kind == "directory":
        path.mkdir()
    assert refused(post, "--socket", str(path))["code"] == "cannot_write"
    assert (path.exists(), aim.read_text()) == (kind != "long", "keep")


def test_a_server_that_ends_leaves_the_socket_of_the_one_after_it(post, tmp_path):
    place = str(tmp_path / "s")
    with Served(post, "--socket", place) as first:
        os.rename(place, f"{place}.old")
        with Served(post, "--socket", place):
            first.stop()
            with socket.socket(socket.AF_UNIX) as wire:
                wire.connect(place)
        assert not os.path.lexists(place)


def test_over_a_unix_socket_the_page_signs_in_too(post, tmp_path):
    place = str(tmp_path / "s")
    with Served(post, "--socket", place) as served:
        form = f"key={served.key()}"
        head = "POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        with socket.socket(socket.AF_UNIX) as wire:
            wire.connect(place)
            wire.sendall(f"{head}Content-Length: {len(form)}\r\n\r\n{form}".encode())
            told = wire.recv(65536)
        assert b" 303 " in told.split(b"\r\n")[0]
        assert b"set-cookie: agent-mail-unix=" in told.lower()


def test_a_new_key_after_a_line_without_an_end_makes_a_line_of_its_own(post):
    file = post.place / "keys"
    file.write_text("* " + "k" * 40)
    file.chmod(0o600)
    assert post("serve", "--key-file", str(file), "--new-key", "worker-docs").status == 0
    lines = file.read_text().splitlines()
    assert lines[0] == "* " + "k" * 40
    assert [line.split()[0] for line in lines] == ["*", "worker-docs"]


def test_a_key_file_may_be_named_from_here(post, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert post("serve", "--key-file", "keys", "--new-key", "*").answer["keys"] == "keys"
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o600


def test_a_key_for_nobody_is_refused_and_does_not_start_a_server(post):
    assert post("serve", "--key-file", str(post.place / "keys"), "--new-key", "").refusal["code"] == "bad_agent"
    assert not (post.place / "keys").exists()
