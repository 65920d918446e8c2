"""agent-mail demo: two agents exchange a piece of work on a spool of their own, and one sees the files move.

Every command shown is really run, each as its own process, and its answer is checked before the next step: nothing is
said that did not happen.  No process outlives the demo, and its spool goes with it.  Plain ASCII text, for people.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from maildir_agents.errors import FAILED
from maildir_agents.faces.cli import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "two agents exchange work on a temporary spool, step by step",
    "about": "For people. It runs the commands it shows, checks each answer, and exits 1 when one is not as it says.",
    "own": True,
    "args": {"--keep": {"help": "leave the spool behind and say where it is"}},
    "output": {"text": "what is run, what it answers, and where the files are after each step"},
    "examples": ("agent-mail demo", "agent-mail demo --keep"),
}

ASKS, WORKS = "hub", "worker-docs"
STATES = ("new", "cur", "acked")
PATIENCE = 15.0  # seconds for any one step; each takes a fraction of one
PAUSE = 0.02  # seconds between two looks
SHOWN = 13  # characters of an id: the time in it, which tells a demo's messages apart
WIDTH = 80
_told: list[int] = []  # signals that say to stop


class NotShown(Exception):
    """A step that did not happen as it should: one sentence."""


def run(call: "Call") -> int:
    _on_signals(_stop)
    stage = Stage(tempfile.mkdtemp(prefix="agent-mail-demo-"))
    try:
        play(stage)
    except NotShown as trouble:
        left = f" The spool was left at {stage.spool}" if call["keep"] else ""
        write(2, f"\nThe demo stopped: {trouble}{left}\n".encode("utf-8", "backslashreplace"))
        return FAILED
    finally:
        _on_signals(signal.SIG_IGN)
        stage.close()
        if not call["keep"]:
            shutil.rmtree(stage.place, ignore_errors=True)
    _told.clear()
    say(f"The spool was left at {stage.spool}" if call["keep"] else "The temporary spool is gone again.")
    return 0


def _on_signals(act: "Any") -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, act)


def _stop(number: int, _: object) -> None:
    # Only noted: raised here it could come between a process and the list of those that have to be ended.
    _told.append(number)


def check(held: object, sentence: str) -> None:
    if not held:
        raise NotShown(sentence)


class Stage:
    """Where it plays: a directory with the spool, the program, and the watches that wait meanwhile."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.spool = f"{place}/spool"
        self.waiting: list[subprocess.Popen[bytes]] = []
        # -P: the package that runs this, not one that lies in the current directory.
        self.program = [sys.executable, "-P", "-m", "maildir_agents"]
        package = os.path.dirname(os.path.dirname(sys.modules["maildir_agents"].__file__ or ""))
        self.environment = {k: v for k, v in os.environ.items() if k[:11] != "AGENT_MAIL_" and k != "AGENT_ID"}
        self.environment["AGENT_MAIL_SPOOL"] = self.spool
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start a command.  Its output is a pipe: a watch ends by itself when nobody holds the other end any more."""
        pipe = subprocess.PIPE
        command = [*self.program, *words]
        return subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)

    def answer(self, process: "subprocess.Popen[bytes]", verb: str) -> "Any":
        """What a command prints, once it has ended with status 0."""
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise NotShown(f"agent-mail {verb} did not end within {PATIENCE:.0f} seconds.") from None
        finally:
            process.kill()  # nothing, where it has ended
            process.communicate()
        told = err.decode("utf-8", "replace").strip()
        check(process.returncode == 0, f"agent-mail {verb} ended with status {process.returncode}: {told}")
        try:
            return json.loads(out)
        except ValueError:
            raise NotShown(f"agent-mail {verb} did not answer in JSON.") from None

    def command(self, *words: str) -> "Any":
        """Show a command, run it, give its answer."""
        say("", *shown_command(words))
        return self.answer(self.start(*words), words[0])

    def arm(self, agent: str) -> "subprocess.Popen[bytes]":
        """Start a watch in the background, and wait until the mailbox says that it is armed."""
        say("", f"    $ agent-mail watch {agent} &")
        watch = self.start("watch", agent, "--timeout-minutes", "5")
        self.waiting.append(watch)
        asked = ("status", "--agent", agent, "--fields", "agent,watch_state")
        deadline = time.monotonic() + PATIENCE
        while (rows := self.answer(self.start(*asked), "status")) != [{"agent": agent, "watch_state": "armed"}]:
            check(watch.poll() is None, "the watch ended before there was mail.")
            check(time.monotonic() < deadline, "the watch was not armed in time.")
            time.sleep(PAUSE)
        say(*shown_command(asked), *(f"    {json.dumps(row)}" for row in rows))
        return watch

    def tree(self, **expected: str) -> None:
        """Show both mailboxes; `expected` tells where each message must be (`hub__new=id`), and there is no other."""
        say("")
        found = {}
        for agent in (ASKS, WORKS):
            for state in STATES:
                paths = self._files(f"agents/{agent}/{state}")
                say(*shown_place(f"{agent}/{state}", paths))
                found.update({(agent, state, os.path.basename(path)[:36]): path for path in paths})
        wanted = {(*place.replace("_", "-").split("--"), message) for place, message in expected.items()}
        check(found.keys() == wanted, "the files are not where they should be.")

    def _files(self, directory: str) -> list[str]:
        top = f"{self.spool}/{directory}"
        return sorted(os.path.relpath(f"{d}/{name}", top) for d, _, names in os.walk(top) for name in names)

    def close(self) -> None:
        """End what still waits."""
        for process in self.waiting:
            for pipe in filter(None, (process.stdout, process.stderr)):
                pipe.close()
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# what is printed


def say(*lines: str) -> None:
    """Print lines as they are, now; or stop, where somebody asked for that meanwhile."""
    if _told:
        raise NotShown(f"it was told to, by {signal.Signals(_told[0]).name}.")
    write(1, ("\n".join(lines) + "\n").encode("ascii", "backslashreplace"))


def title(number: int, text: str, *more: str) -> None:
    say("", f"{number}. {text}", *(f"   {line}" for line in more))


def show(answer: "Any", *keys: str) -> None:
    """Print an answer as it came; of an object only `keys`, where some are named, and three dots for the rest."""
    missing = [key for key in keys if key not in answer]
    check(not missing, f"the answer says nothing about {', '.join(missing)}.")
    lines = json.dumps({key: answer[key] for key in keys} if keys else answer, indent=2).splitlines()
    if keys and len(keys) < len(answer):
        lines[-2] += ","
        lines.insert(-1, "  ...")
    say(*("    " + line for line in lines))


def shown_command(words: "tuple[str, ...]") -> list[str]:
    """A command as a person would type it, continued before an option that would pass the edge."""
    lines = ["    $ agent-mail " + words[0]]
    rest = [shlex.quote(word) for word in words[1:]]
    while rest:
        part = rest.pop(0)
        if part[:2] == "--":
            part += " " + rest.pop(0)
        if len(lines[-1]) + len(part) > WIDTH - 3:
            lines[-1] += " \\"
            lines.append("         ")
        lines[-1] += " " + part
    return lines


def shown_place(place: str, paths: list[str]) -> list[str]:
    """A directory and the files in it, their ids cut short; a day's and minute's directory on a line of its own."""
    lines = [f"    {place + '/':<20}{'' if paths else '-'}".rstrip()]
    for path in paths:
        directory, _, name = path.rpartition("/")
        lines += [f"      {directory}/"] if directory else []
        lines += [f"        {name[:SHOWN]}[..]{name[36:]}"]
    return lines


# the play


def play(stage: Stage) -> None:
    """All steps in order; NotShown says which one did not happen."""
    began = time.monotonic()
    say(
        f"Two agents, {ASKS} and {WORKS}, exchange a piece of work. Their mail is files in",
        f"    {stage.spool}/agents",
        "and after each step you see where those files are. File names are shortened.",
    )
    watch = first_watch(stage)
    task = send_task(stage)
    wake(stage, watch, task)
    read_task(stage, task)
    answer = reply(stage, task)
    title(6, f"{WORKS} waits again.", "That closes the loop: watch, read, answer, watch.")
    stage.arm(WORKS)
    read_answer(stage, task, answer)
    whole_thread(stage, task, answer)
    nothing_owed(stage)
    say("", f"Done in {time.monotonic() - began:.1f} seconds, every answer checked.")


def first_watch(stage: Stage) -> "subprocess.Popen[bytes]":
    title(1, f"{WORKS} waits for mail.", "No server runs: the watch sleeps in the kernel until a file arrives.")
    watch = stage.arm(WORKS)
    locks = stage._files(f"agents/{WORKS}/watch")
    say("", f"    {WORKS}/watch/", *(f"        {name}" for name in locks))
    check(len(locks) == 1, f"one watch has one lock, here are {len(locks)}.")
    return watch


def send_task(stage: Stage) -> str:
    title(2, f"{ASKS} sends a task.", "It has its receipt when the message is on the disk. In new/ it is unread.")
    text = "Three questions are enough. The draft is in refs."
    words = ("--subject", "Write the FAQ", "--body", text, "--ref", "docs/faq.md")
    receipt = stage.command("send", "--from", ASKS, "--to", WORKS, *words)
    show(receipt, "id", "sender", "recipient", "created", "duplicate")
    check(receipt["delivery"]["known"], "the receipt does not know the agent that is watching.")
    stage.tree(worker_docs__new=receipt["id"])
    return str(receipt["id"])


def wake(stage: Stage, watch: "subprocess.Popen[bytes]", task: str) -> None:
    title(3, "The watch of step 1 wakes and ends.", "It printed this; of the envelopes only a part is shown here.")
    woken = stage.answer(watch, "watch")
    stage.waiting.remove(watch)
    say("")
    show({**woken, "messages": [{k: m[k] for k in ("id", "sender", "subject", "refs")} for m in woken["messages"]]})
    check([m["id"] for m in woken["messages"]] == [task], "the watch did not show the task.")
    check(woken["next"][:1] == [f"agent-mail read {WORKS}"], "the watch did not say that there is mail to read.")


def read_task(stage: Stage, task: str) -> None:
    title(4, f"{WORKS} reads it.", "The text was printed in full, so the file is renamed: new/ to cur/.")
    batch = stage.command("read", WORKS, "--fields", "id,sender,subject,body")
    show(batch)
    check([m["id"] for m in batch["messages"]] == [task], "read did not show the task.")
    check(batch["messages"][0]["body"].startswith("Three questions"), "read did not show what was sent.")
    stage.tree(worker_docs__cur=task)


def reply(stage: Stage, task: str) -> str:
    title(
        5,
        f"{WORKS} does the work and answers.",
        "A reply acknowledges what it answers: cur/ to acked/. Nobody listens for",
        f"{WORKS} now, so its receipt says what to do next.",
    )
    words = ("--subject", "FAQ written", "--body", "Three questions, with answers.", "--reply-to", task)
    receipt = stage.command("send", "--from", WORKS, "--to", ASKS, *words)
    show(receipt, "id", "acknowledged", "reachable", "next")
    check(receipt["acknowledged"] == task, "the reply did not acknowledge the task.")
    check(receipt["next"] == [f"agent-mail watch {WORKS}"], "the receipt did not say to watch again.")
    stage.tree(worker_docs__acked=task, hub__new=receipt["id"])
    return str(receipt["id"])


def read_answer(stage: Stage, task: str, answer: str) -> None:
    title(7, f"{ASKS} reads the answer, then acknowledges it.", "cur/ holds what is owed, acked/ what is settled.")
    batch = stage.command("read", ASKS, "--fields", "id,sender,subject,body,reply_to")
    show(batch, "messages", "count")
    check([(m["id"], m["reply_to"]) for m in batch["messages"]] == [(answer, task)], "read did not show the answer.")
    stage.tree(worker_docs__acked=task, hub__cur=answer)
    settled = stage.command("ack", ASKS, answer)
    show(settled, "count", "message_ids")
    check(settled["message_ids"] == [answer], "ack did not settle the answer.")
    stage.tree(worker_docs__acked=task, hub__acked=answer)


def whole_thread(stage: Stage, task: str, answer: str) -> None:
    title(8, "The thread, found by the id of any of its messages.", "A line for each is shown here.")
    thread = stage.command("thread", answer)
    say(*(f"    {m['id']}  {m['sender']} to {m['recipient']}: {m['subject']}" for m in thread["messages"]))
    check(thread["thread_id"] == task, "the thread does not begin with the task.")
    check([m["id"] for m in thread["messages"]] == [task, answer], "the thread is not the task and its answer.")


def nothing_owed(stage: Stage) -> None:
    title(9, f"Nobody owes anything, and {WORKS} can be reached.")
    rows = stage.command("status", "--fields", "agent,unread,unacked,failed,watch_state")
    say(*(f"    {json.dumps(row)}" for row in rows))
    states = [(row["agent"], row["unacked"], row["failed"], row["watch_state"]) for row in rows]
    check(states == [(ASKS, 0, 0, "never"), (WORKS, 0, 0, "armed")], "the mailboxes are not as they should be.")
