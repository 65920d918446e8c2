"""The stream of events: what happens shows, once, to everybody it concerns, on one inotify instance."""

import sys
import time

from faces.http.served import Served
from faces.program import until


def test_what_happens_in_the_spool_is_told_whoever_did_it(shared):
    with shared.events() as listener:
        by_http = shared.send("heard")
        by_command = shared.mail("send", "--from", "hub", "--to", "heard", "--subject", "s").answer["id"]
        told = listener.until("message", id=by_http)
        assert (told["from_agent"], told["mailbox"], told["state"]) == ("hub", "heard", "unread")
        assert set(told) == {"id", "mailbox", "state", "from_agent", "to_agent"}  # no subject, no text
        listener.until("message", id=by_command)
        shared.ask("PATCH", f"/messages/{by_http}/read")
        listener.until("state", id=by_http, state="read")
        shared.mail("claim", "heard", by_command)
        listener.until("state", id=by_command, state="claimed")
        shared.mail("ack", "heard", by_http)
        listener.until("state", id=by_http, state="acked")
        shared.mail("archive", "heard", by_http)
        listener.until("state", id=by_http, state="archived")
        arrivals = [data["id"] for kind, data in listener.events if kind == "message" and data["mailbox"] == "heard"]
        assert arrivals == [by_http, by_command]


def test_a_first_mailbox_and_a_script_are_heard(shared):
    with shared.events() as listener:
        first = shared.send("never-seen-before")
        listener.until("message", id=first, mailbox="never-seen-before")
        [file] = (shared.mail.spool / "agents/never-seen-before/new").iterdir()
        dropped = first[:-4] + "0000"
        draft = file.parent.parent / "tmp/dropped"
        draft.write_text(file.read_text().replace(first, dropped))
        draft.rename(file.parent / f"{dropped}.json")
        listener.until("message", id=dropped)


def test_a_dialogue_is_heard_as_it_moves_on(shared):
    with shared.events() as listener:
        order = {"from_agent": "ann", "to_agent": "ben", "goal": "agree"}
        talk = shared.ask("POST", "/conversations/", order).json["conversation_id"]
        listener.until("conversation", conversation_id=talk, state="active")
        shared.mail("conversation", "needs-human", talk, "--as", "ben")
        listener.until("conversation", conversation_id=talk, state="needs_human")
        shared.ask("POST", f"/conversations/{talk}/cancel")
        listener.until("conversation", conversation_id=talk, state="cancelled")


def test_who_comes_back_is_told_what_he_missed_or_to_look_at_everything(open_door):
    with open_door.events() as listener:
        first = open_door.send("later")
        listener.until("message", id=first)
        last = listener.last
    missed = [open_door.send("later", f"missed {n}") for n in range(3)]
    with open_door.events() as witness:
        sentinel = open_door.send("later", "sentinel")
        witness.until("message", id=sentinel)
    with open_door.events({"last-event-id": last}) as listener:
        listener.until("message", id=sentinel)
        told = [data["id"] for kind, data in listener.events if kind == "message"]
        assert told == [*missed, sentinel]  # each once, in order, and nothing from before
        assert "resync" not in [kind for kind, _ in listener.events]
    for unknown in ("ffffffffffff-1", "nonsense", "-", f"{last.rpartition('-')[0]}-999999"):
        with open_door.events({"last-event-id": unknown}) as listener:
            listener.until("resync")


def test_a_server_that_was_killed_is_found_again_and_says_resync(post):
    with Served(post, "--no-auth") as first:
        with first.events() as listener:
            listener.until("message", id=first.send("a"))
            last = listener.last
            first.stop(kill=True)
        with Served(post, "--no-auth", port=first.port) as second, second.events({"last-event-id": last}) as listener:
            listener.until("resync")
            listener.until("message", id=second.send("a"))


def test_who_is_let_in_hears_what_comes_then_however_long_the_first_look_takes(post):
    starter = post.place / "slow"
    starter.write_text(f"""#!{sys.executable}
import time
from maildir_agents.faces.cli import main
from maildir_agents.faces.http import feed
class Slow(feed.News):
    def __init__(self, spool):
        time.sleep(1)
        super().__init__(spool)
feed.News = Slow
main()
""")
    starter.chmod(0o755)
    post.command = str(starter)
    with Served(post, "--no-auth") as served, served.events() as listener:
        listener.until("message", id=served.send("early"))


def test_an_agent_hears_what_concerns_it_and_nothing_else(keyed):
    with keyed.events(keyed.bearer("worker-docs")) as listener, keyed.events(keyed.bearer()) as everything:
        by = keyed.bearer()

        def send(sender: str, to: str) -> str:
            order = {"from_agent": sender, "to_agent": to, "subject": "s"}
            return keyed.ask("POST", "/messages/", order, by).json["id"]

        foreign, own, sent = send("hub", "other"), send("hub", "worker-docs"), send("worker-docs", "hub")
        listener.until("message", id=own)
        listener.until("message", id=sent)
        everything.until("message", id=foreign)
        keyed.ask("POST", "/conversations/", {"from_agent": "hub", "to_agent": "other", "goal": "g"}, by)
        keyed.ask("POST", "/conversations/", {"from_agent": "hub", "to_agent": "worker-docs", "goal": "g"}, by)
        listener.until("conversation", state="active", members=["hub", "worker-docs"])
        assert ["hub", "other"] not in [data.get("members") for _, data in listener.events]
        assert foreign not in [data.get("id") for _, data in listener.events]


def test_many_streams_cost_one_inotify_instance(open_door):
    listeners = []
    try:
        for _ in range(50):
            context = open_door.events()
            listeners.append((context, context.__enter__()))
        message = open_door.send("a")
        for _, listener in listeners:
            listener.until("message", id=message)  # so it is armed
        assert open_door.inotify_instances() == 1
    finally:
        for context, _ in listeners:
            context.__exit__(None, None, None)


def test_a_client_that_takes_nothing_is_told_to_look_again_and_costs_no_memory(open_door):
    """It reads nothing while 2,000 messages come: its queue is short, the others' news goes on."""
    import socket

    from maildir_agents import Spool

    spool = Spool(open_door.mail.spool)
    with open_door.events() as witness, socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", open_door.port))
        lazy.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{open_door.port}\r\n\r\n".encode())
        assert lazy.recv(1, socket.MSG_PEEK)  # it listens, and takes nothing of it
        before = open_door.memory()
        for _ in range(20):
            ids = spool.send_many([{"sender": "hub", "recipient": "busy", "subject": "s"} for _ in range(100)])["ids"]
        kinds = None
        end = time.monotonic() + 20
        while time.monotonic() < end and not kinds:
            kinds = [k for k, d in list(witness.events) if k == "resync" or d.get("id") == ids[-1]]
            time.sleep(0.01)
        assert kinds
        assert open_door.memory() - before < 24 << 20


def test_a_key_that_ended_hears_no_more_and_others_come_back_without_a_loss(keyed):
    with keyed.events(keyed.bearer("worker-docs")) as docs, keyed.events(keyed.bearer()) as hub:
        keyed.mail("send", "--from", "hub", "--to", "worker-docs", "--subject", "before")
        docs.until("message", mailbox="worker-docs")
        hub.until("message", mailbox="worker-docs")
        lines = keyed.keys.read_text().splitlines(keepends=True)
        keyed.keys.write_text("".join(line for line in lines if not line.startswith("worker-docs ")))
        sent = keyed.mail("send", "--from", "hub", "--to", "worker-docs", "--subject", "after").answer["id"]
        until(lambda: not docs._thread.is_alive(), "the stream of the key that ended is over")
        assert not any(data.get("id") == sent for _, data in docs.events)
        until(lambda: not hub._thread.is_alive(), "the other stream is over, too")
        with keyed.events(keyed.bearer() | {"last-event-id": hub.last}) as again:
            again.until("message", id=sent)
