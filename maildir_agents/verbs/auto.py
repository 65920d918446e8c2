"""auto: what config.json lets listeners start, agent by agent.  Nobody else is ever dispatched; nothing is a default.

What is not understood starts nothing and is said.
"""

from maildir_agents.disk.jsonfile import read_settings
from maildir_agents.errors import MailError
from maildir_agents.mail.name import is_agent
from maildir_agents.mail.spool import SpoolFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ATTEMPTS, TIME_LIMIT_S, LONGEST_S = 3, 3600.0, 1e9


class Terms:
    """How work for one agent is started: `command` (argv), `attempts` at most, `limit_s` seconds for each."""

    __slots__ = ("attempts", "command", "limit_s")

    def __init__(self, command: tuple[str, ...], attempts: int = ATTEMPTS, limit_s: float = TIME_LIMIT_S) -> None:
        self.command, self.attempts, self.limit_s = command, attempts, limit_s


def auto(spool: SpoolFiles) -> "tuple[dict[str, Terms], list[dict[str, str]]]":
    """The agents that config.json lets workers start for, and a warning for each entry that is not understood."""
    path = f"{spool.root}/config.json"
    try:
        entries = (read_settings(path) or {}).get("auto", {})
        if type(entries) is not dict:
            raise _misread(path, "auto is no object")
    except MailError as error:
        return {}, [_warning(error, path)]
    found, warnings = {}, []
    for agent, entry in entries.items():
        try:
            found[agent] = _terms(agent, entry, path)
        except MailError as error:
            warnings.append(_warning(error, path))
    return found, warnings


def _terms(agent: str, entry: "Any", path: str) -> Terms:
    where = f"auto.{agent}"
    if not is_agent(agent) or type(entry) is not dict:
        raise _misread(path, f"{where} is not an agent's name with an object")
    command = entry.get("command")
    if type(command) is not list or not command or not all(type(w) is str and "\0" not in w for w in command):
        raise _misread(path, f"{where}.command is not a program and its arguments, a list of texts")
    attempts, limit = entry.get("max_attempts", ATTEMPTS), entry.get("time_limit_seconds", TIME_LIMIT_S)
    if type(attempts) is not int or attempts < 1:
        raise _misread(path, f"{where}.max_attempts is no whole number from 1 on")
    if type(limit) not in (int, float) or not limit > 0:
        raise _misread(path, f"{where}.time_limit_seconds is no number above 0")
    return Terms(tuple(command), attempts, min(float(limit), LONGEST_S))


def _misread(path: str, why: str) -> MailError:
    return MailError("bad_field", f"{path}: {why}", "nothing is started for it until that is mended")


def _warning(error: MailError, path: str) -> "dict[str, str]":
    return {"warning": error.sentence, "code": error.code, "path": path}
