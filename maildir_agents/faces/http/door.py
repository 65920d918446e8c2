"""The door: whom a request comes from, and whether another site made a browser send it.

A caller is `*` (the person who runs the spool) or an agent.  A key comes in the Authorization header; the page has a
cookie instead, sealed with the key and worth nothing without it, that no script can read and no other site can use.
"""

import hmac
import time

from starlette.types import Scope

from maildir_agents.errors import MailError
from maildir_agents.faces.http.keys import EVERYTHING, Keys

SIGNED_IN_S = 7 * 86_400
LOCAL = ("127.0.0.1", "localhost", "[::1]")


class Asked:
    """What the door saw.  `caller`: `*`, an agent, or None; `from_browser`: it says so itself."""

    __slots__ = ("by_cookie", "caller", "from_browser", "same_origin", "wrong_key")

    def __init__(self, caller: str | None, by_cookie: bool, from_browser: bool, same_origin: bool, wrong: bool) -> None:
        self.caller, self.by_cookie = caller, by_cookie
        self.from_browser, self.same_origin, self.wrong_key = from_browser, same_origin, wrong

    def require_key(self, changing: bool) -> None:
        if self.caller is None:
            sentence = "this key is not known here" if self.wrong_key else "this needs a key"
            raise MailError("no_key", sentence, "Authorization: Bearer KEY, from the key file of agent-mail serve")
        if self.by_cookie and changing and not self.same_origin:
            raise MailError("cross_site", "this browser does not say that the page itself sent this")

    @property
    def everything(self) -> bool:
        return self.caller == EVERYTHING

    def may(self, *agents: str | None) -> bool:
        """Whether the caller is one of these agents, or may do everything."""
        return self.everything or self.caller in agents

    def require(self, *agents: str | None) -> None:
        if not self.may(*agents):
            raise MailError("not_yours", f"this key is for {self.caller}", "the key of * in the key file may do this")

    def require_everything(self) -> None:
        self.require()


class Door:
    """`keys` None: everybody who reaches it may do everything.  `hosts`: the values of Host that mean this server."""

    def __init__(self, keys: Keys | None, hosts: frozenset[str], cookie: str) -> None:
        self._keys, self._hosts, self.cookie = keys, hosts, cookie

    @property
    def keyed(self) -> bool:
        return self._keys is not None

    @property
    def edition(self) -> tuple[int, ...]:
        """Of the keys: who was let in under another one has to ask again."""
        return self._keys.edition if self._keys else ()

    def judge(self, scope: Scope) -> Asked:
        """Raises wrong_host or cross_site."""
        given = _headers(scope)
        host = given.get("host", [""])
        if len(host) != 1 or host[0].lower() not in self._hosts:
            raise MailError("wrong_host", "this server does not go by that name", "use its address as serve printed it")
        origins, sites = given.get("origin", []), given.get("sec-fetch-site", [])
        if any(origin.lower() not in (f"http://{host[0].lower()}", f"https://{host[0].lower()}") for origin in origins):
            raise MailError("cross_site", "another site sent this request")
        if any(site not in ("same-origin", "none") for site in sites):
            raise MailError("cross_site", "another site sent this request")
        caller, by_cookie, wrong = self._who(given)
        return Asked(caller, by_cookie, bool(origins or sites), bool(origins) or "same-origin" in sites, wrong)

    def _who(self, given: dict[str, list[str]]) -> tuple[str | None, bool, bool]:
        """(the caller, whether its cookie said so, whether it gave a key that is nobody's)."""
        if self._keys is None:
            return EVERYTHING, False, False
        credentials = given.get("authorization", [])
        if credentials:
            scheme, _, key = credentials[0].partition(" ")
            owner = self._keys.owner(key.strip()) if scheme.lower() == "bearer" and len(credentials) == 1 else None
            return owner, False, owner is None
        return (EVERYTHING if self._signed_in(given) else None), True, False

    # the page's cookie

    def owner(self, key: str) -> str | None:
        return self._keys.owner(key) if self._keys else EVERYTHING

    def seal(self) -> str:
        """The value of a cookie for whoever has just shown the key of `*`."""
        until = str(int(time.time()) + SIGNED_IN_S)
        return f"{until}.{self._mac(until)}"

    def _mac(self, until: str) -> str:
        assert self._keys is not None
        return hmac.new(self._keys.secret(), until.encode("utf-8", "replace"), "sha256").hexdigest()

    def _signed_in(self, given: dict[str, list[str]]) -> bool:
        for text in given.get("cookie", []):
            for pair in text.split(";"):  # others' may be anything, and must not hide this one
                name, _, value = pair.strip().partition("=")
                if name == self.cookie and self._is_sealed(value):
                    return True
        return False

    def _is_sealed(self, value: str) -> bool:
        until, _, mac = value.partition(".")
        if not (until.isascii() and until.isdecimal()):
            return False
        return hmac.compare_digest(mac.encode(), self._mac(until).encode()) and int(until) > time.time()


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return found


def local_hosts(port: int) -> frozenset[str]:
    """What Host says when it means this machine."""
    return frozenset(f"{name}:{port}" for name in LOCAL) | (frozenset(LOCAL) if port == 80 else frozenset())
