"""agent-mail send"""

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from maildir_agents.faces.cli import Call

ROW: "dict[str, Any]" = {
    "summary": "send a message; durable before it answers",
    "args": {
        "--from": {"value": "AGENT", "required": True, "default": "$AGENT_ID", "help": "who sends; default AGENT_ID"},
        "--to": {"value": "AGENT", "help": "one agent; '*' or broadcast: everybody but the sender"},
        "--subject": {"value": "TEXT", "help": "one line, 1 to 500 characters"},
        "--body": {
            "value": "TEXT",
            "help": "up to 1 MiB; everybody on this machine can read a command line: see --body-file",
        },
        "--body-file": {"value": "PATH", "help": "the body is this file; - is standard input"},
        "--ref": {"value": "PATH", "many": True, "help": "a file, commit or URL it is about; may be repeated"},
        "--reply-to": {
            "value": "ID",
            "help": "answers that message (id or claim handle), joins its thread, and acknowledges it",
        },
        "--no-ack": {"help": "the reply asks instead of answering: do not acknowledge what it replies to"},
        "--dedup-key": {
            "value": "KEY",
            "help": "send once for this sender and key: a repeat answers the same message, duplicate: true",
        },
        "--kind": {"value": "KIND", "choices": ("task", "result", "notice"), "help": "its part in a conversation"},
        "--conversation": {"value": "ID", "help": "the conversation it belongs to"},
        "--response-timeout": {
            "value": "SECONDS",
            "type": int,
            "least": 1,
            "help": "kept as response_deadline, at most 3600; nothing is timed or resent",
        },
        "--batch": {"help": "JSON lines on standard input, a message each, all or none; --from is their sender"},
    },
    "output": {
        "count, ids": "with --batch, the only fields",
        "id, sender, recipient, subject, kind, created": "the message",
        "duplicate": "true: this key was sent before, nothing was sent now (content_differs when it was another text)",
        "delivery": "as it was before: known (had a mailbox), watch_state, waiting, oldest_age (seconds), did_you_mean",
        "acknowledged": "the id that this reply settled, only then",
        "reachable, next": "only when the sender has watched before and is not watching now",
    },
    "examples": (
        "agent-mail send --from hub --to worker-docs --subject 'Write the FAQ' --body 'See refs.' --ref docs/faq.md",
        "agent-mail send --from worker-docs --to hub --subject Done --reply-to 01a22e46-7f03-77dd-b1c6-1cf7bb29957c",
    ),
}


def run(call: "Call") -> int:
    if call["batch"]:
        return _batch(call)
    if missing := [f"--{option}" for option in ("to", "subject") if call[option] is None]:
        raise MailError("usage", f"send needs {' and '.join(missing)}", ROW["examples"][0])
    from maildir_agents.mail.name import recipient
    from maildir_agents.mail.presence import prospects
    from maildir_agents.verbs.send import send, standing

    spool = call.spool
    delivery = prospects(spool, recipient(call["to"]), call["from"])
    told = send(
        spool,
        sender=call["from"],
        recipient=call["to"],
        subject=call["subject"],
        body=_body(call),
        refs=call["ref"],
        reply_to=call["reply_to"] and call.meant(call["reply_to"]),
        acknowledge=not call["no_ack"],
        dedup_key=call["dedup_key"],
        kind=call["kind"],
        conversation=call["conversation"],
        response_timeout_s=call["response_timeout"],
    )
    told["delivery"] = delivery
    told.update(standing(spool, call["from"]))
    try:
        call.emit(told)
    except OSError as error:
        raise MailError(
            "receipt_lost",
            f"message {told['id']} was sent, but its receipt could not be written: {error.strerror}",
            "do not send it again",
            id=told["id"],
        ) from None
    return 0


def _body(call: "Call") -> str:
    if call["body_file"] is None:
        return call["body"] or ""
    if call["body"] is not None:
        raise MailError("usage", "give --body or --body-file, not both")
    from maildir_agents.mail.message import MAX_BODY

    path = call["body_file"]
    try:
        with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
            data = file.read(MAX_BODY + 1)
    except OSError as error:
        raise MailError("usage", f"cannot read the body from {path}: {error.strerror}", "nothing was sent") from None
    if len(data) > MAX_BODY:
        raise MailError(
            "too_large",
            f"the body in {path} is larger than {MAX_BODY} bytes",
            "name the file with --ref instead; nothing was sent",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MailError(
            "bad_body",
            f"the body in {path} is not UTF-8 at byte {error.start}",
            "name the file with --ref instead; nothing was sent",
        ) from None


def _batch(call: "Call") -> int:
    from maildir_agents.verbs.batch import send_many

    for option in ("to", "subject", "body", "body_file", "reply_to", "dedup_key", "kind", "conversation"):
        if call[option] is not None:
            raise MailError("usage", f"--batch takes no --{option.replace('_', '-')}: it stands in each line")
    answer = send_many(call.spool, _lines(), call["from"])
    try:
        call.emit(answer)
    except OSError as error:
        raise MailError(
            "receipt_lost",
            f"{answer['count']} messages were sent, but the answer could not be written: {error.strerror}",
            "do not send them again",
            ids=answer["ids"],
        ) from None
    return 0


def _lines() -> "list[dict[str, Any]]":
    from maildir_agents.disk.jsonfile import decode
    from maildir_agents.errors import Malformed

    orders = []
    with open(0, "rb", closefd=False) as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                try:
                    orders.append(decode(line))
                except Malformed as error:
                    raise MailError(error.code, f"line {number}: {error.sentence}", "nothing was sent") from None
    return orders
