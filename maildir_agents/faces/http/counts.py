"""Metrics: counts in the text form of OpenMetrics.  Names of agents are its only words; no subject, no text, no id."""

from collections import Counter
from typing import Any

from maildir_agents.mail.spool import SpoolFiles
from maildir_agents.verbs import conversation, status

MEDIA_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_GAUGES = {
    "unread": "messages never read, and free",
    "unacked": "messages not acknowledged",
    "claimed": "messages under a claim that holds",
    "failed": "dead letters",
    "watching": "1 while a watch of the agent lives",
}


def metrics(spool: SpoolFiles, answers: Counter[tuple[str, int]], streams: int, told: int) -> str:
    """The whole page of metrics, its end mark included."""
    lines = _mailboxes(status.status(spool)) + _conversations(spool)
    lines += _head("agent_mail_http_answers", "counter", "answers over HTTP")
    lines += [
        f'agent_mail_http_answers_total{{method="{method}",status="{code}"}} {count}'
        for (method, code), count in sorted(answers.items())
    ]
    lines += [*_head("agent_mail_event_streams", "gauge", "clients that listen"), f"agent_mail_event_streams {streams}"]
    lines += [*_head("agent_mail_events", "counter", "events told"), f"agent_mail_events_total {told}"]
    return "\n".join([*lines, "# EOF", ""])


def _head(name: str, kind: str, what: str) -> list[str]:
    return [f"# TYPE {name} {kind}", f"# HELP {name} {what}"]


def _mailboxes(rows: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for field, what in _GAUGES.items():
        lines += _head(f"agent_mail_{field}", "gauge", what)
        lines += [f'agent_mail_{field}{{agent="{row["agent"]}"}} {int(row[field])}' for row in rows]
    return lines


def _conversations(spool: SpoolFiles) -> list[str]:
    counted = Counter(row["state"] for row in conversation.listed(spool)["conversations"])
    lines = [f'agent_mail_conversations{{state="{state}"}} {count}' for state, count in sorted(counted.items())]
    return [*_head("agent_mail_conversations", "gauge", "conversations by their state"), *lines]
