"""agent-mail listener"""

import os

from maildir_agents.errors import MailError
from maildir_agents.faces.cli.words import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "start workers for mail: run a listener, see how it stands, allow or forbid it",
    "about": "What is started is in the spool's config.json, and nothing else ever is: "
    '{"auto": {"AGENT": {"command": ["program", "argument"], "max_attempts": 3, "time_limit_seconds": 3600}}}.  '
    "A worker's exit status: 0 acknowledges, 100 asks for a human, anything else is tried again.",
    "words": {
        "ACTION": {
            "choices": ("run", "status", "enable", "disable"),
            "help": "run (stays), status, enable (starts one in the background) or disable (its worker may finish)",
        },
        "AGENT…": {"many": True, "help": "run: one or more; else one; default AGENT_ID"},
    },
    "args": {"--all": {"help": "run: every agent that has a mailbox, now and later"}},
    "output": {
        "run: listening, pid": "once, when it is ready; warnings on standard error",
        "else: agent, state": "running, disabled, dead (it was killed) or none",
        "enabled, running, pid, waiting_on": "waiting_on: the id of the message that its worker has",
    },
    "examples": ("agent-mail listener enable worker-docs", "agent-mail listener run hub worker-docs"),
}


def run(call: "Call") -> int:
    agents = call["agent"] or [name for name in [os.environ.get("AGENT_ID")] if name and not call["all"]]
    if call["action"] == "run":
        return _run(call, agents)
    if call["all"] or len(agents) != 1:
        raise MailError("usage", f"listener {call['action']} needs one AGENT (or set AGENT_ID)", usage("listener", ROW))
    from maildir_agents.verbs import listener

    if call["action"] == "enable":
        call.emit(listener.enable(call.spool, agents[0], os.environ))
        _say_if_idle(call, agents[0])
    else:
        call.emit({"status": listener.status, "disable": listener.disable}[call["action"]](call.spool, agents[0]))
    return 0


def _run(call: "Call", agents: list[str]) -> int:
    if bool(agents) == call["all"]:
        raise MailError("usage", "listener run needs the agents it serves, or --all", usage("listener", ROW))
    from maildir_agents.faces.listener.loop import Loop
    from maildir_agents.mail.name import agent

    loop = Loop(call.spool, None if call["all"] else [agent(name) for name in agents], call.warn, os.environ)
    return loop.run(call.emit)


def _say_if_idle(call: "Call", agent: str) -> None:
    """What the listener itself can say only in its log: that it has nothing to start, and why."""
    from maildir_agents.verbs.auto import auto

    spool = call.spool
    found, warnings = auto(spool)
    if agent not in found:
        path = f"{spool.root}/config.json"
        sentence = f"{path} starts nothing for {agent}: its mail waits until {agent} has an entry under auto"
        for warning in [*warnings, {"warning": sentence, "code": "starts_nothing", "path": path}]:
            call.warn(warning)
