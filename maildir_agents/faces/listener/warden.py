"""The first process of a worker's unit: it starts the worker, holds the leash, and says how the worker has ended.

Standard input is the letter (leash.letter), standard output takes what the worker prints, standard error is the leash.
When the leash ends, the listener has died, and the worker dies too; systemd then kills whatever else is in the unit.
"""

import os
import select
import signal
import socket
import sys

from maildir_agents.faces.listener import leash
from maildir_agents.faces.listener.signals import Signals
from maildir_agents.faces.listener.worker import NOT_STARTED, Child


def main() -> int:
    end = socket.socket(fileno=os.dup(2))
    command, environ, cwd, message = leash.opened(_all_of(0))
    with Signals() as signals:
        if _is_let_go(end):
            return NOT_STARTED  # nobody would hear of it, and another may do the work already
        try:
            child = Child(command, environ, message, 1, cwd=cwd)
        except (OSError, ValueError) as error:
            leash.tell(end, not_started=str(error))
            return NOT_STARTED
        leash.tell(end, started=child.pid)
        status = _guard(child, end, signals)
    leash.tell(end, ended=status)
    return status if status >= 0 else 128 - status


def _guard(child: Child, end: socket.socket, signals: Signals) -> int:
    """Hold the leash until the worker has ended; its exit status, negative: the signal."""
    sleeper = select.poll()
    sleeper.register(signals.reader, select.POLLIN)
    sleeper.register(end, select.POLLIN)
    while (status := child.ended()) is None:
        ready = {fd for fd, _ in sleeper.poll()}
        if signals.take():
            child.signal(signal.SIGTERM)  # whoever stops the unit stops the worker
        if end.fileno() in ready:
            numbers = _heard(end)
            if not numbers:
                child.kill()
            for number in numbers:
                child.signal(number)
    return status


def _heard(end: socket.socket) -> bytes:
    """What came down the leash, empty at its end: whoever dies with news unheard leaves an error, not an end."""
    try:
        return end.recv(64)
    except OSError:
        return b""


def _is_let_go(end: socket.socket) -> bool:
    try:
        return not end.recv(64, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _all_of(fd: int) -> bytes:
    pieces = []
    while piece := os.read(fd, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


if __name__ == "__main__":
    sys.exit(main())
