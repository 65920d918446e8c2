"""The long-lived worker: it works through its own list, and says "nothing" only after a fresh look."""

import os

import pytest

from maildir_agents.errors import MailError
from maildir_agents.testing import temporary_spool


@pytest.fixture
def spool():
    with temporary_spool(durability="none") as opened:
        yield opened


def send(spool, count):
    return [spool.send(sender="a", recipient="b", subject=f"task {n}")["id"] for n in range(count)]


def test_it_claims_the_oldest_first_and_then_says_nothing(spool):
    sent, worker = send(spool, 3), spool.worker("b")
    claims = [worker.claim() for _ in range(3)]
    assert [claim.message["id"] for claim in claims] == sent
    assert worker.claim() is None


def test_mail_that_came_after_the_list_was_made_is_found(spool):
    [first], worker = send(spool, 1), spool.worker("b")
    assert worker.claim().message["id"] == first
    [second] = send(spool, 1)
    assert worker.claim().message["id"] == second


def test_two_workers_with_lists_of_their_own_share_the_work(spool):
    sent, workers = send(spool, 20), [spool.worker("b"), spool.worker("b")]
    taken = [workers[n % 2].claim().message["id"] for n in range(20)]
    assert sorted(taken) == sent
    assert [worker.claim() for worker in workers] == [None, None]


def test_what_it_acknowledged_is_settled_and_what_it_released_is_free(spool):
    send(spool, 2)
    worker = spool.worker("b")
    done, given_back = worker.claim(), worker.claim()
    worker.ack(done)
    worker.release(given_back)
    [row] = spool.status("b")
    assert (row["unacked"], row["claimed"]) == (1, 0)
    again = worker.claim()
    assert (again.message["id"], again.token) == (given_back.message["id"], 2)


def test_a_claim_that_another_took_over_is_lost(spool):
    send(spool, 1)
    late, other = spool.worker("b", lease_s=30), spool.worker("b")
    claim = late.claim()
    spool.clock.advance(31)
    assert other.claim().token == 2
    assert not late.holds(claim)
    for act in (late.ack, late.renew, late.release):
        with pytest.raises(MailError) as refused:
            act(claim)
        assert refused.value.code == "lease_lost"


def test_it_does_not_free_its_own_overdue_claim_by_looking_for_more(spool):
    send(spool, 1)
    worker = spool.worker("b", lease_s=30)
    claim = worker.claim()
    spool.clock.advance(31)
    assert worker.claim() is None
    assert worker.holds(claim)
    worker.renew(claim)
    worker.ack(claim)


def test_what_is_no_message_does_not_keep_it_looking_for_ever(spool):
    [sent] = send(spool, 1)
    os.mkfifo(f"{spool.root}/agents/b/new/00000000-0000-7000-8000-000000000000.json")
    worker = spool.worker("b")
    assert worker.claim().message["id"] == sent
    assert worker.claim() is None
    assert [warning["code"] for warning in worker.warnings] == ["not_a_message"]
