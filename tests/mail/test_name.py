"""Ids, times, agents and file names: what is written is read again, and nothing else is taken for ours."""

import os
import re
import string
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maildir_agents import Spool
from maildir_agents.errors import MailError
from maildir_agents.mail.name import (
    MAX_NAME,
    ORDER,
    Ids,
    Name,
    agent,
    canonical,
    day_of,
    handle,
    is_agent,
    is_id,
    is_iso,
    is_stamp,
    iso,
    iso_of_stamp,
    meant,
    minute_of,
    ms_of,
    ms_of_iso,
    ms_of_stamp,
    own_claims,
    parse,
    parse_handle,
    recipient,
    stamp,
)

NOW = 1_796_064_432_123  # 2026-11-30T18:47:12.123Z
LAST = 253_402_300_799_999  # the last millisecond of the year 9999
ID = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"
TIME = "20261130T184712.123Z"

# Written down once more, from the specification and not from the code.
AN_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
A_TIME = r"[0-9]{8}T[0-9]{6}\.[0-9]{3}Z"
A_NUMBER = r"[0-9]{1,9}"
STAMPS = {
    **dict.fromkeys("rxaz", A_TIME),
    **dict.fromkeys("nqd", A_NUMBER),
    "b": r"[0-9a-f]{16}-[0-9]{1,13}",
    "w": r"[a-z0-9._-]{1,48}",
}
A_STAMP = "|".join([*(f"{key}{value}" for key, value in STAMPS.items()), r"[cefghijklmopstuvy][a-z0-9._-]*"])
A_NAME = re.compile(rf"{AN_ID}(?:~(?:{A_STAMP}))*\.json")
AN_AGENT = re.compile(r"[a-z0-9][a-z0-9._-]*(:[a-z0-9][a-z0-9._-]*)?")

times = st.integers(0, LAST)
parts = st.text(string.ascii_lowercase + string.digits + "._-", max_size=9)


def ids(now: int = NOW) -> Ids:
    made = Ids(os.urandom)
    made.next(now)
    return made


# ------------------------------------------------------------------------------------------------ ids


def test_ids_increase_while_the_clock_stands_still():
    maker = ids()
    made = [maker.next(NOW) for _ in range(10_000)]
    assert made == sorted(set(made))
    assert all(map(is_id, made))


def test_ids_increase_when_the_clock_is_set_back():
    maker = ids()
    made = [maker.next(NOW - step * 3_600_000) for step in range(100)]
    assert made == sorted(set(made))


def test_a_full_counter_goes_on_in_the_next_millisecond():
    maker = Ids(lambda n: b"\xff" * n)
    made = [maker.next(NOW) for _ in range(2**11 + 2)]
    assert [ms_of(made[0]), ms_of(made[-2]), ms_of(made[-1])] == [NOW, NOW, NOW + 1] or ms_of(made[-1]) == NOW + 1
    assert made == sorted(set(made))
    assert all(map(is_id, made))


def test_ids_follow_the_clock_again_when_it_is_ahead():
    maker = ids()
    for _ in range(5):
        maker.next(NOW)
    assert ms_of(maker.next(NOW + 7)) == NOW + 7


def test_the_order_would_be_noticed_if_it_were_broken():
    fresh = [Ids(os.urandom).next(NOW) for _ in range(100)]  # a maker each: nothing holds them in order
    assert fresh != sorted(fresh)


def test_a_child_makes_other_ids_than_its_parent_and_later_ones_than_before():
    maker = ids()
    before = maker.next(NOW)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, "\n".join(maker.next(NOW) for _ in range(500)).encode())
        os._exit(0)
    os.close(writer)
    here = [maker.next(NOW) for _ in range(500)]
    with open(reader, encoding="ascii") as pipe:
        there = pipe.read().split()
    os.waitpid(child, 0)
    assert len(there) == 500
    assert not set(here) & set(there)
    assert there == sorted(there)
    assert before < there[0]


def test_objects_for_one_spool_in_one_process_keep_the_order_of_sending(tmp_path):
    Spool(tmp_path / "spool", durability="none").init()
    sent = []
    for number in range(200):
        told = Spool(tmp_path / "spool", durability="none").send(sender="a", recipient="b", subject=str(number))
        sent.append(told["id"])
    assert sent == sorted(sent)


@given(times)
def test_an_id_tells_its_time_and_its_directories(ms):
    made = Ids(os.urandom).next(ms)
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    assert ms_of(made) == ms
    assert day_of(made) == f"{moment:%Y-%m-%d}".rjust(10, "0")
    assert minute_of(made) == f"{moment:%H%M}"


@given(st.one_of(st.text(max_size=40), st.from_regex(AN_ID), st.from_regex(AN_ID, fullmatch=True)))
def test_only_a_lower_case_version_7_is_an_id(text):
    assert is_id(text) == bool(re.fullmatch(AN_ID, text))


def test_an_id_is_taken_in_any_case_and_nothing_else_is():
    assert canonical(ID.upper()) == ID
    for text in ("", ID[:-1], f"{ID}\n", f" {ID}", "../" + ID, ID.replace("-7", "-4"), "*", "\udcff" * 36, "İ" * 36):
        with pytest.raises(MailError) as refused:
            canonical(text)
        assert (refused.value.code, refused.value.exit_status) == ("bad_id", 64)


# ------------------------------------------------------------------------------------------------ times


@given(times)
def test_a_time_comes_back_from_a_name_and_from_json(ms):
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    assert stamp(ms) == f"{moment.year:04}{moment:%m%dT%H%M%S}.{ms % 1000:03}Z"
    assert (is_stamp(stamp(ms)), is_iso(iso(ms))) == (True, True)
    assert (ms_of_stamp(stamp(ms)), ms_of_iso(iso(ms))) == (ms, ms)
    assert iso_of_stamp(stamp(ms)) == iso(ms)


@given(times, times)
def test_times_sort_like_the_instants_they_name(one, other):
    assert (stamp(one) < stamp(other)) == (one < other)
    assert (iso(one) < iso(other)) == (one < other)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30T18:47:12Z", "2026-11-30T18:47:12.1Z", "2026-11-30T18:47:12.123456Z", "2026-11-30T18:47:12.123",
        "2026-11-30T18:47:12.123+00:00", "2026-11-30 18:47:12.123Z", "2026-13-30T18:47:12.123Z",
        "2026-02-29T18:47:12.123Z", "2026-11-31T18:47:12.123Z", "2026-11-30T24:00:00.000Z", "2026-11-30T18:60:12.123Z",
        "2026-11-30T23:59:60.000Z", "2026-11-30T18:47:12.123Z\n", "2026-11-3OT18:47:12.123Z", TIME, "",
        "2026-11-30T18:47:12.12٣Z",
    ],
)  # fmt: skip
def test_no_other_text_is_a_time(text):
    assert not is_iso(text)


# ------------------------------------------------------------------------------------------------ agents


@given(st.one_of(st.text(max_size=12), st.from_regex(AN_AGENT), st.text("ab:.-@/", max_size=6)))
def test_an_agent_is_what_the_expression_says_to_the_very_end(text):
    allowed = bool(AN_AGENT.fullmatch(text)) and len(text) <= 100 and text != "broadcast"
    assert is_agent(text) == allowed
    if not allowed:
        with pytest.raises(MailError) as refused:
            agent(text)
        assert refused.value.code == "bad_agent"


@pytest.mark.parametrize("text", ["a" * 100, "p:" + "a" * 98])
def test_an_agent_has_at_most_a_hundred_characters(text):
    assert agent(text) == text
    assert not is_agent(text + "a")


@pytest.mark.parametrize(
    "text",
    ["../x", "/etc/passwd", "a/b", "", ".", "..", "-rf", "a\0b", "a\nb", "a\n", "é", "e\u0301", "\u0430lice",
     "ALICE", "a b", "a:b:c", ":a", "a:", "a@node", "*", "broadcast", "\udcff", "x" * 300, "new\n", "~"],
)  # fmt: skip
def test_a_name_that_is_a_path_or_looks_like_another_is_no_agent(text):
    assert not is_agent(text)


def test_both_words_for_everybody_mean_the_star():
    assert recipient("*") == recipient("broadcast") == "*"
    assert recipient("bob") == "bob"


# ------------------------------------------------------------------------------------------------ file names


@st.composite
def stamps(draw) -> dict[str, str]:
    chosen = draw(st.lists(st.sampled_from(string.ascii_lowercase), unique=True, max_size=6))
    return {key: draw(st.from_regex(STAMPS[key], fullmatch=True) if key in STAMPS else parts) for key in chosen}


@given(stamps())
def test_a_name_that_was_written_is_read_again(chosen):
    name = Name(ID, chosen)
    read = parse(name.text)
    if read is None:
        assert sum(len(value) + 2 for key, value in chosen.items() if key not in ORDER) > 10
    else:
        assert (read.id, read.stamps, read.text) == (ID, chosen, name.text)
        assert list(read.stamps) == list(chosen)


@pytest.mark.parametrize(("unknown", "ours"), [(f"~p{'x' * 8}", True), (f"~p{'x' * 9}", False),
                                              (f"~px~s{'x' * 5}", True), (f"~px~s{'x' * 6}", False)])  # fmt: skip
def test_a_name_that_is_ours_stays_ours_whatever_happens_to_the_message(unknown, ours):
    assert (parse(f"{ID}{unknown}.json") is not None) == ours
    longest = {"r": TIME, "n": "9" * 9, "q": "9" * 9, "a": TIME, "z": TIME, "d": "9" * 9}
    claim = {"x": TIME, "b": "f" * 16 + "-" + "9" * 13, "w": "w" * 48}
    if ours:
        name = parse(f"{ID}{unknown}.json").becoming(longest)
        assert len(name.text) <= MAX_NAME
        assert parse(name.text) is not None
        assert parse(name.becoming(claim).text) is not None


foreign = st.one_of(
    st.text(max_size=60),
    st.builds("".join, st.lists(st.sampled_from([ID, "~", "~r", "~n", "~gc", TIME, "1", "x", ".json", "/", "\n"]))),
    st.builds(lambda name, at, mark: name[:at] + mark + name[at:],
              st.builds(lambda chosen: Name(ID, chosen).text, stamps()), st.integers(0, 60), st.text(max_size=2)),
)  # fmt: skip


@given(foreign)
def test_no_foreign_text_is_taken_for_a_name(text):
    name = parse(text)
    if name is not None:
        assert A_NAME.fullmatch(text)
        letters = re.findall("~([a-z])", text)
        assert len(letters) == len(set(letters))
        assert name.text == text


def test_the_expression_of_a_name_takes_what_is_ours():
    # Otherwise the test above would say yes to anything that parse refuses.
    for text in (f"{ID}.json", f"{ID}~r{TIME}~n1~x{TIME}~b{'0' * 16}-7~wa.json", f"{ID}~pfuture.json"):
        assert A_NAME.fullmatch(text)
        assert parse(text) is not None


@given(stamps(), stamps(), st.sets(st.sampled_from(ORDER)))
def test_what_is_added_replaces_and_what_nobody_knows_stays_behind_the_known(chosen, added, dropped):
    after = Name(ID, chosen).becoming(added, without=dropped)
    assert after.stamps == {key: value for key, value in chosen.items() if key not in dropped} | added
    known = [key for key in after.stamps if key in ORDER]
    assert known == sorted(known, key=ORDER.index)
    assert list(after.stamps)[: len(known)] == known


@given(stamps())
def test_names_of_one_id_sort_together(chosen):
    other = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f03"
    assert all(a < b for a, b in pairwise([f"{ID}.json", f"{other}.json"]))
    assert Name(ID, chosen).text < f"{other}.json"


# ------------------------------------------------------------------------------------------------ handles


@given(st.integers(0, 10**9 - 1))
def test_a_handle_names_one_claim(token):
    assert parse_handle(handle(ID, token)) == (ID, token)
    assert parse_handle(handle(ID.upper(), token)) == (ID, token)
    assert own_claims(handle(ID, token)) == {(ID, token)}


def test_a_bare_id_is_no_claim():
    assert parse_handle(ID) == (ID, None)
    assert own_claims(ID) == own_claims("") == own_claims(None) == frozenset()


@pytest.mark.parametrize("end", ["~n", "~n-1", "~n1.5", "~n1234567890", "~nx", "~n1~n2", "~n٣", "~x1", "~n1\n"])
def test_what_only_looks_like_a_handle_is_refused(end):
    with pytest.raises(MailError) as refused:
        parse_handle(ID + end)
    assert refused.value.code == "bad_id"


def test_a_bare_id_of_my_own_claim_means_the_claim():
    assert meant(ID.upper(), frozenset([(ID, 3)])) == handle(ID, 3)
    assert meant(ID, frozenset([("01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f03", 3)])) == ID


def test_the_reason_of_a_dead_letter_is_no_message_name():
    stem = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02~c1"
    assert parse(f"{stem}.json") is not None
    assert parse(f"{stem}.reason.json") is None
