"""Listeners and their workers under a real user manager: what the units promise, seen happening."""

import json

UNIT = "agent-mail-listener@{}.service"
ANSWER = 'agent-mail send --to hub --subject s --body done --kind result --reply-to "$AGENT_MAIL_MESSAGE" > /dev/null'


def begun(there, agent="bob"):
    unit = UNIT.format(agent)
    there.systemctl("start", unit)
    assert there.one(unit, "ActiveState") == "active"
    return unit


def test_it_is_started_when_it_listens_and_says_what_it_does(there):
    there.worker("bob", f"say begins; while [ ! -e {there.home}/go ]; do sleep 0.02; done; {ANSWER}")
    unit = begun(there)
    assert there.mail("listener", "status", "bob")["state"] == "running"
    assert there.one(unit, "StatusText") == "listening for 1: no work"
    task = there.task("bob")["message_id"]
    there.said("begins")
    there.soon(lambda: task in there.one(unit, "StatusText"), "its status names the message")
    (there.home / "go").touch()
    there.soon(lambda: there.place_of("bob", task) == "acked", "it is done")
    there.soon(lambda: there.one(unit, "StatusText") == "listening for 1: no work", "and says so")


def test_a_listener_that_hangs_is_started_anew(there):
    there.drop_in("agent-mail-listener@.service", "WatchdogSec=1s", name="watchdog")
    there.worker("bob", f"say begins; {ANSWER}")
    unit = begun(there)
    heard: dict[str, list[int]] = {}  # by process: on a busy machine one may be late, and is killed with reason

    def steady():
        """Those that were heard of for more than twice the time after which a silent one is killed."""
        pid, at = there.show(unit, "MainPID", "WatchdogTimestampMonotonic")
        if "0" not in (pid, at):
            heard.setdefault(pid, []).append(int(at))
        return [pid for pid, times in heard.items() if times[-1] - times[0] > 2_500_000]

    there.soon(lambda: steady() != [], "one is heard of again and again")
    hangs = steady()[-1]
    there.kill(hangs, "STOP")
    there.soon(lambda: there.one(unit, "MainPID") not in (hangs, "0"), "another is started")
    assert there.one(unit, "NRestarts") != "0"
    there.drop_in("agent-mail-listener@.service", "WatchdogSec=0", name="watchdog")
    there.soon(lambda: there.one(unit, "ActiveState") == "active", "it is there again")
    there.task("bob")
    there.said("begins")


def test_stopped_it_lets_the_worker_finish_and_starts_nothing_more(there):
    there.worker("bob", f"say begins; while [ ! -e {there.home}/go ]; do sleep 0.02; done; {ANSWER}; say ends")
    unit = begun(there)
    first, second = there.task("bob")["message_id"], there.task("bob")["message_id"]
    there.said("begins")
    there.systemctl("stop", "--no-block", unit)
    there.soon(lambda: there.one(unit, "StatusText").startswith("finishing for 1: workers for bob"), "it drains")
    assert there.one(unit, "ActiveState") == "deactivating"
    (there.home / "go").touch()
    there.soon(lambda: there.one(unit, "ActiveState") == "inactive", "it has ended")
    assert there.one(unit, "Result") == "success"
    assert there.diary() == ["begins", "ends"]
    assert (there.place_of("bob", first), there.place_of("bob", second)) == ("acked", "new")


def test_a_worker_is_a_unit_of_its_own_outside_the_sandbox_of_its_listener(there):
    there.worker("bob", f"cat > {there.home}/message; env > {there.home}/environ; cut -f 1- /proc/self/status"
                 f" > {there.home}/status; readlink /proc/self/fd/0 > {there.home}/stdin; say begins; "
                 f"while [ ! -e {there.home}/go ]; do sleep 0.02; done; command -v agent-mail; {ANSWER}")  # fmt: skip
    unit = begun(there)
    task = there.task("bob", "count")
    there.said("begins")
    [worker] = there.workers()
    assert worker == f"agent-mail-worker-bob-{task['message_id']}-n1.service"
    assert there.one(worker, "ControlGroup") != there.one(unit, "ControlGroup")
    assert there.one(worker, "OOMScoreAdjust") == "300", "the limits for workers apply"
    outside = dict(line.split(":", 1) for line in (there.home / "status").read_text().splitlines())
    inside = there.status_of(there.one(unit, "MainPID"))
    assert (inside["NoNewPrivs"], inside["Seccomp"]) == ("1", "2")
    assert (outside["NoNewPrivs"].strip(), outside["Seccomp"].strip()) == ("0", "0")
    message = json.loads((there.home / "message").read_text())
    assert (message["id"], message["body"]) == (task["message_id"], "count")
    environ = dict(line.split("=", 1) for line in (there.home / "environ").read_text().splitlines() if "=" in line)
    assert environ["AGENT_ID"] == "bob"
    assert environ["AGENT_MAIL_SPOOL"] == str(there.spool)
    assert environ["AGENT_MAIL_MESSAGE"] == task["message_id"]
    assert environ["AGENT_MAIL_CLAIM"] == f"{task['message_id']}~n1"
    assert environ["AGENT_MAIL_CONVERSATION"] == task["conversation_id"]
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "INVOCATION_ID", "AGENT_MAIL_WORKER_UNITS"} & environ.keys()
    assert "CLAIM" not in there.systemctl("cat", worker), "nothing of it stands in the unit"
    (there.home / "go").touch()
    there.soon(lambda: there.place_of("bob", task["message_id"]) == "acked", "it is done")
    there.soon(lambda: there.workers() == [], "its unit is gone")
    there.soon(lambda: there.history("bob", "ended"), "its listener knows")
    [start] = there.history("bob", "started")
    assert start["unit"] == worker
    log, printed = there.spool / "agents/bob/listener.log", there.environ["PATH"].split(":")[0] + "/agent-mail\n"
    there.soon(lambda: printed in log.read_text(), "what it prints comes through")


def outcome(there, script, agent="bob"):
    """How a worker with that script ended, by its agent's history."""
    there.worker(agent, script)
    begun(there, agent)
    there.task(agent)
    there.soon(lambda: there.history(agent, "ended"), "it has ended")
    [end] = there.history(agent, "ended")
    return end["status"], end["outcome"], end.get("why")


def test_its_exit_status_comes_through_whatever_it_is(there):
    assert outcome(there, f"{ANSWER}", "zero") == (0, "settled", None)
    assert outcome(there, "exit 100", "hundred") == (100, "needs_human", None)
    assert outcome(there, "exit 3", "three") == (3, "retry", None)
    assert outcome(there, "kill -TERM $$", "term") == (-15, "retry", None), "for systemd alone this is success"
    assert outcome(there, "kill -KILL $$", "kill") == (-9, "retry", None)


def test_a_worker_that_cannot_be_started_says_why(there):
    there.worker("bob", "true")
    (there.home / "bob.sh").unlink()
    begun(there)
    there.task("bob")
    there.soon(lambda: there.history("bob", "ended"), "it has ended")
    [end] = there.history("bob", "ended")
    assert (end["status"], end["outcome"]) == (127, "retry")
    assert end["why"].startswith("it could not be started: ")
    assert "No such file" in end["why"]


def test_its_time_limit_holds(there):
    there.worker("bob", "say begins; exec sleep 600", time_limit_seconds=0.5)
    begun(there)
    there.task("bob")
    there.soon(lambda: there.history("bob", "ended"), "it has ended")
    [end] = there.history("bob", "ended")
    assert (end["status"], end["why"]) == (-15, "its time was over")


RUNAWAY = "setsid sh -c 'echo $$ > {home}/child; exec sleep 600' & say begins; exec sleep 600"


def told_by_the_child(there):
    """Its process id: a file is there before it is written."""
    path = there.home / "child"
    there.soon(lambda: path.exists() and path.read_text().endswith("\n"), "the child has told")
    return path.read_text().strip()


def gone(there, pid):
    return there.status_of(pid).get("State", "Z")[0] == "Z"


def test_a_worker_dies_with_its_listener_whatever_it_has_started(there):
    there.drop_in("agent-mail-listener@.service", "Restart=no", name="restart")
    there.worker("bob", RUNAWAY.format(home=there.home))
    unit = begun(there)
    task = there.task("bob")["message_id"]
    there.said("begins")
    child = told_by_the_child(there)
    there.kill(there.one(unit, "MainPID"), "KILL")
    there.soon(lambda: there.workers() == [], "the worker's unit is gone")
    there.soon(lambda: gone(there, child), "and its child, though it had left the worker's session")
    assert there.place_of("bob", task) == "claimed", "free again when its lease ends"


def test_what_a_worker_leaves_running_ends_with_it(there):
    there.worker("bob", f"setsid sh -c 'echo $$ > {there.home}/child; exec sleep 600' & "
                 f"while [ ! -s {there.home}/child ]; do sleep 0.02; done; {ANSWER}")  # fmt: skip
    begun(there)
    task = there.task("bob")["message_id"]
    there.soon(lambda: there.place_of("bob", task) == "acked" and there.history("bob", "ended"), "it is done")
    there.soon(lambda: gone(there, told_by_the_child(there)), "what it left is gone")


def test_without_systemds_client_a_worker_does_not_run_on(there):
    there.worker("bob", "say begins; exec sleep 600")
    unit = begun(there)
    task = there.task("bob")["message_id"]
    there.said("begins")
    group = there.one(unit, "ControlGroup")
    pids = there("cat", f"/sys/fs/cgroup{group}/cgroup.procs").out.split()
    [client] = [pid for pid in pids if pid != there.one(unit, "MainPID")]
    there.kill(client, "KILL")
    there.soon(lambda: there.history("bob", "ended"), "the attempt is over")
    there.soon(lambda: there.workers() == [], "its unit is gone")
    [end] = there.history("bob", "ended")
    assert (end["id"], end["status"], end["outcome"]) == (task, -9, "retry")


def test_a_worker_whose_unit_is_stopped_by_hand_has_failed(there):
    there.worker("bob", "say begins; exec sleep 600")
    begun(there)
    there.task("bob")
    there.said("begins")
    there.systemctl("stop", *there.workers())
    there.soon(lambda: there.history("bob", "ended"), "the attempt is over")
    [end] = there.history("bob", "ended")
    assert (end["status"], end["outcome"]) == (-15, "retry")


def test_one_unit_serves_all_agents(there):
    there.worker("bob", f"say bob; {ANSWER}")
    there.worker("shop:carol", f"say carol; {ANSWER}")
    there.systemctl("start", "agent-mail-listener.service")
    tasks = {agent: there.task(agent)["message_id"] for agent in ("bob", "shop:carol")}
    there.soon(lambda: {there.place_of(*pair) for pair in tasks.items()} == {"acked"}, "both are done")
    assert sorted(there.diary()) == ["bob", "carol"]


# ------------------------------------------------------------------------------------------------ enable


def test_enabling_starts_the_unit_whatever_the_agent_is_called(there):
    for agent in ("bob", "shop:worker-docs.v2_x"):
        told = there.mail("listener", "enable", agent)
        assert told["state"] == "running"
        assert str(told["pid"]) == there.one(UNIT.format(agent), "MainPID")
        assert there.mail("listener", "enable", agent) == told, "it runs already"


def test_disabled_the_unit_ends_and_starting_it_is_no_failure(there):
    there.mail("listener", "enable", "bob")
    there.mail("listener", "disable", "bob")
    unit = UNIT.format("bob")
    there.soon(lambda: there.one(unit, "ActiveState") == "inactive", "it has ended")
    there.systemctl("start", unit)
    there.soon(lambda: there.one(unit, "SubState") == "dead", "it has ended again")
    assert there.show(unit, "Result", "NRestarts") == ["success", "0"]
    assert there.mail("listener", "enable", "bob")["state"] == "running"


def test_enabling_at_another_spool_starts_a_process_of_its_own(there):
    other = str(there.place / "other")
    told = there.mail("listener", "enable", "bob", "--spool", other)
    assert told["running"]
    assert there.one(UNIT.format("bob"), "ActiveState") == "inactive"


def test_a_spool_that_the_unit_was_given_counts(there):
    other = str(there.place / "another spool")
    there.drop_in(UNIT.format("bob"), f'Environment="AGENT_MAIL_SPOOL={other}"')
    told = there.mail("listener", "enable", "bob", "--spool", other)
    assert str(told["pid"]) == there.one(UNIT.format("bob"), "MainPID")


def test_without_the_unit_enabling_starts_a_process(bare_manager):
    told = bare_manager.mail("listener", "enable", "bob")
    assert told["running"]
    assert bare_manager.one(UNIT.format("bob"), "LoadState") == "not-found"


def test_a_unit_that_cannot_be_started_is_said(there):
    there.drop_in(UNIT.format("bob"), "ExecStart=", "ExecStart=/bin/false", "Restart=no")
    refused = there("agent-mail", "listener", "enable", "bob")
    assert refused.status == 1
    assert refused.refusal["code"] == "unit_failed"
    assert "journalctl --user" in refused.refusal["hint"]


def test_the_second_listener_of_an_agent_is_not_tried_again_and_again(there):
    there.mail("listener", "enable", "bob", "--spool", str(there.spool))
    there.systemctl("stop", UNIT.format("bob"))
    there("sh", "-c", "agent-mail listener run bob > /dev/null 2>&1 & exit 0")
    there.soon(lambda: there.mail("listener", "status", "bob")["running"], "one runs that is no unit")
    assert there("systemctl", "--user", "start", UNIT.format("bob")).status != 0
    assert there.show(UNIT.format("bob"), "ActiveState", "ExecMainStatus", "NRestarts") == ["failed", "75", "0"]


def test_where_no_unit_can_be_started_a_listener_that_wants_some_says_so(there):
    refused = there("env", "XDG_RUNTIME_DIR=/nowhere", "AGENT_MAIL_WORKER_UNITS=user",
                    "DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere", "agent-mail", "listener", "run", "bob")  # fmt: skip
    assert refused.status == 1
    assert refused.refusal["code"] == "unit_failed"
    wrong = there("env", "AGENT_MAIL_WORKER_UNITS=yes", "agent-mail", "listener", "run", "bob")
    assert (wrong.status, wrong.refusal["code"]) == (64, "usage")
