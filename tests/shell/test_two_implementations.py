"""Shell and Python workers fight over one mailbox, with leases that run out and workers that are killed.

Nobody tells the other anything but by the spool.  A worker writes down what it settled only after it was told so; at
the end each message was settled by one claim, whoever made it, and doctor has nothing to say.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from maildir_agents import Spool
from maildir_agents.mail.name import parse

MESSAGES = 2000
SEED = int(os.environ["TEST_SEED"])
LIMIT = 600  # seconds

# A line of the record is 64 bytes long, so that none lies on two pages: between two pages a kill may end a write.

# Claims, sometimes renews or gives back, acknowledges by the claim's path.  Some claims are cut short behind the
# worker's back: the name gets a lease of no time, as if thirty seconds were over.
SHELL = r"""
box=$AGENT_MAIL_SPOOL/agents/bob
n=0
while claim=$("$TOOLS/spool-claim" --lease 30 bob); do
    [ "$claim" ] || { [ "$("$TOOLS/spool-ls" bob owed | head -n 1)" ] || exit 0; sleep 0.2; continue; }
    n=$((n + 1)) name=${claim##*/} id=${claim##*/}
    id=${id%%~*} token=${name#*~n}
    token=${token%%~*}
    case $((n % 5)) in
    1) "$TOOLS/spool-renew" --lease 40 "$claim" >/dev/null ;;
    2) "$TOOLS/spool-release" "$claim" >/dev/null ;;
    3) short=$(echo "$claim" | sed 's/~b[^~]*//; s/~x[0-9]*T/~x20200101T/'); mv "$claim" "$short" 2>/dev/null ;;
    esac
    if settled=$("$TOOLS/spool-ack" --as bob "$id~n$token" 2>/dev/null) && [ "$settled" ]; then
        printf '%-63s\n' "$id $token" >>"$RECORD"
    fi
done
"""

PYTHON = r"""
import os, sys, time
from maildir_agents import Spool
from maildir_agents.errors import MailError
spool = Spool(os.environ["AGENT_MAIL_SPOOL"])
record = os.open(os.environ["RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
n = 0
while True:
    claim = spool.claim("bob", lease_s=30)
    if claim["handle"] is None:
        if not [row for row in spool.status("bob") if row["unacked"]]:
            break
        time.sleep(0.2)
        continue
    n += 1
    handle = claim["handle"]
    try:
        if n % 4 == 1:
            spool.renew("bob", handle, lease_s=40)
        if n % 4 == 2:
            spool.release("bob", handle)
        time.sleep(0.02)
        if spool.ack("bob", [handle])["count"]:
            os.write(record, handle.replace("~n", " ").ljust(63).encode() + b"\n")
    except MailError as error:
        if error.code not in ("lease_lost", "in_transit"):
            raise
"""


def worker(kind: str, spool: Path, record: Path, tools: Path, noise: Path) -> "subprocess.Popen[bytes]":
    words = {"python": [sys.executable, "-I", "-c", PYTHON], "dash": ["dash", "-c", SHELL],
             "busybox": ["busybox", "sh", "-c", SHELL]}[kind]  # fmt: skip
    with noise.open("ab") as said:
        return subprocess.Popen(
            words,
            env={**os.environ, "AGENT_MAIL_SPOOL": str(spool), "RECORD": str(record), "TOOLS": str(tools)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a worker and whatever program it runs just now."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def cut_short(box: Path, chance: random.Random) -> None:
    """The time of a claim is over: what thirty seconds would do."""
    claims = sorted((box / "claimed").iterdir())
    if claims:
        path = chance.choice(claims)
        name = parse(path.name)
        if name:
            over = name.becoming({"x": "20200101T000000.000Z"}, without="b")
            try:
                path.rename(path.with_name(over.text))
            except FileNotFoundError:
                pass  # it was settled meanwhile


@pytest.mark.needs("dash", "shell workers")
@pytest.mark.timeout(LIMIT + 60)
def test_shell_and_python_workers_settle_each_message_once(tmp_path, repository, say):
    spool, record, noise = tmp_path / "spool", tmp_path / "record", tmp_path / "noise"
    mail, chance = Spool(spool, durability="none"), random.Random(SEED)
    mail.init()
    ids = mail.send_many(
        [{"recipient": "bob", "subject": str(n), "body": "work\n"} for n in range(MESSAGES)], sender="hub"
    )["ids"]
    record.touch()
    kinds = ["dash", "python", "busybox" if shutil.which("busybox") else "dash", "python"]
    begun, start = Counter(kinds), time.monotonic()
    running = [(kind, worker(kind, spool, record, repository / "tools", noise)) for kind in kinds]
    try:
        while (done := record.read_bytes().count(b"\n")) < MESSAGES and mail_is_owed(mail):
            assert time.monotonic() - start < LIMIT, f"{done} of {MESSAGES} after {LIMIT} s"
            time.sleep(chance.uniform(0.05, 0.3))
            cut_short(spool / "agents/bob", chance)
            if chance.random() < 0.5:
                kind, process = running.pop(chance.randrange(len(running)))
                end(process)
                begun[kind] += 1
                running.append((kind, worker(kind, spool, record, repository / "tools", noise)))
    finally:
        for _, process in running:
            end(process)
    took = time.monotonic() - start
    judge(mail, spool, ids, record, noise)
    told = Counter(record.read_text().splitlines())
    say(f"two implementations: {MESSAGES} messages, {took:.0f} s, lives {dict(begun)}, {len(told)} reports")


def mail_is_owed(mail: Spool) -> bool:
    return any(row["unacked"] for row in mail.status("bob"))


def judge(mail: Spool, spool: Path, ids: list[str], record: Path, noise: Path) -> None:
    """One name in acked/ for each message and nothing else; nobody was told of a settling that was another's."""
    settled = [parse(path.name) for path in (spool / "agents/bob/acked").rglob("*.json")]
    assert sorted(name.id for name in settled if name) == sorted(ids)
    tokens = {name.id: name.token for name in settled if name}
    told = [line.split() for line in record.read_text().splitlines()]
    assert max(Counter(message for message, _ in told).values()) == 1, "settled twice"
    assert {message: int(token) for message, token in told}.items() <= tokens.items()
    for state in ("new", "cur", "claimed", "failed", "tmp"):
        assert list((spool / f"agents/bob/{state}").iterdir()) == []
    assert mail.doctor()["findings"] == []
    for line in noise.read_text(errors="replace").splitlines():
        assert line.startswith(("spool-renew: lease_lost", "spool-release: lease_lost")), line


def test_a_message_settled_twice_would_be_seen(tmp_path):
    mail = Spool(tmp_path / "spool", durability="none")
    sent = mail.send(sender="hub", recipient="bob", subject="s")["id"]
    handle = mail.claim("bob")["handle"]
    mail.ack("bob", [handle])
    record, noise = tmp_path / "record", tmp_path / "noise"
    noise.touch()
    record.write_text(f"{sent} 1\n")
    judge(mail, tmp_path / "spool", [sent], record, noise)
    record.write_text(f"{sent} 1\n{sent} 2\n")
    with pytest.raises(AssertionError, match="settled twice"):
        judge(mail, tmp_path / "spool", [sent], record, noise)
