"""agent-mail hook"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "answer an event of a coding agent's session; `install` puts this into its settings",
    "about": "Reads the event on standard input.  Silent when nothing is owed; exit status 0 whatever goes wrong; "
    "only `rewake` ends with 2, to wake its session.  `monitor` is for a plugin: it reads nothing, stays, and each "
    "line it prints wakes the session.",
    "words": {
        "EVENT": {
            "choices": ("session-start", "prompt", "stop", "rewake", "monitor"),
            "help": "session-start, prompt, stop (holds a turn up for mail, three times in a row at most), rewake "
            "(its end wakes an idle session) or monitor (its lines do)",
        }
    },
    "args": {
        "--agent": {"value": "AGENT", "default": "$AGENT_ID", "help": "whose mail; default AGENT_ID"},
        "--dialect": {
            "value": "D",
            "choices": ("claude", "codex", "gemini", "cursor"),
            "default": "claude",
            "help": "whose events: claude (default), codex, gemini or cursor",
        },
    },
    "output": {
        "JSON": "what that harness understands: the number of messages owed, and commands; nothing that a message says"
    },
    "examples": ("agent-mail hook stop --agent worker-docs --dialect codex",),
}


def run(call: "Call") -> int:
    try:
        return _run(call)
    except Exception as error:  # a session is not held up because its mail has trouble
        told = {"warning": f"agent-mail hook: {getattr(error, 'sentence', repr(error))}", "code": "hook"}
        hint = getattr(error, "hint", None)
        call.warn(told | ({"hint": hint} if hint else {}))
        return 0


def _run(call: "Call") -> int:
    if os.environ.get("AGENT_MAIL_CLAIM"):
        return 0  # a listener's worker: it has one message, and its exit status says what became of it
    from maildir_agents.errors import MailError
    from maildir_agents.faces.hooks.dialects import DIALECTS, MONITOR, REWAKE
    from maildir_agents.faces.hooks.events import answer, heard
    from maildir_agents.mail.name import agent

    told = heard() if call["event"] != MONITOR else {"session_id": os.environ.get("CLAUDE_CODE_SESSION_ID")}
    if not call["agent"]:
        raise MailError("usage", "hook needs an identity", "set AGENT_ID, or give --agent")
    name, dialect, ending = agent(call["agent"]), DIALECTS[call["dialect"]], ""
    if call["spool"]:
        from maildir_agents.faces.cli import quoted

        ending = f" --spool {quoted(call['spool'])}"
    if call["event"] in (REWAKE, MONITOR):
        return _stay(call, told, name, ending)
    said = answer(call["event"], told, dialect, call.spool, name, os.environ, ending)
    if said is not None:
        from maildir_agents.disk.jsonfile import encode
        from maildir_agents.faces.cli import write

        write(1, (encode(said) + "\n").encode("utf-8", "backslashreplace"))
    return 0


def _stay(call: "Call", told: "dict[str, Any] | None", agent: str, ending: str) -> int:
    from maildir_agents.errors import MailError
    from maildir_agents.faces.cli import write
    from maildir_agents.faces.hooks.dialects import DIALECTS, REWAKE, session_of
    from maildir_agents.faces.hooks.rewake import monitor, rewake
    from maildir_agents.faces.hooks.session import Session

    if not DIALECTS[call["dialect"]].rewakes:
        raise MailError("usage", f"no session of {call['dialect']} can be woken by a hook")
    spool = call.spool
    session = Session(spool.root, agent, session_of(told or {}), os.environ)
    stay = rewake if call["event"] == REWAKE else monitor
    return stay(spool, agent, session, os.environ, write, ending)
