"""The inbox page: rendered here, kept fresh by the stream of events, and whole without a script.

The script asks for the same parts again when something happens, so there is one template for both.  Whatever a message
says is text: escaped by the templates, and characters that would reorder or hide it are shown as marks.
"""

import secrets
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from maildir_agents.errors import CODES, MailError
from maildir_agents.faces.http.desk import Desk, asked_of, desk_of
from maildir_agents.faces.http.door import SIGNED_IN_S, Door
from maildir_agents.faces.http.forms import FORMS, Form, parsed
from maildir_agents.faces.http.keys import EVERYTHING
from maildir_agents.faces.http.look import View, look, thread_of
from maildir_agents.mail.name import is_agent, is_id, ms_of_iso
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.mail.visible import visible, visible_text

HERE = Path(__file__).parent
SHOWN, MOST_SHOWN = 100, 2000
SAID = {"read": "Marked read.", "send": "Sent.", "reply": "Sent.", "conversation": "Done."}


def mount(app: FastAPI, door: Door) -> None:
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    for path, endpoint, methods in (
        ("/", front, ["GET"]),
        ("/page/live", live, ["GET"]),
        ("/page/thread/{id}", thread, ["GET"]),
        ("/page/{form}", act, ["POST"]),
        ("/sign-in", sign_in, ["POST"]),
        ("/sign-out", sign_out, ["POST"]),
    ):
        app.add_route(path, endpoint, methods=methods, include_in_schema=False)


# rendering


def _age(iso: str) -> str:
    """How long ago, in one unit."""
    seconds = max(0, int(time.time() - ms_of_iso(iso) / 1000))
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return "now" if seconds < 10 else f"{seconds} s"


def _ago(iso: str) -> str:
    age = _age(iso)
    return "just now" if age == "now" else f"{age} ago"


def _heading(subject: str) -> str:
    """A subject that there is something of to see, and to click."""
    shown = visible(subject)
    return shown if shown.strip() else "(blank)"


_templates = Environment(
    loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
    lstrip_blocks=True,
)  # fmt: skip
_templates.filters |= {"age": _age, "ago": _ago, "line": visible, "heading": _heading, "text": visible_text}
_templates.globals["once"] = lambda: secrets.token_urlsafe(16)


def render(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_templates.get_template(template).render(**values), status_code=status)


def tell(scope: Scope, error: MailError) -> Response:
    """A refusal: as a page to whoever looks at pages, else as JSON."""
    request = Request(scope)
    on_page = scope["path"] == "/" or scope["path"].startswith(("/page/", "/sign-"))
    if on_page and "text/html" in request.headers.get("accept", ""):
        return render("refused.html", CODES[error.code][1], error=error)
    return as_json(error)


def as_json(error: MailError) -> Response:
    response = JSONResponse(error.as_json(), status_code=CODES[error.code][1])
    if response.status_code == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


def _view(values: Any) -> View:
    """What the page is to show, from a query or a form; what makes no sense is left out."""
    to, show = values.get("to", ""), values.get("show", "")
    count = int(show) if show.isascii() and show.isdecimal() and len(show) < 6 else SHOWN
    return View(
        to=to if is_agent(to) else None,
        everything=values.get("view") == "all",
        show=min(max(count, 1), MOST_SHOWN),
        opened=values.get("open", "") if is_id(values.get("open", "")) else None,
        mailbox=values.get("mailbox", "") if is_agent(values.get("mailbox", "")) else None,
    )


# what is asked for


async def front(request: Request) -> Response:
    if not asked_of(request).everything:
        return render("sign_in.html", 401, error=None)
    return await _page(request, _view(request.query_params), SAID.get(request.query_params.get("did", "")), None, {})


async def _page(
    request: Request, view: View, said: str | None, error: MailError | None, form: Form, status: int = 200
) -> Response:
    desk = desk_of(request)
    keyed = _door(request).keyed

    def shown(spool: SpoolFiles) -> Response:  # with the drawing, which takes its time for long texts
        seen = look(spool, view, desk.ended)
        return render("page.html", status, view=view, seen=seen, said=said, error=error, form=form, keyed=keyed)

    return await desk.ask(shown)


async def live(request: Request) -> Response:
    """The parts that change."""
    asked_of(request).require_everything()
    view = _view(request.query_params)._replace(opened=None)
    desk = desk_of(request)
    return await desk.ask(
        lambda spool: render("live.html", view=view, seen=look(spool, view, desk.ended), form={}, error=None)
    )


async def thread(request: Request) -> Response:
    """One thread, as it opens in the list."""
    asked_of(request).require_everything()
    message_id, mailbox = request.path_params["id"], request.query_params.get("mailbox") or None
    view = _view(request.query_params)
    return await desk_of(request).ask(
        lambda spool: render(
            "thread.html", view=view, opened=thread_of(spool, message_id, mailbox), form={}, error=None
        )
    )


async def act(request: Request) -> Response:
    """Carry out a form; then the page again, or, for the script, a word."""
    asked, name = asked_of(request), request.path_params["form"]
    asked.require_everything()
    if name not in FORMS:
        raise MailError("no_such_path", "there is no such address")
    form = parsed(await request.body())
    for_script = request.headers.get("accept", "").startswith("application/json")
    desk: Desk = desk_of(request)
    try:
        said = await desk.change(lambda spool: FORMS[name](spool, form, asked))
    except MailError as error:
        if for_script:
            raise
        view = _view({**form, "open": form.get("id", "") if name == "reply" else ""})
        return await _page(request, view, None, error, {**form, "form": name}, CODES[error.code][1])
    if for_script:
        return JSONResponse({"said": said})
    kept = {key: form[key] for key in ("to", "view", "show") if form.get(key)}
    return RedirectResponse(f"/?{urlencode({**kept, 'did': name})}", 303)


# signing in


def _door(request: Request) -> Door:
    door: Door = request.app.state.door
    return door


async def sign_in(request: Request) -> Response:
    """Exchange the key of `*` for a cookie."""
    door = _door(request)
    form = parsed(await request.body())
    owner = door.owner(form.get("key", "").strip())
    if owner != EVERYTHING:
        why = (
            "This key is not known here." if owner is None else f"This is the key of {owner}; the page needs that of *."
        )
        return render("sign_in.html", 401 if owner is None else 403, error=why)
    response = RedirectResponse("/", 303)
    if door.keyed:
        response.set_cookie(door.cookie, door.seal(), max_age=SIGNED_IN_S, path="/", httponly=True, samesite="strict")
    return response


async def sign_out(request: Request) -> Response:
    response = RedirectResponse("/", 303)
    response.delete_cookie(_door(request).cookie, path="/", httponly=True, samesite="strict")
    return response
