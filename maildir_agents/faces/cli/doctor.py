"""agent-mail doctor"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "look over the whole spool: every message in exactly one state, nothing foreign, open or half done",
    "args": {"--fix": {"help": "mend what can be mended"}},
    "output": {
        "clean": "true: nothing is wrong, or all of it is mended (exit 0, else 1)",
        "findings": "code, finding, path, fix, mended",
        "file_system, notes": "what was found out about the file system",
    },
    "examples": ("agent-mail doctor", "agent-mail doctor --fix"),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs.doctor import doctor

    answer = doctor(call.spool, fix=call["fix"])
    tell = call.report if call["fix"] else call.emit
    tell(answer)
    return 0 if answer["clean"] else 1
