"""A claim is held by its handle: what each verb does for its holder, for everybody else, and for one who comes late."""

import hashlib
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from maildir_agents.disk.clock import Clock
from maildir_agents.errors import MailError
from maildir_agents.faces.python import Spool
from maildir_agents.mail import deadletter
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.name import iso, parse

UNKNOWN = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"


class Still(Clock):
    """A clock that shows what it is told: both hands are moved by `pass_time`."""

    def __init__(self) -> None:
        self.wall, self.up = Clock().wall_ms(), 86_400_123

    def wall_ms(self) -> int:
        return self.wall

    def boot_ms(self) -> int:
        return self.up

    def boot(self) -> str:
        return "9f44af0deffffffa"

    def pass_time(self, seconds: float) -> None:
        self.wall += round(seconds * 1000)
        self.up += round(seconds * 1000)


@pytest.fixture
def clock() -> Still:
    return Still()


@pytest.fixture
def spool(tmp_path, clock) -> Spool:
    return Spool(tmp_path / "spool", clock=clock, durability="none")


def sent(spool: Spool, subject: str = "task", **how: object) -> str:
    return spool.send(sender="alice", recipient="bob", subject=subject, **how)["id"]


def at(spool: Spool, message_id: str, agent: str = "bob") -> tuple[str, str]:
    """(state, file name) of a message, from the directories alone; it must be in one place."""
    box = f"{spool.root}/agents/{agent}"
    found = [
        (os.path.relpath(base, box).split("/")[0], name)
        for base, _, names in os.walk(box)
        for name in names
        if name.startswith(message_id) and not name.endswith(".reason.json")
    ]
    assert len(found) == 1, found
    return found[0]


def tree(spool: Spool) -> str:
    """Every name and every byte of a spool."""
    digest = hashlib.sha256()
    for base, directories, names in os.walk(spool.root):
        directories.sort()
        digest.update(base.encode())
        for name in sorted(names):
            digest.update(name.encode() + Path(base, name).read_bytes())
    return digest.hexdigest()


def code(call: Callable[[], object]) -> str:
    with pytest.raises(MailError) as refused:
        call()
    return refused.value.code


#: what a holder does with its claim: verb -> call
BY_HANDLE: dict[str, Callable[[Spool, str], object]] = {
    "renew": lambda spool, held: spool.renew("bob", held),
    "claim": lambda spool, held: spool.claim("bob", held),
    "release": lambda spool, held: spool.release("bob", held),
    "ack": lambda spool, held: spool.ack("bob", [held]),
    "archive": lambda spool, held: spool.archive("bob", [held]),
    "answer": lambda spool, held: spool.send(sender="bob", recipient="alice", subject="done", reply_to=held),
}
AFTERWARDS = {"renew": "claimed", "claim": "claimed", "release": "new", "ack": "acked", "archive": "archive",
              "answer": "acked"}  # fmt: skip


# ------------------------------------------------------------------------------------------------ what claim answers


def test_claim_answers_the_message_and_what_to_do_with_it(spool, clock):
    message_id = sent(spool)
    task = spool.claim("bob", worker="w")
    held = f"{message_id}~n1"
    assert task["message"]["id"] == message_id
    assert (task["handle"], task["token"], task["worker"]) == (held, 1, "w")
    assert task["claim_expires_at"] == task["message"]["claim_expires_at"] == iso(clock.wall + 300_000)
    assert task["next"] == [f"agent-mail {verb} bob {held}" for verb in ("renew", "release", "ack")]
    assert at(spool, message_id)[0] == "claimed"


@pytest.mark.parametrize(
    ("asked", "given"), [(-5, 30), (0, 30), (29, 30), (30, 30), (31, 31), (3600, 3600), (3601, 3600)]
)
def test_a_lease_is_at_least_thirty_seconds_and_at_most_an_hour(spool, clock, asked, given):
    sent(spool)
    task = spool.claim("bob", lease_s=asked)
    assert task["claim_expires_at"] == iso(clock.wall + given * 1000)
    clock.pass_time(10)
    assert spool.renew("bob", task["handle"], lease_s=asked)["claim_expires_at"] == iso(clock.wall + given * 1000)
    clock.pass_time(given - 0.001)
    assert spool.claim("bob")["handle"] is None
    clock.pass_time(0.001)
    assert spool.claim("bob")["token"] == 2


def test_the_oldest_is_claimed_first_whether_it_was_read_or_not(spool):
    ids = [sent(spool, f"s{n}") for n in range(3)]
    with spool.read("bob", limit=2):
        pass
    assert [spool.claim("bob")["message"]["id"] for _ in ids] == ids


def test_where_nothing_is_free_nothing_is_answered(spool):
    sent(spool)
    spool.claim("bob")
    nothing = spool.claim("bob")
    assert {key: value for key, value in nothing.items() if value} == {"agent": "bob"}
    assert nothing["next"] == []
    assert spool.claim("nobody-wrote-to-me")["message"] is None


def test_claiming_again_by_the_handle_renews_and_keeps_the_token(spool, clock):
    message_id = sent(spool)
    task = spool.claim("bob", worker="w")
    clock.pass_time(299)
    again = spool.claim("bob", task["handle"], lease_s=60)
    assert (again["handle"], again["token"], again["worker"]) == (task["handle"], 1, "w")
    assert again["claim_expires_at"] == iso(clock.wall + 60_000)
    assert again["message"]["id"] == message_id


def test_claiming_again_by_the_id_is_refused_to_everybody_and_to_the_worker_itself(spool):
    message_id = sent(spool)
    spool.claim("bob", worker="w")
    before = tree(spool)
    assert code(lambda: spool.claim("bob", message_id, worker="w")) == "claimed"
    assert tree(spool) == before


def test_an_id_that_is_claimed_is_that_message_and_no_other(spool):
    _, second = sent(spool, "1"), sent(spool, "2")
    assert spool.claim("bob", second.upper())["message"]["id"] == second


@pytest.mark.parametrize(("wanted", "refusal"), [
    ("unknown", "unknown_id"), ("settled", "settled"), ("archived", "settled"), ("dead", "dead_letter"),
    ("another's", "not_yours"), ("no id", "bad_id"), ("no handle", "bad_id"),
])  # fmt: skip
def test_what_cannot_be_claimed_is_refused_with_the_reason(spool, wanted, refusal):
    message_id = sent(spool)
    box = Mailbox(spool, "bob")
    if wanted == "settled":
        spool.ack("bob", [message_id])
    elif wanted == "archived":
        spool.archive("bob", [message_id])
    elif wanted == "dead":
        deadletter.fail(box, box.find(message_id), "tried", "three attempts")
    asked = {"unknown": UNKNOWN, "no id": "x", "no handle": f"{message_id}~nx",
             "another's": spool.send(sender="bob", recipient="carol", subject="s")["id"]}  # fmt: skip
    assert code(lambda: spool.claim("bob", asked.get(wanted, message_id))) == refusal


@pytest.mark.parametrize("name", ["", "A", "a b", "a/b", "a~b", "ü", "a\n", "x" * 49])
def test_a_worker_has_a_plain_short_name(spool, name):
    sent(spool)
    spool.claim("bob", worker="x")
    before = tree(spool)
    assert code(lambda: spool.claim("bob", worker=name)) == "usage"
    assert tree(spool) == before


def test_a_name_of_forty_eight_characters_fits(spool):
    message_id = sent(spool)
    name = "a.b_c-9" + "x" * 41
    assert spool.claim("bob", worker=name)["worker"] == name
    assert len(at(spool, message_id)[1]) <= 255


# ----------------------------------------------------------------------------------------------- the holder


@pytest.mark.parametrize("verb", BY_HANDLE)
@pytest.mark.parametrize("case", [str.lower, str.upper])
def test_a_handle_stands_wherever_an_id_does(spool, verb, case):
    message_id = sent(spool)
    held = spool.claim("bob")["handle"]
    BY_HANDLE[verb](spool, case(held).replace("~N", "~n"))
    assert at(spool, message_id)[0] == AFTERWARDS[verb]


@pytest.mark.parametrize("verb", BY_HANDLE)
def test_a_late_holder_that_nobody_has_expired_holds_it_still(spool, clock, verb):
    message_id = sent(spool)
    held = spool.claim("bob")["handle"]
    clock.pass_time(3600)
    BY_HANDLE[verb](spool, held)
    state, name = at(spool, message_id)
    assert (state, parse(name).token) == (AFTERWARDS[verb], 1)


def overtaken(spool: Spool, clock: Still, monkeypatch, held: str, lease_s: int) -> None:
    """Before each of this process's own renames of a claim another renews it, for so long."""
    other, real, busy = Spool(spool.root, clock=clock, durability="none"), os.rename, []

    def rename(source, target):
        if "/claimed/" in os.fspath(source) and not busy:
            busy.append(True)
            clock.pass_time(0.001)
            other.renew("bob", held, lease_s=lease_s)
            busy.clear()
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)


def test_who_is_overtaken_by_a_renewal_as_long_has_what_was_asked_for(spool, clock, monkeypatch):
    sent(spool)
    held = spool.claim("bob")["handle"]
    overtaken(spool, clock, monkeypatch, held, 300)
    told = spool.renew("bob", held, lease_s=300)
    assert (told["token"], told["claim_expires_at"]) == (1, iso(clock.wall + 300_000))


@pytest.mark.parametrize("verb", ["renew", "release", "ack"])
def test_who_is_overtaken_again_and_again_is_not_told_that_the_claim_is_lost(spool, clock, monkeypatch, verb):
    message_id = sent(spool)
    held = spool.claim("bob")["handle"]
    overtaken(spool, clock, monkeypatch, held, 60)
    with pytest.raises(MailError) as refused:
        {"renew": lambda: spool.renew("bob", held, lease_s=300),
         "release": lambda: spool.release("bob", held), "ack": lambda: spool.ack("bob", [held])}[verb]()  # fmt: skip
    assert refused.value.code == "in_transit"
    monkeypatch.undo()
    assert at(spool, message_id)[0] == "claimed"
    assert spool.ack("bob", [held])["count"] == 1


@pytest.mark.parametrize("verb", ["renew", "release"])
def test_only_a_handle_renews_and_releases(spool, verb):
    message_id = sent(spool)
    spool.claim("bob")
    assert code(lambda: BY_HANDLE[verb](spool, message_id)) == "usage"


@pytest.mark.parametrize(("was_read", "state"), [(False, "new"), (True, "cur")])
def test_release_leaves_read_as_it_was_and_the_token_too(spool, was_read, state):
    message_id = sent(spool)
    if was_read:
        with spool.read("bob"):
            pass
    read_at = parse(at(spool, message_id)[1]).stamps.get("r")
    told = spool.release("bob", spool.claim("bob")["handle"])
    name = parse(at(spool, message_id)[1])
    assert told == {"agent": "bob", "id": message_id, "handle": f"{message_id}~n1", "token": 1, "state": state}
    assert at(spool, message_id)[0] == state
    assert name.stamps == {"n": "1"} | ({"r": read_at} if was_read else {})
    assert spool.claim("bob")["token"] == 2


@pytest.mark.parametrize("first", ["ack", "archive", "answer"])
@pytest.mark.parametrize("again", ["ack", "archive"])
def test_what_the_claim_ended_in_is_no_error_to_its_holder_and_changes_nothing(spool, first, again):
    message_id = sent(spool)
    held = spool.claim("bob")["handle"]
    BY_HANDLE[first](spool, held)
    there = at(spool, message_id)
    told = BY_HANDLE[again](spool, held)
    assert (told["count"], told["message_ids"]) == (0, [])
    assert at(spool, message_id) == there


def test_an_answer_without_acknowledging_leaves_the_claim(spool):
    message_id = sent(spool)
    held = spool.claim("bob")["handle"]
    told = spool.send(sender="bob", recipient="alice", subject="which?", reply_to=held, acknowledge=False)
    assert "acknowledged" not in told
    assert at(spool, message_id)[0] == "claimed"
    assert spool.ack("bob", [held])["count"] == 1


# -------------------------------------------------------------------------------------------- the stale holder


def taken_over(spool: Spool, clock: Still, message_id: str) -> None:
    clock.pass_time(301)
    spool.claim("bob", worker="other")


def expired(spool: Spool, clock: Still, message_id: str) -> None:
    clock.pass_time(301)
    with spool.read("bob"):
        pass


def released(spool: Spool, clock: Still, message_id: str) -> None:
    spool.release("bob", f"{message_id}~n1")


def settled_by_another(spool: Spool, clock: Still, message_id: str) -> None:
    taken_over(spool, clock, message_id)
    spool.ack("bob", [f"{message_id}~n2"])


def dead(spool: Spool, clock: Still, message_id: str) -> None:
    box = Mailbox(spool, "bob")
    deadletter.fail(box, box.find(message_id), "tried", "three attempts")


def requeued(spool: Spool, clock: Still, message_id: str) -> None:
    dead(spool, clock, message_id)
    spool.failed_requeue("bob", message_id)


LOST = [taken_over, expired, released, settled_by_another, dead, requeued]


@pytest.mark.parametrize("verb", BY_HANDLE)
@pytest.mark.parametrize("how", LOST)
def test_a_stale_holder_is_told_so_by_every_verb_and_changes_nothing(spool, clock, verb, how):
    message_id = sent(spool)
    held = spool.claim("bob", worker="first")["handle"]
    how(spool, clock, message_id)
    before = tree(spool)
    assert code(lambda: BY_HANDLE[verb](spool, held)) == "lease_lost"
    assert tree(spool) == before


@pytest.mark.parametrize("verb", BY_HANDLE)
def test_a_handle_that_was_never_given_is_lost(spool, verb):
    message_id = sent(spool)
    spool.claim("bob")
    before = tree(spool)
    assert code(lambda: BY_HANDLE[verb](spool, f"{message_id}~n7")) == "lease_lost"
    assert tree(spool) == before


def test_an_answer_that_was_given_is_a_duplicate_though_the_claim_is_gone(spool, clock):
    message_id = sent(spool)
    held = spool.claim("bob")["handle"]
    order = {"sender": "bob", "recipient": "alice", "subject": "done", "reply_to": held, "dedup_key": message_id}
    first = spool.send(**order)
    assert first["acknowledged"] == message_id
    again = spool.send(**order)
    assert (again["id"], again["duplicate"]) == (first["id"], True)
    assert "acknowledged" not in again


# --------------------------------------------------------------------------------- everybody without the handle


@pytest.mark.parametrize("verb", ["ack", "archive", "answer"])
def test_a_live_claim_is_refused_to_who_has_only_the_id(spool, verb):
    message_id = sent(spool)
    spool.claim("bob")
    before = tree(spool)
    assert code(lambda: BY_HANDLE[verb](spool, message_id)) == "claimed"
    assert tree(spool) == before


@pytest.mark.parametrize("verb", ["ack", "archive", "answer"])
def test_a_claim_whose_time_is_over_is_free_for_who_has_only_the_id(spool, clock, verb):
    message_id = sent(spool)
    spool.claim("bob")
    clock.pass_time(300)
    BY_HANDLE[verb](spool, message_id)
    assert at(spool, message_id)[0] == AFTERWARDS[verb]


def test_of_several_ids_one_that_is_claimed_keeps_the_others_from_being_settled(spool):
    ids = [sent(spool, f"s{n}") for n in range(3)]
    spool.claim("bob", ids[1])
    before = tree(spool)
    assert code(lambda: spool.ack("bob", ids)) == "claimed"
    assert code(lambda: spool.ack("bob", [ids[0], f"{ids[2]}~n1"])) == "lease_lost"
    assert tree(spool) == before


def test_all_leaves_live_claims_of_others_and_takes_those_whose_time_is_over(spool, clock):
    over, live, free = (sent(spool, f"s{n}") for n in range(3))
    spool.claim("bob", over, lease_s=30)
    clock.pass_time(30)
    spool.claim("bob", live)
    assert sorted(spool.ack("bob", everything=True)["message_ids"]) == sorted([over, free])
    assert at(spool, live)[0] == "claimed"


def test_a_claim_is_not_read_while_it_lasts_and_is_unread_again_afterwards(spool, clock):
    message_id = sent(spool)
    spool.claim("bob")
    with spool.read("bob") as batch:
        assert batch.messages == []
    clock.pass_time(300)
    with spool.read("bob") as batch:
        assert [message["id"] for message in batch.messages] == [message_id]
    assert at(spool, message_id)[0] == "cur"


def test_a_claim_of_read_mail_does_not_become_unread_when_it_ends(spool, clock):
    message_id = sent(spool)
    with spool.read("bob"):
        pass
    spool.claim("bob")
    clock.pass_time(300)
    with spool.read("bob") as batch:
        assert batch.messages == []
    assert at(spool, message_id)[0] == "cur"


def test_status_counts_a_claim_whose_time_is_over_as_free_and_changes_nothing(spool, clock):
    sent(spool)
    spool.claim("bob")
    [row] = spool.status("bob")
    assert (row["unread"], row["unacked"], row["claimed"]) == (0, 1, 1)
    clock.pass_time(300)
    before = tree(spool)
    [row] = spool.status("bob")
    assert (row["unread"], row["unacked"], row["claimed"]) == (1, 1, 0)
    with spool.read("bob", mark=False) as batch:
        assert batch.answer["count"] == 1
    assert tree(spool) == before


def test_read_all_shows_how_long_a_message_is_claimed(spool, clock):
    sent(spool)
    spool.claim("bob")
    with spool.read("bob", everything=True, mark=False) as batch:
        [message] = batch.messages
    assert (message["claim_expires_at"], message["token"]) == (iso(clock.wall + 300_000), 1)


# ------------------------------------------------------------------------------ a worker that a listener started


@pytest.fixture
def as_worker(spool, monkeypatch) -> str:
    """The id of a message that this process was given the claim of."""
    message_id = sent(spool)
    monkeypatch.setenv("AGENT_MAIL_CLAIM", spool.claim("bob", worker="listener")["handle"])
    return message_id


@pytest.mark.parametrize("late", [0, 400])
@pytest.mark.parametrize("verb", BY_HANDLE)
def test_to_such_a_worker_the_bare_id_is_its_claim(spool, clock, as_worker, verb, late):
    clock.pass_time(late)
    BY_HANDLE[verb](spool, as_worker)
    state, name = at(spool, as_worker)
    assert (state, parse(name).token) == (AFTERWARDS[verb], 1)


@pytest.mark.parametrize("late", [0, 400])
def test_to_such_a_worker_all_includes_its_claim(spool, clock, as_worker, late):
    clock.pass_time(late)
    other = sent(spool, "other")
    assert sorted(spool.ack("bob", everything=True)["message_ids"]) == sorted([as_worker, other])


def test_such_a_worker_is_fenced_by_its_bare_id_too(spool, clock, as_worker, monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.delenv("AGENT_MAIL_CLAIM")
        taken_over(spool, clock, as_worker)
    before = tree(spool)
    for verb, call in BY_HANDLE.items():
        assert code(lambda call=call: call(spool, as_worker)) == "lease_lost", verb
    assert tree(spool) == before


LOOKING: dict[str, Callable[[Spool, str], object]] = {
    "read": lambda spool, other: spool.read("bob").__enter__().__exit__(None, None, None),
    "watch": lambda spool, other: spool.watch("bob", once=True),
    "claim": lambda spool, other: spool.claim("bob", other),
    "claim any": lambda spool, other: spool.claim("bob"),
    "ack": lambda spool, other: spool.ack("bob", [other]),
    "archive": lambda spool, other: spool.archive("bob", [other]),
    "answer": lambda spool, other: spool.send(sender="bob", recipient="alice", subject="s", reply_to=other),
}


@pytest.mark.parametrize("verb", LOOKING)
def test_nobody_expires_a_claim_whose_handle_it_holds_itself(spool, clock, as_worker, verb):
    clock.pass_time(400)
    LOOKING[verb](spool, sent(spool, "other"))
    assert at(spool, as_worker)[0] == "claimed"
    assert spool.ack("bob", [as_worker])["count"] == 1


def test_an_own_claim_whose_time_is_over_wakes_no_watch(spool, clock, as_worker):
    clock.pass_time(400)
    assert spool.watch("bob", once=True)["count"] == 0


# ----------------------------------------------------------------------------------- dead letters and bad files


def test_dead_letters_and_requeues_never_bring_a_token_back(spool):
    message_id = sent(spool)
    first = spool.claim("bob")["handle"]
    box = Mailbox(spool, "bob")
    deadletter.fail(box, box.find(message_id), "tried", "three attempts")
    assert parse(at(spool, message_id)[1]).token == 1
    [row] = spool.failed_list("bob")["failed"]
    assert row["attempts"] == 1
    assert spool.failed_requeue("bob", message_id)["token"] == 2
    assert parse(at(spool, message_id)[1]).stamps == {"n": "2", "q": "2"}
    task = spool.claim("bob")
    assert task["token"] == 3
    deadletter.fail(box, box.find(message_id), "tried", "again")
    assert spool.failed_list("bob")["failed"][0]["attempts"] == 1
    assert code(lambda: spool.ack("bob", [first])) == "lease_lost"


def test_a_bad_file_before_it_keeps_no_worker_from_its_task(spool):
    message_id = sent(spool)
    bad = f"{spool.root}/agents/bob/new/00000000-0001-7000-8000-000000000001.json"
    Path(bad).write_text("{", encoding="utf-8")
    os.utime(bad, (1, 1))
    task = spool.claim("bob")
    assert task["message"]["id"] == message_id
    assert [warning["code"] for warning in task["warnings"]] == ["not_json"]
    assert os.path.exists(f"{spool.root}/agents/bob/failed/00000000-0001-7000-8000-000000000001.json")
    assert code(lambda: spool.claim("bob", "00000000-0001-7000-8000-000000000001")) in ("dead_letter", "unknown_id")


def test_a_listing_that_misses_a_claim_once_does_not_take_it_from_its_holder(spool, monkeypatch):
    """A directory that is renamed in may show neither the old name nor the new one."""
    message_id = sent(spool)
    held = spool.claim("bob")["handle"]
    real, missed = Mailbox.texts, []

    def texts(box: Mailbox, directory: str) -> list[str]:
        if directory == "claimed" and not missed:
            missed.append(directory)
            return []
        return real(box, directory)

    monkeypatch.setattr(Mailbox, "texts", texts)
    assert spool.renew("bob", held)["token"] == 1
    missed.clear()
    assert spool.release("bob", held)["id"] == message_id


# ------------------------------------------------------------------------------------------- the command line


def test_the_commands_in_next_run_as_they_are_printed(quick):
    message_id = quick.send("alice", "bob")["id"]
    task = quick("claim", "bob", "--worker", "w").answer
    renew, release, ack = (shlex.split(command)[1:] for command in task["next"])
    assert quick(*renew).answer["handle"] == f"{message_id}~n1"
    assert quick(*release).answer["state"] == "new"
    assert quick(*ack).refusal["code"] == "lease_lost"
    again = quick("claim", "bob").answer
    assert again["token"] == 2
    assert quick(*shlex.split(again["next"][2])[1:]).answer["message_ids"] == [message_id]
    assert quick("claim", "bob").answer["next"] == []


def test_every_refusal_has_its_exit_status(quick):
    message_id = quick.send("alice", "bob")["id"]
    held = quick("claim", "bob").answer["handle"]
    refused = {
        ("claim", "bob", message_id): ("claimed", 77),
        ("ack", "bob", message_id): ("claimed", 77),
        ("archive", "bob", message_id): ("claimed", 77),
        ("renew", "bob", f"{message_id}~n9"): ("lease_lost", 77),
        ("release", "bob", f"{message_id}~n9"): ("lease_lost", 77),
        ("ack", "bob", f"{message_id}~n9"): ("lease_lost", 77),
        ("archive", "bob", f"{message_id}~n9"): ("lease_lost", 77),
        ("claim", "bob", f"{message_id}~n9"): ("lease_lost", 77),
        ("send", "--from", "bob", "--to", "alice", "--subject", "s", "--reply-to", f"{message_id}~n9"): (
            "lease_lost",
            77,
        ),
        ("renew", "bob", message_id): ("usage", 64),
        ("release", "bob", message_id): ("usage", 64),
        ("renew", "bob"): ("usage", 64),
        ("claim", "bob", "--worker", "No Name"): ("usage", 64),
        ("claim", "bob", "--lease", "long"): ("usage", 64),
        ("claim", "bob", "nothing"): ("bad_id", 64),
        ("claim", "bob", UNKNOWN): ("unknown_id", 66),
    }
    for words, (slug, status) in refused.items():
        done = quick(*words)
        assert (done.refusal["code"], done.status) == (slug, status), words
    assert quick("renew", "bob", held, "--lease", "60").answer["token"] == 1


def test_a_worker_has_the_name_it_is_given_or_one_of_its_own(quick):
    for number in range(4):
        quick.send("alice", "bob", subject=f"s{number}")
    named = {**quick.environ, "AGENT_MAIL_WORKER": "from.env"}
    assert quick("claim", "bob", "--worker", "asked", env=named).answer["worker"] == "asked"
    assert quick("claim", "bob", env=named).answer["worker"] == "from.env"
    made = [quick("claim", "bob").answer["worker"] for _ in range(2)]
    assert made[0] != made[1]


def test_the_environment_gives_a_command_its_claim(quick):
    message_id = quick.send("alice", "bob")["id"]
    env = {**quick.environ, "AGENT_MAIL_CLAIM": quick("claim", "bob").answer["handle"], "AGENT_ID": "bob"}
    assert quick("claim", "bob", message_id, env=env).answer["token"] == 1
    assert quick("renew", "bob", message_id, env=env).answer["token"] == 1
    done = quick("send", "--from", "bob", "--to", "alice", "--subject", "done", "--reply-to", message_id, env=env)
    assert done.answer["acknowledged"] == message_id
    quick.send("alice", "bob", subject="more")
    env["AGENT_MAIL_CLAIM"] = quick("claim", "bob").answer["handle"]
    assert quick("ack", "bob", "--all", env=env).answer["count"] == 1


def test_a_bad_file_is_said_on_the_way_to_the_task(quick):
    message_id = quick.send("alice", "bob")["id"]
    bad = quick.spool / "agents/bob/new/00000000-0001-7000-8000-000000000001.json"
    bad.write_text("{}", encoding="utf-8")
    os.utime(bad, (1, 1))
    done = quick("claim", "bob")
    assert done.answer["message"]["id"] == message_id
    assert [warning["code"] for warning in done.warnings] == ["missing_field"]
