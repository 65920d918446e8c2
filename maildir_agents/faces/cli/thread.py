"""agent-mail thread"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "the whole thread of any of its messages, oldest first; changes nothing",
    "words": {"ID": {"help": "any member's id"}},
    "output": {"thread_id, count, messages": "thread_id is the root's id"},
    "examples": ("agent-mail thread 01a22e46-7f03-77dd-b1c6-1cf7bb29957c",),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs.thread import thread

    call.emit(thread(call.spool, call["id"]))
    return 0
