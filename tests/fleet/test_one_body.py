"""A broadcast to a thousand mailboxes is one file on the disk, under a thousand names."""

import os
import time

from fleet.fleet import memory, read
from maildir_agents import Spool

COUNT = 1000
DIRECTORIES = ("tmp", "new", "cur", "claimed", "acked", "archive", "failed")


def thousand(place) -> Spool:
    """A thousand mailboxes, made as the format says and not one after the other by a first call."""
    spool = Spool(place / "spool", durability="none")
    spool.init()
    for number in range(COUNT):
        for directory in DIRECTORIES:
            os.makedirs(f"{spool.agents}/r{number:03}/{directory}", 0o700)
        os.chmod(f"{spool.agents}/r{number:03}", 0o700)
    return spool


def plain_links(place) -> float:
    """Seconds that as many links and renames take that do nothing else."""
    os.mkdir(place / "todo")
    for number in range(COUNT):
        os.mkdir(place / f"box{number}")
    (place / "body").write_bytes(b"x" * 400)
    began = time.perf_counter()
    for number in range(COUNT):
        os.link(place / "body", place / "todo" / str(number))
    for number in range(COUNT):
        os.rename(place / "todo" / str(number), place / f"box{number}" / "m")
    return time.perf_counter() - began


def test_a_thousand_mailboxes_hold_one_file():
    with memory() as place:
        spool = thousand(place)
        spool.send(sender="hub", recipient="*", subject="warm", body="b")
        floor = plain_links(place)
        began = time.perf_counter()
        message_id = spool.send(sender="hub", recipient="*", subject="to all", body="b" * 200, dedup_key="k")["id"]
        took = time.perf_counter() - began
        print(
            f"broadcast to {COUNT}: {1000 * took:.1f} ms, plain links and renames {1000 * floor:.1f} ms, "
            f"ratio {took / floor:.2f}"
        )

        copies = [os.stat(f"{spool.agents}/r{number:03}/new/{message_id}.json") for number in range(COUNT)]
        body = os.stat(f"{spool.root}/broadcast/{message_id}.json")
        assert {(found.st_dev, found.st_ino) for found in copies} == {(body.st_dev, body.st_ino)}
        assert os.stat(spool.anchor(message_id)).st_ino == body.st_ino
        assert body.st_nlink == COUNT + 3, "a name in each mailbox, the body, the anchor and the key"
        assert not any(name.endswith(".todo") for name in os.listdir(f"{spool.root}/broadcast"))
        with open(f"{spool.agents}/hub/history.jsonl", encoding="utf-8") as file:
            assert sum(message_id in line for line in file) == 1, "one line for all of it"
        assert took < 100 * floor, "that is no longer a matter of the machine"

        [_, shown] = read(spool, "r500")
        assert (shown["id"], shown["recipient"]) == (message_id, "*")
        assert os.stat(spool.anchor(message_id)).st_nlink == COUNT + 3, "reading makes no copy"
        read(spool, "late")
        assert os.stat(spool.anchor(message_id)).st_nlink == COUNT + 4, "nor does a mailbox made later"
