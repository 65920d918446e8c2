"""states.tsv, row by row: where a verb finds a message, where it puts it, and what becomes of the name."""

import re
from pathlib import Path

import pytest

from conformance.adapters import Refused
from conformance.disk import Mailbox

SPEC = Path(__file__).parents[2] / "spool"
ROWS = {
    verb: (leaves.split(","), enters.split(","), guard)
    for verb, leaves, enters, guard in (line.split("\t") for line in (SPEC / "states.tsv").read_text().splitlines()[1:])
}
MESSAGE = (
    b'{"id":"%s","sender":"alice","recipient":"bob","subject":"s","created":"2026-11-30T18:47:12.123Z","body":"x"}'
)
READ, PAST, FUTURE = "20261130T184712.123Z", "20200101T000000.000Z", "20991231T235959.999Z"
UNKNOWN = "~cv2"  # a stamp of a later version
STATES = ("new", "cur", "claimed", "acked", "archive", "failed")
FREE = {"new": "~n3", "cur": f"~r{READ}~n3", "acked": f"~r{READ}~n3~a{READ}", "archive": f"~r{READ}~n3~z{READ}",
        "failed": "~n3"}  # fmt: skip


def letters(guard: str, word: str) -> set[str]:
    """The stamps that a guard `adds` or `drops`; those with "if missing" as well."""
    found = re.search(rf"{word} ([a-z](?:(?:, | and |, and )[a-z])*)\b", guard)
    return set(re.findall(r"\b[a-z]\b", found[1])) if found else set()


class Place:
    """A message in a state, anchored, with a token of 3 and an unknown stamp; live or overdue if it is claimed."""

    def __init__(self, each, fresh, state: str, read: bool = False, live: bool = True) -> None:
        self.each, self.box, self.id = each, Mailbox(each.spool, "bob"), fresh()
        more = FREE.get(state, f"{f'~r{READ}' if read else ''}~n3~x{PAST}~wold")
        where = state
        if state == "claimed" and live:  # claimed below, by the implementation itself
            where, more = "new", f"{f'~r{READ}' if read else ''}~n2"
        path = self.box.put(where, self.id, MESSAGE % self.id.encode(), more + UNKNOWN)
        self.box.anchored(path, self.id)
        if state == "failed":
            path.with_name(path.name[:-5] + ".reason.json").write_text(
                '{"id":"%s","code":"bad","reason":"r"}' % self.id
            )
        self.handle = f"{self.id}~n3"
        if state == "claimed" and live:
            each("claim", agent="bob", id=self.id)
        self.before = self.box.one(self.id)

    def act(self, verb: str, by_handle: bool = False) -> None:
        named = self.handle if by_handle else self.id
        requests = {"claim": {"id": self.id}, "renew": {"handle": self.handle}, "release": {"handle": self.handle},
                    "ack": {"ids": [named]}, "archive": {"ids": [named]}, "requeue": {"id": self.id}}  # fmt: skip
        self.each(verb, agent="bob", **requests.get(verb, {}))

    def follows(self, row: str) -> None:
        """What the files say now is what the table says."""
        _, enters, guard = ROWS[row]
        state, stamps = self.box.one(self.id)
        assert state == enters[-1 if "r" in stamps else 0], (row, self.before, state)
        adds, drops = letters(guard, "adds"), letters(guard, "drops")
        claims = "n + 1" in guard
        assert stamps.keys() - {"n", "c"} == (self.before[1].keys() | adds) - drops - {"n", "c"} | (
            {"q"} if "q = n" in guard else set()
        ), (row, self.before, stamps)
        assert int(stamps["n"]) == int(self.before[1]["n"]) + claims, (row, stamps)
        assert stamps["c"] == "v2", "an unknown stamp is kept"
        for letter in self.before[1].keys() & stamps.keys() - adds - {"n", "x", "b"}:
            assert stamps[letter] == self.before[1][letter], (row, letter)


MOVES = [
    (verb, state, read)
    for verb in ("claim", "renew", "release", "ack", "archive", "requeue")
    for state in ROWS[verb][0]
    for read in ((False, True) if state == "claimed" else (False,))
]


@pytest.mark.parametrize(("verb", "state", "read"), MOVES)
def test_a_verb_moves_as_the_table_says(each, fresh, verb, state, read):
    place = Place(each, fresh, state, read)
    place.act(verb, by_handle=state == "claimed")
    place.follows(verb)


@pytest.mark.asks("read")
def test_a_read_marks_what_it_showed(each, fresh):
    place = Place(each, fresh, "new")
    place.act("read")
    place.follows("read")


@pytest.mark.parametrize("read", [False, True])
def test_an_overdue_claim_is_free_for_whoever_looks(each, fresh, read):
    place = Place(each, fresh, "claimed", read, live=False)
    other = Place(each, fresh, "cur")
    other.act("claim")
    place.follows("expire")


def test_a_committed_draft_is_delivered_by_whoever_looks(each, fresh):
    box, message_id = Mailbox(each.spool, "bob"), fresh()
    draft = box.put("tmp", message_id, MESSAGE % message_id.encode())
    box.anchored(draft, message_id)
    Place(each, fresh, "cur").act("claim")
    assert box.one(message_id)[0] == ROWS["deliver"][1][0]


def test_an_old_draft_that_nobody_committed_is_removed_and_a_young_one_is_not(each, fresh):
    box, old, young = Mailbox(each.spool, "bob"), fresh(), fresh()
    box.put("tmp", old, MESSAGE % old.encode())
    (box.path / f"tmp/{young}.json").write_bytes(b"{")
    Place(each, fresh, "cur").act("claim")
    assert [path.name[:36] for path in (box.path / "tmp").iterdir()] == [young]
    (box.path / f"tmp/{young}.json").unlink()


OWN = pytest.mark.asks("read")  # a server that keeps its handles may act on its own claim by the id
WRONG = [("claim", "acked"), ("claim", "archive"), ("claim", "failed"), ("ack", "failed"), ("release", "new"),
         ("renew", "cur"), ("release", "acked"), ("requeue", "new"),
         *(pytest.param(verb, "claimed", marks=OWN) for verb in ("claim", "ack", "archive"))]  # fmt: skip


@pytest.mark.parametrize(("verb", "state"), WRONG)
def test_what_is_not_in_the_table_moves_nothing(each, fresh, verb, state):
    place = Place(each, fresh, state)
    try:
        place.act(verb)
    except Refused:
        pass
    assert place.box.one(place.id) == place.before


def test_a_settled_message_settled_again_stays_as_it_is(each, fresh):
    place = Place(each, fresh, "acked")
    assert each("ack", agent="bob", ids=[place.id]).get("ids") == []
    assert place.box.one(place.id) == place.before


@pytest.mark.asks("renew")
def test_a_claim_that_was_taken_over_is_lost(each, fresh):
    place = Place(each, fresh, "claimed")
    place.act("release")
    place.act("claim")
    now = place.box.one(place.id)
    assert now[1]["n"] == "4"
    for verb, request in (
        ("ack", {"ids": [place.handle]}),
        ("renew", {"handle": place.handle}),
        ("release", {"handle": place.handle}),
    ):
        with pytest.raises(Refused) as refused:
            each(verb, agent="bob", **request)
        assert refused.value.code == "lease_lost"
    assert place.box.one(place.id) == now


def test_the_guards_are_understood():
    assert letters(ROWS["ack"][2], "adds") == {"a", "r"}
    assert letters(ROWS["claim"][2], "adds") == set("xbw")
    assert letters(ROWS["requeue"][2], "drops") == {"r", "d"}
    assert letters(ROWS["expire"][2], "drops") == set("xbw")
