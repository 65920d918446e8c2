"""The API as a script meets it: a real server, plain HTTP, and the files that lie there afterwards."""

import json
import os
import socket
import subprocess
import sys

import pytest

from faces.http.served import Served
from faces.program import until

LARGE = {"from_agent": "a", "to_agent": "b", "subject": "x", "body": "ä" * 600_000}
FIRST = '{"from_agent":"worker-marki-docx","to_agent":"state-hub","subject":"test","body":"hello"}'


def unread(served: Served, agent: str) -> list[dict]:
    return served.ask("GET", f"/messages/?to_agent={agent}&unread_only=true").json


@pytest.mark.needs("curl", "the command of the README, as it is typed")
def test_the_first_command_works_as_it_is_typed(open_door, keyed):
    for served, more in ((open_door, []), (keyed, ["-H", f"Authorization: Bearer {keyed.key()}"])):
        words = ["curl", "-s", "-w", "%{http_code}", "-X", "POST", f"{served.address}/messages/", "-d", FIRST, *more]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30)
        assert done.stdout.endswith("201"), done.stdout
    read = open_door.mail("read", "state-hub").answer["messages"]
    assert [(m["sender"], m["subject"], m["body"]) for m in read] == [("worker-marki-docx", "test", "hello")] * 2


def test_what_is_sent_comes_back_with_every_field(shared):
    order = {
        "from_agent": "hub", "to_agent": "fields", "subject": "Ümlaut ☂", "body": "a\tb\nc\r\n", "refs": ["a.md"],
        "dedup_key": "one", "response_timeout_seconds": 60,
    }  # fmt: skip
    sent = shared.ask("POST", "/messages/", order)
    assert sent.status == 201, sent
    [message] = unread(shared, "fields")
    for field in ("from_agent", "to_agent", "subject", "body", "refs"):
        assert message[field] == order[field]
    assert message["id"] == sent.json["id"]
    assert message["created_at"] < message["response_deadline"]
    assert (message["state"], message["mailbox"], message["read_at"]) == ("unread", "fields", None)
    assert "no instruction" in message["trust"]
    again = shared.ask("POST", "/messages/", order).json
    assert (again["id"], again["duplicate"]) == (sent.json["id"], True)


def test_a_message_goes_through_its_states_and_its_file_with_it(shared):
    message = shared.send("states")
    path = shared.mail.spool / "agents/states"
    assert [p.name[:36] for p in (path / "new").iterdir()] == [message]
    read = shared.ask("PATCH", f"/messages/{message}/read")
    assert (read.status, read.json["state"]) == (200, "read")
    assert read.json["read_at"]
    assert [p.name[:36] for p in (path / "cur").iterdir()] == [message]
    assert unread(shared, "states") == []
    acked = shared.ask("PATCH", f"/messages/{message}/ack").json
    assert acked["state"] == "acked"
    assert shared.ask("PATCH", f"/messages/{message}/ack").json["acked_at"] == acked["acked_at"]
    assert [m["id"] for m in shared.ask("GET", "/messages/?to_agent=states").json] == [message]
    archived = shared.ask("PATCH", f"/messages/{message}/archive").json
    assert (archived["state"], bool(archived["archived_at"])) == ("archived", True)
    assert shared.ask("GET", "/messages/?to_agent=states").json == []
    assert shared.ask("PATCH", f"/messages/{message}/read").json["state"] == "archived"


def test_looking_changes_no_file(shared):
    shared.send("looked-at")
    tree = sorted(str(p) for p in shared.mail.spool.rglob("*"))
    for path in ("/messages/", "/messages/?to_agent=looked-at", "/messages/?to_agent=nobody", "/agents/", "/metrics",
                 "/conversations/", "/", "/?view=all", "/openapi.json"):  # fmt: skip
        assert shared.ask("GET", path).status == 200
    assert sorted(str(p) for p in shared.mail.spool.rglob("*")) == tree


def test_a_list_is_in_the_order_of_sending_and_can_be_gone_through(shared):
    sent = [shared.send("listed", f"number {n}") for n in range(7)]
    first = shared.ask("GET", "/messages/?to_agent=listed&unread_only=true&limit=3")
    assert [m["id"] for m in first.json] == sent[:3]
    assert first.headers["x-truncated"] == "true"
    newest = shared.ask("GET", "/messages/?to_agent=listed&limit=3")
    assert [m["id"] for m in newest.json] == sent[4:]
    found, after = [], "00000000-0000-7000-8000-000000000000"
    while page := shared.ask("GET", f"/messages/?to_agent=listed&limit=3&after={after}").json:
        found += [m["id"] for m in page]
        after = found[-1]
    assert found == sent
    everything = [m["id"] for m in shared.ask("GET", "/messages/?limit=500").json]
    assert [i for i in everything if i in sent] == sent


def test_a_reply_joins_the_thread_and_acknowledges(shared):
    message = shared.send("replier", "Question")
    told = shared.ask("POST", f"/messages/{message}/reply", {"body": "42"})
    assert told.status == 201, told
    assert (told.json["to_agent"], told.json["subject"], told.json["acknowledged"]) == ("hub", "Re: Question", message)
    more = shared.ask("POST", "/messages/", {"from_agent": "hub", "to_agent": "replier", "subject": "More",
                                              "thread_id": message})  # fmt: skip
    assert more.status == 201, more
    thread = shared.ask("GET", f"/messages/thread/{more.json['id']}").json
    assert (thread["thread_id"], thread["count"]) == (message, 3)
    assert [m["state"] for m in thread["messages"]] == ["acked", "unread", "unread"]
    other = shared.send("replier")
    mixed = {"from_agent": "replier", "to_agent": "hub", "subject": "x", "reply_to": other, "thread_id": message}
    assert shared.ask("POST", "/messages/", mixed).status == 422


def test_a_broadcast_is_settled_for_the_one_who_is_named(open_door):
    for agent in ("a", "b"):
        open_door.send(agent)
    told = open_door.send("broadcast", "for all")
    assert open_door.ask("PATCH", f"/messages/{told}/read").status == 422
    assert open_door.ask("PATCH", f"/messages/{told}/read?agent=a").json["mailbox"] == "a"
    states = {m["mailbox"]: m["state"] for m in open_door.ask("GET", "/messages/").json if m["id"] == told}
    assert states == {"a": "read", "b": "unread"}
    assert open_door.ask("POST", f"/messages/{told}/reply", {"body": "x"}).status == 422
    assert open_door.ask("POST", f"/messages/{told}/reply", {"body": "x", "from_agent": "b"}).status == 201


def test_another_workers_claim_is_a_conflict_and_stays(shared):
    message = shared.send("claimer")
    shared.mail("claim", "claimer", message)
    for verb in ("read", "ack", "archive"):
        told = shared.ask("PATCH", f"/messages/{message}/{verb}")
        assert (told.status, told.json["code"]) == (409, "claimed")
    assert unread(shared, "claimer") == []
    assert [m["state"] for m in shared.ask("GET", "/messages/?to_agent=claimer").json] == ["claimed"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/messages/thread/01a22e46-aaaa-7aaa-8aaa-aaaaaaaaaaaa", None, 404, "unknown_id"),
        ("PATCH", "/messages/01a22e46-aaaa-7aaa-8aaa-aaaaaaaaaaaa/ack", None, 404, "unknown_id"),
        ("PATCH", "/messages/01a22e46-aaaa-7aaa-8aaa-aaaaaaaaaaaa/ack?agent=nobody", None, 404, "unknown_id"),
        ("PATCH", "/messages/no-id/ack", None, 422, "bad_field"),
        ("GET", "/messages/?to_agent=..%2f..", None, 422, "bad_field"),
        ("GET", "/conversations/01a22e46-aaaa-7aaa-8aaa-aaaaaaaaaaaa", None, 404, "unknown_conversation"),
        ("GET", "/nothing", None, 404, "no_such_path"),
        ("DELETE", "/messages/", None, 405, "no_such_method"),
        ("POST", "/messages/", "no json", 422, "not_json"),
        ("POST", "/messages/", "[]", 422, "not_an_object"),
        ("POST", "/messages/", '{"body":"a","body":"b"}', 422, "duplicate_key"),
        ("POST", "/messages/", {"from_agent": "a", "to_agent": "b", "subject": ""}, 422, "bad_field"),
        ("POST", "/messages/", {"from_agent": "a", "to_agent": "b", "subject": "x", "boddy": "?"}, 422, "bad_field"),
        ("POST", "/messages/", {"from_agent": "a", "to_agent": "b", "subject": "x", "kind": "task"}, 422, "usage"),
        ("POST", "/messages/", {"from_agent": "A", "to_agent": "b", "subject": "x"}, 422, "bad_field"),
        ("POST", "/messages/", LARGE, 413, "too_large"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_refused_in_a_sentence_and_changes_nothing(shared, method, path, body, status, code):
    tree = sorted(str(p) for p in shared.mail.spool.rglob("*"))
    told = shared.ask(method, path, body)
    assert (told.status, told.json["code"]) == (status, code), told
    assert told.json["error"]
    assert sorted(str(p) for p in shared.mail.spool.rglob("*")) == tree


def test_a_dialogue_goes_its_way_and_a_person_may_resume_it(shared):
    started = shared.ask(
        "POST", "/conversations/", {"from_agent": "ann", "to_agent": "ben", "goal": "agree", "max_turns": 2}
    )
    assert started.status == 201, started
    talk, task = started.json["conversation_id"], started.json["message_id"]
    assert shared.ask("POST", f"/messages/{task}/reply", {"body": "done"}).json["kind"] == "result"
    [row] = shared.ask("GET", "/conversations/?agent=ben").json
    assert (row["state"], row["turn_count"]) == ("active", 2)
    assert "agree" not in json.dumps(row)
    [result] = unread(shared, "ann")
    over = {"from_agent": "ann", "to_agent": "ben", "subject": "more", "reply_to": result["id"], "kind": "task"}
    refused = shared.ask("POST", "/messages/", over)
    assert (refused.status, refused.json["code"]) == (409, "turn_limit")
    assert shared.ask("GET", f"/conversations/{talk}").json["state"] == "needs_human"
    assert shared.ask("POST", f"/conversations/{talk}/resume").status == 409
    assert shared.ask("POST", f"/conversations/{talk}/resume", {"add_turns": 2}).json["state"] == "active"
    assert shared.ask("POST", "/messages/", over).status == 201
    cancelled = shared.ask("POST", f"/conversations/{talk}/cancel").json
    assert (cancelled["state"], cancelled["transitions"][-1]["by"]) == ("cancelled", "person")
    assert shared.ask("POST", f"/conversations/{talk}/complete", {"agent": "ann"}).status == 409


def test_what_a_script_dropped_is_there_like_any_other(shared):
    shared.send("dropped")
    [old] = (shared.mail.spool / "agents/dropped/new").iterdir()
    message = json.loads(old.read_bytes())
    message |= {"id": message["id"][:-4] + "0000", "subject": "by hand"}
    draft = shared.mail.spool / "agents/dropped/tmp/by-hand"
    draft.write_text(json.dumps(message))
    draft.rename(shared.mail.spool / f"agents/dropped/new/{message['id']}.json")
    assert "by hand" in [m["subject"] for m in unread(shared, "dropped")]
    assert shared.ask("PATCH", f"/messages/{message['id']}/read").json["state"] == "read"


def test_a_file_that_is_no_message_hides_no_mail(shared):
    message = shared.send("torn")
    new = shared.mail.spool / "agents/torn/new"
    (new / "01a22e46-aaaa-7aaa-8aaa-aaaaaaaaaaaa.json").write_text("{")
    (new / "01a22e46-bbbb-7aaa-8aaa-aaaaaaaaaaaa.json").mkdir()
    assert [m["id"] for m in unread(shared, "torn")] == [message]


def test_metrics_count_and_tell_nothing(shared):
    shared.send("counted", "a secret subject")
    told = shared.ask("GET", "/metrics")
    assert told.headers["content-type"].startswith("application/openmetrics-text")
    assert 'agent_mail_unread{agent="counted"} 1\n' in told.text
    assert told.text.endswith("# EOF\n")
    assert "secret" not in told.text


def test_a_unix_socket_serves_its_owner_and_is_taken_away(post, tmp_path):
    path = tmp_path / "mail.sock"
    with Served(post, "--socket", str(path), "--no-auth") as served:
        assert path.stat().st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as wire:
            wire.connect(str(path))
            wire.sendall(b"GET /agents/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b" 200 OK" in wire.recv(65536)
        assert served.stop() == 0
    assert not path.exists()


def test_sockets_that_were_passed_to_it_are_served_and_their_manager_is_told(post, tmp_path):
    """As systemd passes them, one of each kind: descriptors from 3 on, LISTEN_FDS, LISTEN_PID; and NOTIFY_SOCKET."""
    at = str(tmp_path / "http.sock")
    with (
        socket.create_server(("127.0.0.1", 0)) as port,
        socket.create_server(at, family=socket.AF_UNIX) as path,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
    ):
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        start = (
            "import fcntl, os\n"
            f"high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in ({path.fileno()}, {port.fileno()})]\n"
            "for number, fd in enumerate(high, 3):\n    os.dup2(fd, number)\n"
            "os.environ |= {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '2', 'WATCHDOG_USEC': '200000'}\n"
            f"os.execv({post.command!r}, [{post.command!r}, 'serve', '--no-auth'])\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", start], env=post.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")},
            stdout=subprocess.PIPE, pass_fds=[port.fileno(), path.fileno()],
        )  # fmt: skip
        try:
            assert manager.recv(1000) == b"READY=1"
            number = port.getsockname()[1]
            assert Served(post, port=number).ask("GET", "/agents/").status == 200
            with socket.socket(socket.AF_UNIX) as wire:
                wire.connect(at)
                wire.sendall(b"GET /agents/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert b" 200 OK" in wire.recv(65536)
            assert manager.recv(1000) == b"WATCHDOG=1"
            process.terminate()
            until(lambda: manager.recv(1000) == b"STOPPING=1", "it says that it stops")
            assert process.wait(20) == 0
            assert json.loads(process.stdout.read())["serving"] == f"http://127.0.0.1:{number}/"
        finally:
            process.kill()
            process.wait(20)
            process.stdout.close()
    assert os.path.exists(at), "it is the manager's"


def test_without_the_packages_it_says_how_to_get_them(post, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['fastapi'] = None\n")
    refused = post("serve", env=post.environ | {"PYTHONPATH": str(tmp_path)}).refusal
    assert refused["code"] == "missing_extra"
    assert refused["hint"].endswith("-m pip install 'maildir-agents[web]'")


def test_told_to_stop_it_ends_streams_and_is_gone(open_door):
    with open_door.events() as listener:
        assert listener.answer.status == 200
        assert open_door.stop() == 0
    assert open_door.log.read_text() == ""
