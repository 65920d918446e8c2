"""archive: put away is neither unread nor owed, whatever it was before, and what happened to it stays known."""

import errno

import pytest

from crash.invariants import Reported
from fleet.fleet import A_MINUTE, Attempt, Fleet, counted, faults, in_one_minute, memory, read, told
from maildir_agents.errors import MailError
from maildir_agents.testing import FailingDisk


@pytest.fixture(scope="module")
def shared():
    with memory() as place:
        yield Fleet(place, ("ann", "bob"))


@pytest.fixture
def fleet(shared):
    shared.wipe()
    return shared


def sent(fleet: Fleet, subject: str = "s") -> str:
    return fleet.open().send(sender="ann", recipient="bob", subject=subject)["id"]


def kept(fleet: Fleet) -> dict[str, dict]:
    with fleet.open().read("bob", everything=True, mark=False) as batch:
        return {message["id"]: message for message in batch.messages}


def row(fleet: Fleet) -> tuple[int, int, int]:
    [found] = fleet.open().status("bob")
    return found["unread"], found["unacked"], found["claimed"]


def test_from_every_state_it_is_owed_no_longer(fleet):
    new, cur, acked, late = (sent(fleet, name) for name in ("new", "cur", "acked", "late"))
    spool = fleet.open()
    box = {message["id"] for message in read(spool, "bob")}
    assert box == {new, cur, acked, late}
    spool.ack("bob", [acked])
    handle = spool.claim("bob", late, lease_s=30)["handle"]
    unread = sent(fleet, "never read")
    answer = spool.archive("bob", [unread, cur, acked, handle])
    assert answer["message_ids"] == [unread, cur, acked, late]
    assert answer["next"] == ["agent-mail ack bob --all", "agent-mail watch bob"], "the one in cur/ is still owed"
    answer = spool.archive("bob", [new])
    assert answer["next"] == ["agent-mail watch bob"]
    assert row(fleet) == (0, 0, 0)
    reported = Reported()
    reported.present = {("bob", message_id): {"archive"} for message_id in (new, cur, acked, late, unread)}
    assert fleet.wrong(reported, finished=True) == []


def test_when_it_was_read_and_acknowledged_stays_known(fleet):
    first, second = sent(fleet), sent(fleet)
    read(fleet.open(), "bob")
    fleet.open().ack("bob", [first])
    before = kept(fleet)
    fleet.open().archive("bob", [first, second])
    after = kept(fleet)
    for message_id in (first, second):
        assert [after[message_id][key] for key in ("read_at", "acked_at")] == [
            before[message_id][key] for key in ("read_at", "acked_at")
        ]
    assert after[first]["acked_at"]
    assert after[second]["acked_at"] is None


def test_again_is_no_error_and_not_counted(fleet):
    message_id = sent(fleet)
    assert fleet.open().archive("bob", [message_id])["count"] == 1
    again = fleet.open().archive("bob", [message_id, message_id])
    assert (again["count"], again["message_ids"]) == (0, [])
    assert fleet.open().ack("bob", [message_id])["count"] == 0, "what is put away is not acknowledged any more"


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ("01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02", "unknown_id"),
        ("claimed", "claimed"),
        ("theirs", "not_yours"),
        ("lost", "lease_lost"),
        ("no id", "bad_id"),
    ],
)
def test_with_one_that_may_not_be_put_away_none_is(fleet, other, code):
    mine = sent(fleet)
    spool = fleet.open()
    if other in ("claimed", "lost"):
        other_id = sent(fleet, "other")
        handle = spool.claim("bob", other_id)["handle"]
        if other == "lost":
            spool.release("bob", handle)
        other = handle if other == "lost" else other_id
    elif other == "theirs":
        other = spool.send(sender="bob", recipient="ann", subject="s")["id"]
    with pytest.raises(MailError) as refused:
        spool.archive("bob", [mine, other])
    assert refused.value.code == code
    reported = Reported()
    reported.present["bob", mine] = {"new"}
    assert fleet.wrong(reported) == []


def test_a_claim_that_its_holder_puts_away_is_over(fleet):
    message_id = sent(fleet)
    handle = fleet.open().claim("bob")["handle"]
    assert fleet.open().archive("bob", [handle])["count"] == 1
    assert fleet.open().archive("bob", [handle])["count"] == 0, "already, says this very claim"
    with pytest.raises(MailError) as lost:
        fleet.open().renew("bob", handle)
    assert lost.value.code == "lease_lost"
    assert list(kept(fleet)) == [message_id]


def test_after_any_fault_each_is_where_it_was_or_put_away_and_a_repetition_completes_it(fleet):
    def prepared() -> list[str]:
        fleet.wipe()
        ids = [sent(fleet, name) for name in ("acked", "cur", "new")]
        with fleet.open().read("bob", limit=2):
            pass
        fleet.open().ack("bob", ids[:1])
        return ids

    ids = in_one_minute(prepared)
    calls = counted(fleet, lambda spool: spool.archive("bob", ids))
    wrong = []
    for fault in faults(calls):
        ids = in_one_minute(prepared)
        disk = FailingDisk(**fault)
        attempt = Attempt(lambda spool, ids=ids: spool.archive("bob", ids), fleet.open(disk))
        full = fault.get("error") == errno.ENOSPC and calls[fault["fail_at"] - 1][0] in ("mkdir", "rename")
        if attempt.outcome == "refused" and full and not fault.get("lasting"):
            wrong.append(f"{told(fault, calls)}: a full disk stopped it although there is ballast")
        fleet.clock.advance(A_MINUTE)
        reported = Reported()
        for message_id, before in zip(ids, ("acked", "cur", "new"), strict=True):
            may = {"killed": {before, "archive"}, "refused": {before}}.get(attempt.outcome, {"archive"})
            if attempt.outcome == "unsure" and message_id not in attempt.error.detail.get("ids", ids):
                may = {before}
            reported.present["bob", message_id] = may
        said = [*disk.offences, *fleet.wrong(reported)]
        fleet.open().archive("bob", ids)
        reported.present = {("bob", message_id): {"archive"} for message_id in ids}
        wrong += [f"{told(fault, calls)}: {sentence}" for sentence in said + fleet.wrong(reported)]
    assert wrong == []
