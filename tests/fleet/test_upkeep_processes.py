"""cleanup and doctor beside senders, retries, workers and readers: nothing owed goes, nothing comes twice, what is told
is true, and what is being done is not reported as damage."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from crash.invariants import check_spool
from fleet.fleet import memory, places
from fleet.processes import PATIENCE, Crew, Process
from maildir_agents import Spool
from maildir_agents.errors import MailError

AGENTS = ("ann", "bob", "cat", "dan")
A_MOMENT = 1e-6  # days: 86 milliseconds after it was acknowledged a message may go
KEYS = 5
WAITING = 12  # messages in a mailbox: then its senders wait for its workers
# A call that another was faster than, or that has to wait a moment; everything else is trouble.
COMES_ABOUT = {"busy", "in_transit", "unknown_id", "claimed", "lease_lost", "settled", "dead_letter"}


def quietly(act):
    """What it answers, or None where somebody else was faster."""
    try:
        return act()
    except MailError as error:
        if error.code not in COMES_ABOUT:
            raise
        return None


def send(me: Process) -> None:
    to = me.random.choice(AGENTS)
    if sum(len(os.listdir(me.spool.box(to) + f"/{state}")) for state in ("new", "cur")) > WAITING:
        return
    answer = quietly(lambda: me.spool.send(sender=me.name, recipient=to, subject=f"{me.name} {me.count}"))
    if answer:
        me.say(sent=answer["id"], to=to)


def send_keyed(me: Process) -> None:
    """The same few keys over and over: a duplicate as long as the message is kept, then a new one."""
    key = f"key-{me.random.randrange(KEYS)}"
    to = AGENTS[int(key[-1]) % len(AGENTS)]
    answer = quietly(lambda: me.spool.send(sender="keyed", recipient=to, subject=key, dedup_key=key))
    if answer:
        me.say(told=answer["id"], to=to, key=key, duplicate=answer["duplicate"])


def work(me: Process) -> None:
    """Claim and give back, acknowledge, answer, put away, or fail."""
    agent = me.random.choice(AGENTS)
    claimed = quietly(lambda: me.spool.claim(agent, worker=me.name))
    if not claimed or not claimed["message"]:
        return
    message_id, handle = claimed["message"]["id"], claimed["handle"]
    choice = me.random.random()
    if choice < 0.3:
        quietly(lambda: me.spool.release(agent, handle))
    elif choice < 0.5 and claimed["message"]["sender"] in AGENTS:
        answer = quietly(
            lambda: me.spool.send(
                sender=agent, recipient=claimed["message"]["sender"], subject="answer", reply_to=handle
            )
        )
        if answer:
            me.say(sent=answer["id"], to=claimed["message"]["sender"])
    elif choice < 0.55 and me.count < 100:  # what is put away stays, with its thread: the spool must not grow
        me.say(kept=message_id, agent=agent)
        quietly(lambda: me.spool.archive(agent, [handle]))
    else:
        me.say(settles=message_id, agent=agent)
        quietly(lambda: me.spool.ack(agent, [handle]))


def look(me: Process) -> None:
    agent, everything, mark = me.random.choice(AGENTS), me.random.random() < 0.5, me.random.random() < 0.5

    def read() -> list:
        with me.spool.read(agent, everything=everything, mark=mark) as batch:
            return batch.messages

    for message in (quietly(read) or [])[-2:]:
        quietly(lambda message=message: me.spool.thread(message["id"]))


def broadcast(me: Process) -> None:
    if me.count < 15:
        quietly(lambda: me.spool.send(sender="hub", recipient="*", subject=f"to all {me.count}"))
    else:
        look(me)


def make(me: Process) -> None:
    if me.count < 12:
        quietly(lambda: me.spool.ack(f"new-{me.count}", everything=True))
    else:
        look(me)


def clean(me: Process) -> None:
    answer = quietly(lambda: me.spool.cleanup(A_MOMENT))
    if answer:
        me.say(removed=answer["messages"])


TRAFFIC = {
    "send": send,
    "keyed-0": send_keyed,
    "keyed-1": send_keyed,
    "work-0": work,
    "work-1": work,
    "look": look,
    "hub": broadcast,
    "maker": make,
}


def started(crew: Crew, **more) -> Spool:
    spool = Spool(crew.root, durability="none")
    for agent in AGENTS:
        spool.ack(agent, everything=True)
    for name, what in {**TRAFFIC, **more}.items():
        crew.start(name, what)
    return spool


def judged(crew: Crew, spool: Spool) -> list[str]:
    """What is wrong when all have stopped, and everybody has called once more."""
    for agent in os.listdir(spool.agents):
        with spool.read(agent, limit=1):
            pass
    wrong = check_spool(crew.root)
    there = Counter((agent, message_id) for agent, _, message_id, _ in places(crew.root))
    settled = {(line["agent"], line["settles"]) for _, line in crew.said("work") if "settles" in line}
    owed = {(line["to"], line["sent"]) for _, line in crew.said() if "sent" in line}
    owed |= {(line["to"], line["told"]) for _, line in crew.said("keyed") if not line.get("duplicate", True)}
    archived = {(line["agent"], line["kept"]) for _, line in crew.said("work") if "kept" in line}
    # Answered with a handle is acknowledged, too.
    answered = {(agent, message_id) for agent, state, message_id, _ in places(crew.root) if state == "acked"}
    replied = _replied(spool)
    wrong += [f"owed and gone: {pair}" for pair in owed - settled - replied if not there[pair]]
    wrong += [f"put away and gone: {pair}" for pair in archived - settled - replied - answered if not there[pair]]
    wrong += [f"{count} times: {pair}" for pair, count in there.items() if count > 1]
    delivered = {line["told"] for _, line in crew.said("keyed") if not line.get("duplicate", True)}
    told = {line["told"] for _, line in crew.said("keyed") if line.get("duplicate")}
    wrong += [f"told of {message_id}, which nobody ever sent" for message_id in told - delivered]
    return wrong


def _replied(spool: Spool) -> set[tuple[str, str]]:
    """What was acknowledged by an answer, as the histories say (nothing trims them: the lines are a moment old)."""
    found = set()
    for agent in AGENTS:
        for line in Path(spool.box(agent), "history.jsonl").read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["event"] == "acknowledged":
                found |= {(agent, message_id) for message_id in event["ids"]}
    return found


def raced(crew: Crew) -> bool:
    """Whether much was removed, and keys were forgotten as well as remembered: before that no race is over."""
    removed = sum(line.get("removed", 0) for _, line in crew.said("clean"))
    return removed > 30 and {line["duplicate"] for _, line in crew.said("keyed") if "told" in line} == {True, False}


def put_back(spool: Spool) -> list[str]:
    return [path.name for path in Path(spool.agents).rglob("*~n1[0-9][0-9][0-9]~q*.json")]


@pytest.mark.timeout(PATIENCE + 60)
def test_cleanup_beside_everybody_takes_only_what_was_settled_and_lets_nobody_be_told_a_lie(monkeypatch):
    monkeypatch.setattr("maildir_agents.verbs.cleanup.trim", lambda *_: False)  # the histories are evidence here
    with memory() as place, Crew(place) as crew:
        spool = started(crew, **{"clean-0": clean, "clean-1": clean})
        killed = 0
        while killed < 15 or not raced(crew):
            killed += 1
            name = crew.random.choice(("clean-0", "clean-1"))
            crew.wait_for(name, crew.random.randint(1, 4))
            crew.kill_and_start(name)
        crew.finish()
        spool.cleanup(A_MOMENT)
        assert judged(crew, spool) == []
        assert raced(crew)
        assert spool.doctor()["findings"] == []


ROUNDS = 12 if os.environ.get("AGENT_MAIL_LONG") else 4


@pytest.mark.timeout(PATIENCE + 60)
def test_doctor_beside_everybody_reports_nothing_that_is_only_being_done(monkeypatch):
    monkeypatch.setattr("maildir_agents.verbs.cleanup.trim", lambda *_: False)

    def doctor(me: Process) -> None:
        me.say(findings=me.spool.doctor()["findings"])

    with memory() as place, Crew(place) as crew:
        spool = started(crew, **{"clean": clean, "doctor-0": doctor, "doctor-1": doctor})
        for name in ("doctor-0", "doctor-1"):
            crew.wait_for(name, ROUNDS)
        crew.finish()
        found = [finding for _, line in crew.said("doctor") for finding in line.get("findings", ())]
        assert found == []
        assert judged(crew, spool) == []


@pytest.mark.timeout(PATIENCE + 60)
def test_doctor_fix_beside_everybody_puts_nothing_back_that_is_not_lost(monkeypatch):
    """Two that mend all the time.  Somebody removes the only names of messages nobody works on: these come back."""
    monkeypatch.setattr("maildir_agents.verbs.cleanup.trim", lambda *_: False)

    def doctor(me: Process) -> None:
        answer = quietly(lambda: me.spool.doctor(fix=True))
        me.say(findings=[(finding["code"], finding["path"]) for finding in answer["findings"]] if answer else [])

    def lose(me: Process) -> None:
        if me.count >= ROUNDS:
            return look(me)
        message_id = me.spool.send(sender="ann", recipient="victim", subject=f"victim {me.count}")["id"]
        os.unlink(me.spool.box("victim") + f"/new/{message_id}.json")
        me.say(lost=message_id)

    with memory() as place, Crew(place) as crew:
        spool = started(crew, clean=clean, lose=lose, **{"doctor-0": doctor, "doctor-1": doctor})
        crew.wait_for("lose", ROUNDS)
        for name in ("doctor-0", "doctor-1"):
            crew.wait_for(name, ROUNDS)
        crew.finish()
        spool.doctor(fix=True)
        lost = {line["lost"] for _, line in crew.said("lose") if "lost" in line}
        codes = Counter(
            code
            for _, line in crew.said("doctor")
            for code, path in line.get("findings", ())
            if not any(message_id in path for message_id in lost)
        )
        assert codes.keys() <= {"draft", "no_anchor", "not_in_thread", "half_made", "unfinished_broadcast"}, codes
        back = Counter(name[:36] for name in put_back(spool))
        assert back == dict.fromkeys(lost, 1)
        assert len(lost) == ROUNDS
        assert judged(crew, spool) == []
        assert spool.doctor()["findings"] == []
