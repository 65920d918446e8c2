"""Broadcasters that are killed at any moment, while others make mailboxes and read: each broadcast reaches every
mailbox once, or none."""

import os
from collections import Counter, defaultdict

import pytest

from crash.invariants import check_spool
from fleet.fleet import memory, places
from fleet.processes import PATIENCE, Crew, Process
from maildir_agents import Spool
from maildir_agents.errors import MailError

KILLS = 30
BROADCASTERS = ("hub-0", "hub-1", "hub-2")
READERS = tuple(f"reader-{number}" for number in range(8))
NEWCOMERS = 16


def broadcast(me: Process) -> None:
    """Every other one with a key, which a next life asks for again: it does not know what became of it."""
    subject = f"{me.name} {me.life} {me.count}"
    key = subject if me.count % 2 else None
    if me.count == 0 and me.life:
        subject = key = _unanswered(me)
    if subject is None:
        return
    me.say(tries=subject)
    answer = _patiently(lambda: me.spool.send(sender=me.name, recipient="*", subject=subject, dedup_key=key))
    me.say(sent=subject, id=answer["id"], duplicate=answer["duplicate"])


def _unanswered(me: Process) -> str | None:
    """The last subject of the life before that had a key and no answer."""
    mine = [line for name, line in me.crew.said(me.name) if name == me.name]
    answered = {line["sent"] for line in mine if "sent" in line}
    open_ones = [line["tries"] for line in mine if "tries" in line and line["tries"] not in answered]
    keyed = [subject for subject in open_ones if int(subject.split()[-1]) % 2]
    return keyed[-1] if keyed else None


def _patiently(act):
    while True:
        try:
            return act()
        except MailError as error:
            if error.code != "busy":
                raise


def make(me: Process) -> None:
    """A new agent's first call, by one of two that race for it."""
    agent = f"new-{me.count % NEWCOMERS}"
    _patiently(lambda: _read(me, agent, settle=me.count >= NEWCOMERS))


def take(me: Process) -> None:
    _patiently(lambda: _read(me, me.random.choice(READERS), settle=me.random.random() < 0.5))


def _read(me: Process, agent: str, settle: bool) -> None:
    with me.spool.read(agent, limit=50) as batch:
        pass
    for message in batch.messages:
        me.say(agent=agent, shown=message["id"])
    if settle and batch.messages:
        me.spool.ack(agent, [message["id"] for message in batch.messages])


def answered(crew: Crew) -> set[str]:
    return {line["sent"] for _, line in crew.said("hub") if "sent" in line}


def mailboxes(spool: Spool) -> list[str]:
    return [name for name in os.listdir(spool.agents) if name[0] != "."]


@pytest.mark.timeout(PATIENCE + 60)
def test_killed_broadcasters_leave_each_broadcast_once_with_everybody_or_with_nobody():
    with memory() as place, Crew(place) as crew:
        spool = Spool(crew.root, durability="none")
        for agent in (*READERS, *BROADCASTERS):
            spool.ack(agent, everything=True)
        for name in BROADCASTERS:
            crew.start(name, broadcast)
        for number in range(2):
            crew.start(f"maker-{number}", make)
            crew.start(f"taker-{number}", take)
        killed = 0
        # On a machine that lets the broadcasters or the makers wait the race is longer, and not less of one.
        while killed < KILLS or len(answered(crew)) <= KILLS or len(mailboxes(spool)) <= NEWCOMERS:
            killed += 1
            name = crew.random.choice(BROADCASTERS)
            crew.wait_for(name, crew.random.randint(1, 6))
            crew.kill_and_start(name)
        crew.finish()

        spool.send(sender="finisher", recipient="*", subject="the last")
        agents = mailboxes(spool)
        for agent in agents:
            with spool.read(agent, limit=10_000):
                pass
        assert check_spool(crew.root, finished=True) == []

        holders: dict[str, Counter[str]] = defaultdict(Counter)
        for agent, _, _, subject in places(crew.root):
            holders[subject][agent] += 1
        wrong = []
        sent = answered(crew)
        for subject in {line["tries"] for _, line in crew.said("hub") if "tries" in line}:
            wanted = dict.fromkeys(set(agents) - {subject.split()[0]}, 1)
            if dict(holders[subject]) not in ([wanted] if subject in sent else [wanted, {}]):
                wrong.append(
                    f"{subject!r}: {holders[subject] - Counter(wanted)} too many, "
                    f"{Counter(wanted) - holders[subject]} too few"
                )
        assert wrong == []
        shown = Counter((line["agent"], line["shown"]) for _, line in crew.said() if "shown" in line)
        assert [pair for pair, count in shown.items() if count > 1] == []
        assert len(sent) > KILLS
        assert len(agents) > NEWCOMERS
