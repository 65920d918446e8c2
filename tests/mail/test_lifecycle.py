"""The table: every verb leaves and enters what it says, and nothing else happens to a name."""

import pytest

from maildir_agents.mail.lifecycle import STATES, TABLE, successor
from maildir_agents.mail.name import Name, parse

ID = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"
READ, NOW, END = "20261130T184712.123Z", "20261130T190000.000Z", "20261130T190500.000Z"
BOOT = "9f44af0deffffffa-86400123"
VALUES = {"r": NOW, "n": "8", "q": "8", "x": END, "b": BOOT, "w": "build-7", "a": NOW, "z": NOW, "d": "1"}
CLAIM = {"n": "7", "x": END, "b": BOOT, "w": "build-7"}


def brings(verb: str) -> dict[str, str]:
    """All that a verb adds."""
    return {key.rstrip("?"): VALUES[key.rstrip("?")] for key in TABLE[verb].adds}


@pytest.mark.parametrize(("verb", "directory"), [(verb, place) for verb, row in TABLE.items() for place in row.leaves])
@pytest.mark.parametrize("read", [False, True])
def test_a_move_ends_where_the_table_says_with_a_name_that_is_one(verb, directory, read):
    stamps = ({"r": READ} if read else {}) | (CLAIM if directory == "claimed" else {}) | {"p": "future"}
    if directory == "failed":
        stamps |= {"d": "2"}
    state, name = successor(verb, directory, Name(ID, stamps), brings(verb))
    row = TABLE[verb]
    assert state == row.enters[-1 if "r" in name.stamps else 0]
    assert parse(name.text) is not None
    assert name.id == ID
    assert name.stamps["p"] == "future"
    assert not set(row.drops) & (name.stamps.keys() - brings(verb).keys())
    kept = stamps.keys() - set(row.drops) - brings(verb).keys()
    assert {key: name.stamps[key] for key in kept} == {key: stamps[key] for key in kept}


@pytest.mark.parametrize("verb", TABLE)
@pytest.mark.parametrize("directory", ["tmp", *STATES, "trash", ""])
def test_a_verb_leaves_no_other_directory(verb, directory):
    if directory not in TABLE[verb].leaves:
        with pytest.raises(ValueError, match=verb):
            successor(verb, directory, Name(ID, {}), brings(verb))


@pytest.mark.parametrize("verb", [verb for verb, row in TABLE.items() if any(key[-1] != "?" for key in row.adds)])
def test_a_verb_without_its_stamps_is_a_fault_of_the_caller(verb):
    with pytest.raises(ValueError, match=verb):
        successor(verb, TABLE[verb].leaves[0], Name(ID, {}), {})


@pytest.mark.parametrize("verb", TABLE)
def test_a_verb_brings_no_stamp_that_is_not_its_own(verb):
    foreign = next(key for key in VALUES if key not in brings(verb))
    with pytest.raises(ValueError, match=verb):
        successor(verb, TABLE[verb].leaves[0], Name(ID, {}), brings(verb) | {foreign: VALUES[foreign]})


def test_an_acknowledgement_keeps_the_time_of_the_first_reading():
    _, name = successor("ack", "cur", Name(ID, {"r": READ}), {"r": NOW, "a": NOW})
    assert name.stamps == {"r": READ, "a": NOW}


def test_an_acknowledgement_of_unread_mail_counts_as_its_reading():
    _, name = successor("ack", "new", Name(ID, {}), {"r": NOW, "a": NOW})
    assert name.stamps == {"r": NOW, "a": NOW}


def test_a_second_claim_has_the_next_token_and_nothing_of_the_first():
    free, name = successor("expire", "claimed", Name(ID, CLAIM), {})
    assert (free, name.stamps) == ("new", {"n": "7"})
    _, again = successor("claim", free, name, {"n": "8", "x": NOW, "b": BOOT, "w": "other"})
    assert again.stamps == {"n": "8", "x": NOW, "b": BOOT, "w": "other"}


def test_a_renewal_changes_the_end_and_neither_token_nor_worker():
    _, name = successor("renew", "claimed", Name(ID, CLAIM), {"x": NOW, "b": "0" * 16 + "-1"})
    assert name.stamps == CLAIM | {"x": NOW, "b": "0" * 16 + "-1"}


@pytest.mark.parametrize("verb", ["expire", "release"])
@pytest.mark.parametrize(("stamps", "state"), [({}, "new"), ({"r": READ}, "cur")])
def test_a_freed_claim_is_unread_only_if_it_was(verb, stamps, state):
    assert successor(verb, "claimed", Name(ID, stamps | CLAIM), {})[0] == state


def test_a_requeued_letter_starts_anew_under_a_token_that_only_grew():
    _, name = successor("requeue", "failed", Name(ID, {"r": READ, "n": "7", "q": "4", "d": "2"}), {"n": "8", "q": "8"})
    assert name.stamps == {"n": "8", "q": "8"}


def test_the_second_dead_letter_of_one_name_gets_another():
    first = successor("fail", "new", Name(ID, {}), {})
    second = successor("fail", "new", Name(ID, {}), {"d": "1"})
    assert (first[0], second[0]) == ("failed", "failed")
    assert first[1].text != second[1].text
