"""The command line: choose a verb, read its words, call it, print its answer as JSON.

Starting is most of what a command costs, so a verb's module is imported when it is chosen and nothing else is.  Each
such module holds its own row (`ROW`: arguments, output, examples) from which describe, help, the parser and the usage
errors come, and `run(call)`.
"""

import os
import sys

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.mail.spool import SpoolFiles

VERBS = (
    "describe",
    "send",
    "read",
    "watch",
    "ack",
    "archive",
    "claim",
    "renew",
    "release",
    "conversation",
    "listener",
    "status",
    "view",
    "thread",
    "trace",
    "agents",
    "init",
    "failed",
    "cleanup",
    "doctor",
    "mcp",
    "serve",
    "hook",
    "install",
    "uninstall",
    "demo",
)
"""In the order that describe and help show them."""

UNDESCRIBED = frozenset(("view", "serve", "demo", "hook", "install", "uninstall"))
"""For people and for settings files: not part of the contract that agents read."""

BROKEN_PIPE, INTERRUPTED = 141, 130

NAMING = ("handle", "id", "ids", "message_id", "message_ids", "conversation_id")
"""Members of an answer that name what was done: what a lost receipt still tells."""

_REORDERING = (
    *range(0x7F, 0xA0),
    0x061C,
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    0xFEFF,
)
INVISIBLE = {code: f"\\u{code:04x}" for code in _REORDERING}
"""On a terminal, characters that act on it, reorder or hide others are JSON escapes: the same JSON, nothing acts."""


class Call:
    """One command being carried out: its arguments, the spool they mean, and where the answer goes."""

    def __init__(self, verb: str, arguments: "dict[str, Any]") -> None:
        self.verb = verb
        self.arguments = arguments

    def __getitem__(self, name: str) -> "Any":
        return self.arguments[name]

    @property
    def spool(self) -> "SpoolFiles":
        """The spool named by --spool, AGENT_MAIL_SPOOL or the default, opened."""
        from maildir_agents.mail.spool import SpoolFiles, locate

        return SpoolFiles(locate(self.arguments.get("spool"), os.environ)[0])

    @property
    def mine(self) -> frozenset[tuple[str, int]]:
        """The claims of this process: the one that its listener gave it."""
        from maildir_agents.mail.name import own_claims

        return own_claims(os.environ.get("AGENT_MAIL_CLAIM"))

    def meant(self, text: str) -> str:
        """An id as typed; the handle of this process's claim where that is its id."""
        from maildir_agents.mail.name import meant

        return meant(text, self.mine)

    def emit(self, answer: object) -> None:
        """Print an answer, all of it, or raise OSError."""
        from maildir_agents.disk.jsonfile import pretty

        if self.arguments.get("spool") and isinstance(answer, dict) and answer.get("next"):
            answer = {**answer, "next": [f"{step} --spool {quoted(self['spool'])}" for step in answer["next"]]}
        text = pretty(answer) + "\n"
        if os.isatty(1):
            text = text.translate(INVISIBLE)
        write(1, text.encode("utf-8", "backslashreplace"))

    def report(self, answer: object) -> None:
        """Print the answer of a verb that has changed something: when that fails, it was done all the same."""
        try:
            self.emit(answer)
        except OSError as error:
            told = answer if isinstance(answer, dict) else {}
            raise MailError(
                "receipt_lost",
                f"it was done, but the answer could not be written: {error.strerror}",
                "look how it stands before you repeat it",
                **{key: told[key] for key in NAMING if told.get(key)},
            ) from None

    def warn(self, warning: "dict[str, Any]") -> None:
        """Print a warning as one JSON object on standard error."""
        complain(warning)


def missing_extra(error: ModuleNotFoundError, verb: str, extra: str) -> Exception:
    """The refusal where a package is missing that an extra brings; a module of ours that is missing stays a fault."""
    if error.name is None or error.name.partition(".")[0] == "maildir_agents":
        return error
    install = f"{quoted(sys.executable)} -m pip install 'maildir-agents[{extra}]'"  # here, whatever PATH says
    return MailError("missing_extra", f"{verb} needs the package {error.name}", install)


def quoted(path: str) -> str:
    """A path as one word of a shell.  shlex does this, but it imports re."""
    plain = path.isascii() and path.replace("/", "").replace("-", "").replace("_", "").replace(".", "").isalnum()
    return path if plain else "'" + path.replace("'", "'\"'\"'") + "'"


def write(fd: int, data: bytes) -> None:
    """Write all of `data`; a short write is no success."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # a pipe that its maker set to be not waited for
            import select

            select.select([], [fd], [])


def complain(answer: "dict[str, Any]") -> None:
    from maildir_agents.disk.jsonfile import pretty

    text = pretty(answer) + "\n"
    try:
        if os.isatty(2):
            text = text.translate(INVISIBLE)
        write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        pass  # nobody is left to tell


def load(verb: str) -> "Any":
    """The module of a verb."""
    path = f"maildir_agents.faces.cli.{verb}"
    __import__(path)  # importlib would be one import more
    return sys.modules[path]


def carry_out(words: list[str]) -> int:
    """Carry out one command; the exit status."""
    try:
        return _carry_out(words)
    except MailError as error:
        answer = error.as_json()
        if words and words[0] in VERBS and "hint" in answer:
            answer["hint"] = str(answer["hint"]).replace("agent-mail VERB", f"agent-mail {words[0]}")
        complain(answer)
        return error.exit_status
    except BrokenPipeError:
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        refused = _refused(error)
        complain(refused.as_json())
        return refused.exit_status


def _refused(error: OSError) -> MailError:
    if not error.filename:
        return MailError("output_lost", f"the answer could not be written: {error.strerror}")
    from maildir_agents.disk.moves import refusal

    return refusal(error, os.fsdecode(error.filename))


def _carry_out(words: list[str]) -> int:
    verb = words[0] if words else "describe"
    if verb in ("--help", "-h", "help", "--version"):
        from maildir_agents.faces.cli import help as help_page

        return help_page.front(verb, words[1:])
    if verb not in VERBS:
        from maildir_agents.faces.cli.help import unknown_verb

        raise unknown_verb(verb)
    module = load(verb)
    from maildir_agents.faces.cli.words import asks_for_help, parse

    if asks_for_help(module.ROW, words[1:]):
        from maildir_agents.faces.cli import help as help_page

        return help_page.page(verb, module.ROW)
    return int(module.run(Call(verb, parse(verb, module.ROW, words[1:], os.environ))) or 0)


def main() -> None:
    """The console script.  Everything is written by then, so the interpreter is not taken down piece by piece."""
    try:
        _occupy_standard_descriptors()
        status = carry_out(sys.argv[1:])
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    os._exit(status)


def _occupy_standard_descriptors() -> None:
    # Where standard output is closed, the next file opened would get its number, and the answer.
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free: this one; writing to it fails
