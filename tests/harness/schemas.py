"""What each client takes for an answer, written from its documentation as JSON schemas.  Closed: no member it ignores.

Claude Code: the hooks reference.  Codex: the schemas that it generates for its hooks, which refuse unknown members.
Gemini CLI: docs/hooks/reference.md of its repository.  Cursor: its hooks page, and for `additional_context` before a
prompt what its client was seen to take.
"""

TEXT = {"type": "string", "minLength": 1, "maxLength": 10_000}  # more is moved to a file, or dropped


def closed(**members):
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def context(event):
    return closed(hookSpecificOutput=closed(hookEventName={"const": event}, additionalContext=TEXT))


BLOCK = closed(decision={"const": "block"}, reason=TEXT)
NOTICE = closed(systemMessage=TEXT)

SCHEMAS = {
    "claude": {
        "session-start": context("SessionStart"),
        "prompt": context("UserPromptSubmit"),
        "stop": BLOCK,
        "notice": NOTICE,
    },
    "codex": {
        "session-start": context("SessionStart"),
        "prompt": context("UserPromptSubmit"),
        "stop": BLOCK,
        "notice": NOTICE,
    },
    "gemini": {
        "session-start": context("SessionStart"),
        "prompt": context("BeforeAgent"),
        "stop": closed(decision={"const": "deny"}, reason=TEXT),
        "notice": NOTICE,
    },
    "cursor": {
        "session-start": closed(additional_context=TEXT),
        "prompt": closed(**{"continue": {"const": True}}, additional_context=TEXT),
        "stop": closed(followup_message=TEXT),
        "notice": None,
    },
}

_COMMON = {"transcript_path": "/t.jsonl", "cwd": "/repo", "permission_mode": "default", "model": "m"}
INPUTS = {
    "claude": {
        "session-start": {**_COMMON, "session_id": "c", "hook_event_name": "SessionStart", "source": "startup"},
        "prompt": {**_COMMON, "session_id": "c", "hook_event_name": "UserPromptSubmit", "prompt": "do\nit"},
        "stop": {
            **_COMMON,
            "session_id": "c",
            "hook_event_name": "Stop",
            "stop_hook_active": False,
            "last_assistant_message": "done",
            "background_tasks": [{"id": "1", "command": "x"}],
            "session_crons": [],
        },
    },
    "codex": {
        "session-start": {**_COMMON, "session_id": "x", "hook_event_name": "SessionStart", "source": "startup"},
        "prompt": {**_COMMON, "session_id": "x", "hook_event_name": "UserPromptSubmit", "turn_id": "1", "prompt": "p"},
        "stop": {
            **_COMMON,
            "session_id": "x",
            "hook_event_name": "Stop",
            "turn_id": "1",
            "stop_hook_active": False,
            "last_assistant_message": None,
        },
    },
    "gemini": {
        "session-start": {**_COMMON, "session_id": "g", "hook_event_name": "SessionStart", "source": "startup"},
        "prompt": {**_COMMON, "session_id": "g", "hook_event_name": "BeforeAgent", "prompt": "p"},
        "stop": {
            **_COMMON,
            "session_id": "g",
            "hook_event_name": "AfterAgent",
            "prompt": "p",
            "prompt_response": "r",
            "stop_hook_active": False,
        },
    },
    "cursor": {
        "session-start": {"session_id": "u", "conversation_id": "u", "hook_event_name": "sessionStart"},
        "prompt": {
            "conversation_id": "u",
            "generation_id": "1",
            "hook_event_name": "beforeSubmitPrompt",
            "prompt": "p",
        },
        "stop": {"conversation_id": "u", "hook_event_name": "stop", "status": "completed", "loop_count": 0},
    },
}
