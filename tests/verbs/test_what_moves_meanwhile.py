"""What a verb says is so at some moment of the call, also when somebody moves the mail between two of its looks."""

import os
import time

import pytest

from maildir_agents import Spool
from maildir_agents.disk.sole import Sole
from maildir_agents.errors import MailError
from maildir_agents.mail import deadletter, journal, listening
from maildir_agents.mail.claim import renew
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.mending import expire
from maildir_agents.mail.reading import whole_at
from maildir_agents.mail.settle import owes, settle
from maildir_agents.testing import MovableClock
from maildir_agents.verbs import failed, inbox, overview, trace
from maildir_agents.verbs.dispatch import LEASE_S
from maildir_agents.verbs.mark import mark_read
from maildir_agents.verbs.outcome import DEAD, Job, conclude
from maildir_agents.verbs.owed import owed

NOBODY = frozenset()


@pytest.fixture
def spool(tmp_path):
    spool = Spool(tmp_path / "spool", durability="none", clock=MovableClock())
    spool.init()
    return spool


@pytest.fixture
def message(spool) -> str:
    return spool.send(sender="hub", recipient="worker", subject="s", body="b")["id"]


@pytest.fixture
def box(spool, message) -> Mailbox:
    return Mailbox(spool, "worker")


@pytest.fixture
def before(monkeypatch):
    """`before("claimed", act)`: somebody acts just before that directory of the worker is listed.

    Several act one after the other, each once, before a listing that comes after the last one's.
    """
    acts = []

    def listing(real):
        def wrapped(path="."):
            if acts and os.fspath(path).endswith(f"/worker/{acts[0][0]}"):
                (_, act), *later = acts
                acts.clear()  # its own listings are no occasion
                act()
                acts.extend(later)
            return real(path)

        return wrapped

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, listing(getattr(os, name)))
    yield lambda directory, act: acts.append((directory, act))
    assert not acts, "somebody never came to act"


def read(spool: Spool) -> list[str]:
    with spool.read("worker") as batch:
        return [message["id"] for message in batch.messages]


def bury(box: Mailbox, message_id: str) -> None:
    assert deadletter.fail(box, box.find(message_id), "c", "r")


def overdue(spool: Spool, *, read_before: bool) -> None:
    """A claim whose time is over, and that nobody has expired yet."""
    if read_before:
        read(spool)
    spool.claim("worker", lease_s=30)
    spool.clock.advance(40)


# what is owed


def test_what_a_reader_marks_is_still_owed(spool, box, before):
    """It must not be in new/ while cur/ is looked at, and in cur/ while new/ is."""
    before("new", lambda: read(spool))
    assert owes(box, NOBODY)


@pytest.mark.parametrize("read_before", [False, True])
def test_what_a_claim_gives_back_by_itself_is_owed_all_the_time(spool, box, before, read_before):
    overdue(spool, read_before=read_before)
    before("claimed", lambda: expire(box))
    assert owes(box, NOBODY)


@pytest.mark.parametrize(("read_before", "told"), [(False, (1, 0)), (True, (0, 1))])
@pytest.mark.parametrize("place", ["new", "cur", "claimed"])
def test_it_is_counted_once_wherever_it_is_met(spool, box, before, read_before, told, place):
    overdue(spool, read_before=read_before)
    before(place, lambda: expire(box))
    facts = owed(spool, "worker")
    assert (facts.unread, facts.kept) == told


def test_it_is_counted_once_under_two_names(spool, box, message):
    """As a power cut leaves it: the name it was claimed under has come back."""
    overdue(spool, read_before=False)
    os.link(box.where(box.find(message)), f"{box.path}/new/{message}.json")
    assert (owed(spool, "worker").unread, owed(spool, "worker").kept) == (1, 0)


@pytest.mark.parametrize("read_before", [False, True])
def test_two_that_take_turns_in_being_claimed_are_never_nothing(spool, box, before, read_before):
    """At each moment one of them is free."""
    second = spool.send(sender="hub", recipient="worker", subject="2")["id"]
    if read_before:
        read(spool)
    first = spool.claim("worker")["handle"]
    held = []
    before("cur", lambda: (spool.release("worker", first), held.append(spool.claim("worker", second)["handle"])))
    before("claimed", lambda: spool.release("worker", held[0]))
    assert owed(spool, "worker")


def read_before_it_is_opened(spool, monkeypatch) -> None:
    """What is opened next was just read by another: it is no longer under the name it was listed by."""
    from maildir_agents.mail import intake

    real = intake.take_message

    def moved_first(path):
        monkeypatch.setattr(intake, "take_message", real)
        read(spool)
        return real(path)

    monkeypatch.setattr(intake, "take_message", moved_first)


def test_what_is_read_while_it_is_counted_is_owed(spool, box, monkeypatch):
    """Between its listing and its opening, where it is looked for no more."""
    read_before_it_is_opened(spool, monkeypatch)
    assert owed(spool, "worker")


def test_a_read_that_marks_nothing_shows_what_a_claim_gives_back(spool, box, message, before):
    overdue(spool, read_before=False)
    before("claimed", lambda: expire(box))
    with spool.read("worker", mark=False) as batch:
        assert [shown["id"] for shown in batch.messages] == [message]


@pytest.mark.parametrize("read_before", [False, True])
@pytest.mark.parametrize("how", [{"everything": True}, {"unacked": True}])
def test_what_is_kept_is_listed_though_a_worker_gives_it_back(spool, box, message, before, how, read_before):
    if read_before:
        read(spool)
    handle = spool.claim("worker")["handle"]
    before("cur", lambda: None)  # after the look at what is unread
    before("claimed", lambda: spool.release("worker", handle))
    with spool.read("worker", mark=False, **how) as batch:
        assert [shown["id"] for shown in batch.messages] == [message]


# what is there to be worked on


@pytest.mark.parametrize("unread_only", [True, False])
def test_an_inbox_shows_what_a_reader_marks_meanwhile(spool, box, message, monkeypatch, unread_only):
    later = spool.send(sender="hub", recipient="worker", subject="later")["id"]
    read_before_it_is_opened(spool, monkeypatch)
    shown = inbox.inbox(spool, "worker", unread_only=unread_only)["messages"]
    assert [m["id"] for m in shown] == [message, later]
    assert [m["read_at"] is not None for m in shown] == [True, True]


def test_an_inbox_shows_ones_own_claim_while_it_is_renewed(spool, box, message, monkeypatch):
    from maildir_agents.mail import intake

    spool.claim("worker", message)
    real = intake.take_message

    def moved_first(path):
        monkeypatch.setattr(intake, "take_message", real)
        spool.clock.advance(5)
        renew(box, message, 1, 600)
        return real(path)

    monkeypatch.setattr(intake, "take_message", moved_first)
    [shown] = inbox.inbox(spool, "worker", mine=frozenset([(message, 1)]))["messages"]
    assert (shown["id"], shown["owned_by_current_worker"]) == (message, True)


@pytest.mark.parametrize("then", ["ack", "claim"])
def test_an_inbox_does_not_show_what_is_settled_or_claimed_meanwhile(spool, box, message, monkeypatch, then):
    from maildir_agents.mail import intake

    real = intake.take_message

    def moved_first(path):
        monkeypatch.setattr(intake, "take_message", real)
        spool.ack("worker", [message]) if then == "ack" else spool.claim("worker", message)
        return real(path)

    monkeypatch.setattr(intake, "take_message", moved_first)
    assert inbox.inbox(spool, "worker")["messages"] == []


# where a message is


def test_a_dead_letter_is_found_while_it_is_put_back(spool, box, message, before):
    bury(box, message)
    os.utime(f"{box.path}/claimed", (1, 1))
    before("failed", lambda: spool.failed_requeue("worker", message))
    assert [place["state"] for place in trace.trace(spool, message)["places"]] == ["new"]


def test_of_a_dead_letter_that_is_put_back_nothing_is_said_to_be_missing(spool, box, message, monkeypatch):
    bury(box, message)
    real = failed.reason_of

    def first(box, found):
        monkeypatch.setattr(failed, "reason_of", real)
        spool.failed_requeue("worker", message)
        return real(box, found)

    monkeypatch.setattr(failed, "reason_of", first)
    assert failed.listed(spool) == {"count": 0, "failed": []}
    bury(box, message)
    monkeypatch.setattr(failed, "reason_of", first)
    with pytest.raises(MailError, match="no longer a dead letter"):
        failed.show(spool, "worker", message)


# conversations


def test_a_conversation_that_is_taken_away_while_it_is_read_is_not_half_of_one(spool, monkeypatch):
    talk = spool.start_conversation(sender="hub", recipient="worker", goal="g", subject="s")["conversation_id"]
    spool.end_conversation(talk, "cancel", "hub")
    real = journal.entry

    def entry(spool, conversation_id, number):
        if number == 1:
            os.rename(spool.conversation_directory(talk), f"{spool.root}/trash/{talk}")
        return real(spool, conversation_id, number)

    monkeypatch.setattr(journal, "entry", entry)
    with pytest.raises(MailError) as refused:
        journal.read(spool, talk)
    assert refused.value.code == "unknown_conversation"


def test_a_conversation_that_is_taken_away_while_it_is_ended_once_more_has_ended(spool, monkeypatch):
    talk = spool.start_conversation(sender="hub", recipient="worker", goal="g", subject="s")["conversation_id"]
    spool.end_conversation(talk, "cancel", "hub")
    real, read_by = journal.read, []

    def read(spool, conversation_id):
        found = real(spool, conversation_id)
        read_by.append(found)
        if len(read_by) == 2:  # whether it may, and then to write
            os.rename(spool.conversation_directory(talk), f"{spool.root}/trash/{talk}")
        return found

    monkeypatch.setattr(journal, "read", read)
    assert spool.end_conversation(talk, "cancel", "hub")["state"] == "cancelled"
    assert not os.path.exists(spool.conversation_directory(talk))


# a worker's end


def test_a_message_is_given_up_though_its_claim_is_renewed_at_that_moment(spool, box, message, monkeypatch):
    spool.claim("worker", message, lease_s=LEASE_S)
    claimed = box.find(message)
    job = Job(whole_at(box.where(claimed)), claimed, None, most=1)
    real = deadletter._reserve

    def reserve(*args):
        monkeypatch.setattr(deadletter, "_reserve", real)
        spool.clock.advance(5)
        renew(box, message, 1, 600)
        return real(*args)

    monkeypatch.setattr(deadletter, "_reserve", reserve)
    assert conclude(box, job, 1, False, "ended with status 1") == DEAD
    assert box.find(message).directory == "failed"


# counts that are kept from look to look


def test_a_change_in_the_same_instant_as_a_look_is_seen_by_the_next(spool, box, message, monkeypatch):
    """A directory's time stamp hides what comes within its grain; a later look must not trust it for that."""
    fleet = overview.Fleet(spool)
    fleet.look()
    stamp = os.stat(f"{box.path}/new").st_mtime_ns
    days = f"{spool.root}/messages"
    [day] = os.listdir(days)
    of_day = os.stat(f"{days}/{day}").st_mtime_ns
    spool.send(sender="hub", recipient="worker", subject="2")
    os.utime(f"{box.path}/new", ns=(stamp, stamp))
    os.utime(f"{days}/{day}", ns=(of_day, of_day))
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 10_000_000_000)
    seen = fleet.look()
    assert [agent.unread for agent in seen.agents if agent.name == "worker"] == [2]
    assert len(seen.letters) == 2


# what is said of a refusal


def test_what_another_marks_read_before_it_is_acknowledged_is_acknowledged_all_the_same(spool, box, message):
    with spool.read("worker", ack=True) as batch:
        mark_read(spool, "worker", message)
    assert batch.trouble is None
    assert box.find(message).directory == "acked"


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda spool, message: spool.claim("worker", message), "is claimed by"),
        (lambda spool, message: bury(Mailbox(spool, "worker"), message), "a dead letter"),
        (lambda spool, message: spool.ack("worker", [message]), None),
    ],
)
def test_what_is_shown_and_cannot_be_acknowledged_is_told_with_what_became_of_it(spool, box, message, act, said):
    with spool.read("worker", ack=True) as batch:
        act(spool, message)
    assert (batch.trouble is None) == (said is None)
    if said is not None:
        assert batch.trouble.code == "shown_not_acknowledged"
        assert said in batch.trouble.sentence
        assert batch.trouble.detail["ids"] == [message]


@pytest.mark.parametrize("how", ["ack", "read --ack"])
def test_what_another_has_just_acknowledged_is_durable_before_it_is_reported(spool, box, message, monkeypatch, how):
    """The other may be killed before its own sync."""
    real, synced = Mailbox.move, []

    def move(self, verb, found, **stamps):
        if verb == "ack":
            monkeypatch.setattr(Mailbox, "move", real)
            settle(box, found, None, "ack")
        return real(self, verb, found, **stamps)

    monkeypatch.setattr(Mailbox, "move", move)
    monkeypatch.setattr(spool.disk, "sync", synced.append)
    if how == "ack":
        assert spool.ack("worker", [message])["count"] == 0
    else:
        with spool.read("worker", ack=True) as batch:
            pass
        assert batch.trouble is None
    assert os.path.dirname(box.where(box.find(message))) in synced


# listeners


def test_a_listener_that_begins_while_it_is_looked_for_has_not_died(spool, box, monkeypatch):
    sole, real = Sole(listening.lock_of(box)), listening.holder

    def nobody_yet(path):
        found = real(path)
        monkeypatch.setattr(listening, "holder", real)
        sole.__enter__()
        listening.label(box, os.getpid(), "now", None)
        return found

    monkeypatch.setattr(listening, "holder", nobody_yet)
    try:
        seen = listening.seen(box)
        assert (seen["running"], seen["died"]) == (True, False)
    finally:
        sole.__exit__()


def test_a_listener_that_ends_while_it_is_looked_for_has_not_died(spool, box, monkeypatch):
    sole, real = Sole(listening.lock_of(box)), listening.read_settings
    sole.__enter__()
    listening.label(box, os.getpid(), "now", None)

    def gone_afterwards(path):
        told = real(path)
        monkeypatch.setattr(listening, "read_settings", real)
        listening.unlabel(box)
        sole.__exit__()
        return told

    monkeypatch.setattr(listening, "read_settings", gone_afterwards)
    assert not listening.seen(box)["died"]


def test_a_listener_works_not_on_what_the_one_before_it_died_of(spool, box, message):
    listening.label(box, os.getpid() + 1, "then", message)
    with Sole(listening.lock_of(box)):
        assert listening.seen(box)["waiting_on"] is None
        listening.label(box, os.getpid(), "now", message)
        assert listening.seen(box)["waiting_on"] == message


def test_a_listener_that_left_no_name_tells_what_it_works_on(spool, box, message, monkeypatch):
    """It began on a full disk, which took the name but not the lock."""
    monkeypatch.setattr(Sole, "_introduce", lambda self: None)
    with Sole(listening.lock_of(box)):
        listening.label(box, os.getpid(), "now", message)
        seen = listening.seen(box)
        assert (seen["running"], seen["pid"], seen["waiting_on"]) == (True, None, message)
