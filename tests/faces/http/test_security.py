"""What tries to get in, to get more than its due, or to hold the server: refused, with the right status, no trace."""

import http.client
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path

import pytest

import proc
from faces.http.served import Served
from faces.program import until

ORDER = {"from_agent": "mallory", "to_agent": "state-hub", "subject": "got in", "body": "a-body-nobody-may-log"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


def tree(served: Served) -> list[str]:
    return sorted(f"{p} {p.lstat().st_mtime_ns}" for p in served.mail.spool.rglob("*") if not p.is_dir())


@pytest.fixture
def sealed(locked):
    """A server with keys; afterwards nothing must have changed, and nothing of a request may stand in its log."""
    before = tree(locked)
    yield locked
    assert tree(locked) == before
    log = locked.log.read_text()
    for secret in (locked.key(), locked.key("worker-docs"), "a-body-nobody-may-log", "wrong-key"):
        assert secret not in log
    assert locked.ask("GET", "/agents/", headers=locked.bearer()).status == 200


def test_what_the_refusals_are_measured_against_gets_in(keyed):
    """The control: the same order, with a key and from nowhere else, is taken."""
    before = tree(keyed)
    assert keyed.ask("POST", "/messages/", ORDER, keyed.bearer()).status == 201
    own = keyed.bearer() | {
        "origin": keyed.address,
        "sec-fetch-site": "same-origin",
        "content-type": "application/json",
    }
    assert keyed.ask("POST", "/messages/", ORDER, own).status == 201
    assert tree(keyed) != before


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "localhost.evil:{port}", "127.0.0.1",
     "127.0.0.1:1", "localhost:{port}.", "[::1]:{port}@evil", "0.0.0.0:{port}", ""],
)  # fmt: skip
def test_a_name_that_was_bound_to_this_address_is_refused(sealed, host):
    told = sealed.ask("POST", "/messages/", ORDER, sealed.bearer() | {"host": host.format(port=sealed.port)})
    assert (told.status, told.json["code"]) == (421, "wrong_host")


def test_a_request_without_a_host_or_with_two_is_refused(sealed):
    bearer = f"Authorization: Bearer {sealed.key()}\r\n".encode()
    assert b" 421 " in sealed.raw(b"GET /agents/ HTTP/1.0\r\n" + bearer + b"\r\n")
    two = f"Host: 127.0.0.1:{sealed.port}\r\nHost: evil\r\n".encode()
    assert b" 400 " in sealed.raw(b"GET /agents/ HTTP/1.1\r\n" + two + bearer + b"\r\n")
    absolute = f"GET http://evil.example/agents/ HTTP/1.1\r\nHost: 127.0.0.1:{sealed.port}\r\nConnection: close\r\n"
    assert b" 404 " in sealed.raw(absolute.encode() + bearer + b"\r\n")


@pytest.mark.parametrize(
    "more",
    [{"origin": "https://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:1"}, {"origin": "http://localhost"},
     {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"sec-fetch-site": "Same-Origin"}],
)  # fmt: skip
def test_another_site_gets_nothing_even_with_the_key(sealed, more):
    for method, path, body in (("POST", "/messages/", ORDER), ("GET", "/agents/", None), ("GET", "/events", None)):
        told = sealed.ask(method, path, body, sealed.bearer() | {"content-type": "application/json"} | more)
        assert (told.status, told.json["code"]) == (403, "cross_site")


def test_another_site_gets_nothing_where_no_key_is_asked_for(shared):
    open_door = shared
    before = tree(open_door)
    for more in ({"origin": "http://evil"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert open_door.ask("POST", "/page/send", "from_agent=a&to_agent=b&subject=x", FORM | more).status == 403
        assert open_door.ask("POST", "/messages/", ORDER, FORM | more).status == 403
        assert open_door.ask("GET", "/", headers=more).status == 403
    same = {"origin": open_door.address}
    assert open_door.ask("POST", "/messages/", ORDER, FORM | same).status == 415  # a form of the page's own origin
    assert tree(open_door) == before


@pytest.mark.parametrize(
    "path", ["/messages/", "/agents/", "/conversations/", "/events", "/metrics", "/mcp", "/page/live"]
)
def test_without_the_key_there_is_nothing(sealed, path):
    cookie = f"agent-mail-{sealed.port}"
    for headers in (
        {}, {"authorization": "Bearer wrong-key"}, {"authorization": sealed.key()}, {"authorization": "Bearer "},
        {"authorization": f"Basic {sealed.key()}"}, {"cookie": f"{cookie}=9999999999.00"},
        {"cookie": f"{cookie}={sealed.key()}"}, {"x-agent-id": "worker-docs"},
    ):  # fmt: skip
        told = sealed.ask("POST" if path == "/mcp" else "GET", path, headers=headers)
        assert (told.status, told.json["code"], told.headers["www-authenticate"]) == (401, "no_key", "Bearer")
    assert sealed.ask("POST", "/messages/", ORDER, {"authorization": "Bearer wrong-key"}).status == 401


def test_a_key_in_the_address_is_none(sealed):
    for query in ("key", "token", "access_token", "authorization"):
        assert sealed.ask("GET", f"/agents/?{query}={sealed.key()}").status == 401
        assert sealed.ask("POST", f"/messages/?{query}={sealed.key()}", ORDER).status == 401


def test_an_agents_key_does_what_that_agent_may(keyed):
    docs, hub = keyed.bearer("worker-docs"), keyed.bearer()

    def send(sender: str, to: str, by: dict) -> http.client.HTTPResponse:
        return keyed.ask("POST", "/messages/", {"from_agent": sender, "to_agent": to, "subject": "s"}, by)

    own = send("hub", "worker-docs", hub).json["id"]
    foreign = send("hub", "other", hub).json["id"]
    assert send("worker-docs", "hub", docs).status == 201
    assert [m["id"] for m in keyed.ask("GET", "/messages/", headers=docs).json] == [own]
    assert keyed.ask("GET", f"/messages/thread/{own}", headers=docs).status == 200
    assert keyed.ask("PATCH", f"/messages/{own}/ack", headers=docs).status == 200
    intrusion = {"from_agent": "worker-docs", "to_agent": "hub", "subject": "s", "reply_to": foreign}
    refused = [
        send("hub", "other", docs),
        keyed.ask("GET", "/messages/?to_agent=other", headers=docs),
        keyed.ask("GET", f"/messages/thread/{foreign}", headers=docs),
        keyed.ask("POST", f"/messages/{foreign}/reply", {"body": "x"}, docs),
        keyed.ask("POST", "/messages/", intrusion, docs),
        keyed.ask("PATCH", f"/messages/{foreign}/ack?agent=other", headers=docs),
        keyed.ask("GET", "/conversations/?agent=hub", headers=docs),
        keyed.ask("GET", "/metrics", headers=docs),
        keyed.ask("GET", "/page/live", headers=docs),
        keyed.ask("POST", "/sign-in", f"key={keyed.key('worker-docs')}", FORM),
    ]  # fmt: skip
    assert [told.status for told in refused] == [403] * len(refused), refused
    assert keyed.ask("PATCH", f"/messages/{foreign}/ack", headers=docs).status in (403, 404)
    talk = keyed.ask("POST", "/conversations/", {"from_agent": "hub", "to_agent": "other", "goal": "g"}, hub).json
    assert keyed.ask("GET", f"/conversations/{talk['conversation_id']}", headers=docs).status == 404
    assert keyed.ask("POST", f"/conversations/{talk['conversation_id']}/cancel", headers=docs).status == 404
    assert keyed.ask("POST", f"/conversations/{talk['conversation_id']}/resume", headers=docs).status == 403


def test_the_page_signs_in_with_a_cookie_that_only_it_can_use(keyed):
    shown = keyed.ask("GET", "/", headers={"accept": "text/html"})
    assert (shown.status, "Sign in" in shown.text, "Unread" in shown.text) == (401, True, False)
    assert keyed.ask("POST", "/sign-in", "key=wrong-key", FORM).status == 401
    told = keyed.ask("POST", "/sign-in", f"key={keyed.key()}", FORM)
    cookie = told.headers["set-cookie"]
    assert told.status == 303
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert keyed.key() not in cookie
    mine = {"cookie": cookie.partition(";")[0]}
    assert keyed.ask("GET", "/", headers=mine).status == 200
    form = "from_agent=me&to_agent=you&subject=hello&body="
    assert keyed.ask("POST", "/page/send", form, FORM | mine).status == 403  # nobody says where it came from
    assert keyed.ask("POST", "/messages/", ORDER, mine).status == 403
    for proof in ({"origin": keyed.address}, {"sec-fetch-site": "same-origin"}):
        assert keyed.ask("POST", "/page/send", form, FORM | mine | proof).status == 303
    assert (
        keyed.ask("POST", "/page/send", form, {"content-type": "text/plain"} | mine | {"origin": keyed.address}).status
        == 415
    )
    text = keyed.keys.read_text()
    keyed.keys.write_text(text.replace(keyed.key(), "another-key-of-at-least-32-characters"))
    assert keyed.ask("GET", "/", headers=mine).status == 401  # sealed with a key that is no more
    assert "wrong-key" not in keyed.log.read_text()


def test_every_answer_tells_the_browser_to_stay_within(sealed):
    keyed = sealed
    for path, headers in (
        ("/", {}),
        ("/agents/", keyed.bearer()),
        ("/static/page.js", {}),
        ("/nothing", {}),
        ("/agents/", {"host": "x"}),
    ):
        told = keyed.ask("GET", path, headers=headers).headers
        policy = told["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert (told["x-content-type-options"], told["referrer-policy"], told["cache-control"]) == (
            "nosniff",
            "same-origin",
            "no-store",
        )
        assert "access-control-allow-origin" not in told
        assert "server" not in told


def test_the_key_file_is_its_owners_alone(keyed):
    assert stat.S_IMODE(keyed.keys.stat().st_mode) == 0o600
    assert len(keyed.key()) >= 43
    for mode in (0o640, 0o604, 0o620):
        keyed.keys.chmod(mode)
        told = keyed.ask("GET", "/agents/", headers=keyed.bearer())
        assert told.status == 500  # closed, not open
        assert "chmod 600" in told.json["hint"]
    refused = keyed.mail("serve", "--port", "0", "--key-file", str(keyed.keys)).refusal
    assert refused["code"] == "cannot_read"
    keyed.keys.chmod(0o600)
    assert keyed.ask("GET", "/agents/", headers=keyed.bearer()).status == 200


def test_a_new_key_ends_the_old_one_and_no_other(keyed):
    old, hub = keyed.bearer("worker-docs"), keyed.bearer()
    told = keyed.mail("serve", "--key-file", str(keyed.keys), "--new-key", "worker-docs").answer
    assert told == {"name": "worker-docs", "keys": str(keyed.keys)}
    assert keyed.ask("GET", "/messages/", headers=old).status == 401
    assert keyed.ask("GET", "/messages/", headers=keyed.bearer("worker-docs")).status == 200
    assert keyed.bearer() == hub


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_no_auth_is_for_this_machine_only(post, host):
    refused = post("serve", "--no-auth", "--host", host, "--port", "0").refusal
    assert refused["code"] == "usage"
    assert "--no-auth" in refused["error"]


def test_a_hundred_megabytes_are_refused_and_not_read(sealed):
    before = sealed.memory()
    head = f"POST /messages/ HTTP/1.1\r\nHost: 127.0.0.1:{sealed.port}\r\nAuthorization: Bearer {sealed.key()}\r\n"
    told = sealed.raw(head.encode() + b"Content-Length: 104857600\r\n\r\n" + b"x" * 65536)
    assert b" 413 " in told.split(b"\r\n")[0]
    with socket.create_connection(("127.0.0.1", sealed.port), 30) as wire:
        wire.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        taken = 0
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        try:
            while taken < 100 << 20:
                wire.sendall(chunk)
                taken += 65536
        except OSError:
            pass
        assert taken < 20 << 20  # the server hung up long before the end
        try:
            answer = wire.recv(65536)
        except OSError:
            answer = b" 413 "  # reset: it did not stay to be read
        assert b" 413 " in answer
    assert sealed.memory() - before < 40 << 20


def test_who_has_no_key_cannot_make_it_read_a_body(sealed):
    """Had it waited for the body, which never comes, its answer would have been 408."""
    head = f"POST /messages/ HTTP/1.1\r\nHost: 127.0.0.1:{sealed.port}\r\nContent-Length: 5000000\r\n\r\n"
    assert b" 401 " in sealed.raw(head.encode()).split(b"\r\n")[0]


def test_heads_and_bodies_that_come_byte_by_byte_are_cut_off(sealed):
    head = f"Host: 127.0.0.1:{sealed.port}\r\nAuthorization: Bearer {sealed.key()}\r\n"
    order = f"POST /messages/ HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\n".encode()
    slow = {"head": (f"GET /agents/ HTTP/1.1\r\n{head}".encode(), b"X-Slow: 1\r\n"), "body": (order, b" ")}
    wires = {name: socket.create_connection(("127.0.0.1", sealed.port), 30) for name in slow}
    try:
        began, told, ended = time.monotonic(), {}, {}
        for name, wire in wires.items():
            wire.sendall(slow[name][0])
            wire.settimeout(0.2)
        while told.keys() != slow.keys() and time.monotonic() - began < 60:
            for name in slow.keys() - told.keys():
                with suppress(BrokenPipeError, ConnectionResetError):  # closed with a byte unread: it has answered
                    wires[name].sendall(slow[name][1])
                with suppress(TimeoutError):
                    told[name] = wires[name].recv(4096)
                    ended[name] = time.monotonic() - began
    finally:
        for wire in wires.values():
            wire.close()
    assert told.keys() == slow.keys()
    assert all(b" 408 " in answer for answer in told.values()), told
    assert ended["head"] < ended["body"]  # a head has 10 seconds, a body 20
    huge = sealed.raw(b"GET / HTTP/1.1\r\nX: " + b"x" * (64 << 10))
    assert b" 400 " in huge.split(b"\r\n")[0]


def test_two_hundred_idle_connections_hold_nobody_up(sealed):
    idle = [socket.create_connection(("127.0.0.1", sealed.port), 10) for _ in range(200)]
    try:
        for wire in idle[:100]:
            wire.sendall(b"POST /messages/ HTTP/1.1\r\n")
        for _ in range(20):
            assert sealed.ask("GET", "/agents/", headers=sealed.bearer()).status == 200
        assert not _closed(idle[-1:]), "they were answered only when it had closed the idle ones"
        until(lambda: _closed(idle), "every idle connection was closed by the server")
    finally:
        for wire in idle:
            wire.close()


def _closed(wires: list[socket.socket]) -> bool:
    for wire in wires:
        wire.settimeout(0)
        try:
            while wire.recv(4096):
                pass
        except BlockingIOError:
            return False
        except OSError:
            pass
    return True


def test_more_connections_than_it_can_have_push_out_the_idle_ones(post):
    """With room for 32 connections: the idle ones go, and whoever asks is served."""
    starter = post.place / "few-files"
    starter.write_text(f'#!/bin/sh\nulimit -n 160\nexec "{post.command}" "$@"\n')
    starter.chmod(0o755)
    post.command = str(starter)
    with Served(post, "--no-auth") as served:
        idle = [socket.create_connection(("127.0.0.1", served.port), 10) for _ in range(100)]
        try:
            for _ in range(10):
                assert served.ask("GET", "/agents/").status == 200
            assert len(proc.descriptors(served.process.pid)) < 100
        finally:
            for wire in idle:
                wire.close()


def test_no_file_of_the_package_asks_another_machine():
    import maildir_agents

    here = Path(maildir_agents.__file__).parent / "faces/http"
    for path in [*here.rglob("*.html"), *here.rglob("*.js"), *here.rglob("*.css"), *here.rglob("*.svg")]:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text.replace("faces/http", ""), path
        assert " style=" not in text
        assert " on" + "click" not in text


@pytest.mark.parametrize(
    "neighbour",
    ['prefs={"x": 1, "y":[2]}', "two words=1", '"half a quote', "{mine}=9999999999.00", "\xc3\xa9=1", "=", ""],
)
def test_cookies_of_other_servers_on_this_machine_sign_nobody_out(locked, neighbour):
    told = locked.ask("POST", "/sign-in", f"key={locked.key()}", FORM).headers["set-cookie"].partition(";")[0]
    foreign = neighbour.format_map({"mine": told.partition("=")[0]}) if "{mine}" in neighbour else neighbour
    assert locked.ask("GET", "/", headers={"cookie": foreign}).status == 401
    for both in (f"{foreign}; {told}", f"{told}; {foreign}", f"{foreign};{told}"):
        assert locked.ask("GET", "/", headers={"cookie": both}).status == 200, both
