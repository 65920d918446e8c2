"""agent-mail conversation"""

from maildir_agents.errors import MailError
from maildir_agents.faces.cli.words import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "bounded dialogues of two agents: start, look, end, hand to a person",
    "words": {
        "ACTION": {
            "choices": ("start", "status", "cancel", "complete", "needs-human", "resume", "list"),
            "help": "start, status, cancel, complete, needs-human, resume (for people) or list",
        },
        "ID": {"optional": True, "help": "the conversation, for all but start and list"},
    },
    "args": {
        "--from": {"value": "AGENT", "default": "$AGENT_ID", "help": "start: who starts; default AGENT_ID"},
        "--to": {"value": "AGENT", "help": "start: with whom"},
        "--goal": {"value": "TEXT", "help": "start: what is to be reached"},
        "--subject": {"value": "TEXT", "help": "start: of the first task; default the goal's first line"},
        "--body": {"value": "TEXT", "help": "start: of the first task; default the goal"},
        "--max-turns": {"value": "N", "type": int, "default": 8, "help": "start: 2 to 20 (8)"},
        "--expires": {"value": "S", "type": int, "default": 3600, "help": "start: seconds, 60 to 86400 (3600)"},
        "--dedup-key": {"value": "KEY", "help": "start: once for this sender and key"},
        "--as": {
            "value": "AGENT",
            "default": "$AGENT_ID",
            "help": "status and ends: the member who asks; default AGENT_ID",
        },
        "--agent": {"value": "AGENT", "help": "list: only this agent's"},
        "--add-turns": {"value": "N", "type": int, "default": 0, "help": "resume: raise the limit, never beyond 20"},
        "--extend": {"value": "S", "type": int, "default": 0, "help": "resume: more time, from now"},
    },
    "output": {
        "start: conversation_id, message_id, duplicate": "with state, turn_count, max_turns, expires_at",
        "else: state, turn_count, max_turns, expires_at, transitions, in_flight": "never the goal or a text",
        "list: count, conversations": "a status each",
    },
    "examples": (
        "agent-mail conversation start --from hub --to worker-docs --goal 'Agree on the outline'",
        "agent-mail conversation list",
    ),
}


def run(call: "Call") -> int:
    from maildir_agents.verbs import conversation

    if call["action"] in ("start", "list") and call["id"]:
        raise MailError("usage", f"conversation {call['action']} takes no ID", usage("conversation", ROW))
    if call["action"] == "start":
        call.report(_start(call))
        return 0
    if call["action"] == "list":
        answer = conversation.listed(call.spool, call["agent"])
        for warning in answer.pop("warnings"):
            call.warn(warning)
        call.emit(answer)
        return 0
    if not call["id"]:
        raise MailError("usage", f"conversation {call['action']} needs ID", usage("conversation", ROW))
    tell = call.emit if call["action"] == "status" else call.report
    tell(_act(call))
    return 0


def _start(call: "Call") -> "dict[str, Any]":
    import os

    from maildir_agents.verbs import conversation

    for option in ("from", "to", "goal"):
        if not call[option]:
            raise MailError("usage", f"conversation start needs --{option}", usage("conversation", ROW))
    return conversation.start(
        call.spool,
        sender=call["from"],
        recipient=call["to"],
        goal=call["goal"],
        subject=call["subject"],
        body=call["body"],
        max_turns=call["max_turns"],
        expires_s=call["expires"],
        dedup_key=call["dedup_key"],
        hops=conversation.hops_of(os.environ),
    )


def _act(call: "Call") -> "dict[str, Any]":
    from maildir_agents.verbs import conversation

    action, identity = call["action"].replace("-", "_"), call["as"]
    if action == "resume":
        return conversation.resume(
            call.spool, call["id"], identity or "person", add_turns=call["add_turns"], extend_s=call["extend"]
        )
    if not identity:
        raise MailError("usage", f"conversation {call['action']} needs --as AGENT (or set AGENT_ID)")
    if action == "status":
        return conversation.status(call.spool, call["id"], identity)
    return conversation.control(call.spool, call["id"], action, identity)
