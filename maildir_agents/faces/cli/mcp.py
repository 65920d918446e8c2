"""agent-mail mcp"""

import os

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "serve this agent's mail to an MCP client on standard input and output",
    "args": {"--agent": {"value": "AGENT", "default": "$AGENT_ID", "help": "who it serves; default AGENT_ID"}},
    "output": {"JSON-RPC": "the Model Context Protocol; needs the extra maildir-agents[mcp]"},
    "examples": ("agent-mail mcp --agent worker-docs",),
}


def run(call: "Call") -> int:
    if not call["agent"]:
        raise MailError("usage", "mcp needs an identity", "set AGENT_ID, or give --agent")
    try:
        from maildir_agents.faces.mcp.desk import Desk
        from maildir_agents.faces.mcp.server import serve
    except ModuleNotFoundError as error:
        from maildir_agents.faces.cli import missing_extra

        raise missing_extra(error, "mcp", "mcp") from None
    spool = call.spool  # a wrong spool is said now, and not at the first tool
    serve(Desk(lambda: type(spool)(spool.root), call["agent"], os.environ))
    return 0
