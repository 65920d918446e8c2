"""Looking over a spool and each mailbox: what is missing, foreign, too open, left half done, or damaged.

Generators of findings; nothing is changed until one is mended.  Where each message is, is `conservation`'s subject.
"""

import os
from functools import partial

from maildir_agents.disk.guard import holder
from maildir_agents.disk.listing import names
from maildir_agents.errors import Malformed
from maildir_agents.mail import broadcast, deadletter, founding, mending, presence
from maildir_agents.mail.belonging import box_strangers, spool_strangers, too_open
from maildir_agents.mail.finding import Finding
from maildir_agents.mail.intake import being_written
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import is_agent, is_id, parse
from maildir_agents.mail.reading import judge, take_message
from maildir_agents.mail.removal import finish_removals
from maildir_agents.mail.spool import BALLAST_FILES, DIRECTORIES, LOCKS, SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LONE_REASON_MS = 60_000
AT_IT_MS = 60_000  # what changed within this time, and whose lock is held, somebody is at
_OWN_FILES = ("spool.json", *LOCKS, "config.json")


def spool_findings(spool: SpoolFiles) -> "Iterator[Finding]":
    """The spool's own files and directories."""
    root = spool.root
    missing = [name for name in (*DIRECTORIES, *_OWN_FILES) if not os.path.lexists(f"{root}/{name}")]
    missing += [f"ballast/{n:02d}" for n in range(BALLAST_FILES) if not spool.has_ballast(n)]
    for name in missing:
        yield Finding(
            "missing",
            f"{root}/{name}",
            f"{name} is missing",
            "it is made again",
            partial(founding.complete_spool, spool),
        )
    for name in _OWN_FILES:
        yield from too_open(f"{root}/{name}")
    yield from too_open(spool.agents)
    yield from spool_strangers(spool)
    for name in sorted(set(os.listdir(spool.agents)) if os.path.isdir(spool.agents) else ()):
        path, agent = f"{spool.agents}/{name}", name.removeprefix(".")
        unknown = not os.path.lexists(f"{spool.agents}/{agent}")
        if name[0] == "." and is_agent(agent) and unknown and os.path.isdir(path):
            if not _somebody_is_at(spool, "broadcast.lock", path):
                yield Finding(
                    "half_made",
                    path,
                    f"the mailbox of {agent} was never finished",
                    "it is finished",
                    partial(founding.make_mailbox, spool, agent),
                )
        elif (not is_agent(name) or not os.path.isdir(path)) and name != ".keep":
            yield Finding("foreign", path, f"{name} is no mailbox", "move it elsewhere")


def unfinished_findings(spool: SpoolFiles) -> "Iterator[Finding]":
    """Broadcasts and removals that somebody left half done."""
    for text in names(f"{spool.root}/trash"):
        path = f"{spool.root}/trash/{text}"
        if (parse(text) or is_id(text)) and not _somebody_is_at(spool, "upkeep.lock", path):
            yield Finding(
                "unfinished_removal",
                path,
                "a removal was not finished",
                "it is finished",
                partial(finish_removals, spool),
            )
    directory = f"{spool.root}/broadcast"
    for text in sorted(os.listdir(directory) if os.path.isdir(directory) else ()):
        half = (text[0] == "." and is_id(text[1:37])) or (text.endswith(".todo") and is_id(text[:36]))
        if half and not _somebody_is_at(spool, "broadcast.lock", f"{directory}/{text}"):
            yield Finding(
                "unfinished_broadcast",
                f"{directory}/{text}",
                "a broadcast was not finished",
                "its copies are delivered, or, if it was never committed, removed",
                partial(broadcast.finish, spool),
            )


def _somebody_is_at(spool: SpoolFiles, lock: str, path: str) -> bool:
    """Whether what looks left behind is being worked on: it changed a moment ago and another holds its lock."""
    try:
        age_ms = spool.clock.wall_ms() - os.lstat(path).st_ctime_ns // 1_000_000
    except OSError:
        return True  # it is done
    return age_ms < AT_IT_MS and holder(f"{spool.root}/{lock}") not in (None, os.getpid())


def box_findings(box: Mailbox) -> "Iterator[Finding]":
    """One mailbox: its directories, who may look into it, drafts, dead watches, lone reasons, foreign files."""
    for name in founding.MAILBOX_DIRS:
        if not os.path.isdir(f"{box.path}/{name}"):
            yield Finding(
                "missing",
                f"{box.path}/{name}",
                f"the mailbox of {box.agent} has no {name}/",
                "it is made again",
                partial(founding.make_mailbox, box.spool, box.agent),
            )
    yield from box_strangers(box)
    yield from _drafts(box)
    if presence.watch_state(box.spool, box.agent) == presence.STALE or _dead_watches(box):
        yield Finding(
            "dead_watch",
            f"{box.path}/watch",
            f"a watch of {box.agent} died",
            "its file is removed",
            partial(presence.watch_state, box.spool, box.agent, tidy=True),
        )
    yield from _lone_reasons(box)
    for found in box.listed("failed"):
        path = deadletter.reason_path(box, found)
        if not os.path.lexists(path) and mending.is_file(box.where(found)):
            sentence = f"{found.id} is a dead letter without its reason"
            yield Finding("no_reason", path, sentence, "one is written", partial(deadletter.explain, box, found))


def _dead_watches(box: Mailbox) -> bool:
    return any(presence.is_dead(box.spool, f"{box.path}/watch/{text}") for text in names(f"{box.path}/watch"))


def _drafts(box: Mailbox) -> "Iterator[Finding]":
    for text in names(f"{box.path}/tmp"):
        path = f"{box.path}/tmp/{text}"
        if mending.is_draft(text) and mending.is_file(path) and mending.is_abandoned(box, text):
            yield Finding(
                "draft",
                path,
                f"a draft for {box.agent} was left behind",
                "it is delivered if it was committed, else removed",
                partial(mending.collect, box),
            )


def _lone_reasons(box: Mailbox) -> "Iterator[Finding]":
    for text in names(f"{box.path}/failed"):
        stem, path = text.removesuffix(".reason.json"), f"{box.path}/failed/{text}"
        if stem == text or os.path.lexists(f"{box.path}/failed/{stem}.json"):
            continue
        if mending.age_ms(box.spool, path) > LONE_REASON_MS:
            yield Finding(
                "lone_reason",
                path,
                f"{text} is a reason without its dead letter",
                "it is removed",
                partial(box.spool.disk.discard, path),
            )


def damage(box: Mailbox, found: Found) -> "Iterator[Finding]":
    """A message whose file says something else than its name, or is none any more."""
    path = box.where(found)
    taken = take_message(path)
    if taken.trouble in ("gone", "special"):
        return
    try:
        judge(taken, found.id, box.agent)
        return
    except Malformed as error:
        if error.code == "not_json" and taken.trouble != "unreadable" and being_written(box.spool, path, taken):
            return
        sentence = f"{found.id} in {found.directory}/ of {box.agent} is damaged: {error.sentence}"
        code, reason = error.code, error.sentence
    if taken.trouble == "unreadable":
        yield Finding(
            "unreadable", path, f"{found.id} of {box.agent} cannot be read", "look at the disk and at its mode"
        )
    elif found.directory in ("new", "cur") or (found.directory == "claimed" and box.claim_left_ms(found) <= 0):
        yield Finding(
            "damaged",
            path,
            sentence,
            "it is put among the dead letters",
            partial(deadletter.fail, box, found, code, reason, by="doctor"),
        )
    elif found.directory != "failed":
        yield Finding("damaged", path, sentence, "beyond mending here: restore it from a backup, or remove it")
