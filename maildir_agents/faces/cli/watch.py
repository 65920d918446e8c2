"""agent-mail watch"""

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "wait until there is unread mail; shows envelopes, marks nothing",
    "words": {"AGENT": {"default": "$AGENT_ID", "help": "whose mail; default AGENT_ID"}},
    "args": {
        "--timeout-minutes": {
            "value": "M",
            "type": float,
            "most": 525600,
            "help": "end after M minutes (55, with --follow never): a normal, empty answer",
        },
        "--once": {"help": "look and return at once"},
        "--follow": {"help": "stay: one line of JSON a message, each once"},
        "--plain": {"help": "with --follow: lines for people instead of JSON"},
    },
    "output": {
        "agent, messages": "the 20 oldest unread envelopes, no bodies",
        "count": "all unread",
        "timeout": "true: nothing came",
        "reachable": "another process holds an armed watch for this agent",
        "next": "commands still outstanding, in the order read, ack, watch",
    },
    "examples": ("agent-mail watch worker-docs", "agent-mail watch worker-docs --timeout-minutes 5"),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs.watch import DEFAULT_S, follow, watch

    minutes = call["timeout_minutes"]
    if call["follow"] and call["once"]:
        raise MailError("usage", "--once returns at once, --follow stays: not both")
    if call["follow"]:
        seconds = None if minutes is None else minutes * 60
        return _tell(call, follow(call.spool, call["agent"], timeout_s=seconds, hangup=1, mine=call.mine))
    if call["plain"]:
        raise MailError("usage", "--plain goes with --follow")
    seconds = DEFAULT_S if minutes is None else minutes * 60
    once, mine = call["once"], call.mine
    answer = watch(call.spool, call["agent"], timeout_s=seconds, once=once, hangup=1, warn=call.warn, mine=mine)
    if answer is None:
        raise BrokenPipeError  # nobody is there to read the answer: as if the write had told
    call.emit(answer)
    return 0


def _tell(call: "Call", arrivals: "Iterator[dict[str, Any]]") -> int:
    from maildir_agents.disk.jsonfile import encode
    from maildir_agents.faces.cli import write
    from maildir_agents.mail.visible import visible

    for arrival in arrivals:
        if "warning" in arrival:
            call.warn(arrival)
        elif call["plain"]:
            line = f"{arrival['created']}  {arrival['sender']}  {visible(arrival['subject'])}  {arrival['id']}\n"
            write(1, line.encode("utf-8"))
        else:
            write(1, (encode(arrival) + "\n").encode("utf-8"))
    return 0
