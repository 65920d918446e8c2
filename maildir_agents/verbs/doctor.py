"""doctor: look over a whole spool, say what is wrong and what mends it; with `fix`, mend it.

The mending is what the next caller would do anyway, for all mailboxes at once, and putting back what is lost.  It is
never green when something is wrong, and a second `fix` finds nothing left to do.
"""

import os
import time

from maildir_agents.disk.guard import Guard
from maildir_agents.disk.probe import probe
from maildir_agents.errors import MailError
from maildir_agents.mail.bookkeeping import conversation_findings
from maildir_agents.mail.conservation import Conservation
from maildir_agents.mail.finding import Finding
from maildir_agents.mail.inspection import box_findings, spool_findings, unfinished_findings
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs.auto import auto
from maildir_agents.verbs.cleanup import retention_days

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LOCK_MS = 10_000
AGAIN_S = 0.05
_BAD = {
    "refused": "this file system has no atomic rename or hard links: the spool cannot work here",
    "volatile": "this file system is memory: everything is lost at the next boot",
    "poll": "this file system gives no events: watches poll, and only one host may write",
}


def doctor(spool: SpoolFiles, *, fix: bool = False) -> "dict[str, Any]":
    """Examine, and with `fix` mend: `{spool, clean, file_system, findings, notes}`.

    Each finding is `{code, finding, path, fix, mended}`; `clean` is True when none is left unmended.  `notes` are facts
    about the file system that no mending changes.
    """
    if not spool.exists:
        nothing = Finding("no_spool", spool.root, f"there is no spool at {spool.root}", "agent-mail init")
        return _answer(spool, {}, [nothing.as_json(False)])
    if not fix:
        return _answer(spool, spool.settings.get("file_system", {}), [f.as_json(False) for f in _seen_twice(spool)])
    with Guard(spool.disk, f"{spool.root}/upkeep.lock", LOCK_MS):
        rows = [finding.as_json(finding.try_to_mend()) for stage in _stages(spool) for finding in stage]
        left = {(finding.code, finding.path) for finding in _all(spool)} if rows else set()
        for row in rows:
            if row["mended"] and (row["code"], row["path"]) in left:
                row.update(mended=False, finding=f"{row['finding']}; mending it changed nothing")
        return _answer(spool, probe(spool.root), rows)


def _seen_twice(spool: SpoolFiles) -> "list[Finding]":
    """What is found, and found again a moment later: what somebody was just doing is done by then."""
    first = list(_all(spool))
    if not first:
        return []
    time.sleep(AGAIN_S)
    again = {(finding.code, finding.path) for finding in _all(spool)}
    return [finding for finding in first if (finding.code, finding.path) in again]


def _answer(spool: SpoolFiles, found: "dict[str, Any]", rows: "list[dict[str, Any]]") -> "dict[str, Any]":
    verdict = found.get("verdict")
    return {
        "spool": spool.root,
        "clean": all(row["mended"] for row in rows) and verdict != "refused",
        "file_system": found,
        "findings": rows,
        "notes": [_BAD[verdict]] if verdict in _BAD else [],
    }


def _all(spool: SpoolFiles) -> "Iterator[Finding]":
    for stage in _stages(spool):
        yield from stage


def _stages(spool: SpoolFiles) -> "Iterator[Iterator[Finding]]":
    """In an order in which mending one stage is what the next stands on."""
    yield spool_findings(spool)
    yield _misread_settings(spool)
    if not os.path.isdir(spool.agents):
        return
    yield unfinished_findings(spool)
    for box in Conservation(spool).boxes:
        yield box_findings(box)
    yield conversation_findings(spool)
    whole = Conservation(spool)
    yield whole.foreign()
    yield whole.findings()


def _misread_settings(spool: SpoolFiles) -> "Iterator[Finding]":
    """What config.json says and nobody understands: listeners and cleanup pass over it."""
    path = f"{spool.root}/config.json"
    said = [warning["warning"] for warning in auto(spool)[1]]
    try:
        retention_days(spool)
    except MailError as error:
        said.append(error.sentence)
    for sentence in dict.fromkeys(said):
        yield Finding("bad_config", path, sentence, "mend it by hand")
