"""The situations that the sweeps go through, one class each.

A scenario says what its verb may have reported and what must then be there; `always` holds whatever happened.
"""

import json
import os
import time

from crash.sweep import BODY, SUBJECT, Scenario, take
from maildir_agents.errors import MailError
from maildir_agents.mail.deadletter import fail
from maildir_agents.mail.mailbox import Mailbox
from maildir_agents.mail.presence import Presence
from maildir_agents.testing import FailingDisk, Killed, TemporarySpool

UNREAD, WAITING = {"new"}, {"new", "cur"}
OLD = 120  # seconds: the age of what somebody left behind long ago


def sent(spool: TemporarySpool, subject: str = "earlier", sender: str = "a", recipient: str = "b", **more) -> str:
    return spool.send(sender=sender, recipient=recipient, subject=subject, body=BODY, **more)["id"]


def killed_at(spool: TemporarySpool, call: str, below: str, act, after: bool = False) -> None:
    """Run `act` and kill it before its first such call on a path below `below`, or `after` one that succeeded."""
    disk = FailingDisk()
    met = ""

    def look(number: int, name: str, path: str) -> None:
        nonlocal met
        if not met and name == call and f"/{below}/" in path:
            met = path
        if met and (not after or os.path.lexists(met)):
            disk.kill_at = number

    disk.before = look
    try:
        act(spool.another(disk))
    except Killed:
        return
    raise AssertionError(f"there was no {call} below {below}/")


def drop(spool: TemporarySpool, agent: str, message_id: str, data: bytes, place: str = "new", name: str = "") -> str:
    """What a script does: a file written aside and moved in.  It is old."""
    box = f"{spool.root}/agents/{agent}"
    path = f"{box}/{place}/{message_id}{name}.json"
    with open(os.open(f"{box}/tmp/x", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    os.utime(f"{box}/tmp/x", (time.time() - OLD, time.time() - OLD))
    os.rename(f"{box}/tmp/x", path)
    return path


def written(message_id: str, sender: str, recipient: str, subject: str, **more) -> bytes:
    """A message as a script writes one."""
    return json.dumps(
        {
            "id": message_id,
            "sender": sender,
            "recipient": recipient,
            "subject": subject,
            "created": "2026-11-30T18:47:12.123Z",
            "body": BODY,
            **more,
        }
    ).encode()


def age(path: str) -> None:
    os.utime(path, (time.time() - OLD, time.time() - OLD))


# ------------------------------------------------------------------------------------------------ send


class Send(Scenario):
    """A message to one agent; everything it needs is there."""

    recipients: tuple[str, ...] = ("b",)
    to = "b"
    key: str | None = None

    def prepare(self, spool):
        sent(spool)
        take(spool, "b")

    def act(self, spool):
        return sent_receipt(spool, self.to, self.key)

    def always(self, reported):
        reported.at_most_once.add(SUBJECT)
        reported.bodies[SUBJECT] = BODY

    def told(self, reported, answer):
        reported.once[SUBJECT] = set(self.recipients)
        reported.present.update({(agent, answer["id"]): WAITING for agent in self.recipients})

    def unsure(self, reported, error):
        self.told(reported, error.detail)  # which must name the message

    def refused(self, reported):
        reported.unsent.add(SUBJECT)


def sent_receipt(spool: TemporarySpool, to: str, key: str | None, **more) -> dict:
    return spool.send(sender="a", recipient=to, subject=SUBJECT, body=BODY, dedup_key=key, **more)


class SendToNobodyYet(Send):
    """No spool, no mailbox; `Init` and `SendToANewMailbox` go through every fault of the making."""

    few = "/"

    def prepare(self, spool):
        pass


class SendToANewMailbox(Send):
    """The sender is known, the recipient is not."""

    agents = ("a", "b", "c")
    to, recipients = "c", ("c",)

    def further(self, spool):
        take(spool, "c")


class SendWithKey(Send):
    key = "once"

    def again(self, spool, reported):
        reported.unsent.clear()  # what was refused is sent now
        self.told(reported, self.act(spool))


class SendWithKnownKey(SendWithKey):
    """It was sent long ago: the same message again, and nothing else."""

    def prepare(self, spool):
        super().prepare(spool)
        self.id = sent_receipt(spool, "b", self.key)["id"]

    def always(self, reported):
        super().always(reported)
        reported.once[SUBJECT] = {"b"}
        reported.present["b", self.id] = WAITING

    def refused(self, reported):
        pass  # it was sent before

    def told(self, reported, answer):
        assert answer["id"] == self.id and answer["duplicate"]

    def unsure(self, reported, error):
        assert error.detail["id"] == self.id


class SendWithKeyHalfSent(SendWithKnownKey):
    """Its first sender was killed right after the commit."""

    few = "/"

    def prepare(self, spool):
        Send.prepare(self, spool)
        killed_at(spool, "link", "dedup", lambda dying: sent_receipt(dying, "b", self.key), after=True)
        [self.id] = [name[:36] for name in os.listdir(f"{spool.root}/agents/b/tmp")]


class SendMany(Scenario):
    """A batch of more messages than are synced one by one, to two mailboxes."""

    few = "/agents/"

    agents = ("a", "b", "c")
    orders = tuple(("b" if number % 3 else "c", f"number {number}") for number in range(9))

    def prepare(self, spool):
        sent(spool)
        sent(spool, recipient="c")

    def act(self, spool):
        return spool.send_many(
            [{"recipient": to, "subject": subject, "body": BODY} for to, subject in self.orders], "a"
        )

    def always(self, reported):
        reported.at_most_once.update(subject for _, subject in self.orders)

    def told(self, reported, answer):
        for (agent, subject), message_id in zip(self.orders, answer["ids"], strict=True):
            reported.present[agent, message_id] = WAITING
            reported.once[subject] = {agent}

    def unsure(self, reported, error):
        # "The ids that were sent are in `ids`; send only the others again."
        ids = error.detail["ids"]
        for (agent, subject), message_id in zip(self.orders, ids, strict=False):
            reported.present[agent, message_id] = WAITING
            reported.once[subject] = {agent}
        reported.unsent.update(subject for _, subject in self.orders[len(ids) :])

    def refused(self, reported):
        reported.unsent.update(subject for _, subject in self.orders)

    def further(self, spool):
        take(spool, "b")
        take(spool, "c")


# ------------------------------------------------------------------------------------------------ reply


class Reply(Scenario):
    """b answers a and thereby acknowledges what it read."""

    key: str | None = None
    before = {"cur"}  # where the parent is when the answer is sent

    def prepare(self, spool):
        self.parent = sent(spool, "the question")
        self.reply_to = self.parent
        take(spool, "b")

    def act(self, spool):
        return spool.send(
            sender="b", recipient="a", subject=SUBJECT, body=BODY, reply_to=self.reply_to, dedup_key=self.key
        )

    def always(self, reported):
        reported.at_most_once.add(SUBJECT)
        reported.present["b", self.parent] = self.before | {"acked"}

    def told(self, reported, answer):
        reported.present["a", answer["id"]] = WAITING
        reported.once[SUBJECT] = {"a"}
        if "acknowledged" in answer:
            assert answer["acknowledged"] == self.parent
            reported.present["b", self.parent] = {"acked"}

    def unsure(self, reported, error):
        reported.present["a", error.detail["id"]] = WAITING
        reported.once[SUBJECT] = {"a"}

    def refused(self, reported):
        reported.unsent.add(SUBJECT)
        reported.present["b", self.parent] = self.before

    def further(self, spool):
        take(spool, "a")

    def also(self, found):
        answered = any(subject == SUBJECT for _, _, _, subject in found)
        settled = any((agent, state, i) == ("b", "acked", self.parent) for agent, state, i, _ in found)
        return ["acknowledged without an answer"] if settled and not answered else []


class ReplyToUnread(Reply):
    """The question was never read by the verb that reads."""

    few = "/"

    before = WAITING  # everybody's call reads it

    def prepare(self, spool):
        self.parent = self.reply_to = sent(spool, "the question")


class ReplyByHandle(Reply):
    """The question is claimed, and answered by the claim's handle."""

    few = "/"

    before = {"claimed"}

    def prepare(self, spool):
        self.parent = sent(spool, "the question")
        self.reply_to = spool.claim("b", worker="w")["handle"]


class ReplyWithKey(Reply):
    key = "answer"

    def refused(self, reported):
        reported.present["b", self.parent] = self.before

    def again(self, spool, reported):
        self.told(reported, self.act(spool))
        reported.present["b", self.parent] = {"acked"}


# ------------------------------------------------------------------------------------------------ read


class Read(Scenario):
    """Three messages are read, and marked when their output was taken."""

    ack = False
    count = 3
    after = {"cur"}

    def prepare(self, spool):
        self.ids = [sent(spool, f"number {number}") for number in range(self.count)]

    def act(self, spool):
        self.taken = False
        with spool.read("b", ack=self.ack) as batch:
            self.output(spool, batch)
            self.taken = True
        return batch

    def output(self, spool, batch):
        """Printing is a call like the others: whoever reads may die of it, and the disk it goes to may be full."""
        path = f"{spool.root}.out"
        try:
            spool.disk.append(path, json.dumps(batch.messages).encode())
        except OSError as error:
            raise MailError("cannot_write", f"output: {error.strerror}") from error
        finally:
            if os.path.lexists(path):
                os.unlink(path)

    def always(self, reported):
        for message_id in self.ids:
            reported.present["b", message_id] = {"new", "cur", *self.after}

    def told(self, reported, answer):
        assert [message["id"] for message in answer.messages] == self.ids
        if answer.trouble is None:
            for message_id in self.ids:
                reported.present["b", message_id] = self.after

    def refused(self, reported):
        self.unread(reported)

    def killed(self, reported):
        if not self.taken:
            self.unread(reported)

    def unread(self, reported):
        for message_id in self.ids:
            reported.present["b", message_id] = UNREAD

    def further(self, spool):
        sent(spool, "and another", sender="b", recipient="a")

    def again(self, spool, reported):
        take(spool, "b")
        self.always(reported)


class ReadAndAck(Read):
    ack = True
    after = {"acked"}


class WatchOnce(Read):
    """Looking changes nothing."""

    def act(self, spool):
        self.taken = False
        return spool.watch("b", once=True)

    def prepare(self, spool):
        super().prepare(spool)
        killed_at(spool, "rename", "new", lambda dying: sent(dying, "half sent"))

    def always(self, reported):
        super().always(reported)
        reported.at_most_once.add("half sent")

    def told(self, reported, answer):
        assert answer["count"] in (self.count, self.count + 1)  # on a read-only disk nothing is completed
        self.unread(reported)

    def unsure(self, reported, error):
        self.unread(reported)

    def further(self, spool):
        spool.watch("b", once=True)

    def again(self, spool, reported):
        reported.once["half sent"] = {"b"}
        super().again(spool, reported)


# ------------------------------------------------------------------------------------------------ ack, archive


class Ack(Scenario):
    """Three messages by id: one unread, one read, one acknowledged before."""

    after = {"acked"}
    never_refused = "/acked/"

    def prepare(self, spool):
        self.settled, self.read = sent(spool, "settled"), sent(spool, "read")
        take(spool, "b")
        spool.ack("b", [self.settled])
        self.unread = sent(spool, "unread")

    def act(self, spool):
        return spool.ack("b", [self.unread, self.read, self.settled])

    def always(self, reported):
        reported.present["b", self.unread] = WAITING | self.after
        reported.present["b", self.read] = {"cur"} | self.after
        reported.present["b", self.settled] = {"acked"} | self.after

    def told(self, reported, answer):
        assert sorted(answer["message_ids"]) == sorted(self.expected)
        for message_id in (self.unread, self.read, self.settled):
            reported.present["b", message_id] = self.after

    @property
    def expected(self):
        return [self.unread, self.read]

    def unsure(self, reported, error):
        for message_id in error.detail.get("ids", (self.unread, self.read)):
            reported.present["b", message_id] = self.after

    def refused(self, reported):
        reported.present["b", self.unread] = WAITING
        reported.present["b", self.read] = {"cur"}

    def further(self, spool):
        take(spool, "b")

    def again(self, spool, reported):
        self.act(spool)
        for message_id in (self.unread, self.read):
            reported.present["b", message_id] = self.after


class AckAll(Ack):
    def act(self, spool):
        return spool.ack("b", everything=True)


class AckOne(Ack):
    """A single message is acknowledged or it is not: there is no way in between."""

    def act(self, spool):
        return spool.ack("b", [self.read])

    @property
    def expected(self):
        return [self.read]

    def told(self, reported, answer):
        assert answer["message_ids"] == [self.read]
        reported.present["b", self.read] = self.after

    def unsure(self, reported, error):
        reported.present["b", self.read] = self.after

    def again(self, spool, reported):
        self.act(spool)
        reported.present["b", self.read] = self.after


class Archive(Ack):
    after = {"archive"}
    never_refused = "/archive/"

    def act(self, spool):
        return spool.archive("b", [self.unread, self.read, self.settled])

    @property
    def expected(self):
        return [self.unread, self.read, self.settled]


# ------------------------------------------------------------------------------------------------ claims


class Claim(Scenario):
    """A worker takes the oldest message."""

    before = {"new"}
    after = {"claimed"}

    def prepare(self, spool):
        self.id = sent(spool, "work")

    def act(self, spool):
        return spool.claim("b", worker="w")

    def always(self, reported):
        reported.present["b", self.id] = self.before | self.after

    def told(self, reported, answer):
        reported.present["b", self.id] = self.after

    def refused(self, reported):
        reported.present["b", self.id] = self.before

    def further(self, spool):
        sent(spool, "and more work")

    def again(self, spool, reported):
        reported.present["b", self.id] = {"new", "cur", "claimed"}  # everybody's call reads what is free


class Release(Claim):
    never_refused = "/new/"
    before, after = {"claimed"}, {"new"}

    def prepare(self, spool):
        super().prepare(spool)
        self.handle = spool.claim("b", worker="w")["handle"]

    def act(self, spool):
        return spool.release("b", self.handle)


class Renew(Release):
    before = after = {"claimed"}

    def act(self, spool):
        return spool.renew("b", self.handle, lease_s=3000)


class ClaimAgain(Claim):
    """The lease of another worker is over: its claim is expired and taken."""

    before, after, later = {"claimed", "new"}, {"claimed"}, 40.0

    def prepare(self, spool):
        super().prepare(spool)
        spool.claim("b", worker="late", lease_s=30)

    def told(self, reported, answer):
        if answer["token"] is None:  # on a read-only disk nobody expires a claim
            return self.refused(reported)
        assert answer["token"] == 2
        super().told(reported, answer)


# ------------------------------------------------------------------------------------------------ failed

TORN = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"


class DeadLetter(Scenario):
    """A torn file lies before good mail: it goes to failed/, and the mail behind it is read."""

    reasons = 1  # killed between the reason and the rename: doctor takes it
    never_refused = "/failed/"

    def prepare(self, spool):
        self.good = sent(spool, "good")
        drop(spool, "b", TORN, b'{"id": "01a22')

    def act(self, spool):
        with spool.read("b") as batch:
            pass
        return batch

    def always(self, reported):
        reported.present["b", TORN] = {"new", "failed"}
        reported.present["b", self.good] = WAITING

    def told(self, reported, answer):
        assert [message["id"] for message in answer.messages] == [self.good]
        reported.present["b", TORN] = {"failed"}
        if answer.trouble is None:
            reported.present["b", self.good] = {"cur"}

    def unsure(self, reported, error):
        pass  # the dead letter may not survive a power cut; nothing was shown

    def further(self, spool):
        take(spool, "b")

    def again(self, spool, reported):
        reported.present["b", TORN] = {"failed"}
        reported.present["b", self.good] = {"cur"}


class DeadLetterOfAReservedName(DeadLetter):
    """An earlier call was killed after the reason: the next name is taken, nothing is replaced."""

    reasons = 2

    def prepare(self, spool):
        super().prepare(spool)
        killed_at(spool, "rename", "failed", lambda dying: take(dying, "b"))
        assert os.listdir(f"{spool.root}/agents/b/failed") == [f"{TORN}.reason.json"]


class Requeue(Scenario):
    """A person puts a dead letter back."""

    reasons = 1
    before, after = {"failed"}, WAITING

    def prepare(self, spool):
        self.id, self.other = sent(spool, "broken"), sent(spool, "broken, too")
        box = Mailbox(spool, "b")
        for message_id in (self.id, self.other):
            fail(box, box.find(message_id), "worker_failed", "it could not be worked on")

    def act(self, spool):
        return spool.failed_requeue("b", self.id)

    def always(self, reported):
        reported.present["b", self.id] = self.before | self.after
        reported.present["b", self.other] = self.before

    def told(self, reported, answer):
        reported.present["b", self.id] = self.after

    def unsure(self, reported, error):
        reported.present["b", self.id] = self.after

    def refused(self, reported):
        reported.present["b", self.id] = self.before


class Purge(Requeue):
    """A person deletes a dead letter for good; the next who deletes anything completes what was begun."""

    def act(self, spool):
        return spool.failed_purge("b", self.id)

    def always(self, reported):
        pass

    def told(self, reported, answer):
        reported.gone.add(("b", self.id))

    def unsure(self, reported, error):
        reported.gone.add(("b", self.id))

    def further(self, spool):
        spool.failed_purge("b", self.other)

    def again(self, spool, reported):
        """A dead letter that is gone is unknown; either way nothing is left of it."""
        reported.present.clear()
        reported.gone.add(("b", self.id))
        try:
            self.act(spool)
        except MailError as error:
            assert error.code == "unknown_id", error


class PurgeTwice(Purge):
    """The one who was killed, or refused, gives the same command again."""

    few = "/"

    def refused(self, reported):
        pass  # it is purged by then

    def further(self, spool):
        try:
            self.act(spool)
        except MailError as error:
            assert error.code == "unknown_id", error


# ------------------------------------------------------------------------------------------------ mending


class Mend(Scenario):
    """What somebody left behind is completed by a read.  `once`, whatever becomes of that read."""

    def act(self, spool):
        return take(spool, "b")

    def always(self, reported):
        reported.once[SUBJECT] = {"b"}
        reported.bodies[SUBJECT] = BODY

    def unsure(self, reported, error):
        pass  # nothing was shown


class Helper(Mend):
    """A sender was killed right after its commit."""

    commit, key = "messages", None

    def prepare(self, spool):
        sent(spool)
        killed_at(spool, "link", self.commit, lambda dying: sent_receipt(dying, "b", self.key), after=True)


class HelperByKey(Helper):
    few = "/"
    commit, key = "dedup", "once"


class HelperOfAReply(Helper):
    """It was a reply, killed before it was in its thread."""

    def prepare(self, spool):
        self.parent = sent(spool, "the question", sender="b", recipient="a")
        killed_at(spool, "link", "threads", lambda dying: sent_receipt(dying, "b", None, reply_to=self.parent))


class HelperAtAWatch(Helper):
    def act(self, spool):
        return spool.watch("b", once=True)

    def told(self, reported, answer):
        assert answer["count"] in (1, 2)  # on a read-only disk nothing is completed


class Collect(Mend):
    """Two drafts that nobody committed, one of them set aside, and one set aside that was committed in between."""

    def prepare(self, spool):
        sent(spool)
        box = f"{spool.root}/agents/b"
        killed_at(spool, "link", "messages", lambda dying: sent(dying, "never sent"))
        self.young = os.listdir(f"{box}/tmp")[0]
        age(f"{box}/tmp/{self.young}")
        killed_at(spool, "link", "messages", lambda dying: sent(dying, "never sent, set aside"))
        self.aside(box, {self.young})
        killed_at(spool, "link", "messages", lambda dying: sent_receipt(dying, "b", None), after=True)
        self.aside(box, {self.young, *(name for name in os.listdir(f"{box}/tmp") if "~gc" in name)})

    def aside(self, box, others):
        [name] = set(os.listdir(f"{box}/tmp")) - others
        age(f"{box}/tmp/{name}")
        os.rename(f"{box}/tmp/{name}", f"{box}/tmp/{name[:36]}~gc.json")

    def always(self, reported):
        super().always(reported)
        reported.unsent.update(("never sent", "never sent, set aside"))


class Adopt(Mend):
    """A script delivered by mv, one message and one answer to an earlier one."""

    def prepare(self, spool):
        self.parent = sent(spool, "the question", sender="b", recipient="a")
        sent(spool)
        drop(spool, "b", TORN, written(TORN, "a", "b", SUBJECT))
        self.answer = TORN.replace("8f02", "8f03")
        drop(
            spool,
            "b",
            self.answer,
            written(self.answer, "a", "b", "the answer", reply_to=self.parent, thread_id=self.parent),
        )

    def always(self, reported):
        super().always(reported)
        reported.once["the answer"] = {"b"}


class AdoptByAck(Adopt):
    """Nobody has read it: it is acknowledged by its id."""

    few = "/"

    def act(self, spool):
        return spool.ack("b", [TORN, self.answer])

    def told(self, reported, answer):
        reported.present["b", TORN] = reported.present["b", self.answer] = {"acked"}


class AdoptByClaim(Adopt):
    few = "/"

    def act(self, spool):
        return spool.claim("b", TORN, worker="w")


class AdoptByReply(Adopt):
    few = "/"

    def act(self, spool):
        return spool.send(sender="b", recipient="a", subject="a reply", reply_to=TORN)

    def always(self, reported):
        super().always(reported)
        reported.at_most_once.add("a reply")

    def further(self, spool):
        take(spool, "b")
        take(spool, "a")


# ------------------------------------------------------------------------------------------------ broadcast, founding


class Broadcast(Send):
    """One message to five mailboxes; the next who broadcasts completes it."""

    agents = ("a", "b", "c", "d", "e", "f")
    to, recipients = "*", ("b", "c", "d", "e", "f")

    def prepare(self, spool):
        for agent in self.agents:
            take(spool, agent)

    def further(self, spool):
        spool.send(sender="f", recipient="*", subject="and another thing")


class BroadcastHelped(Broadcast):
    """Every recipient reads, before anybody broadcasts again."""

    drafts = True
    few = "/"

    def further(self, spool):
        for agent in self.recipients:
            take(spool, agent)


class BroadcastWithKey(Broadcast):
    key = "all"
    again = SendWithKey.again


class BroadcastWithKeyHelped(BroadcastWithKey):
    drafts = True
    few = "/"
    further = BroadcastHelped.further


class BroadcastBeforeANewMailbox(BroadcastWithKey):
    """A mailbox is made after it: whoever is there before the mailbox and whoever comes later get the same."""

    drafts = True
    few = "/"

    def further(self, spool):
        take(spool, "g")
        for agent in self.recipients:
            take(spool, agent)

    def told(self, reported, answer):
        reported.once[SUBJECT] = {*self.recipients, "g"}
        reported.present.update({(agent, answer["id"]): WAITING for agent in (*self.recipients, "g")})

    def also(self, found):
        having = {agent for agent, _, _, subject in found if subject == SUBJECT}
        return [f"only {sorted(having)} have it"] if having and having != {*self.recipients, "g"} else []


class BroadcastAfterAnother(Broadcast):
    """An earlier one was left half delivered: it is completed first, and nobody mixes the two up."""

    few = "/"

    def prepare(self, spool):
        super().prepare(spool)
        killed_at(spool, "rename", "agents", lambda dying: sent(dying, "left half way", sender="b", recipient="*"))

    def always(self, reported):
        super().always(reported)
        reported.once["left half way"] = {"a", "c", "d", "e", "f"}


class Init(Scenario):
    """A spool is made; killed anywhere, the next call makes it."""

    def act(self, spool):
        return spool.init()

    def told(self, reported, answer):
        assert answer["file_system"]["verdict"] in ("ok", "poll", "volatile")

    def further(self, spool):
        sent(spool)

    def again(self, spool, reported):
        self.act(spool)


class InitAgain(Init):
    """It is complete but for two directories."""

    def prepare(self, spool):
        sent(spool)
        os.rmdir(f"{spool.root}/trash")
        os.rmdir(f"{spool.root}/conversations")

    further = Init.act


class MakeMailbox(Scenario):
    """A new agent reads: it gets a mailbox, and last week's broadcast with it."""

    agents = ("a", "b", "c")

    def prepare(self, spool):
        sent(spool)
        self.id = sent(spool, SUBJECT, recipient="*")

    def act(self, spool):
        return take(spool, "c")

    def always(self, reported):
        reported.once[SUBJECT] = {"b", "c"}

    def told(self, reported, answer):
        assert [message["id"] for message in answer] == [self.id]
        reported.present["c", self.id] = {"cur"}

    def further(self, spool):
        take(spool, "c")


class Cleanup(Scenario):
    """A thread that was settled long ago is deleted with its key; one that is still owed stays."""

    later = 40 * 86_400.0

    def prepare(self, spool):
        question = sent(spool, "the question", dedup_key="asked once")
        answer = sent(spool, "the answer", sender="b", recipient="a", reply_to=question)
        spool.ack("a", [answer])
        self.settled = {("b", question), ("a", answer)}
        self.owed = sent(spool, "still owed")

    def act(self, spool):
        return spool.cleanup(30)

    def always(self, reported):
        reported.gone.update(self.settled)  # whatever became of the first: the next one goes on
        reported.present["b", self.owed] = WAITING

    def unsure(self, reported, error):
        pass

    def further(self, spool):
        self.act(spool)


class CleanupOfABroadcast(Cleanup):
    few = "/"

    def prepare(self, spool):
        sent(spool, "to all, and nobody is there yet", recipient="*")
        sent(spool)
        broadcast = sent(spool, "to all of two", sender="b", recipient="*")
        take(spool, "a")
        spool.ack("a", [broadcast])
        self.settled = {("a", broadcast)}
        self.owed = sent(spool, "still owed")


class Arm(Scenario):
    """A watch begins and ends: nothing of it stays."""

    def prepare(self, spool):
        sent(spool)

    def act(self, spool):
        with Presence(spool, "b"):
            assert spool.status("b")[0]["watching"]


SCENARIOS: tuple[type[Scenario], ...] = (
    Send,
    SendToNobodyYet,
    SendToANewMailbox,
    SendWithKey,
    SendWithKnownKey,
    SendWithKeyHalfSent,
    SendMany,
    Reply,
    ReplyToUnread,
    ReplyByHandle,
    ReplyWithKey,
    Read,
    ReadAndAck,
    WatchOnce,
    Ack,
    AckAll,
    AckOne,
    Archive,
    Claim,
    Release,
    Renew,
    ClaimAgain,
    DeadLetter,
    DeadLetterOfAReservedName,
    Requeue,
    Purge,
    PurgeTwice,
    Helper,
    HelperByKey,
    HelperOfAReply,
    HelperAtAWatch,
    Collect,
    Adopt,
    AdoptByAck,
    AdoptByClaim,
    AdoptByReply,
    Broadcast,
    BroadcastHelped,
    BroadcastWithKey,
    BroadcastWithKeyHelped,
    BroadcastBeforeANewMailbox,
    BroadcastAfterAnother,
    Init,
    InitAgain,
    MakeMailbox,
    Cleanup,
    CleanupOfABroadcast,
    Arm,
)
