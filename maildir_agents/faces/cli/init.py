"""agent-mail init"""

import os

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "make a spool (a first send makes one, too), or complete one",
    "args": {
        "--path": {"value": "PATH", "help": "where; default as for every verb"},
        "--durability": {
            "value": "LEVEL",
            "choices": ("full", "none"),
            "help": "full (default) survives a power cut; none syncs nothing: for tests and tmpfs",
        },
    },
    "output": {
        "spool, created, durability": "created is false when there was one",
        "file_system": "what was found out about it",
    },
    "examples": ("agent-mail init --path /srv/agent-mail",),
}


def run(call: "Call") -> int:
    from maildir_agents.mail.spool import SpoolFiles, locate
    from maildir_agents.verbs.init import init

    if call["path"] == "":
        raise MailError("usage", "--path is empty", "agent-mail init --path PATH")
    if call["path"] and call["spool"]:
        raise MailError("usage", "give --path or --spool, not both")
    path = os.path.abspath(call["path"]) if call["path"] else locate(call["spool"], os.environ)[0]
    call.emit(init(SpoolFiles(path, durability=call["durability"])))
    return 0
