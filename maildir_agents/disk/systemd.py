"""What systemd and a service that it started say to each other: sd_notify(3) one way, sd_listen_fds(3) the other.

Everything is said in the environment and over one datagram socket, so this needs no library.  Without a manager nobody
is told anything, and a manager that does not listen changes nothing.
"""

import os
import time

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, MutableMapping

FIRST_FD = 3  # SD_LISTEN_FDS_START
MEANT_FOR_ONE = frozenset(
    (
        "NOTIFY_SOCKET",
        "WATCHDOG_PID",
        "WATCHDOG_USEC",
        "LISTEN_FDS",
        "LISTEN_FDNAMES",
        "LISTEN_PID",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "SYSTEMD_EXEC_PID",
    )
)
"""Variables that systemd has set for the one process it started: what that one starts must not have them."""


class Service:
    """The manager of this process.  `due`: when it wants to hear of us next, on the monotonic clock, or None.

    Whoever does the work pings between two pieces of it, never a thread or timer: then a loop that hangs is silent,
    and the manager starts it anew.
    """

    def __init__(self, environ: "Mapping[str, str]") -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        usec, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
        meant = self._address and usec.isdecimal() and pid in ("", str(os.getpid()))
        self._every = int(usec) / 2e6 if meant else 0.0
        self._status = ""
        self.due = time.monotonic() + self._every if self._every else None

    def ping(self) -> None:
        """Say that this process is alive, if it is time to."""
        if self.due is not None and time.monotonic() >= self.due:
            self.due = time.monotonic() + self._every
            self.tell("WATCHDOG=1")

    def status(self, text: str) -> None:
        """Say in one line what this process is doing, if that is another thing than before."""
        if text != self._status:
            self._status = text
            self.tell(_status_line(text))

    def ready(self, text: str) -> None:
        """Say that the start is over and, so that nobody sees it without, what this process is doing."""
        self._status = text
        self.tell(f"READY=1\n{_status_line(text)}")

    def stopping(self, seconds: float | None = None) -> None:
        """Say that this process is about to end; `seconds`: how long that may take, if longer than the unit allows."""
        extend = f"\nEXTEND_TIMEOUT_USEC={round(seconds * 1e6)}" if seconds is not None else ""
        self.tell(f"STOPPING=1{extend}")

    def tell(self, state: str) -> None:
        """READY=1, STATUS=… : one `NAME=value` a line, in one datagram."""
        if not self._address:
            return
        import socket

        address = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.sendto(state.encode("utf-8", "replace"), address)
        except OSError:
            pass


def _status_line(text: str) -> str:
    return f"STATUS={' '.join(text.split())}"


def passed_sockets(environ: "MutableMapping[str, str]") -> "list[socket.socket]":
    """The listening sockets that systemd opened for this process (socket activation), in the unit's order.

    `environ` is os.environ: what was said there is taken out, so it can neither be taken twice nor inherited.  Without
    socket activation, or when another process was meant, the list is empty.  The caller closes them.  Raises `usage`
    when what was promised is not there.
    """
    pid, count = environ.get("LISTEN_PID", ""), environ.get("LISTEN_FDS", "")
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        environ.pop(name, None)
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    import socket

    found: list[socket.socket] = []
    for fd in range(FIRST_FD, FIRST_FD + int(count)):
        try:
            os.set_inheritable(fd, False)
            found.append(socket.socket(fileno=fd))
        except OSError as error:
            for one in found:
                one.close()
            raise MailError("usage", f"LISTEN_FDS says {count}, but {fd} is no socket: {error.strerror}") from None
    return found


def finding_the_manager(environ: "Mapping[str, str]") -> dict[str, str]:
    """An environment in which systemctl and systemd-run find the user's manager, also where no session has begun."""
    usual = f"/run/user/{os.getuid()}"
    found = dict(environ)
    if not found.get("XDG_RUNTIME_DIR") and os.path.isdir(usual):
        found["XDG_RUNTIME_DIR"] = usual
    return found
