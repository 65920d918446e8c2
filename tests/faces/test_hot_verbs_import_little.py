"""What an agent runs all day loads next to nothing: starting is most of what such a command costs."""

import json
import subprocess
import sys

import pytest

from faces.program import Program
from maildir_agents import Spool

FORBIDDEN = {
    "orjson", "portalocker", "watchdog", "argparse", "re", "typing", "dataclasses", "pathlib", "importlib.metadata",
    "json", "enum", "functools", "contextlib", "datetime", "ctypes", "hashlib", "subprocess", "asyncio", "inspect",
}  # fmt: skip
MOST_OF_OURS = 18

# Carries out one command and then says on descriptor 3 which modules it loaded, and its exit status.
DRIVER = """
import os, sys
from maildir_agents.faces.cli import carry_out
fd = int(sys.argv[1])
status = carry_out(sys.argv[2:])
os.write(fd, ("\\n".join([str(status), *sys.modules])).encode())
os._exit(0)
"""
BARE = "import os, sys; os.write(int(sys.argv[1]), '\\n'.join(['0', *sys.modules]).encode())"


def loaded(script: str, mail: Program, *words: str) -> set[str]:
    """The modules that an interpreter holds after `script`."""
    command = [sys.executable, "-I", "-c", script]
    with open(mail.place / "modules", "wb+") as told:
        done = subprocess.run([*command, str(told.fileno()), *words], env=mail.environ, capture_output=True,
                              pass_fds=[told.fileno()], check=True)  # fmt: skip
        told.seek(0)
        status, *names = told.read().decode().split("\n")
    assert status == "0", done.stderr
    return set(names)


@pytest.fixture
def bare(mail) -> set[str]:
    """What this interpreter and its environment load by themselves."""
    return loaded(BARE, mail)


def ours(names: set[str]) -> list[str]:
    return sorted(name for name in names if name.partition(".")[0] == "maildir_agents")


def forbidden(names: set[str], bare: set[str]) -> set[str]:
    return {name for name in names - bare if name in FORBIDDEN or name.partition(".")[0] in FORBIDDEN}


SEND = ["send", "--from", "alice", "--to", "bob", "--subject", "s", "--body", "b"]
HOT = {
    "send": SEND,
    "send with refs and a deadline": [*SEND, "--ref", "x", "--response-timeout", "60"],
    "send a file": [*SEND[:-2], "--body-file", "/dev/null"],
    "read": ["read", "bob"],
    "read and acknowledge": ["read", "bob", "--ack"],
    "read everything": ["read", "bob", "--all"],
    "look only": ["read", "bob", "--no-mark-read", "--fields", "id,subject"],
    "acknowledge": ["ack", "bob", "--all"],
    "claim": ["claim", "bob"],
    "status": ["status"],
    "status of one": ["status", "--agent", "bob"],
    "one look of a watch": ["watch", "bob", "--once"],
}


@pytest.mark.parametrize("words", HOT.values(), ids=HOT)
def test_on_a_warm_spool_nothing_expensive_is_loaded(quick, bare, words):
    spool = Spool(quick.spool)
    with spool.read(spool.send(sender="bob", recipient="alice", subject="both have mailboxes")["recipient"]):
        pass
    first = spool.send(sender="alice", recipient="bob", subject="a root")["id"]
    spool.send(sender="alice", recipient="bob", subject="a reply", reply_to=first)
    assert forbidden(loaded(DRIVER, quick, *words), bare) == set()


@pytest.mark.parametrize("words", HOT.values(), ids=HOT)
def test_on_a_fresh_spool_neither(mail, bare, words):
    if words[0] == "claim":
        return  # there is nothing to claim
    assert forbidden(loaded(DRIVER, mail, *words), bare) == set()


@pytest.mark.parametrize("read", [False, True])
def test_a_reply_loads_as_little(quick, bare, read):
    spool = Spool(quick.spool)
    sent = spool.send(sender="alice", recipient="bob", subject="s")["id"]
    if read:
        with spool.read("bob"):
            pass
    words = ["send", "--from", "bob", "--to", "alice", "--subject", "s", "--reply-to", sent]
    assert forbidden(loaded(DRIVER, quick, *words), bare) == set()
    assert spool.status("bob")[0]["unacked"] == 0


def test_acknowledging_by_id_loads_as_little(quick, bare):
    sent = Spool(quick.spool).send(sender="alice", recipient="bob", subject="s")["id"]
    assert forbidden(loaded(DRIVER, quick, "ack", "bob", sent), bare) == set()


def test_a_refusal_loads_as_little(quick, bare):
    script = DRIVER.replace("str(status)", "'0' if status == 64 else str(status)")
    assert forbidden(loaded(script, quick, "send", "--from", "A", "--to", "bob", "--subject", "s"), bare) == set()


def test_send_loads_few_modules_of_ours(quick):
    Spool(quick.spool).send(sender="alice", recipient="bob", subject="warm")
    names = ours(loaded(DRIVER, quick, *SEND))
    assert len(names) <= MOST_OF_OURS, f"{len(names)}: {', '.join(names)}"


def test_no_verb_loads_the_row_of_another(quick):
    for words in (["status"], ["read", "bob"], ["ack", "bob", "--all"]):
        rows = [name for name in ours(loaded(DRIVER, quick, *words)) if ".faces." in name]
        assert rows == [f"maildir_agents.faces.cli{name}" for name in sorted(["", f".{words[0]}", ".words"])]


def test_the_installed_script_loads_no_more_than_its_own_two_modules(quick, bare):
    """The script that an installer writes may itself import `re`; what counts is what the command adds to that."""
    Spool(quick.spool).send(sender="alice", recipient="bob", subject="warm")
    script = [sys.executable, "-I", "-X", "importtime", quick.command, *SEND]
    done = subprocess.run(script, env=quick.environ, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["duplicate"] is False
    lines = [line.rpartition("|")[2] for line in done.stderr.splitlines() if line.startswith("import time:")]
    names = [line.strip() for line in lines]
    begun = names.index("maildir_agents")  # before it: what the interpreter and the script itself import
    assert forbidden(set(names[begun:]), bare) == set()


@pytest.mark.parametrize("name", ["json", "re", "watchdog", "portalocker"])
def test_a_module_that_is_loaded_would_be_noticed(quick, bare, name):
    script = DRIVER.replace("import os, sys", f"import os, sys, {name}")
    assert name in forbidden(loaded(script, quick, *SEND), bare)


def test_the_doorbell_would_be_noticed(quick, bare):
    """A watch that has to wait imports watchdog; only then."""
    Spool(quick.spool).watch("bob", once=True)
    names = loaded(DRIVER, quick, "watch", "bob", "--timeout-minutes", "0.001")
    assert "watchdog" in forbidden(names, bare)
