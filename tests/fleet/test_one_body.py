"""A broadcast to a thousand mailboxes is one file on the disk, under a thousand names."""

import os

from fleet.fleet import memory, read
from maildir_agents import Spool
from maildir_agents.testing import FailingDisk

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


def test_a_thousand_mailboxes_hold_one_file():
    with memory() as place:
        spool = thousand(place)
        spool.send(sender="hub", recipient="*", subject="warm", body="b")
        disk = FailingDisk(durable=False)
        counted = Spool(spool.root, disk=disk)
        message_id = counted.send(sender="hub", recipient="*", subject="to all", body="b" * 200, dedup_key="k")["id"]

        copies = [os.stat(f"{spool.agents}/r{number:03}/new/{message_id}.json") for number in range(COUNT)]
        body = os.stat(f"{spool.root}/broadcast/{message_id}.json")
        assert {(found.st_dev, found.st_ino) for found in copies} == {(body.st_dev, body.st_ino)}
        assert os.stat(spool.anchor(message_id)).st_ino == body.st_ino
        assert body.st_nlink == COUNT + 3, "a name in each mailbox, the body, the anchor and the key"
        assert not any(name.endswith(".todo") for name in os.listdir(f"{spool.root}/broadcast"))
        with open(f"{spool.agents}/hub/history.jsonl", encoding="utf-8") as file:
            assert sum(message_id in line for line in file) == 1, "one line for all of it"
        assert len(disk.calls) < 2.1 * COUNT, "a link and a rename for each mailbox, and a few for all of it"

        [_, shown] = read(spool, "r500")
        assert (shown["id"], shown["recipient"]) == (message_id, "*")
        assert os.stat(spool.anchor(message_id)).st_nlink == COUNT + 3, "reading makes no copy"
        read(spool, "late")
        assert os.stat(spool.anchor(message_id)).st_nlink == COUNT + 4, "nor does a mailbox made later"
