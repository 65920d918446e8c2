"""One message, two callers (and the clock) in every order: what one is told is true, and what is one's stays so.

The rules, after every schedule of the real code:

* S1 at most one acknowledgement succeeds;
* S2 nobody settles a message while another holds a claim whose time is not over;
* S3 there are never two such claims;
* S4 tokens only grow;
* S5 nobody frees or renews another's live claim;
* S6 afterwards somebody who comes anew finishes the work: nothing is lost, nothing is stuck.

And: the message is in one state; whoever is told success has it; whoever is refused changed nothing, and what it was
told was the case at some moment of its call.
"""

import os
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from maildir_agents.disk.moves import Disk
from maildir_agents.errors import MailError
from maildir_agents.mail import deadletter, lifecycle
from maildir_agents.mail.claim import held
from maildir_agents.mail.conservation import Conservation
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import day_of, handle, iso_of_stamp, minute_of, parse, stamp
from maildir_agents.mail.spool import BALLAST_BYTES, BALLAST_FILES, SpoolFiles
from maildir_agents.verbs.ack import ack, archive
from maildir_agents.verbs.claim import claim, release, renew
from maildir_agents.verbs.cleanup import cleanup
from maildir_agents.verbs.failed import requeue
from maildir_agents.verbs.read import Reading
from maildir_agents.verbs.send import send
from race.schedules import Bounded, Failed, Performance, PlayedClock, Sampled, Traces, play

LONG = bool(os.environ.get("AGENT_MAIL_LONG"))
SEED = int(os.environ["TEST_SEED"])
ID = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"
BOOT = "9f44af0deffffffa"
NOW, UP = 1_796_064_432_123, 86_400_123  # some days after the id was made
READ_AT = stamp(NOW - 9_000)
LONG_AGO = stamp(NOW - 40 * 86_400_000)
HELD = handle(ID, 1)
STATES = lifecycle.STATES
LEASE_S = 30

pytestmark = pytest.mark.timeout(3600 if LONG else 600)


def lease(seconds: int) -> str:
    return f"~n1~x{stamp(NOW + seconds * 1000)}~b{BOOT}-{UP + seconds * 1000}~wx"


# ------------------------------------------------------------------------------------------- where it all starts

#: what the message is when the schedule begins: state directory -> stamps (several: one message under several names)
STARTS: dict[str, dict[str, str]] = {
    "new": {"new": ""},
    "released": {"new": "~n1"},
    "read": {"cur": f"~r{READ_AT}"},
    "held": {"claimed": lease(LEASE_S)},
    "held, read": {"claimed": f"~r{READ_AT}{lease(LEASE_S)}"},
    "over": {"claimed": lease(-1)},
    "over, read": {"claimed": f"~r{READ_AT}{lease(-1)}"},
    "acked": {"acked": f"~r{LONG_AGO}~n1~a{LONG_AGO}"},
    "failed": {"failed": "~n1"},
    "lost": {},
    "new, first of its minute": {"new": ""},
    "twice": {"new": "", "acked": f"~r{READ_AT}~a{READ_AT}"},
    "twice, read": {"new": "", "cur": f"~r{READ_AT}"},
    "twice, held": {"new": "", "claimed": lease(LEASE_S)},
    "twice, over": {"new": "", "claimed": lease(-1)},
}
TEXT = (
    '{"id":"%s","sender":"alice","recipient":"bob","subject":"s","kind":null,"reply_to":null,"thread_id":null,'
    '"conversation_id":null,"turn":null,"hops":0,"response_deadline":null,"dedup_key":null,"refs":[],"headers":{},'
    '"created":"2026-11-24T00:00:00.000Z",\n"body":"b"}\n'
) % ID


def build(root: str, start: str) -> None:
    """A spool with one message in it; cheap, for it is made anew for every schedule."""
    os.makedirs(f"{root}/ballast", exist_ok=True)
    for number in range(BALLAST_FILES):
        if not os.path.lexists(path := f"{root}/ballast/{number:02d}"):
            write(path, "")
            os.truncate(path, BALLAST_BYTES)
    for directory in ("messages", "dedup", "threads", "agents", "conversations", "broadcast", "trash"):
        clear(f"{root}/{directory}")
    os.mkdir(f"{root}/messages/{day_of(ID)}")
    for agent in ("alice", "bob"):
        os.mkdir(f"{root}/agents/{agent}")
        for directory in ("tmp", "new", "cur", "claimed", "acked", "archive", "failed"):
            os.mkdir(f"{root}/agents/{agent}/{directory}")
        write(f"{root}/agents/{agent}/history.jsonl", "")
    if "first" not in start:
        for state in lifecycle.SETTLED:
            os.makedirs(f"{root}/agents/bob/{state}/{day_of(ID)}/{minute_of(ID)}")
    write(f"{root}/agents/bob/read.lock", "")
    for name in ("upkeep.lock", "broadcast.lock"):
        write(f"{root}/{name}", "")
    write(f"{root}/spool.json", '{"format":1,"durability":"none"}')
    anchor = f"{root}/messages/{day_of(ID)}/{ID}.json"
    write(anchor, TEXT)
    for state, stamps in STARTS[start].items():
        name = f"{ID}{stamps}.json"
        directory = f"{root}/agents/bob/{state}"
        if state in lifecycle.SETTLED:
            directory += f"/{day_of(ID)}/{minute_of(ID)}"
        os.link(anchor, f"{directory}/{name}")
        if state == "failed":
            write(f"{directory}/{name.removesuffix('.json')}.reason.json", '{"id":"%s","code":"tried"}' % ID)


def clear(directory: str) -> None:
    """An empty directory; shutil's takes precautions that cost more than the rest of a schedule."""
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    clear(entry.path)
                    os.rmdir(entry.path)
                else:
                    os.unlink(entry.path)
    except FileNotFoundError:
        os.mkdir(directory)


def write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, text.encode())
    os.close(fd)


# --------------------------------------------------------------------------------------------------- what is done


class Act(NamedTuple):
    """Something that a caller does: `run(spool, me)` with the real code; `holder`: by the handle of the first claim."""

    run: Callable[[SpoolFiles, str], Any]
    holder: bool = False


def read_all(spool: SpoolFiles, me: str, **how: bool) -> dict[str, Any]:
    with Reading(spool, "bob", **how) as batch:
        pass
    if batch.trouble is not None:
        raise batch.trouble
    return batch.answer | {"warnings": batch.warnings}


def fail_free(spool: SpoolFiles, me: str) -> dict[str, Any]:
    box = Mailbox(spool, "bob")
    found = next((f for d in ("new", "cur") for f in box.listed(d) if f.id == ID), None)
    return {"failed": bool(found and deadletter.fail(box, found, "tried", "three attempts", by=me))}


def fail_held(spool: SpoolFiles, me: str) -> dict[str, Any]:
    box = Mailbox(spool, "bob")
    return {"failed": bool(deadletter.fail(box, held(box, ID, 1), "tried", "three attempts", by=me))}


def mend(spool: SpoolFiles, me: str) -> list[dict[str, Any]]:
    """What doctor --fix does about messages."""
    return [finding.as_json(finding.try_to_mend()) for finding in Conservation(spool).findings()]


ACTS: dict[str, Act] = {
    "claim": Act(lambda spool, me: claim(spool, "bob", lease_s=LEASE_S, worker=me)),
    "claim it": Act(lambda spool, me: claim(spool, "bob", ID, lease_s=LEASE_S, worker=me)),
    "renew": Act(lambda spool, me: renew(spool, "bob", HELD, lease_s=2 * LEASE_S), holder=True),
    "release": Act(lambda spool, me: release(spool, "bob", HELD), holder=True),
    "ack mine": Act(lambda spool, me: ack(spool, "bob", [HELD]), holder=True),
    "ack": Act(lambda spool, me: ack(spool, "bob", [ID])),
    "ack all": Act(lambda spool, me: ack(spool, "bob", everything=True)),
    "archive mine": Act(lambda spool, me: archive(spool, "bob", [HELD]), holder=True),
    "archive": Act(lambda spool, me: archive(spool, "bob", [ID])),
    "answer mine": Act(
        lambda spool, me: send(spool, sender="bob", recipient="alice", subject="done", reply_to=HELD), holder=True
    ),
    "answer": Act(lambda spool, me: send(spool, sender="bob", recipient="alice", subject="done", reply_to=ID)),
    "read": Act(read_all),
    "read and ack": Act(lambda spool, me: read_all(spool, me, ack=True)),
    "fail mine": Act(fail_held, holder=True),
    "fail": Act(fail_free),
    "requeue": Act(lambda spool, me: requeue(spool, "bob", ID)),
    "claim as a twin": Act(lambda spool, me: claim(spool, "bob", lease_s=LEASE_S, worker="twin")),
    "mend": Act(mend),
    "cleanup": Act(lambda spool, me: cleanup(spool, 30)),
}
TICK = "time passes"
#: the acts that race with each other at each start; those by the handle of token 1 where somebody was given it
FREE = ("claim", "claim it", "ack", "archive", "read")
HOLDER = ("renew", "release", "ack mine", "archive mine")
MORE = ("ack all", "read and ack", "fail", "mend", "requeue")
ACTING: dict[str, tuple[str, ...]] = {
    "new": (*FREE, *MORE),
    "released": (*FREE, *HOLDER, *MORE),
    "read": (*FREE, *MORE),
    "held": (*FREE, *HOLDER),
    "held, read": (*FREE, *HOLDER),
    "over": (*FREE, *HOLDER, *MORE, "fail mine"),
    "over, read": (*FREE, *HOLDER, *MORE, "fail mine"),
    "acked": (*FREE, *HOLDER, *MORE, "cleanup"),
    "failed": (*FREE, *MORE, "cleanup"),
    "lost": (*FREE, *MORE),
    "new, first of its minute": ("claim", "ack", "archive"),
    "twice": ("claim", "claim it", "ack", "archive", "read", "ack all", "read and ack", "mend"),
    "twice, read": ("claim", "claim it", "ack", "archive", "read", "mend"),
}
TIMED = ("held", "held, read")
SHORT = ("new", "read", "held", "over", "acked", "failed", "lost", "twice")  # the others with AGENT_MAIL_LONG=1


class Told(NamedTuple):
    """How a call ended: an answer, or the code of a refusal."""

    act: str
    answer: Any
    code: str


# --------------------------------------------------------------------------------------------------- what is true


class Wrong(AssertionError):
    """A rule broken at the very step that broke it."""


Places = frozenset[tuple[str, str]]


class Move(NamedTuple):
    """A message's name changed."""

    who: int
    leaves: str
    enters: str
    live: bool  # it left a claim whose time was not over
    token: int


class Ledger:
    """What really happened, from the changes of names as they are made; it trusts no answer."""

    def __init__(self, root: str, clock: PlayedClock, start: str, holders: set[int]) -> None:
        self.root, self.clock = root, clock
        self.places: Places = frozenset((state, f"{ID}{stamps}.json") for state, stamps in STARTS[start].items())
        self.sane = len(self.places) == 1
        self.holders: dict[int, set[int]] = {1: holders}  # token: who has its handle
        self.highest = max((parse(text).token for _, text in self.places), default=0)
        self.acks = int(any(state == "acked" for state, _ in self.places))
        self.moves: list[Move] = []
        self.moments: list[tuple[int, Places, int]] = [(0, self.places, clock.up)]  # from which step on
        self.performance: Performance | None = None

    def place(self, path: str) -> tuple[str, str] | None:
        """(state, name) of a path of the message in bob's mailbox."""
        parts = path.removeprefix(f"{self.root}/").split("/")
        if not parts[-1].startswith(ID) or ".reason." in parts[-1]:
            return None
        if parts[:2] == ["agents", "bob"] and parts[2] in STATES:
            return parts[2], parts[-1]
        return ("trash", parts[-1]) if parts[0] == "trash" else None

    def left(self, place: tuple[str, str]) -> int:
        return int(boot_end(place[1])) - self.clock.up

    def live(self, places: Places | None = None) -> list[int]:
        """Tokens of the claims whose time is not over."""
        return [parse(p[1]).token for p in places or self.places if p[0] == "claimed" and self.left(p) > 0]

    def note(self) -> None:
        assert self.performance is not None
        self.moments.append((len(self.performance.story), self.places, self.clock.up))

    def watch(self, who: int, call: str, source: str, target: str = "") -> None:
        left, entered = self.place(source), self.place(target) if target else None
        if call == "link":
            if entered:
                self._enters(who, entered)
                self.places |= {entered}
        elif left:
            if entered is None and call == "rename":
                raise Wrong(f"{source} went to {target}")
            self._leaves(who, left, entered)
            self.places = self.places - {left} | ({entered} if entered and entered[0] != "trash" else set())
        else:
            return
        self.note()

    def _leaves(self, who: int, left: tuple[str, str], entered: tuple[str, str] | None) -> None:
        name, after = parse(left[1]), parse(entered[1]) if entered else None
        live, mine = (
            left in self.places and left[0] == "claimed" and self.left(left) > 0,
            who in self.holders.get(name.token, ()),
        )
        state = entered[0] if entered else "nowhere"
        self.moves.append(Move(who, left[0], state, live, name.token))
        if live and not mine:
            rule = "S5" if state in ("new", "cur", "claimed") else "S2"
            raise Wrong(f"{rule}: another's live claim {name.token} went to {state}")
        others = [token for token in self.live() if who not in self.holders.get(token, ())]
        if others and state in ("acked", "archive", "failed", "claimed") and len(self.places) == 1:
            raise Wrong(f"S2: it went to {state} under the live claims {others}")
        if entered and left[0] == entered[0] == "claimed":
            if after.token != name.token:
                raise Wrong(f"a renewal changed the token {name.token} to {after.token}")
            if not mine:
                raise Wrong(f"S5: claim {name.token} was renewed by somebody else")
        elif entered:
            self._enters(who, entered)
        if after and after.token < name.token:
            raise Wrong(f"S4: token {name.token} became {after.token}")

    def _enters(self, who: int, entered: tuple[str, str]) -> None:
        state, token = entered[0], parse(entered[1]).token
        if state == "claimed":
            if others := self.live():
                raise Wrong(f"S3: token {token} was granted beside the live claims {others}")
            if self.acks:
                raise Wrong(f"S1: token {token} was granted on an acknowledged message")
            if token <= self.highest:
                raise Wrong(f"S4: token {token} was granted after {self.highest}")
            self.holders[token] = {who}
        elif state == "acked":
            if self.acks and self.sane:
                raise Wrong("S1: it was acknowledged twice")
            self.acks += 1
        self.highest = max(self.highest, token)

    # what may be said of it

    def during(self, who: int) -> "list[Moment]":
        """The states in which the message was while `who` was about it."""
        steps = [number for number, (player, _) in enumerate(self.performance.story) if player == who]
        first, last = (steps[0], steps[-1] + 1) if steps else (0, 0)
        ends = [begin for begin, _, _ in self.moments[1:]] + [sys.maxsize]
        return [
            (furthest(places, up), up)
            for (begin, places, up), end in zip(self.moments, ends, strict=True)
            if begin <= last and end > first
        ]


Moment = tuple[tuple[str, str] | None, int]  # where the message is (None: nowhere), and the boot clock


def furthest(places: Places, up: int) -> tuple[str, str] | None:
    """Where the message is: of several names a live claim counts, else the furthest in life."""
    live = [place for place in places if place[0] == "claimed" and not is_free(place, up)]
    return max(live or places, key=lambda place: (STATES.index(place[0]), place[1]), default=None)


def is_free(place: tuple[str, str], up: int) -> bool:
    return place[0] in ("new", "cur") or (place[0] == "claimed" and int(boot_end(place[1])) <= up)


def boot_end(text: str) -> str:
    return parse(text).stamps["b"].partition("-")[2]


def is_unread(place: tuple[str, str], up: int) -> bool:
    return is_free(place, up) and "r" not in parse(place[1]).stamps


def always(what: Callable[[tuple[str, str], int], bool], moments: list[Moment]) -> bool:
    return all(place is not None and what(place, up) for place, up in moments)


def is_held(place: tuple[str, str], token: int) -> bool:
    return parse(place[1]).token == token and place[0] in ("claimed", "acked", "archive")


#: code -> whether it is a true word about a message at (place) when the boot clock shows (up)
TRUE_OF: dict[str, Callable[[tuple[str, str], int], bool]] = {
    "claimed": lambda place, up: place[0] == "claimed" and not is_free(place, up),
    "settled": lambda place, up: place[0] in ("acked", "archive"),
    "dead_letter": lambda place, up: place[0] == "failed",
    "lease_lost": lambda place, up: not is_held(place, 1),
    "lost for good": lambda place, up: place[0] != "claimed" or parse(place[1]).token != 1,
}
ENTERS = {"ack": "acked", "ack mine": "acked", "ack all": "acked", "archive": "archive", "archive mine": "archive"}


def judge(ledger: Ledger, told: dict[int, Told]) -> str:
    """What is wrong at the end of a schedule; "" if nothing is."""
    try:
        for who, word in sorted(told.items()):
            _judge_word(ledger, who, word)
        _judge_state(ledger, told)
    except AssertionError as error:
        heard = {"ABC"[who]: (word.act, word.code or word.answer) for who, word in told.items()}
        return f"{error}\n  told: {heard}\n  names: {sorted(ledger.places)}"
    return ""


def _judge_word(ledger: Ledger, who: int, word: Told) -> None:
    mine = [move for move in ledger.moves if move.who == who]
    moments = ledger.during(who)
    if word.code:
        assert word.code != "traceback", f"{word.act} ended in a traceback: {word.answer}"
        harm = [m for m in mine if not (m.leaves == "claimed" and m.enters in ("new", "cur") and not m.live)]
        assert not harm, f"{word.act} was refused with {word.code} and yet changed the message: {harm}"
        _judge_refusal(word, moments)
        return
    answer = word.answer
    if word.act.startswith("claim"):
        if answer["handle"] is None:
            assert not always(is_free, moments), "nothing? it was always free"
        else:
            got = [m for m in mine if m.enters == "claimed" and m.leaves != "claimed"]
            assert got and got[-1].token + 1 == answer["token"], "a claim was answered that was not made"
            assert answer["message"]["body"] == "b"
    elif word.act in ENTERS:
        done = [m for m in mine if m.enters == ENTERS[word.act]]
        assert len(done) == len(answer["message_ids"]) <= 1, f"told {answer['message_ids']}, done {done}"
        if not done and word.act != "ack all":
            ends = ("acked", "archive") if "ack" in word.act or "mine" in word.act else ("archive",)
            assert not always(lambda place, up: place[0] not in ends, moments), "already? it never was"
        if not done and word.act == "ack all":
            assert not always(is_free, moments), "it was always free"
    elif word.act == "renew":
        made = [m for m in mine if m.leaves == m.enters == "claimed"]
        assert made or overtaken(answer, moments), "a renewal was answered that was not made"
    elif word.act == "release":
        assert [m for m in mine if m.enters == answer["state"]], "a release was answered that was not made"
    elif word.act in ("answer", "answer mine"):
        done = [m for m in mine if m.enters == "acked"]
        assert bool(done) == ("acknowledged" in answer), f"the receipt says {answer}, done {done}"
        assert answer.get("code") in (None, "lease_lost", "claimed", "dead_letter"), answer
    elif word.act in ("read", "read and ack"):
        if not answer["messages"]:
            assert not always(is_unread, moments), "it was always unread"
        left = [m for m in mine if m.enters in ("cur", "acked") and m.leaves == "new"]
        assert len(left) <= len(answer["messages"]), "it was marked and not shown"
    elif word.act in ("fail", "fail mine"):
        assert answer["failed"] == bool([m for m in mine if m.enters == "failed"])
    elif word.act == "mend" and ledger.sane:
        assert answer == [], f"doctor found what is not wrong: {answer}"
    if isinstance(answer, dict):
        assert not answer.get("warnings") or not ledger.sane, f"a warning without a reason: {answer['warnings']}"


def overtaken(answer: Any, moments: list[Moment]) -> bool:
    """Whether another has meanwhile given the claim the very lease that was answered."""
    seen = [place for place, _ in moments]
    return any(
        place != seen[0]
        and place[0] == "claimed"
        and parse(place[1]).token == answer["token"]
        and iso_of_stamp(parse(place[1]).stamps["x"]) == answer["claim_expires_at"]
        for place in seen[1:]
        if place
    )


def _judge_refusal(word: Told, moments: list[Moment]) -> None:
    if word.code in ("unknown_id", "in_transit"):
        there = always(lambda place, up: place[0] == "failed" or word.act != "requeue", moments)
        assert not there, f"{word.act} says {word.code} of a message that was always there"
        return
    if word.code == "shown_not_acknowledged":
        assert not always(is_unread, moments), "not acknowledged? it was always unread"
        return
    assert word.code in TRUE_OF, f"{word.act} was refused with {word.code}: {word.answer}"
    means = "lost for good" if word.act in ("renew", "release", "fail mine") else word.code
    true = not always(lambda place, up: not TRUE_OF[means](place, up), moments)
    assert true, f"{word.act} was refused with {word.code}, which it never was"


def _judge_state(ledger: Ledger, told: dict[int, Told]) -> None:
    box = f"{ledger.root}/agents/bob"
    seen = [(f"{base}/{name}") for base, _, names in os.walk(box) for name in names if name.startswith(ID)]
    reasons = {path for path in seen if path.endswith(".reason.json")}
    places = {place for path in seen if (place := ledger.place(path))}
    assert places == ledger.places, f"the names on disk are {places}"
    acts = {word.act for word in told.values()}
    if ledger.sane:
        assert len(places) == 1 or (acts & {"cleanup"} and not places), f"it is in {len(places)} places"
    lost = sum(word.act in ("fail", "fail mine") for word in told.values())
    lone = [path for path in reasons if path.replace(".reason.json", ".json") not in seen]
    assert len(lone) <= lost, f"a reason without a dead letter: {lone}"
    if places or not acts & {"cleanup"}:
        _finish(ledger)


def _finish(ledger: Ledger) -> None:
    """S6: everybody is gone, all leases are over; one who comes anew settles it, a person requeues a dead letter."""
    later = PlayedClock(ledger.clock.wall + 10_000_000, ledger.clock.up + 10_000_000, BOOT)
    spool = SpoolFiles(ledger.root, clock=later, history=False)
    if not ledger.sane:
        mend(spool, "doctor")
    box = Mailbox(spool, "bob")
    places = [(state, f.name.text) for state in ("new", "cur", "claimed", "failed") for f in box.listed(state)]
    places += [(state, f.name.text) for state in lifecycle.SETTLED for f in box.settled(ID, state)]
    assert len(places) == 1, f"doctor leaves it in {places}"
    [(state, _)] = places
    if state == "failed":
        requeue(spool, "bob", ID)
    if state not in ("acked", "archive"):
        taken = claim(spool, "bob", worker="anew")
        assert taken["handle"] is not None, "S6: nobody can get it any more"
        assert taken["token"] > ledger.highest, f"S4: token {taken['token']} after {ledger.highest}"
        assert ack(spool, "bob", [taken["handle"]])["count"] == 1, "S6: it cannot be finished"


# ------------------------------------------------------------------------------------------------------ the play


@pytest.fixture(scope="module")
def place():
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        yield directory


def perform(name: str, act: Act, spool: SpoolFiles, who: int) -> Told:
    try:
        return Told(name, act.run(spool, f"w{who}"), "")
    except MailError as error:
        return Told(name, error.sentence, error.code)
    except (AssertionError, Exception) as error:
        if isinstance(error, Wrong):
            raise
        return Told(name, traceback.format_exc(), "traceback")


def scene(place: str, start: str, acts: tuple[str, ...], outcomes: set[str] | None = None) -> Callable:
    """A scene for `play`: the message at `start`, and everybody who acts on it.  `outcomes` gets what came of it."""
    root = f"{place}/spool"
    people = [name for name in acts if name != TICK]

    def set_up():
        build(root, start)
        clock = PlayedClock(NOW, UP, BOOT)
        holders = {who for who, name in enumerate(people) if ACTS[name].holder}
        ledger = Ledger(root, clock, start, holders)
        told: dict[int, Told] = {}
        programs = []
        for who, name in enumerate(people):
            noise = iter(range(who * 1000, who * 1000 + 999))
            spool = SpoolFiles(
                root, clock=clock, randomness=lambda n, noise=noise: next(noise).to_bytes(n, "big"), history=True
            )

            def program(who: int = who, name: str = name, spool: SpoolFiles = spool) -> None:
                told[who] = perform(name, ACTS[name], spool, who)

            programs.append(program)
        if TICK in acts:

            def pass_time() -> None:
                clock.advance(LEASE_S)
                ledger.note()

            programs.append(pass_time)

        def begin(performance: Performance) -> None:
            ledger.performance = performance

        def end() -> str:
            if outcomes is not None:
                story = ledger.performance.story
                ways = [[what for who, what in story if who == me] for me in range(len(programs))]
                outcomes.add(f"{sorted(told.items())} {sorted(ledger.places)} {ways}")
            return judge(ledger, told)

        return root, programs, ledger.watch, begin, end

    return set_up


def with_time(start: str, acts: tuple[str, ...]) -> tuple[str, ...]:
    return (*acts, TICK) if start in TIMED else acts


@pytest.fixture(scope="module")
def counted(say):
    """How many schedules were played, said at the end."""
    numbers: Counter[str] = Counter()
    yield numbers
    parts = ", ".join(f"{number} {what}" for what, number in numbers.items())
    say(f"{sum(numbers.values())} schedules: {parts}")


FIRSTS = [(start, act) for start in (ACTING if LONG else SHORT) for act in ACTING[start]]


@pytest.mark.parametrize(("start", "first"), FIRSTS, ids=[f"{start}: {act}" for start, act in FIRSTS])
def test_in_every_schedule_of_two_callers_the_six_rules_hold(place, counted, start, first):
    acts = ACTING[start]
    for second in acts[acts.index(first) :]:
        counted["of pairs"] += play(scene(place, start, with_time(start, (first, second))), Traces())


ANSWERING = {"new": ("answer",), **dict.fromkeys(("held", "over", "acked"), ("answer", "answer mine"))}
ANSWERS = [(start, act) for start, acts in ANSWERING.items() for act in acts]


@pytest.mark.parametrize(("start", "act"), ANSWERS)
def test_in_every_schedule_an_answer_settles_what_its_receipt_says(place, counted, start, act):
    for other in ("claim", "ack", "read", *(HOLDER[:3] if start != "new" else ())):
        most = 1_000_000 if LONG else 150
        counted["with an answer"] += play(scene(place, start, (act, other)), Traces(), most)


def test_two_workers_of_one_name_are_two_workers(place, counted):
    """The handle is the claim; equal names, times and tokens make nobody believe that the other's claim is its own."""
    for start in ("new", "over"):
        counted["of twins"] += play(scene(place, start, ("claim as a twin", "claim as a twin")), Traces())


def named(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else "-".join(value)


THREE = [
    ("over", ("claim", "claim", "ack mine")),
    ("over", ("claim", "renew", "ack")),
    ("over", ("claim it", "release", "read")),
    ("held", ("claim", "renew", "ack mine")),
    ("held", ("ack mine", "release", "renew")),
    ("new", ("claim", "ack", "read")),
    ("new", ("claim", "claim", "fail")),
    ("failed", ("requeue", "requeue", "claim")),
]


@pytest.mark.parametrize(("start", "acts"), THREE, ids=named)
def test_of_three_callers_the_rules_hold_as_well(place, counted, start, acts):
    search = Traces() if LONG else Sampled(80, 3, SEED)
    counted["of three"] += play(scene(place, start, with_time(start, acts)), search, 20_000)


def test_any_callers_in_any_random_schedules(place, counted):
    """Every start and act, other pairs and triples than those above, too: three preemptions, chosen by chance."""
    choose = random.Random(SEED)
    for _ in range(2000 if LONG else 150):
        start = choose.choice(list(ACTING))
        acts = tuple(choose.choice((*ACTING[start], *ANSWERING.get(start, ()))) for _ in range(choose.choice((2, 3))))
        counted["sampled"] += play(scene(place, start, with_time(start, acts)), Sampled(5, 3, choose.random()))


LITERAL = [
    ("held", ("renew", "release")),
    ("over", ("claim", "ack mine")),
    ("new", ("ack", "claim")),
    ("new", ("read", "claim")),
    ("held", ("renew", "claim", TICK)),
]


@pytest.mark.parametrize(("start", "acts"), LITERAL, ids=named)
def test_leaving_out_equal_schedules_leaves_out_nothing_that_can_happen(place, counted, start, acts):
    """Whatever each caller sees, step by step, under all schedules with two preemptions, it sees in those played."""
    played, literal = set(), set()
    counted["of pairs"] += play(scene(place, start, acts, played), Traces())
    counted["literally all"] += play(scene(place, start, acts, literal), Bounded(3 if LONG else 2))
    assert literal - played == set()


# ------------------------------------------------------------------------------- faults that this must find


def naive_lock_file(place: str) -> Callable:
    """A lock file with owner and end: over, so unlink it, then make it anew with O_EXCL.  Its end is over."""
    root = f"{place}/naive"

    def set_up():
        os.makedirs(root, exist_ok=True)
        write(f"{root}/lock", "x 0")
        owners: list[str] = []

        def claim_it(me: str) -> None:
            try:
                fd = os.open(f"{root}/lock", os.O_RDONLY)
            except FileNotFoundError:
                return
            content = os.read(fd, 99)
            os.close(fd)
            if content[-2:] != b" 0":
                return
            try:
                os.unlink(f"{root}/lock")
                fd = os.open(f"{root}/lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            except (FileNotFoundError, FileExistsError):
                return
            os.write(fd, f"{me} 9".encode())
            os.close(fd)
            owners.append(me)

        def end() -> str:
            clear(root)
            return f"S3: both {owners} own it" if len(owners) > 1 else ""

        return root, [lambda: claim_it("a"), lambda: claim_it("b")], lambda *_: None, lambda _: None, end

    return set_up


@pytest.mark.parametrize("search", [Traces, lambda: Bounded(2)], ids=["traces", "literally"])
def test_a_naive_lock_file_is_caught(place, search):
    with pytest.raises(Failed, match="S3") as caught:
        play(naive_lock_file(place), search())
    assert caught.value.number <= 50
    print(f"caught in schedule {caught.value.number}")


def caught(place: str, start: str, *acts: str) -> str:
    with pytest.raises(Failed) as failed:
        play(scene(place, start, acts), Traces())
    assert failed.value.number <= 200
    return failed.value.what


def test_a_token_that_is_dropped_when_the_message_is_free_is_caught(place, monkeypatch):
    for verb in ("release", "expire"):
        row = lifecycle.TABLE[verb]
        drops = "".join((*row.drops, "n"))
        free = lifecycle.Row(" ".join(row.leaves), " ".join(row.enters), " ".join(row.adds), drops, row.guard)
        monkeypatch.setitem(lifecycle.TABLE, verb, free)
    assert "S4" in caught(place, "over", "claim", "ack mine")
    assert "S4" in caught(place, "held", "release", "claim")


def test_a_holder_that_is_not_asked_for_its_token_is_caught(place, monkeypatch):
    monkeypatch.setattr("maildir_agents.mail.settle.judge", lambda box, found, token: None)
    assert "S2" in caught(place, "over", "claim", "ack mine")


def test_a_lease_that_is_not_looked_at_is_caught(place, monkeypatch):
    monkeypatch.setattr(Mailbox, "claim_left_ms", lambda box, found: 0)
    assert "S5" in caught(place, "held", "claim", "renew")


def test_a_move_that_takes_anothers_target_for_its_own_is_caught(place, monkeypatch):
    def move(disk: Disk, source: str, target: str) -> bool:
        try:
            os.rename(source, target)
        except FileNotFoundError:
            return os.path.lexists(target)
        return True

    monkeypatch.setattr(Disk, "move", move)
    assert "not made" in caught(place, "new", "claim as a twin", "claim as a twin")
