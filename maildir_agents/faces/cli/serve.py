"""agent-mail serve"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "serve the mail over HTTP: an API, live events, MCP, and the inbox page",
    "about": "The address is printed when it answers.  Keys are in a file that only you can read, made at the first "
    "start; the page asks for the one in the line of *.  It stays until it is told to stop.",
    "args": {
        "--host": {"value": "ADDRESS", "default": "127.0.0.1", "help": "listen there; default 127.0.0.1"},
        "--port": {"value": "N", "type": int, "default": 8325, "least": 0, "most": 65535, "help": "8325; 0: any"},
        "--socket": {"value": "PATH", "help": "listen at a Unix socket in place of a port"},
        "--name": {"value": "HOST", "many": True, "help": "also answer to this name (the Host that clients say)"},
        "--no-auth": {"help": "ask for no key; only on this machine's own address or a Unix socket"},
        "--key-file": {"value": "PATH", "help": "keys; default agent-mail/http-keys in the configuration directory"},
        "--new-key": {"value": "AGENT", "help": "write a new key for AGENT (or *) into the key file and return"},
    },
    "output": {
        "serving, keys": "the address and the key file, once it answers",
        "name, keys": "with --new-key: whose key is new, and the file it is in",
    },
    "examples": ("agent-mail serve", "agent-mail serve --new-key worker-docs"),
}


def run(call: "Call") -> int:
    from maildir_agents.faces.http import keys

    place = call["key_file"] or keys.usual_place(os.environ)
    if call["new_key"] is not None:
        keys.issue(place, call["new_key"])
        call.report({"name": call["new_key"], "keys": place})
        return 0
    try:
        from maildir_agents.faces.http.server import serve
    except ModuleNotFoundError as error:
        from maildir_agents.faces.cli import missing_extra

        raise missing_extra(error, "serve", "web") from None
    spool = call.spool  # a wrong spool is said now, and not at the first request
    serve(
        lambda: type(spool)(spool.root), host=call["host"], port=call["port"], path=call["socket"],
        names=call["name"], no_auth=call["no_auth"], key_file=place, environ=os.environ, say=call.emit,
    )  # fmt: skip
    return 0
