"""The leash between a listener and a worker that systemd runs as a unit of its own.

A pair of sockets.  Down it go signals, one byte each, and its end: when the listener dies the kernel closes it, and the
worker is killed.  Up it comes how the worker has ended, exactly, which systemd's client tells only in part.  What else
comes up is text of programs that write to their standard error, for the log.
"""

import json
import socket

NEWS = b"\0"  # begins what we say, and no text
LONGEST = 64 << 10


def pair() -> tuple[socket.socket, socket.socket]:
    """(the listener's end, the end that is handed to systemd); one message stays one message."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return ours, theirs


def tell(end: socket.socket, **news: int | str) -> None:
    """Say something up the leash; nobody may be there any more."""
    try:
        end.send(NEWS + json.dumps(news).encode("ascii"))
    except OSError:
        pass


def hear(data: bytes) -> tuple[dict[str, int | str], str]:
    """(news, text): what one message says, as one or the other."""
    if data[:1] == NEWS:
        try:
            return dict(json.loads(data[1:])), ""
        except ValueError:
            pass
    return {}, data.decode("utf-8", "replace").rstrip()


def letter(command: tuple[str, ...], environ: dict[str, str], cwd: str, message: bytes) -> bytes:
    """What the warden reads before the message: nothing of it stands in an argument or in a unit's file."""
    head = json.dumps({"command": command, "environ": environ, "cwd": cwd})
    return head.encode("ascii") + b"\n" + message


def opened(content: bytes) -> tuple[list[str], dict[str, str], str, bytes]:
    """(command, environ, cwd, message) of a letter."""
    head, _, message = content.partition(b"\n")
    told = json.loads(head)
    return told["command"], told["environ"], told["cwd"], message
