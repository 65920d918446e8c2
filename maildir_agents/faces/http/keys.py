"""Keys: who may ask over HTTP, in one file that only its owner can read.

A line is a name, a space, a key: `*` for the person who runs the spool, an agent's name for that agent.  The file is
made with a key for `*` at the first start, read again when it changes, and refused when others could read or change
it.  A key is compared in constant time and never printed, logged or taken from an address.
"""

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping

from maildir_agents.disk.replacing import replace
from maildir_agents.errors import MailError
from maildir_agents.mail.name import agent as agent_name

EVERYTHING = "*"  # the name of whoever may do everything
KEY_BYTES = 32
SHORTEST = 32  # characters of a key that somebody wrote by hand
FILE = "agent-mail/http-keys"
HEAD = "# Keys for agent-mail serve: a name and its key in each line.  * is you; others are agents.\n"


def usual_place(environ: Mapping[str, str]) -> str:
    """Where the key file is unless one is named: in the user's configuration directory."""
    config = environ.get("XDG_CONFIG_HOME", "")
    if config[:1] != "/":
        config = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return f"{config}/{FILE}"


class Keys:
    """The keys in a file; those of a moment ago where it has not changed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._seen: tuple[int, ...] = ()
        self._names: dict[bytes, str] = {}  # hash of a key -> its name
        self._refresh()

    @classmethod
    def founded(cls, path: str) -> "Keys":
        """The keys in this file, which is made with a key for `*` where there is none."""
        if not os.path.lexists(path):
            issue(path, EVERYTHING)
        return cls(path)

    def owner(self, key: str) -> str | None:
        """Whose key this is; None: nobody's.  MailError `cannot_read`: the file is not what it must be."""
        self._refresh()
        asked = _hash(key)
        found = None
        for known, name in self._names.items():  # all of them, always
            if hmac.compare_digest(known, asked):
                found = name
        return found

    @property
    def edition(self) -> tuple[int, ...]:
        """Another one when the file is another, or others may use it."""
        try:
            seen = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return ()
        return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_mode

    def secret(self) -> bytes:
        """What sign-ins to the page are sealed with: another one when the key of `*` is another."""
        self._refresh()
        for known, name in self._names.items():
            if name == EVERYTHING:
                return hmac.digest(known, b"agent-mail page", "sha256")
        raise _refused(self.path, "has no key for *", "add one: agent-mail serve --new-key '*'")

    def _refresh(self) -> None:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise _refused(self.path, f"cannot be read: {error.strerror}") from None
        with open(fd, "rb") as file:
            seen = os.fstat(fd)
            _judge(self.path, seen)
            sight = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
            if sight == self._seen:
                return
            self._names = _parsed(self.path, file.read(1 << 20))
            self._seen = sight


def issue(path: str, name: str) -> None:
    """Give `name` (an agent, or `*`) a new key: a further line; older keys of that name end."""
    if name != EVERYTHING:
        agent_name(name)
    kept = [HEAD]
    if os.path.lexists(path):
        Keys(path)
        with open(path, encoding="utf-8") as file:
            kept = [f"{line}\n" for line in file.read().splitlines() if line.split(None, 1)[:1] != [name]]
    elif name != EVERYTHING:
        kept.append(f"{EVERYTHING} {secrets.token_urlsafe(KEY_BYTES)}\n")
    kept.append(f"{name} {secrets.token_urlsafe(KEY_BYTES)}\n")
    _write(path, "".join(kept))


def _write(path: str, text: str) -> None:
    real = os.path.abspath(path)
    try:
        os.makedirs(os.path.dirname(real), mode=0o700, exist_ok=True)
        replace(real, text, mode=0o600)
    except OSError as error:
        raise MailError("cannot_write", f"the key file {path} cannot be written: {error.strerror}") from None


def _judge(path: str, seen: os.stat_result) -> None:
    if not stat.S_ISREG(seen.st_mode):
        raise _refused(path, "is not a regular file")
    if seen.st_uid != os.geteuid():
        raise _refused(path, f"belongs to user {seen.st_uid}, this is user {os.geteuid()}")
    if seen.st_mode & 0o077:
        raise _refused(path, f"has mode {stat.S_IMODE(seen.st_mode):04o}: others could use it", f"chmod 600 {path}")


def _parsed(path: str, data: bytes) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or len(words[1]) < SHORTEST:
            raise _refused(path, f"line {number} is not a name and a key of at least {SHORTEST} characters")
        if words[0] != EVERYTHING:
            agent_name(words[0])
        if found.setdefault(_hash(words[1]), words[0]) != words[0]:
            raise _refused(path, f"line {number} has a key that is another's")
    return found


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _refused(path: str, why: str, hint: str | None = None) -> MailError:
    return MailError("cannot_read", f"the key file {path} {why}", hint or "mend it, or name another with --key-file")
