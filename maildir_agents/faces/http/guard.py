"""The guard: what a request must be before anything is asked of the mail.

In this order: the Host is one of ours (a name that was rebound to this address is not), no other site sent it, its key
is known, its body is of the kind, size and speed it may have.  What is refused was not read further and changed
nothing.  Every answer carries the headers that keep a browser from doing more than the page says.  Nothing of a
request but its method and status is counted, nothing of it is logged.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maildir_agents.disk.jsonfile import decode
from maildir_agents.disk.moves import refusal
from maildir_agents.errors import MailError
from maildir_agents.faces.http.door import Door
from maildir_agents.mail.message import MAX_BODY

MOST_BYTES = 6 * MAX_BODY + (64 << 10)  # a body written with \\uXXXX escapes only, and its envelope
BODY_SECONDS = 20.0
MOST_UNKNOWN = 16 << 10  # bytes from somebody without a key: a form to sign in
MOST_MEMBERS = 100  # of an object or a list; each that is wrong costs a sentence
LARGE = 64 << 10  # bytes of JSON that are read on a thread

CHANGING = frozenset(("POST", "PATCH", "PUT", "DELETE"))
METHODS = CHANGING | {"GET", "HEAD", "OPTIONS"}
FORMS = ("/page/", "/sign-in", "/sign-out")
OPEN = ("/static/", "/sign-in", "/openapi.json")  # no key is asked for

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with less a browser keeps the origin of our own forms to itself
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_RAW = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

log = logging.getLogger("maildir_agents.http")

Tell = Callable[[Scope, MailError], Response]


class Guard:
    """Around the application.  `tell` makes the answer to what is refused."""

    def __init__(self, app: ASGIApp, door: Door, tell: Tell) -> None:
        self._app, self._door, self._tell = app, door, tell
        self.answers: Counter[tuple[str, int]] = Counter()  # (method, status)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, self._counted(scope["method"]))
        try:
            await self._serve(scope, receive, answer)
        except asyncio.CancelledError:  # told to stop, the server waits for a moment only
            await self._refuse(scope, receive, answer, _stopping(scope["method"] in CHANGING))
        except Exception as error:
            if not isinstance(error, (MailError, OSError)):
                log.error("a request failed: %s at %s", type(error).__name__, _where(error))
            await self._refuse(scope, receive, answer, refused_as(error))

    def _counted(self, method: str) -> Callable[[int], None]:
        known = method if method in METHODS else "OTHER"

        def count(status: int) -> None:
            self.answers[(known, status)] += 1

        return count

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, changing = scope["path"], scope["method"] in CHANGING
        asked = self._door.judge(scope)
        if path != "/" and not path.startswith(OPEN):  # without a key the page asks for one
            asked.require_key(changing)
        scope.setdefault("state", {})["asked"] = asked
        if changing:
            _judge_type(scope, asked.from_browser)
            body = await _whole(scope, receive, MOST_BYTES if asked.caller else MOST_UNKNOWN)
            if not path.startswith((*FORMS, "/mcp")) and scope["method"] == "POST" and body:
                await _judge_json(body)
            receive = _again(body, receive)
        await self._app(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, answer: "_Answer", error: MailError) -> None:
        if answer.begun:
            return  # too late to say anything else
        response = self._tell(scope, error)
        if _has_body(scope):
            response.headers["connection"] = "close"  # what is left of its body is not waited for
        await response(scope, receive, answer)


def refused_as(error: Exception) -> MailError:
    """What the client is told of an error: of one that nobody expected, nothing but that."""
    if isinstance(error, MailError):
        return error
    if isinstance(error, OSError):
        return refusal(error, str(error.filename or "the spool"))
    return MailError("internal", "this request failed in the server", "its log says where")


def _stopping(changing: bool) -> MailError:
    sentence = "the server is stopping" + (", and this may be done or not" if changing else "")
    return MailError(
        "busy", sentence, "look before you send it again, or send it with a dedup_key" if changing else None
    )


class _Answer:
    """`send` that adds the headers of the house and counts."""

    def __init__(self, send: Send, count: Callable[[int], None]) -> None:
        self._send, self._count = send, count
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            self._count(message["status"])
            headers = list(message.get("headers", []))
            given = {name.lower() for name, _ in headers}
            message["headers"] = headers + [pair for pair in _RAW if pair[0] not in given]
        await self._send(message)


def _where(error: BaseException) -> str:
    """File and line of the innermost frame: no value of any variable, no text of a message."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "an unknown place"


def _header(scope: Scope, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


def _has_body(scope: Scope) -> bool:
    return (_header(scope, b"content-length") or "0") != "0" or _header(scope, b"transfer-encoding") is not None


def _judge_type(scope: Scope, from_browser: bool) -> None:
    """Forms come to the page and JSON to the API; from a browser under its own name, else under any."""
    kind = (_header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    if scope["path"].startswith(FORMS):
        if kind != "application/x-www-form-urlencoded":
            raise MailError(
                "wrong_content", "this address takes a form", "content-type: application/x-www-form-urlencoded"
            )
    elif scope["path"].startswith("/mcp"):
        return
    elif from_browser and _has_body(scope) and kind != "application/json":
        raise MailError("wrong_content", "a browser has to send JSON here", "content-type: application/json")
    else:
        others = [pair for pair in scope["headers"] if pair[0] != b"content-type"]
        scope["headers"] = [*others, (b"content-type", b"application/json")]


async def _whole(scope: Scope, receive: Receive, most: int) -> bytes:
    """The body, refused before it is read where it says that it is too large, else as soon as it is."""
    length = _header(scope, b"content-length")
    if length is not None and length.isdecimal() and int(length) > most:
        raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    with anyio.move_on_after(BODY_SECONDS):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise MailError("too_slow", "the client went away")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > most:
                raise _too_large(most)
            if not message.get("more_body", False):
                return b"".join(chunks)
    raise MailError("too_slow", f"the body did not come within {BODY_SECONDS:.0f} seconds")


def _too_large(most: int) -> MailError:
    return MailError(
        "too_large", f"this request may have at most {most} bytes", "put it into a file and name that with a ref"
    )


async def _judge_json(body: bytes) -> None:
    """Strictly, before any other parser sees it: two equal keys, say, mean different things to different ones."""
    found = await anyio.to_thread.run_sync(decode, body) if len(body) > LARGE else decode(body)
    if any(len(part) > MOST_MEMBERS for part in (found, *found.values()) if isinstance(part, (dict, list))):
        raise MailError("bad_field", f"no object or list here has more than {MOST_MEMBERS} members")


def _again(body: bytes, receive: Receive) -> Callable[[], Awaitable[Any]]:
    """`receive` for the application: the whole body at once, then what comes after it."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
