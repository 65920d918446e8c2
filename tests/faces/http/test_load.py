"""Under load: eight clients that read and send, fifty streams of events; no error, nothing lost, memory at rest.
"""

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from faces.http.served import Served
from faces.program import until
from maildir_agents import Spool

SECONDS = 60.0
SETTLED = 10.0  # seconds after which its memory is the measure of what it is at the end
CLIENTS, STREAMS = 8, 50
MOST = 1.2  # times the memory it had when it had settled


class Client(threading.Thread):
    """Sends to its own agent and to a hub, lists, reads, answers and settles, as fast as it is answered."""

    def __init__(self, served: Served, number: int, end: float) -> None:
        super().__init__(name=f"client {number}")
        self.served, self.agent, self.end = served, f"client-{number}", end
        self.sent: list[str] = []
        self.settled: list[str] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        try:
            while time.monotonic() < self.end and not self.wrong:
                self.round()
        except Exception as error:
            self.wrong.append(repr(error))

    def ask(self, method: str, path: str, body=None, status: int = 200):
        told = self.served.ask(method, path, body)
        if told.status != status:
            self.wrong.append(f"{method} {path}: {told}")
        return told.json

    def round(self) -> None:
        order = {
            "from_agent": self.agent,
            "to_agent": self.agent,
            "subject": f"number {len(self.sent)}",
            "body": "x" * 500,
        }
        first = self.ask("POST", "/messages/", order, 201)["id"]
        self.sent.append(first)
        self.sent.append(self.ask("POST", "/messages/", order | {"to_agent": "hub"}, 201)["id"])
        self.ask("GET", f"/messages/?to_agent={self.agent}&unread_only=true")
        self.ask("GET", "/agents/")
        self.ask("PATCH", f"/messages/{first}/read")
        self.sent.append(self.ask("POST", f"/messages/{first}/reply", {"body": "y"}, 201)["id"])
        self.settled.append(first)
        self.ask("GET", f"/messages/thread/{first}")


@pytest.mark.timeout(300)
def test_many_clients_and_streams_lose_nothing_and_grow_nothing(open_door, say):
    served = open_door
    heard: list[Counter] = []
    contexts = []
    try:
        for _ in range(STREAMS):
            context = served.events()
            contexts.append((context, context.__enter__()))
        began = time.monotonic()
        clients = [Client(served, n, began + SECONDS) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(SETTLED)
        early = served.memory()
        for client in clients:
            client.join(SECONDS + 60)
        late = served.memory()
        assert [client.wrong for client in clients if client.wrong] == []
        sent = [message for client in clients for message in client.sent]
        last = served.send("hub", "the last")
        for _, listener in contexts:
            until(
                lambda one=listener: any(d.get("id") == last for _, d in one.events[-300:]) or _behind(one),
                "news of the last",
            )
        heard = [Counter(data["id"] for kind, data in listener.events if kind == "message") for _, listener in contexts]
        broken = [listener.failed for _, listener in contexts if listener.failed]
        behind = sum(_behind(listener) for _, listener in contexts)
    finally:
        for context, _ in contexts:
            context.__exit__(None, None, None)
    say(f"served: {len(sent)} sent in {SECONDS:.0f} s; memory {early >> 20} then {late >> 20} MiB ({late / early:.2f})")
    assert broken == []
    assert behind == 0
    assert late <= MOST * early, f"{early} bytes after {SETTLED:.0f} s, {late} after {SECONDS:.0f} s"
    for counted in heard:
        # Read within the same look it arrived in, a message is told as a state; told twice it must never be.
        assert max(counted.values()) == 1
    for message in sent:
        assert (
            Path(served.mail.spool)
            / f"messages/{Spool(served.mail.spool).anchor(message).split('/')[-2]}/{message}.json"
        ).exists()
    places = Counter(p.name[:36] for p in (served.mail.spool / "agents").rglob("*.json") if p.parent.name != "tmp")
    assert {places[message] for message in sent} == {1}  # each in one state, once
    assert "ERROR" not in served.log.read_text()
    assert served.mail("doctor").status == 0


def _behind(listener) -> bool:
    return any(kind == "resync" for kind, _ in listener.events)
