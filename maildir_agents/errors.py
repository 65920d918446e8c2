"""Every refusal this package makes: a code, and what each face says with it.

A refusal is one sentence, a code, a hint (the next step) and, where there are some, runnable commands.
The code decides the exit status and the HTTP status, here and nowhere else.  Imports nothing.
"""

FAILED, USAGE, UNKNOWN, CANNOT_WRITE, UNSURE, TRY_AGAIN, NOT_YOURS = 1, 64, 66, 73, 74, 75, 77

#: code -> (exit status, HTTP status)
CODES: dict[str, tuple[int, int]] = {
    # the request
    "usage": (USAGE, 422),
    "bad_agent": (USAGE, 422),
    "bad_id": (USAGE, 422),
    "bad_field": (USAGE, 422),
    "bad_subject": (USAGE, 422),
    "bad_body": (USAGE, 422),
    "bad_refs": (USAGE, 422),
    "bad_key": (USAGE, 422),
    "bad_headers": (USAGE, 422),
    "bad_time": (USAGE, 422),
    "bad_type": (USAGE, 422),
    "missing_field": (USAGE, 422),
    "too_large": (USAGE, 413),
    "not_json": (USAGE, 422),
    "duplicate_key": (USAGE, 422),
    "bad_number": (USAGE, 422),
    "too_deep": (USAGE, 422),
    "not_an_object": (USAGE, 422),
    # what it speaks of
    "unknown_id": (UNKNOWN, 404),
    "unknown_conversation": (UNKNOWN, 404),
    # the disk
    "cannot_write": (CANNOT_WRITE, 503),
    "read_only": (CANNOT_WRITE, 503),
    "spool_full": (CANNOT_WRITE, 507),
    "not_a_spool": (CANNOT_WRITE, 503),
    "newer_format": (CANNOT_WRITE, 503),
    "broken_settings": (CANNOT_WRITE, 409),
    "durability_unknown": (UNSURE, 500),
    "output_lost": (FAILED, 500),
    "receipt_lost": (UNSURE, 500),
    "cannot_read": (FAILED, 500),
    "shown_not_acknowledged": (FAILED, 500),
    "id_clash": (FAILED, 409),
    "dead_letter": (FAILED, 409),
    "settled": (FAILED, 409),
    # others
    "busy": (TRY_AGAIN, 503),
    "mailbox_full": (TRY_AGAIN, 503),
    "in_transit": (TRY_AGAIN, 503),
    "claimed": (NOT_YOURS, 409),
    "lease_lost": (NOT_YOURS, 409),
    "not_yours": (NOT_YOURS, 403),
    "wrong_uid": (NOT_YOURS, 403),
    # the rules of a conversation
    "not_active": (NOT_YOURS, 409),
    "not_in_flight": (NOT_YOURS, 409),
    "turn_limit": (NOT_YOURS, 409),
    "expired": (NOT_YOURS, 409),
    "loop_limit": (NOT_YOURS, 409),
    "missing_extra": (FAILED, 501),
    "unit_failed": (FAILED, 503),
    # a request over HTTP
    "no_key": (NOT_YOURS, 401),
    "cross_site": (NOT_YOURS, 403),
    "no_such_path": (UNKNOWN, 404),
    "no_such_method": (USAGE, 405),
    "too_slow": (TRY_AGAIN, 408),
    "wrong_content": (USAGE, 415),
    "wrong_host": (NOT_YOURS, 421),
    "internal": (FAILED, 500),
}


#: code -> what would be right, where a refusal does not say so itself
HINTS: dict[str, str] = {
    "usage": "agent-mail VERB --help shows what it takes",
    "bad_agent": "name or project:name of a-z 0-9 . _ -, each starting with a letter or digit, 100 characters in all",
    "bad_id": "ids are UUIDs as send, watch and read print them",
    "bad_field": "a kind is one line of 1 to 40 bytes",
    "bad_subject": "a subject is one line of 1 to 500 characters, without control characters",
    "bad_body": "a body is UTF-8 text; put anything else into a file and name that with a ref",
    "bad_refs": "at most 64 refs, each one line of 1 to 4,096 bytes of UTF-8",
    "bad_key": "a dedup key is one line of 1 to 200 characters",
    "bad_headers": "headers are a JSON object of at most 4,096 bytes",
    "bad_time": "times are UTC, like 2026-11-30T18:47:12.123Z",
    "unknown_id": "agent-mail read AGENT --all lists an agent's messages",
    "unknown_conversation": "agent-mail conversation list",
}


class MailError(Exception):
    """A refusal.  `code` is a key of CODES; `detail` are further members of the JSON error."""

    def __init__(self, code: str, sentence: str, hint: str | None = None, **detail: object) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.hint = hint or HINTS.get(code)
        self.detail = detail

    @property
    def exit_status(self) -> int:
        return CODES[self.code][0]

    @property
    def http_status(self) -> int:
        return CODES[self.code][1]

    def as_json(self) -> dict[str, object]:
        """`{"error": sentence, "code": slug, "hint": …, "next": […], …}`, members without a value left out."""
        answer: dict[str, object] = {"error": self.sentence, "code": self.code}
        if self.hint:
            answer["hint"] = self.hint
        answer.update(self.detail)
        return answer


class Malformed(MailError):
    """Bytes that are no message: the code says in which way."""
