"""What becomes of mail, its conversation and its sender, for each way in which a worker can end."""

import errno
import json
import os
import signal
import time
from pathlib import Path

import pytest

from listener.rehearsal import rehearsal
from maildir_agents.errors import MailError
from maildir_agents.mail.history import events


@pytest.fixture
def play():
    with rehearsal() as stage:
        yield stage


def a_task(play, agent="b", sender="a", **how):
    """A conversation that `agent` has to answer: (its id, the task's id)."""
    begun = play.spool.start_conversation(sender=sender, recipient=agent, goal="g", **how)
    return begun["conversation_id"], begun["message_id"]


def answer(play, sender, recipient, parent, kind="result"):
    """The id of a turn."""
    order = {"recipient": recipient, "subject": "s", "body": f"to {parent}", "kind": kind, "reply_to": parent}
    return play.spool.send(sender=sender, **order)["id"]


def plain_task(play, agent="b", sender="a"):
    """A task without a conversation, as a script drops it."""
    sent = play.spool.send(sender=sender, recipient=agent, subject="wash up", body="do it")["id"]
    path = Path(f"{play.spool.root}/agents/{agent}/new/{sent}.json")
    content = path.read_text(encoding="utf-8").replace('"kind":null', '"kind":"task"')
    os.unlink(play.spool.anchor(sent))
    path.unlink()
    path.write_text(content, encoding="utf-8")
    return sent


def noted(play, agent, event):
    return [entry for entry in events(play.spool, agent) if entry["event"] == event]


def log_of(play, agent="b"):
    return Path(f"{play.spool.root}/agents/{agent}/listener.log").read_text(encoding="utf-8")


def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


# ------------------------------------------------------------------------------------------------ ways to end


def test_a_task_is_acknowledged_when_its_worker_ends_with_0(play):
    play.allow("b", "exit 0")
    task = plain_task(play)
    play.open("b")
    assert play.play() is None
    assert play.state("b", task) == "acked"
    assert play.outcomes("b") == ["acknowledged"]


def test_a_task_left_unanswered_with_0_needs_a_human(play):
    play.allow("b", "exit 0")
    conversation, task = a_task(play)
    play.open("b")
    play.play()
    assert (play.of(conversation), play.state("b", task)) == ("needs_human", "acked")


def test_a_review_that_decides_nothing_needs_a_human(play):
    play.allow("a", "exit 0")
    conversation, task = a_task(play)
    result = answer(play, "b", "a", task)
    play.open("a")
    play.play()
    assert (play.of(conversation), play.state("a", result)) == ("needs_human", "acked")


def test_100_asks_for_a_human_and_leaves_the_message_to_be_worked_on_when_that_resumes(play):
    play.allow("b", "exit 100")
    conversation, task = a_task(play)
    play.open("b")
    play.play()
    assert (play.of(conversation), play.state("b", task)) == ("needs_human", "new")
    assert play.outcomes("b") == ["needs_human"]
    play.play()
    assert play.outcomes("b") == ["needs_human"], "it was started again without a human"
    play.spool.resume_conversation(conversation, by="person")
    play.allow("b", "exit 0")
    play.play()
    assert play.outcomes("b") == ["needs_human", "acknowledged"]


@pytest.mark.parametrize("most", [1, 3])
def test_a_worker_that_asked_for_a_human_on_its_last_attempt_is_started_again_when_that_resumes(play, most):
    """A person said "go on": to bury the task then, without a start, would be the answer to that."""
    play.allow("b", "exit 100", max_attempts=most)
    conversation, task = a_task(play)
    play.open("b")
    for asked in range(1, 2 * most + 1):
        play.play()
        assert (play.of(conversation), play.state("b", task)) == ("needs_human", "new")
        assert play.outcomes("b") == ["needs_human"] * asked
        play.spool.resume_conversation(conversation, by="person")
    play.allow("b", "exit 1", max_attempts=most)
    while (pause := play.play()) is not None:
        play.spool.clock.advance(pause + 6)
    failed = play.outcomes("b")[2 * most :]
    assert failed == ["retry"] * (most - 1) + ["dead"], "what fails and asks nobody is given up all the same"
    assert play.of(conversation) == "blocked"


def test_100_without_a_conversation_is_a_dead_letter_and_its_sender_is_told(play):
    play.allow("b", "exit 100")
    task = plain_task(play)
    play.open("b")
    play.play()
    assert play.state("b", task) == "failed"
    [dead] = play.spool.failed_list("b")["failed"]
    assert dead["code"] == "needs_human"
    [notice] = play.mail("a")
    assert (notice["subject"], notice["kind"], notice["reply_to"]) == ("Not done: wash up", None, task)


@pytest.mark.parametrize("script", ["exit 1", "kill -9 $$", "exit 99"])
def test_any_other_end_is_tried_again_after_a_pause_that_doubles_until_it_is_a_dead_letter(play, script):
    play.allow("b", script)
    conversation, task = a_task(play)
    play.open("b")
    assert play.play() == 30
    assert play.state("b", task) == "claimed"
    play.spool.clock.advance(29)
    assert play.play() == 1
    assert play.outcomes("b") == ["retry"]
    play.spool.clock.advance(1.1)
    assert play.play() == 60
    play.spool.clock.advance(60.1)
    assert play.play() is None
    assert play.outcomes("b") == ["retry", "retry", "dead"]
    assert (play.of(conversation), play.state("b", task)) == ("blocked", "failed")
    [dead] = play.spool.failed_list("b")["failed"]
    assert (dead["code"], dead["attempts"]) == ("attempts", 3)
    [notice] = play.mail("a")
    assert (notice["kind"], notice["conversation_id"]) == ("notice", conversation)


def test_the_pause_survives_the_listener(play):
    play.allow("b", "exit 1")
    a_task(play)
    play.open("b")
    play.play()
    play.spool.clock.advance(10)
    play.open("b")
    assert play.play() == 20
    assert play.outcomes("b") == ["retry"]


def test_attempts_are_counted_over_listeners_that_died(play):
    """A claim whose holder is gone was a start, too."""
    play.allow("b", "exit 0", max_attempts=2)
    conversation, task = a_task(play)
    for _ in range(2):
        play.spool.claim("b", task)
        play.spool.clock.advance(301)
    play.open("b")
    play.play()
    assert play.outcomes("b") == []
    assert (play.of(conversation), play.state("b", task)) == ("blocked", "failed")
    play.spool.failed_requeue("b", task)
    assert play.play() is None
    assert play.outcomes("b") == [], "a blocked conversation is a person's"
    play.spool.resume_conversation(conversation, by="person")
    play.play()
    assert play.outcomes("b") == ["acknowledged"], "a requeue by a person counts anew"


def test_what_cannot_be_started_is_tried_again_like_what_fails(play):
    play.configure('{"auto": {"b": {"command": ["/nowhere/to/be/found"], "max_attempts": 1}}}')
    a_task(play)
    play.open("b")
    play.play()
    assert play.outcomes("b") == ["dead"]
    assert "/nowhere/to/be/found" in log_of(play)


@pytest.mark.parametrize("short_of", [errno.EMFILE, errno.EAGAIN, errno.ENOMEM])
def test_what_the_listener_is_short_of_is_no_failed_attempt(play, monkeypatch, short_of):
    """Descriptors, processes, memory: the task is not to blame, and waits until there are some."""
    play.allow("b", "exit 0", max_attempts=1)
    _, task = a_task(play)
    play.open("b")

    def none_left(*_, **__):
        raise OSError(short_of, os.strerror(short_of))

    with monkeypatch.context() as patch:
        patch.setattr("maildir_agents.faces.listener.worker.subprocess.Popen", none_left)
        for _ in range(90):  # longer than a lease
            assert play.play() == 5
            play.spool.clock.advance(5.1)
        assert (play.state("b", task), play.outcomes("b")) == ("claimed", [])
        assert [said["code"] for said in play.said] == ["busy"], "it is said once"
    play.play()
    assert play.outcomes("b") == ["acknowledged"]
    assert play.duty("b").readers == ()


def test_a_task_that_waits_for_its_worker_is_given_back_when_nothing_may_be_started_any_more(play, monkeypatch):
    play.allow("b", "exit 0", max_attempts=1)
    _, task = a_task(play)
    play.open("b")

    def none_left(*_, **__):
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr("maildir_agents.faces.listener.worker.subprocess.Popen", none_left)
    assert play.play() == 5
    play.duty("b").turn(None, may_start=False)
    assert (play.state("b", task), play.duty("b").run) == ("new", None)


def test_a_worker_that_replied_has_settled_its_task(play, command):
    script = f'"{command}" send --from b --to a --subject s --body done --kind result --reply-to $AGENT_MAIL_MESSAGE'
    play.allow("b", f"{script}; exit 7")
    conversation, task = a_task(play)
    play.open("b")
    assert play.play() is None
    assert play.outcomes("b") == ["settled"], "what was answered is not tried again, whatever the status"
    assert (play.of(conversation), play.state("b", task)) == ("active", "acked")


# ------------------------------------------------------------------------------------------------ what is judged first


def test_what_was_answered_already_is_acknowledged_and_costs_no_start(play):
    play.allow("b", "exit 0")
    conversation, task = a_task(play)
    play.spool.send(sender="b", recipient="a", subject="s", body="x", kind="result", reply_to=task, acknowledge=False)
    play.open("b")
    play.play()
    assert (play.outcomes("b"), play.state("b", task), play.of(conversation)) == ([], "acked", "active")


def test_a_task_of_a_cancelled_conversation_stays_ordinary_mail(play):
    play.allow("b", "exit 0")
    conversation, task = a_task(play)
    play.spool.end_conversation(conversation, "cancel", "a")
    play.open("b")
    play.play()
    assert (play.outcomes("b"), play.state("b", task)) == ([], "new")
    [place] = play.spool.trace(task)["places"]
    assert place["file"] == f"{task}.json", "it was claimed"


def test_a_task_that_comes_too_late_puts_its_conversation_before_a_human(play):
    play.allow("b", "exit 0")
    conversation, task = a_task(play, expires_s=60)
    play.spool.clock.advance(61)
    play.open("b")
    play.play()
    assert (play.outcomes("b"), play.state("b", task), play.of(conversation)) == ([], "new", "needs_human")


def test_the_last_turn_allowed_is_worked_on(play):
    play.allow("a", "exit 1", max_attempts=1)
    _, task = a_task(play, max_turns=2)
    answer(play, "b", "a", task)
    play.open("a")
    play.play()
    assert play.outcomes("a") == ["dead"]


def test_ordinary_mail_and_notices_start_nothing(play):
    play.allow("b", "exit 0")
    conversation, task = a_task(play)
    play.spool.ack("b", [task])
    play.spool.resume_conversation(conversation, by="person")
    play.spool.send(sender="a", recipient="b", subject="hello")
    play.spool.send(sender="a", recipient="b", subject="by the way", kind="notice", conversation=conversation)
    play.spool.send(sender="a", recipient="*", subject="all of you")
    play.open("b")
    play.play()
    assert play.outcomes("b") == []
    assert len(play.mail("b")) == 3


def test_a_result_is_not_work_for_whom_it_was_asked_of(play):
    """Only who began a conversation reviews its results."""
    play.allow("b", "exit 0")
    _, task = a_task(play)
    result = answer(play, "b", "a", task)
    odd = answer(play, "a", "b", result, kind="result")
    play.open("b")
    play.play()
    assert (play.outcomes("b"), play.state("b", odd)) == ([], "new")


def test_what_is_no_message_does_not_stop_the_work_behind_it(play):
    play.allow("b", "exit 0")
    first, second = plain_task(play), plain_task(play)
    torn = f"{play.spool.root}/agents/b/new/{first}.json"
    with open(torn, "w", encoding="utf-8") as file:
        file.write('{"id": "torn')
    os.utime(torn, ns=(now := play.spool.clock.wall_ms() * 1_000_000, now))
    play.open("b")
    assert play.play() == 2, "a file that may still be being written is looked at again"
    play.spool.clock.advance(3)
    assert play.play() is None
    assert (play.state("b", first), play.state("b", second)) == ("failed", "acked")
    assert [warning["code"] for warning in play.said] == ["not_json"]


def test_mail_that_was_read_is_worked_on_too_and_the_oldest_first(play):
    play.allow("b", "exit 0")
    tasks = [plain_task(play) for _ in range(3)]
    with play.spool.read("b", limit=1):
        pass
    play.open("b")
    play.play()
    assert [play.state("b", task) for task in tasks] == ["acked"] * 3
    order = [e["id"] for e in noted(play, "b", "started")]
    assert order == tasks


def test_what_another_has_claimed_is_left_to_it_until_its_lease_ends(play):
    play.allow("b", "exit 0")
    task = plain_task(play)
    play.spool.claim("b", task, lease_s=60)
    play.open("b")
    assert play.play() == 60
    assert play.outcomes("b") == []
    play.spool.clock.advance(60.1)
    play.play()
    assert (play.outcomes("b"), play.state("b", task)) == (["acknowledged"], "acked")


# ------------------------------------------------------------------------------------------------ while it runs


def test_the_lease_is_renewed_while_the_worker_runs(play):
    play.allow("b", "read forever < /dev/zero; sleep 600")
    task = plain_task(play)
    play.open("b")
    play.start()
    for _ in range(5):
        play.spool.clock.advance(101)
        play.loop.turn()
        with pytest.raises(MailError, match="claimed by"):
            play.spool.another().claim("b", task)
    play.duty("b").kill()
    play.play()


def test_a_worker_whose_claim_was_lost_is_stopped_and_settles_nothing(play):
    play.allow("b", "exec sleep 600")
    task = plain_task(play)
    play.open("b")
    play.start()
    play.spool.clock.advance(301)  # as if this process had been stopped for so long
    other = play.spool.another().claim("b", task)
    play.play()
    assert play.outcomes("b") == ["lost"]
    play.spool.ack("b", [other["handle"]])
    assert play.state("b", task) == "acked"


def test_a_worker_that_has_settled_its_message_may_go_on(play, command):
    play.allow("b", f'"{command}" ack b $AGENT_MAIL_MESSAGE > /dev/null; exec sleep 600')
    task = plain_task(play)
    play.open("b")
    play.start()
    until(lambda: play.state("b", task) == "acked")
    play.spool.clock.advance(101)
    play.loop.turn()
    assert play.duty("b").run is not None
    assert play.duty("b").run.kill_at is None, "it was stopped though it has done everything right"
    play.duty("b").kill()
    play.play()
    assert play.outcomes("b") == ["settled"]


def test_a_worker_over_its_time_is_asked_to_end_and_that_is_a_failed_attempt(play):
    play.allow("b", "exec sleep 600", time_limit_seconds=5, max_attempts=1)
    task = plain_task(play)
    play.open("b")
    play.start()
    play.spool.clock.advance(5.1)
    play.play()
    assert (play.outcomes("b"), play.state("b", task)) == (["dead"], "failed")
    [end] = noted(play, "b", "ended")
    assert (end["status"], end["why"]) == (-signal.SIGTERM, "its time was over")


def test_a_worker_that_does_not_want_to_end_is_killed_five_seconds_later(play):
    play.allow("b", "trap '' TERM; echo deaf; while :; do sleep 1; done", time_limit_seconds=5)
    plain_task(play)
    play.open("b")
    play.start()
    until(lambda: play.loop.turn() and "deaf" in log_of(play))
    play.spool.clock.advance(5.1)
    play.loop.turn()
    play.spool.clock.advance(4)
    play.loop.turn()
    assert play.duty("b").run.status is None
    play.spool.clock.advance(1.1)
    play.play()
    [end] = noted(play, "b", "ended")
    assert (end["status"], end["outcome"]) == (-signal.SIGKILL, "retry")


def test_a_worker_that_ends_well_after_it_was_stopped_has_failed_all_the_same(play):
    play.allow("b", "trap 'exit 0' TERM; echo here; while :; do sleep 0.01; done", time_limit_seconds=5)
    task = plain_task(play)
    play.open("b")
    play.start()
    until(lambda: play.loop.turn() and "here" in log_of(play))
    play.spool.clock.advance(5.1)
    play.play()
    assert (play.outcomes("b"), play.state("b", task)) == (["retry"], "claimed")


def test_a_full_disk_or_another_error_does_not_end_the_listener(play):
    """The acknowledgement is tried again until it works; nothing is started twice for it."""
    play.allow("b", "exit 0")
    task = plain_task(play)
    play.open("b")
    play.start()
    disk = play.spool.disk
    worker = play.duty("b").run.worker
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    disk.fail_at, disk.lasting = len(disk.calls) + 1, True
    play.loop.turn()
    assert [warning["code"] for warning in play.said] == ["cannot_write"]
    assert play.duty("b").run is not None
    disk.fail_at = None
    play.spool.clock.advance(5.1)
    play.play()
    assert (play.state("b", task), len(noted(play, "b", "started"))) == ("acked", 1)


# ------------------------------------------------------------------------------------------------ what is allowed


def test_an_agent_that_is_not_configured_is_never_dispatched_and_that_is_said_once(play):
    play.allow("a", "exit 0")
    task = plain_task(play)
    play.open("b")
    for _ in range(3):
        play.play()
    assert (play.outcomes("b"), play.state("b", task)) == ([], "new")
    assert [warning["agent"] for warning in play.said] == ["b"]


def test_a_change_of_the_configuration_counts_from_the_next_turn(play):
    task = plain_task(play)
    play.open("b")
    play.play()
    play.allow("b", "exit 0")
    play.play()
    assert play.state("b", task) == "acked"


BAD = [
    '{"auto": {"b": {"command": "rm -rf /"}}}',
    '{"auto": {"b": {"command": []}}}',
    '{"auto": {"b": {"command": ["a", 1]}}}',
    '{"auto": {"b": {"command": ["a\\u0000b"]}}}',
    '{"auto": {"b": {}}}',
    '{"auto": {"b": ["true"]}}',
    '{"auto": {"b": {"command": ["true"], "max_attempts": 0}}}',
    '{"auto": {"b": {"command": ["true"], "max_attempts": true}}}',
    '{"auto": {"b": {"command": ["true"], "max_attempts": 1.5}}}',
    '{"auto": {"b": {"command": ["true"], "time_limit_seconds": 0}}}',
    '{"auto": {"b": {"command": ["true"], "time_limit_seconds": "9"}}}',
    '{"auto": {"../b": {"command": ["true"]}}}',
    '{"auto": ["b"]}',
    '{"auto": {"b": {"command": ["true"]}, "b": {"command": ["false"]}}}',
    "{",
    "",
]


@pytest.mark.parametrize("text", BAD)
def test_what_is_not_understood_starts_nothing_and_is_said(play, text):
    task = plain_task(play)
    play.configure(text)
    play.open("b")
    play.play()
    play.play()
    assert (play.outcomes("b"), play.state("b", task)) == ([], "new")
    assert len([warning for warning in play.said if "config.json" in warning.get("path", "")]) == 1


def test_a_bad_entry_stops_no_other_agent(play):
    task = plain_task(play)
    play.configure('{"auto": {"x": {"command": []}, "b": {"command": ["true"]}}}')
    play.open("b")
    play.play()
    assert play.state("b", task) == "acked"


# ------------------------------------------------------------------------------------------------ what it is told


def test_a_worker_gets_the_message_on_its_standard_input_and_itself_in_the_environment(play, tmp_path, monkeypatch):
    for name in ("AGENT_MAIL_CLAIM", "AGENT_MAIL_CONVERSATION", "NOTIFY_SOCKET", "WATCHDOG_USEC"):
        monkeypatch.setenv(name, "of somebody else")
    monkeypatch.delenv("AGENT_MAIL_CMD", raising=False)
    play.allow("b", f"cat > {tmp_path}/stdin; env > {tmp_path}/env; pwd > {tmp_path}/cwd")
    conversation, task = a_task(play, body="zwölf\n" * 50_000)
    play.open("b")
    play.play()
    told = json.loads((tmp_path / "stdin").read_text(encoding="utf-8"))
    assert (told["id"], told["body"], told["kind"], told["token"]) == (task, "zwölf\n" * 50_000, "task", 1)
    assert {
        "sender",
        "recipient",
        "subject",
        "refs",
        "reply_to",
        "thread_id",
        "turn",
        "claim_expires_at",
    } <= told.keys()
    environ = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
    mine = {name: value for name, value in environ.items() if name.startswith(("AGENT_", "NOTIFY", "WATCHDOG"))}
    assert mine == {
        "AGENT_ID": "b",
        "AGENT_MAIL_SPOOL": str(play.spool.root),
        "AGENT_MAIL_CLAIM": f"{task}~n1",
        "AGENT_MAIL_MESSAGE": task,
        "AGENT_MAIL_CONVERSATION": conversation,
        "AGENT_MAIL_HOPS": "0",
        "AGENT_MAIL_WORKER": f"listener-{os.getpid()}",
    }
    assert (tmp_path / "cwd").read_text().strip() == os.getcwd()


def test_conversations_that_workers_start_are_counted_and_end(play, command):
    script = f'"{command}" conversation start --from $AGENT_ID --to %s --goal g > /dev/null || exit 3'
    play.allow("b", script % "c", max_attempts=1)
    play.allow("c", script % "b", max_attempts=1)
    a_task(play)
    play.open("b", "c")
    play.play()
    states = play.spool.list_conversations()["conversations"]
    assert len(states) == 9, "a chain of eight behind the one that a person began"
    assert [found["state"] for found in states].count("blocked") == 1, "the last worker was refused and failed"
