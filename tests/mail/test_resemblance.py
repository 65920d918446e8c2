"""Which known name a mistyped one may have meant: near ones first, nothing far-fetched."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from maildir_agents.mail.resemblance import closest, edits

words = st.text("abc", max_size=5)


@cache
def by_definition(one: str, other: str) -> int:
    if not one or not other:
        return len(one) + len(other)
    ways = [
        by_definition(one[1:], other) + 1,
        by_definition(one, other[1:]) + 1,
        by_definition(one[1:], other[1:]) + (one[0] != other[0]),
    ]
    if len(one) > 1 and one[:2] == other[1::-1]:
        ways.append(by_definition(one[2:], other[2:]) + 1)
    return min(ways)


@given(words, words)
def test_edits_are_counted_as_defined(one, other):
    assert edits(one, other) == by_definition(one, other) == edits(other, one)
    assert (edits(one, other) == 0) == (one == other)


def test_two_letters_that_changed_places_are_one_slip():
    assert edits("worker", "wroker") == 1
    assert closest("bbo", ["bob", "hub"]) == ["bob"]


def test_the_nearest_name_comes_first_and_at_most_three_come():
    known = ["worker-docs", "worker-doc", "worker-dogs", "worker-dots", "hub"]
    assert closest("worker-docz", known) == ["worker-doc", "worker-docs", "worker-dogs"]
    assert closest("enginer", ["engineer", "hub"]) == ["engineer"]


def test_a_name_is_not_its_own_correction_and_nothing_far_is_suggested():
    assert closest("hub", ["hub", "worker-docs", "xyz"]) == []
    assert closest("ab", ["ba", "a", "c"]) == []
    assert closest("bob", []) == []


@given(st.lists(words), words)
def test_what_is_suggested_is_known_and_differs_in_a_third_of_the_letters_at_most(known, name):
    for other in closest(name, known):
        assert other in known
        assert other != name
        assert edits(name, other) <= len(name) // 3
