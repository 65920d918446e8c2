"""What spool.json limits for those who send here; reading and settling go by the format's limits alone."""

import json

import pytest

from maildir_agents import Spool
from maildir_agents.errors import MailError


@pytest.fixture
def limited(tmp_path):
    def limit(**limits: int) -> Spool:
        root = tmp_path / "spool"
        Spool(root, durability="none").init()
        settings = json.loads((root / "spool.json").read_text("utf-8"))
        settings["limits"] |= limits
        (root / "spool.json").write_text(json.dumps(settings), encoding="utf-8")
        return Spool(root)

    return limit


def refused(act) -> str:
    with pytest.raises(MailError) as refusal:
        act()
    return refusal.value.code


def test_a_full_mailbox_takes_no_more_until_some_is_read(limited):
    spool = limited(waiting=2)
    ids = [spool.send(sender="a", recipient="b", subject="s")["id"] for _ in range(2)]
    assert refused(lambda: spool.send(sender="a", recipient="b", subject="s")) == "mailbox_full"
    assert refused(lambda: spool.send_many([{"recipient": "b", "subject": "s"}], sender="a")) == "mailbox_full"
    spool.send(sender="a", recipient="c", subject="another's is not full")
    spool.ack("b", ids[:1])
    assert spool.send(sender="a", recipient="b", subject="s")["id"]


@pytest.mark.parametrize("body", ["12345678901", "ä" * 6])
def test_a_body_larger_than_this_spool_allows_is_refused_by_whoever_sends_it(limited, body):
    spool = limited(body_bytes=10)
    task = spool.send(sender="a", recipient="b", subject="s", body="ä" * 5)["id"]
    assert refused(lambda: spool.send(sender="a", recipient="b", subject="s", body=body)) == "too_large"
    assert refused(lambda: spool.send(sender="b", recipient="a", subject="s", body=body, reply_to=task)) == "too_large"
    order = {"recipient": "b", "subject": "s", "body": body}
    assert refused(lambda: spool.send_many([order], sender="a")) == "too_large"
    assert refused(lambda: spool.start_conversation(sender="a", recipient="b", goal="g", body=body)) == "too_large"
    assert spool.status("b")[0]["unacked"] == 1, "nothing was changed"


def test_what_is_there_already_is_read_whatever_the_limit(limited):
    spool = limited(body_bytes=1000)
    spool.send(sender="a", recipient="b", subject="s", body="x" * 1000)
    spool = limited(body_bytes=10)
    with spool.read("b") as batch:
        assert [len(message["body"]) for message in batch.messages] == [1000]


def test_limits_that_are_no_numbers_are_a_damaged_spool(limited):
    assert refused(lambda: limited(body_bytes="many")) == "not_a_spool"
