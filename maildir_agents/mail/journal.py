"""A conversation on disk: entries under their number, read one by one up to the first that is missing.

The link to the next number is the only commit of a turn after the first and of a control entry: of two who want it one
gets it, and the other reads on.  Whoever opens a journal to write publishes its last turn, whose sender may have died.
"""

import os

from maildir_agents.disk.jsonfile import decode, encode, pretty, take
from maildir_agents.disk.listing import names, unsorted
from maildir_agents.disk.moves import DONE, EXISTS
from maildir_agents.errors import MailError, Malformed
from maildir_agents.mail import conversation as rules
from maildir_agents.mail.conversation import Conversation
from maildir_agents.mail.message import MAX_FILE, check, lay_out
from maildir_agents.mail.name import is_id, iso
from maildir_agents.mail.publish import TRIES, address, deliver_left, finish, write_draft
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from maildir_agents.mail.message import Json

ABANDONED_MS = 60_000  # a draft here that is older is litter, committed or not
SNAPSHOT_DRAFT = ".state."


def read(spool: SpoolFiles, conversation_id: str) -> Conversation:
    """The conversation as its journal tells it; changes nothing.  Raises unknown_conversation, cannot_read."""
    return folded(conversation_id, entries(spool, conversation_id))


def entries(spool: SpoolFiles, conversation_id: str) -> "list[Json]":
    """The entries by number, up to the first that is missing.  Raises cannot_read.

    Where the first is gone by then, cleanup took all of them away meanwhile: what was read of them says nothing.
    """
    found: list[Json] = []
    while following := entry(spool, conversation_id, len(found)):
        found.append(following)
    return found if found and os.path.lexists(spool.entry(conversation_id, 0)) else []


def folded(conversation_id: str, told: "list[Json]") -> Conversation:
    """What entries say together; raises unknown_conversation where there is none."""
    if not told:
        raise rules.no_conversation(conversation_id)
    found = Conversation(told[0])
    for following in told[1:]:
        found.append(following)
    return found


def entry(spool: SpoolFiles, conversation_id: str, number: int) -> "Json | None":
    """One entry, a turn's message or a control entry; None: there is none.  Raises cannot_read."""
    path = spool.entry(conversation_id, number)
    taken = take(path, MAX_FILE)
    if taken.trouble == "gone":
        return None
    try:
        if taken.data is None:
            raise Malformed("not_json", f"it is {taken.trouble}")
        told = decode(taken.data)
        if number > 0 and "control" in told:
            if not rules.well_formed_control(told):
                raise Malformed("bad_field", "it is no control entry")
            return told
        turn = check(told)
    except Malformed as error:
        raise _damaged(path, error.sentence) from None
    if number == 0 and not rules.well_formed(turn):
        raise _damaged(path, "it opens no conversation")
    return turn


def _damaged(path: str, why: str) -> MailError:
    return MailError(
        "cannot_read", f"{path} is damaged: {why}", "restore it from a backup; nothing was changed", path=path
    )


def open_to_write(spool: SpoolFiles, conversation_id: str) -> Conversation:
    """Read a conversation, complete its last turn, and remove drafts that were left behind."""
    found = read(spool, conversation_id)
    last = found.last_turn
    drafts = (spool.draft(last["recipient"], last["id"]), spool.parked(last["recipient"], last["id"]))
    if any(os.path.lexists(draft) for draft in drafts):
        deliver_left(spool, last["recipient"], last)
    here = spool.conversation_directory(conversation_id)
    left = [f"{here}/{text}" for text in unsorted(here) if text.startswith(SNAPSHOT_DRAFT)]
    for path in left + [f"{here}/tmp/{text}" for text in names(f"{here}/tmp")]:
        if _age_ms(spool, path) > ABANDONED_MS:
            spool.disk.discard(path)
    return found


def _age_ms(spool: SpoolFiles, path: str) -> int:
    try:
        return spool.clock.wall_ms() - os.lstat(path).st_mtime_ns // 1_000_000
    except OSError:
        return 0


# control entries


def write_control(
    spool: SpoolFiles,
    conversation_id: str,
    control: str,
    by: str,
    *,
    terms: "Callable[[Conversation], Json] | None" = None,
    still: "Callable[[Conversation], bool] | None" = None,
) -> tuple[Conversation, bool]:
    """Commit a control entry, if the rules allow it; (the conversation afterwards, whether this call wrote it).

    `terms` answers the further members of a resume, judged on what the journal says at that moment.
    `still`: only while that holds; asked of what the journal says at that moment, too.
    """
    draft = ""
    try:
        for _ in range(TRIES):
            found = open_to_write(spool, conversation_id)
            if still is not None and not still(found):
                return found, False
            if not rules.judge_control(found, control):
                spool.disk.sync(f"{spool.conversation_directory(conversation_id)}/journal")
                return found, False
            written = _control_entry(spool, found, control, by, terms)
            draft = _draft_control(spool, written)
            linked = spool.disk.publish(draft, spool.entry(conversation_id, found.entries))
            spool.disk.discard(draft)
            if linked == DONE:
                found.append(written)
                _committed(spool, found)
                return found, True
    finally:
        if draft:
            spool.disk.discard(draft)
    raise MailError("busy", f"conversation {conversation_id} keeps moving", "try again in a moment")


def _control_entry(
    spool: SpoolFiles, found: Conversation, control: str, by: str, terms: "Callable[[Conversation], Json] | None"
) -> "Json":
    now = spool.clock.wall_ms()
    written: Json = {
        "id": spool.ids.next(now),
        "conversation_id": found.id,
        "control": control,
        "by": by,
        "created": iso(now),
    }
    return {**written, **terms(found)} if terms else written


def _draft_control(spool: SpoolFiles, written: "Json") -> str:
    path = f"{spool.conversation_directory(written['conversation_id'])}/tmp/{written['id']}.json"
    data = (encode(written) + "\n").encode("utf-8")
    while True:
        try:
            spool.disk.write_new(path, data)
            return path
        except FileNotFoundError:
            spool.disk.make_dir(os.path.dirname(path))
        except MailError as error:
            # An end must not wait for room on a full disk.
            if error.code != "spool_full" or not spool.free_ballast():
                raise


def _committed(spool: SpoolFiles, found: Conversation) -> None:
    spool.disk.sync(f"{spool.conversation_directory(found.id)}/journal")
    snapshot(spool, found)


def snapshot(spool: SpoolFiles, found: Conversation) -> None:
    """Write state.json, for people and scripts; never acted on here, and no verb fails because it did.

    Of several who write one, the last has looked whether the journal went on meanwhile.
    """
    path = spool.conversation_directory(found.id)
    try:
        while True:
            told = {**found.status(spool.clock.wall_ms()), "last_entry": found.last_entry["id"]}
            draft = f"{path}/{SNAPSHOT_DRAFT}{spool.randomness(8).hex()}"
            spool.disk.write_new(draft, (pretty(told) + "\n").encode("utf-8"), sync=False)
            spool.disk.move(draft, f"{path}/state.json")
            if not os.path.lexists(spool.entry(found.id, found.entries)):
                return
            found = read(spool, found.id)
    except (MailError, OSError):
        pass


# turns


def post_turn(
    spool: SpoolFiles, message: "Json", allowed: "Callable[[], None]", known: "Callable[[], Json | None]"
) -> "Json | None":
    """Commit and deliver the next turn; the message that it already was, or None when this call sent it.

    The journal is read before anything is judged: what is committed is never refused.  `known` answers the message
    that its key is outside this journal; `allowed` raises when the caller's claim does not let it answer.
    """
    draft = ""
    try:
        for _ in range(TRIES):
            found = open_to_write(spool, message["conversation_id"])
            if (before := rules.same_turn(found, message)) is not None:
                finish(spool, before, spool.entry(found.id, 0))  # whoever reports a turn makes it durable
                return before
            if (before := known()) is not None:
                return before
            allowed()
            if not _may_follow(spool, found, message):
                continue
            message["turn"] = len(found.turns) + 1
            if not draft:
                draft, _ = write_draft(spool, message["recipient"], message["id"], lay_out(message, encode))
            linked = spool.disk.publish(draft, spool.entry(found.id, found.entries))
            if linked == DONE:
                draft = ""
                finish(spool, message, spool.entry(found.id, found.entries))
                found.append(message)
                snapshot(spool, found)
                return None
            if linked != EXISTS:
                draft = ""  # collected before its commit: a new one under a new id
                address(spool, message)
    finally:
        if draft:
            spool.disk.discard(draft)
    raise MailError("busy", f"conversation {message['conversation_id']} keeps moving", "try again in a moment")


def _may_follow(spool: SpoolFiles, found: Conversation, message: "Json") -> bool:
    """Judge a turn.  False: what was used up has been given anew meanwhile, and it must be judged again."""
    try:
        rules.judge_turn(found, message, spool.clock.wall_ms())
        return True
    except MailError as refusal:
        more = {"turn_limit": "--add-turns N", "expired": "--extend SECONDS"}.get(refusal.code)
        if more is None:
            raise
        after, _ = write_control(
            spool, found.id, "needs_human", message["sender"], still=lambda c: rules.used_up(c, spool.clock.wall_ms())
        )
        if after.state == rules.ACTIVE:
            return False
        refusal.hint = f"it needs a human now: agent-mail conversation resume {found.id} {more}"
        raise


def all_ids(spool: SpoolFiles) -> list[str]:
    """Every conversation there is, oldest first."""
    return [text for text in names(f"{spool.root}/conversations") if is_id(text)]


def has_any(spool: SpoolFiles) -> bool:
    """Whether this spool has conversations, by the directory's link count where the file system counts (2: none)."""
    try:
        return os.stat(f"{spool.root}/conversations").st_nlink != 2
    except FileNotFoundError:
        return False


def put_before_a_human(spool: SpoolFiles, message: "Json | None", by: str) -> None:
    """Before a message is settled unanswered: if it is the one in flight, its conversation needs a human.

    The entry's link decides against a late answer; where that was faster, the message was answered.
    """
    if message is None or not message["conversation_id"] or message["turn"] is None:
        return
    try:
        found = read(spool, message["conversation_id"])
        if found.in_flight == message["id"] and found.state == rules.ACTIVE:
            write_control(spool, found.id, "needs_human", by, still=lambda c: c.in_flight == message["id"])
    except MailError as error:
        if error.code not in ("unknown_conversation", "not_active"):
            raise
