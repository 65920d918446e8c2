"""What may lie where in a spool: everything else is foreign, and every directory is for its owner alone.

Names only, no file is opened.  Foreign files are reported and never touched: they may be somebody's.
"""

import os
import stat
from functools import partial

from maildir_agents.mail import founding, mending
from maildir_agents.mail.finding import Finding
from maildir_agents.mail.lifecycle import SETTLED
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import is_agent, is_id, parse
from maildir_agents.mail.spool import BALLAST_FILES, OWN_NAMES, SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LITTER_MS = 60_000
_BOX_FILES = ("read.lock", "history.jsonl", "listener.lock", "listener.json", "listener.disabled", "listener.log")
_BOX_NAMES = frozenset((*founding.MAILBOX_DIRS, "watch", ".index", *_BOX_FILES))
_OWN_DRAFTS = frozenset((".spool.json", ".config.json", ".probe", ".probe-2", ".history.jsonl"))
_BALLAST = frozenset(f"{number:02d}" for number in range(BALLAST_FILES))
_HEX, _DIGITS = frozenset("0123456789abcdef"), frozenset("0123456789")


def is_anchor(text: str) -> bool:
    return text[36:] == ".json" and is_id(text[:36])


def is_key(text: str) -> bool:
    return text[64:] == ".json" and _HEX.issuperset(text[:64])


def _is_day(text: str) -> bool:
    return len(text) == 10 and text[4] == text[7] == "-" and _DIGITS.issuperset(text.replace("-", "", 2))


def _is_minute(text: str) -> bool:
    return len(text) == 4 and _DIGITS.issuperset(text)


def _is_prefix(text: str) -> bool:
    return len(text) == 2 and _HEX.issuperset(text)


def _is_message(text: str) -> bool:
    return parse(text) is not None


def _is_dead_letter(text: str) -> bool:
    return parse(text.removesuffix(".reason.json") + ".json" if text.endswith(".reason.json") else text) is not None


def _is_watch(text: str) -> bool:
    return len(text.strip(".")) in (32, 37) and _HEX.issuperset(text.removesuffix(".lock").removeprefix("."))


def is_entry(text: str) -> bool:
    return text[4:] == ".json" and _DIGITS.issuperset(text[:4])


def _is_of_a_conversation(text: str) -> bool:
    return text in ("journal", "tmp", "state.json") or text.startswith("state.")  # with a dot before it: a draft


def _is_broadcast(text: str) -> bool:
    return text.removeprefix(".")[36:] in (".json", ".todo") and is_id(text.removeprefix(".")[:36])


# A directory below the top: what its entries are called, level by level; the last level is files.
_LEVELS: "dict[str, tuple[Callable[[str], bool], ...]]" = {
    "messages": (_is_day, is_anchor),
    "dedup": (_is_prefix, is_key),
    "threads": (is_id, is_anchor),
    "trash": (lambda text: _is_message(text) or is_id(text),),
    "ballast": (_BALLAST.__contains__,),
    "conversations": (is_id,),
    "broadcast": (_is_broadcast,),
}
_BOX_LEVELS: "dict[str, tuple[Callable[[str], bool], ...]]" = {
    "tmp": (mending.is_draft,),
    "new": (_is_message,),
    "cur": (_is_message,),
    "claimed": (_is_message,),
    "failed": (_is_dead_letter,),
    "watch": (_is_watch,),
    **dict.fromkeys(SETTLED, (_is_day, _is_minute, _is_message)),
}
_MESSAGES = frozenset(("tmp", "new", "cur", "claimed", "failed", *SETTLED))  # whose files have to be regular


def spool_strangers(spool: SpoolFiles) -> "Iterator[Finding]":
    """What does not belong into the spool, but for its mailboxes; and what is open to others."""
    yield from _listing(spool, spool.root, lambda text: text in OWN_NAMES or text == "spool.json")
    for top, levels in _LEVELS.items():
        yield from _below(spool, f"{spool.root}/{top}", levels)
    for text in _entries(f"{spool.root}/broadcast"):
        if text.endswith(".todo"):
            todo = f"{spool.root}/broadcast/{text}"
            yield from _below(spool, todo, (lambda copy: copy[-5:] == ".json" and is_agent(copy[:-5]),))
    for conversation_id in filter(is_id, _entries(f"{spool.root}/conversations")):
        here = f"{spool.root}/conversations/{conversation_id}"
        yield from _listing(spool, here, _is_of_a_conversation)
        yield from _below(spool, f"{here}/journal", (is_entry,), regular=True)
        yield from _below(spool, f"{here}/tmp", (is_anchor,))


def box_strangers(box: Mailbox) -> "Iterator[Finding]":
    """The same for a mailbox: its own names, those in its directories, special files, names in a wrong directory."""
    yield from _listing(box.spool, box.path, _BOX_NAMES.__contains__)
    for directory, levels in _BOX_LEVELS.items():
        yield from _below(box.spool, f"{box.path}/{directory}", levels, regular=directory in _MESSAGES)
    for directory in SETTLED:
        yield from _misplaced(box, directory)


def _below(
    spool: SpoolFiles, directory: str, levels: "tuple[Callable[[str], bool], ...]", regular: bool = False
) -> "Iterator[Finding]":
    yield from _listing(spool, directory, levels[0], files=len(levels) == 1, regular=regular)
    for text in _entries(directory) if len(levels) > 1 else ():
        if levels[0](text):
            yield from _below(spool, f"{directory}/{text}", levels[1:], regular)


def _listing(
    spool: SpoolFiles, directory: str, belongs: "Callable[[str], bool]", files: bool = True, regular: bool = False
) -> "Iterator[Finding]":
    """One directory.  Not `files`: its entries are directories.  `regular`: they are messages."""
    yield from too_open(directory)
    for text in _entries(directory):
        path = f"{directory}/{text}"
        if belongs(text):
            if regular and files and not mending.is_file(path) and os.path.lexists(path):
                yield Finding("special", path, f"{path} is not a regular file", "remove it")
            elif not files and not os.path.isdir(path) and os.path.lexists(path):
                yield Finding("foreign", path, f"{path} is not a directory", "move it elsewhere")
        elif text != ".keep":  # it keeps the empty directories of a spool that came out of an archive
            yield _stranger(spool, path, belongs(text[1:]) and text[0] == ".")


def _stranger(spool: SpoolFiles, path: str, aside: bool) -> Finding:
    text = os.path.basename(path)
    if (aside or text in _OWN_DRAFTS) and mending.is_file(path) and mending.age_ms(spool, path) > LITTER_MS:
        discard = partial(spool.disk.discard, path)
        return Finding("litter", path, f"{path} was left by somebody who died", "it is removed", discard)
    return Finding("foreign", path, f"{path} does not belong here", "move it elsewhere")


def _misplaced(box: Mailbox, state: str) -> "Iterator[Finding]":
    """Settled messages in the directory of another minute than their id's: nobody finds them there."""
    for day in _entries(f"{box.path}/{state}"):
        for minute in _entries(f"{box.path}/{state}/{day}"):
            for text in _entries(f"{box.path}/{state}/{day}/{minute}"):
                path, name = f"{box.path}/{state}/{day}/{minute}/{text}", parse(text)
                if name is None or (right := box.where(Found(state, name))) == path:
                    continue
                mend = None if os.path.lexists(right) else partial(box.spool.disk.move, path, right)
                fix = "it is moved there" if mend else "beyond mending here: compare the two"
                yield Finding("misplaced", path, f"{path} belongs into {os.path.dirname(right)}", fix, mend)


def too_open(path: str) -> "Iterator[Finding]":
    """A directory or file that others may use, or that its owner may not."""
    try:
        info = os.lstat(path)
    except OSError:
        return
    mode, directory = stat.S_IMODE(info.st_mode), stat.S_ISDIR(info.st_mode)
    right, least = (0o700, 0o700) if directory else (0o600, 0o400)
    if stat.S_ISLNK(info.st_mode) or not (mode & 0o077 or ~mode & least):
        return
    code, what = ("wide_permissions", "others") if mode & 0o077 else ("narrow_permissions", "not even its owner")
    sentence = f"{path} is open to {what} (mode {mode:o})"
    yield Finding(code, path, sentence, f"chmod {right:o}", partial(os.chmod, path, right))


def _entries(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
