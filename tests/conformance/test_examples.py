"""Every example of the specification, dropped into a mailbox, is read as it was written or refused by its code."""

import json
import re
from pathlib import Path

from conformance.disk import Mailbox

EXAMPLES = Path(__file__).parents[2] / "spool/examples"
CODES = dict(line.split("\t") for line in (EXAMPLES / "invalid/CODES.tsv").read_text().splitlines()[1:])
ID = re.compile(rb'("id"\s*:\s*")([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})"')
GOOD = (
    b'{"id":"%s","sender":"alice","recipient":"bob","subject":"behind","created":"2026-11-30T18:47:12.123Z","body":"x"}'
)


def looked(each, agent: str) -> dict[str, dict]:
    verb = "read" if "read" in each.verbs else "look"
    return {message["id"]: message for message in each(verb, agent=agent)["messages"]}


def test_the_valid_ones_come_back_with_all_their_text(each, fresh):
    box, written = Mailbox(each.spool, "bob"), {}
    for path in sorted((EXAMPLES / "valid").glob("*.json")):
        message_id = fresh()
        data = ID.sub(rb"\g<1>" + message_id.encode() + b'"', path.read_bytes(), count=1)
        for recipient in re.findall(rb'"recipient"\s*:\s*"([^"]*)"', data)[:1]:
            if recipient not in (b"bob", b"*"):
                data = data.replace(b'"' + recipient + b'"', b'"bob"')
        box.put("new", message_id, data)
        written[message_id] = (path.stem, json.loads(data))
    shown = looked(each, "bob")
    for message_id, (name, message) in written.items():
        for field in ("sender", "subject", "body", "refs", "kind", "reply_to", "thread_id"):
            if message.get(field) is not None:
                assert shown[message_id][field] == message[field], name
        assert box.anchor(message_id).exists(), name
    assert box.reasons() == {}


def test_the_invalid_ones_are_refused_by_their_codes_and_the_mail_behind_them_flows(each, fresh):
    box, wanted = Mailbox(each.spool, "bob"), {}
    for path in sorted((EXAMPLES / "invalid").glob("*.json")):
        message_id = fresh()
        box.put("new", message_id, ID.sub(rb"\g<1>" + message_id.encode() + b'"', path.read_bytes(), count=1))
        wanted[message_id] = (path.name, CODES[path.name])
    behind = fresh()
    box.put("new", behind, GOOD % behind.encode())
    assert behind in looked(each, "bob")
    reasons = box.reasons()
    told = {name: reasons.get(message_id) for message_id, (name, _) in wanted.items()}
    assert told == dict(wanted.values())
    for message_id in wanted:
        assert box.one(message_id)[0] == "failed"


def test_what_cannot_be_shown_in_a_small_file_is_refused_too(each, fresh):
    box = Mailbox(each.spool, "bob")
    large, wide, other, stranger = fresh(), fresh(), fresh(), fresh()
    box.put("new", large, b'{"id":"%s"%s}' % (large.encode(), b" " * (8 << 20)))
    box.put("new", wide, (GOOD % wide.encode()).replace(b'"x"', b'"' + b"x" * ((1 << 20) + 1) + b'"'))
    box.put("new", other, GOOD % large.encode())
    box.put("new", stranger, (GOOD % stranger.encode()).replace(b'"bob"', b'"carol"'))
    looked(each, "bob")
    reasons = box.reasons()
    assert [reasons.get(i) for i in (large, wide, other, stranger)] == ["too_large", "too_large", "bad_id", "not_yours"]
