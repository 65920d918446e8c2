"""Looking over the journals: entries that cannot be read, reached or believed, or were lost; a stale state.json.

Generators of findings, as in `inspection`; nothing is changed until one is mended.  state.json is written after each
entry, so it is a witness: where it knows more than the journal, the journal has lost something.
"""

import os
from functools import partial

from maildir_agents.disk.jsonfile import decode, read_settings, take
from maildir_agents.disk.listing import names
from maildir_agents.errors import MailError, Malformed
from maildir_agents.mail import journal, mending
from maildir_agents.mail.belonging import is_entry
from maildir_agents.mail.conversation import ENDED, Conversation
from maildir_agents.mail.finding import Finding
from maildir_agents.mail.message import MAX_FILE, check
from maildir_agents.mail.name import is_id
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from maildir_agents.mail.message import Json

_TOLD = ("members", "turn_count", "max_turns", "expires_at", "transitions", "in_flight")
LOOKS = 5  # at a conversation that goes on while it is looked at


def conversation_findings(spool: SpoolFiles) -> "Iterator[Finding]":
    """Every conversation of a spool, oldest first."""
    for conversation_id in journal.all_ids(spool):
        try:
            entries = journal.entries(spool, conversation_id)
            found = journal.folded(conversation_id, entries)
        except MailError as error:
            if error.code == "cannot_read":
                yield Finding("damaged", str(error.detail["path"]), error.sentence, "restore it from a backup")
            else:  # being started, or given up before its commit
                yield from _unreachable(spool, conversation_id, 0) or _lost(spool, conversation_id, None)
            continue
        yield from _left_drafts(spool, conversation_id)
        if wrong := [*_unlike(spool, found, entries), *_unreachable(spool, conversation_id, found.entries)]:
            yield from wrong
            continue  # state.json is not rewritten after such a journal: it may be all that tells what was there
        yield from _lost(spool, conversation_id, found) or _stale(spool, found)
        if found.state not in ENDED:  # the mail of one that has ended may have been cleaned up before it
            yield from _without_anchor(spool, found, entries)


def without_journal(spool: SpoolFiles, turn: "Json") -> "Iterator[Finding]":
    """A turn that is not settled while nothing is left of its conversation: nobody can answer it any more."""
    directory = spool.conversation_directory(turn["conversation_id"])
    if not os.path.lexists(directory):
        sentence = f"{turn['id']} is turn {turn['turn']} of {turn['conversation_id']}, and {directory} is missing"
        yield Finding("no_journal", spool.anchor(turn["id"]), sentence, "restore it from a backup, or ack the message")


def _unlike(spool: SpoolFiles, found: Conversation, entries: "list[Json]") -> "Iterator[Finding]":
    """Entries that are not what was committed under their number: of another conversation or turn, or edited."""
    turn = 0
    for number, entry in enumerate(entries):
        turn += "control" not in entry
        path = spool.entry(found.id, number)
        if entry["conversation_id"] != os.path.basename(spool.conversation_directory(found.id)):
            why = f"it belongs to the conversation {entry['conversation_id']}"
        elif "control" in entry:
            continue
        elif entry["turn"] != turn:
            why = f"it says that it is turn {entry['turn']}, and {turn} stands here"
        elif {entry["sender"], entry["recipient"]} != set(found.members):
            why = f"it is no mail between {' and '.join(found.members)}"
        elif not _is_the_message(path, spool.anchor(entry["id"])):
            why = f"its message says something else: {spool.anchor(entry['id'])}"
        else:
            continue
        yield Finding("damaged", path, f"{path} is damaged: {why}", "restore it from a backup")


def _is_the_message(entry: str, anchor: str) -> bool:
    """Whether both are one file, or say the same; what is not there says nothing else."""
    try:
        if os.path.samestat(os.lstat(entry), os.lstat(anchor)):
            return True
    except FileNotFoundError:
        return True
    here, there = take(entry, MAX_FILE), take(anchor, MAX_FILE)
    return here.data is None or there.data is None or here.data == there.data


def _unreachable(spool: SpoolFiles, conversation_id: str, entries: int) -> list[Finding]:
    """Entries behind the first that is missing: nobody reads them, and what comes next would stand in their way."""
    gap = spool.entry(conversation_id, entries)
    behind = [text for text in names(os.path.dirname(gap)) if is_entry(text) and text > os.path.basename(gap)]
    if not behind or os.path.lexists(gap):
        return []
    sentence = f"{gap} is missing, and {len(behind)} entries stand behind it"
    return [Finding("gap", gap, sentence, "restore it from a backup")]


def _left_drafts(spool: SpoolFiles, conversation_id: str) -> "Iterator[Finding]":
    directory = f"{spool.conversation_directory(conversation_id)}/tmp"
    for path in (f"{directory}/{text}" for text in names(directory)):
        if mending.age_ms(spool, path) > journal.ABANDONED_MS:
            mend = partial(journal.open_to_write, spool, conversation_id)
            yield Finding("draft", path, "a draft of a control entry was left behind", "it is removed", mend)


def _lost(spool: SpoolFiles, conversation_id: str, found: Conversation | None) -> list[Finding]:
    """The next entry, where state.json knows of it and the journal does not (`found` None: it has none at all)."""
    path = f"{spool.conversation_directory(conversation_id)}/state.json"
    told = _told(path)
    if told.get("conversation_id") != conversation_id or not _knows_more(told, found):
        return []
    entries = found.entries if found else 0
    entry = spool.entry(conversation_id, entries)
    if os.path.lexists(entry):
        return []  # it was written while we looked
    sentence = f"{entry} is missing: {path} was written after it"
    if anchor := _lost_turn(spool, told, found):
        mend = partial(_put_in, spool, anchor, entry)
        return [Finding("lost_entry", entry, sentence, "its message is linked there", mend)]
    fix = "restore it from a backup; or remove state.json, and what the journal says is all there was"
    return [Finding("lost_entry", entry, sentence, fix)]


def _knows_more(told: "Json", found: Conversation | None) -> bool:
    turns, transitions = told.get("turn_count"), told.get("transitions")
    if type(turns) is not int or type(transitions) is not list:
        return False
    if found is None:
        return True
    return turns > len(found.turns) or len(transitions) > len(found.transitions)


def _lost_turn(spool: SpoolFiles, told: "Json", found: Conversation | None) -> str | None:
    """The anchor of what was lost, if that is one turn and nothing else."""
    turn, transitions = (len(found.turns) + 1, len(found.transitions)) if found else (1, 1)
    last = told.get("last_entry")
    if (
        (told["turn_count"], len(told["transitions"])) != (turn, transitions)
        or type(last) is not str
        or not is_id(last)
    ):
        return None
    anchor = spool.anchor(last)
    try:
        message = check(decode(take(anchor, MAX_FILE).data or b""))
    except Malformed:
        return None
    return anchor if (message["conversation_id"], message["turn"]) == (told["conversation_id"], turn) else None


def _put_in(spool: SpoolFiles, anchor: str, entry: str) -> None:
    spool.disk.publish(anchor, entry)
    spool.disk.sync(os.path.dirname(entry))


def _told(path: str) -> "Json":
    try:
        return read_settings(path) or {}
    except MailError:
        return {}


def _stale(spool: SpoolFiles, found: Conversation) -> "Iterator[Finding]":
    path = f"{spool.conversation_directory(found.id)}/state.json"
    for _ in range(LOOKS):
        told, status = _told(path), found.status(spool.clock.wall_ms())
        if all(told.get(key) == status[key] for key in _TOLD):
            return
        if journal.entry(spool, found.id, found.entries) is None:  # it has not gone on meanwhile
            sentence = f"state.json of {found.id} does not say what its journal says"
            yield Finding("stale_state", path, sentence, "it is written anew", partial(_write_anew, spool, found.id))
            return
        found = journal.read(spool, found.id)


def _write_anew(spool: SpoolFiles, conversation_id: str) -> None:
    journal.snapshot(spool, journal.read(spool, conversation_id))


def _without_anchor(spool: SpoolFiles, found: Conversation, entries: "list[Json]") -> "Iterator[Finding]":
    """Turns whose message is known to the journal alone; linked again, it is found to be in no state and put back."""
    for number, entry in enumerate(entries):
        if "control" in entry or os.path.lexists(anchor := spool.anchor(entry["id"])):
            continue
        drafts = (spool.draft(entry["recipient"], entry["id"]), spool.parked(entry["recipient"], entry["id"]))
        if not any(os.path.lexists(draft) for draft in drafts) and not os.path.lexists(anchor):
            path = spool.entry(found.id, number)
            sentence = f"{entry['id']}, a turn of {found.id}, has no anchor"
            yield Finding("no_anchor", path, sentence, "it is linked again", partial(spool.disk.publish, path, anchor))
