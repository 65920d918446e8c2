"""What may stand in a message, at the exact border of each limit, and that nothing in it is altered."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maildir_agents.disk.jsonfile import decode, encode
from maildir_agents.errors import MailError, Malformed
from maildir_agents.mail.message import FIELDS, PUBLIC, belongs, check, envelope_bytes, fields, head, lay_out
from maildir_agents.mail.name import Name
from maildir_agents.mail.reading import as_seen, envelope_at, whole_at

ID = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"
OTHER = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f03"
TIME = "2026-11-30T18:47:12.123Z"
GOOD = {"id": ID, "sender": "alice", "recipient": "bob", "subject": "s", "created": TIME, "body": ""}

CONTROLS = [chr(c) for c in [*range(0x20), *range(0x7F, 0xA0)]]
IN_A_BODY = ["\t", "\n", "\r"]


def code_of(**changed: object) -> str:
    """The code a message is refused with, or "" when it is taken."""
    try:
        message = check(GOOD | changed)
        head(message, encode)
    except Malformed as refused:
        assert refused.exit_status == 64
        return refused.code
    assert {field: message[field] for field in changed} == changed
    return ""


@pytest.mark.parametrize(
    ("field", "fits", "beyond", "code"),
    [
        ("subject", "s", "", "bad_subject"),
        ("subject", "s" * 500, "s" * 501, "bad_subject"),
        ("subject", "é" * 500, "é" * 501, "bad_subject"),
        ("subject", "\U0001f4ec" * 500, "\U0001f4ec" * 501, "bad_subject"),
        ("body", "x" * 2**20, "x" * 2**20 + "x", "too_large"),
        ("body", "é" * 2**19, "é" * 2**19 + "x", "too_large"),
        ("body", "\U0001f4ec" * 2**18, "\U0001f4ec" * 2**18 + "x", "too_large"),
        ("refs", ["r"] * 64, ["r"] * 65, "bad_refs"),
        ("refs", ["r"], [""], "bad_refs"),
        ("refs", ["r" * 4096], ["r" * 4097], "bad_refs"),
        ("refs", ["é" * 2048], ["é" * 2048 + "x"], "bad_refs"),
        ("dedup_key", "k", "", "bad_key"),
        ("dedup_key", "k" * 200, "k" * 201, "bad_key"),
        ("dedup_key", "\U0001f4ec" * 200, "\U0001f4ec" * 201, "bad_key"),
        ("kind", "k", "", "bad_field"),
        ("kind", "k" * 40, "k" * 41, "bad_field"),
        ("sender", "a" * 100, "a" * 101, "bad_agent"),
        ("sender", "a", "*", "bad_agent"),
        ("recipient", "*", "broadcast", "bad_agent"),
        ("recipient", "p:n", "p:n:m", "bad_agent"),
        ("turn", 1, 0, "bad_number"),
        ("hops", 0, -1, "bad_number"),
        ("turn", 1, True, "bad_type"),
        ("turn", 1, 1.0, "bad_type"),
        ("hops", 0, "0", "bad_type"),
        ("reply_to", OTHER, OTHER.upper(), "bad_id"),
        ("thread_id", OTHER, "../" + OTHER[3:], "bad_id"),
        ("conversation_id", None, "", "bad_id"),
        ("response_deadline", TIME, TIME[:-5] + "Z", "bad_time"),
        ("created", TIME, None, "bad_type"),
        ("headers", {}, [], "bad_type"),
        ("refs", [], {}, "bad_type"),
        ("body", "", None, "bad_type"),
        ("subject", "s", 7, "bad_type"),
    ],
)
def test_a_limit_takes_what_just_fits_and_refuses_what_does_not(field, fits, beyond, code):
    assert code_of(**{field: fits}) == ""
    assert code_of(**{field: beyond}) == code


def test_headers_take_four_kibibytes_of_json_and_no_more():
    overhead = len(encode({"h": ""}))
    assert code_of(headers={"h": "x" * (4096 - overhead)}) == ""
    assert code_of(headers={"h": "x" * (4097 - overhead)}) == "bad_headers"
    assert code_of(headers={"h": "é" * ((4096 - overhead) // 2)}) == ""
    assert code_of(headers={"h": "é" * ((4098 - overhead) // 2)}) == "bad_headers"


def test_what_stands_before_the_body_takes_eight_kibibytes_and_no_more():
    def with_refs(size: int) -> dict:
        return check(GOOD | {"refs": ["r" * 4096, "r" * size]})

    room = 8192 - len(head(with_refs(1), encode)) + 1
    assert len(head(with_refs(room), encode)) == 8192
    with pytest.raises(Malformed) as refused:
        head(with_refs(room + 1), encode)
    assert refused.value.code == "too_large"


@pytest.mark.parametrize("control", CONTROLS, ids=lambda c: f"U+{ord(c):04X}")
def test_a_control_character_stands_nowhere_but_three_of_them_in_a_body(control):
    text = f"a{control}b"
    assert code_of(subject=text) == "bad_subject"
    assert code_of(refs=[text]) == "bad_refs"
    assert code_of(dedup_key=text) == "bad_key"
    assert code_of(kind=text) == "bad_field"
    assert code_of(body=text) == ("" if control in IN_A_BODY else "bad_body")


@pytest.mark.parametrize("mark", ["\u2028", "\u2029"])
def test_a_subject_is_one_line_also_for_those_who_know_more_line_breaks(mark):
    assert code_of(subject=f"a{mark}b") == "bad_subject"
    assert code_of(body=f"a{mark}b") == ""


@pytest.mark.parametrize("text", ["\u202e", "\u200b", "\ufeff", "e\u0301", "\U0001f4ec", "</script>", "a\u00a0b"])
def test_what_is_odd_but_text_is_taken_as_it_is(text):
    assert code_of(subject=text, body=text, dedup_key=text, refs=[text]) == ""


def test_half_a_surrogate_pair_is_text_nowhere():
    for field, code in (
        ("subject", "bad_subject"),
        ("body", "bad_body"),
        ("dedup_key", "bad_key"),
        ("kind", "bad_field"),
    ):
        assert code_of(**{field: "a\udcff"}) == code
    assert code_of(refs=["a\udcff"]) == "bad_refs"


@pytest.mark.parametrize("field", [name for name, (_, default) in FIELDS.items() if default is ...])
def test_a_required_field_is_missed(field):
    with pytest.raises(Malformed) as refused:
        check({key: value for key, value in GOOD.items() if key != field})
    assert refused.value.code == "missing_field"
    assert field in refused.value.sentence


def test_what_is_left_out_has_its_default_and_no_two_messages_share_it():
    one, other = check(GOOD), check(GOOD)
    one["refs"].append("r")
    one["headers"]["h"] = 1
    assert (other["refs"], other["headers"]) == ([], {})
    assert check(GOOD)["refs"] == []


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], include_characters="\t\n\r")),
    st.dictionaries(st.text("xyz", min_size=1), st.one_of(st.integers(-(2**53), 2**53), st.text(), st.none())),
)
def test_a_file_holds_exactly_the_message_and_its_envelope_can_be_cut_off(body, unknown):
    message = check(GOOD | unknown | {"body": body})
    data = lay_out(message, encode)
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert decode(data) == message == json.loads(data)
    assert list(decode(data))[-1] == "body"
    assert decode(envelope_bytes(data)) == {key: value for key, value in message.items() if key != "body"}


@pytest.mark.parametrize(
    "message",
    [
        {**GOOD, "thread_id": OTHER, "reply_to": OTHER},  # what follows the body counts, too
        {"body": "first", **{k: v for k, v in GOOD.items() if k != "body"}, "dedup_key": "k"},
        {**GOOD, "headers": {"a": 1, "body": "x"}},
        {**{k: v for k, v in GOOD.items() if k != "body"}, "x": {"a": 1, "body": 2}, "body": "b", "kind": "task"},
        {**GOOD, "body": ',"body":"', "kind": "task"},
    ],
)
def test_an_envelope_tells_the_same_as_the_whole_however_it_was_laid_out(tmp_path, message):
    path = tmp_path / "message.json"
    for text in (json.dumps(message), json.dumps(message, separators=(",", ":")), json.dumps(message, indent=1)):
        path.write_text(text, encoding="utf-8")
        whole, envelope = whole_at(str(path)), envelope_at(str(path))
        assert whole == check(message)
        assert {field: envelope[field] for field in FIELDS if field != "body"} == {
            field: whole[field] for field in FIELDS if field != "body"
        }


def test_a_message_belongs_to_its_name_and_its_mailbox():
    belongs(check(GOOD), ID, "bob")
    belongs(check(GOOD | {"recipient": "*"}), ID, "carol")
    for message_id, mailbox, code in ((OTHER, "bob", "bad_id"), (ID, "carol", "not_yours")):
        with pytest.raises(Malformed) as refused:
            belongs(check(GOOD), message_id, mailbox)
        assert refused.value.code == code


def test_the_name_tells_what_happened_to_a_message():
    stamps = {"r": "20261130T184712.123Z", "n": "3", "x": "20261130T185212.123Z", "a": "20261130T184713.000Z"}
    seen = as_seen(check(GOOD), Name(ID, stamps))
    assert (seen["read_at"], seen["acked_at"]) == (TIME, "2026-11-30T18:47:13.000Z")
    assert (seen["claim_expires_at"], seen["token"]) == ("2026-11-30T18:52:12.123Z", 3)
    unread = as_seen(check(GOOD), Name(ID, {}))
    assert [unread[key] for key in ("read_at", "acked_at", "claim_expires_at", "token")] == [None, None, None, 0]


def test_fields_are_chosen_by_name_and_a_wrong_one_is_named():
    assert fields("id, subject") == ("id", "subject")
    assert fields(",".join(PUBLIC)) == PUBLIC
    for text in ("id,nope", "", "id,", "headers"):
        with pytest.raises(MailError) as refused:
            fields(text)
        assert refused.value.code == "bad_field"
