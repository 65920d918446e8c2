"""The page's forms: what they may contain, and what becomes of them.  Plain forms, so they work without a script."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from pydantic import ValidationError

from maildir_agents.errors import MailError
from maildir_agents.faces.http import api, models, talks
from maildir_agents.faces.http.door import Asked
from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs import conversation, mark

MOST_FIELDS = 20

Form = dict[str, str]


def parsed(body: bytes) -> Form:
    """The fields of a form, the first of each name; line ends as they were typed."""
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except (UnicodeDecodeError, ValueError):
        raise MailError("usage", "this is not a form of the page") from None
    form: Form = {}
    for name, value in pairs:
        form.setdefault(name, value.replace("\r\n", "\n"))
    return form


def read(spool: SpoolFiles, form: Form, by: Asked) -> str:
    api.settled(spool, form.get("id", ""), form.get("mailbox") or None, by, mark.mark_read)
    return "Marked read."


def send(spool: SpoolFiles, form: Form, by: Asked) -> str:
    given: dict[str, Any] = {
        name: form[name] for name in ("from_agent", "to_agent", "subject", "body", "dedup_key") if name in form
    }
    return _told(api.post(spool, _checked(models.MessageCreate, given), by))


def reply(spool: SpoolFiles, form: Form, by: Asked) -> str:
    given: dict[str, Any] = {name: form[name] for name in ("from_agent", "body", "dedup_key") if name in form}
    order = _checked(models.MessageReply, {**given, "acknowledge": "acknowledge" in form})
    return _told(api.answer(spool, form.get("id", ""), order, by))


def converse(spool: SpoolFiles, form: Form, by: Asked) -> str:
    if form.get("action") == "cancel":
        talks.act(spool, form.get("id", ""), "cancel", None, by)
        return "Cancelled."
    turns, minutes = _number(form, "add_turns", 20), _number(form, "extend_minutes", 24 * 60)
    conversation.resume(spool, form.get("id", ""), conversation.PERSON, add_turns=turns, extend_s=60 * minutes)
    return "Resumed."


FORMS: dict[str, Callable[[SpoolFiles, Form, Asked], str]] = {
    "read": read,
    "send": send,
    "reply": reply,
    "conversation": converse,
}


def _number(form: Form, name: str, most: int) -> int:
    text = form.get(name, "").strip() or "0"
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) <= most):
        raise MailError("usage", f"{name.replace('_', ' ')} is a number from 0 to {most}")
    return int(text)


_NAMES = {"from_agent": "From", "to_agent": "To", "subject": "The subject", "body": "The text"}
_WHY = {
    "from_agent": "An agent is a name of a-z 0-9 . _ -, say worker-docs",
    "to_agent": "An agent is a name of a-z 0-9 . _ -, say worker-docs; * is everybody",
    "subject": "One line of 1 to 500 characters",
    "body": "Text of at most 1 MiB, without control characters",
}


def _checked(model: type[Any], given: dict[str, Any]) -> Any:
    try:
        return model(**{name: value.strip() if name.endswith("_agent") else value for name, value in given.items()})
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        raise MailError("usage", f"{_NAMES.get(field, field)} is not right", _WHY.get(field)) from None


def _told(receipt: dict[str, Any]) -> str:
    """A receipt in a sentence or two, as honest as it is."""
    delivery, to = receipt["delivery"], receipt["to_agent"]
    said = "Sent before, not again." if receipt["duplicate"] else "Sent."
    if to == "*":
        return f"{said} It went to {delivery.get('mailboxes', 0)} mailboxes."
    if not delivery["known"] and delivery["did_you_mean"]:
        return f"{said} {to} was never seen; did you mean {' or '.join(delivery['did_you_mean'])}?"
    if not delivery["known"]:
        return f"{said} {to} was never seen before."
    return said if delivery["watch_state"] == "armed" else f"{said} {to} is not watching right now."
