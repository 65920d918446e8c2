"""Fleets to look at, made without a spool: what the frame has to cope with, and the one the documents show."""

from maildir_agents.verbs.overview import CELLS, WINDOW_MS, Agent, Edge, Letter, Overview

NOW = 1_796_122_800_000  # 2026-12-01, nine in the morning, UTC
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000

WIDE = "日本語の件名がとても長い " * 4
HOSTILE = {
    "escape": "\x1b[2J\x1b[H\x1b]52;c;bGlzdGVu\x07 owned",
    "c1": "\x9b2J\x9d52;c;bGlzdGVu\x9c owned",
    "bidi": "invoice \u202egpj.exe\u202c \u2066isolated\u2069 \u200f\u061c",
    "return": "harmless\r│ ● forged              armed\n\x0b\x0c\x08\x08",
    "separators": "one\u2028two\u2029three\x85four",
    "invisible": "zero\u200bwidth\ufeff \u2060\U000e0041\U000e0042 \u00ad",
    "many wide": "漢" * 100_000,
    "many marks": "e" + "\u0301" * 100_000 + " tower",
    "marks first": "\u0301\u0302\u0303 no letter to stand on",
    "half pairs": "\ud800 broken \udfff",
    "emoji": "👩\u200d👩\u200d👧\u200d👦 ❤\ufe0f 🇪🇺 👍🏽 1\ufe0f\u20e3 done",
    "korean": "한국어 \u1112\u1161\u11ab \uffa0\u3164 끝",
    "delete": "\x7f\x7f\x00\x01\x1f tab\there",
}


def agent(name: str, state: str = "never", **told) -> Agent:
    fields = {"unread": 0, "unacked": 0, "claimed": 0, "failed": 0, "oldest_ms": None, "seen_ms": None, "score": 0.0}
    fields |= {"listening": False, "pulse": (0,) * CELLS} | told
    fields["unacked"] = max(fields["unacked"], fields["unread"])
    if fields["unread"] and fields["oldest_ms"] is None:
        fields["oldest_ms"] = NOW - 90 * SECOND
    return Agent(name=name, watch_state=state, **fields)


def letter(number: int, sender: str, recipient: str, subject: str, age_ms: int = MINUTE) -> Letter:
    return Letter(
        f"{NOW - age_ms:012x}"[:8] + f"-0000-7000-8000-{number:012x}", NOW - age_ms, sender, recipient, subject
    )


def overview(agents=(), letters=(), standing=None, edges=(), *, exists=True, capped=False, since_ms=None) -> Overview:
    since = NOW - WINDOW_MS if since_ms is None else since_ms
    return Overview(
        "/var/spool/mail", exists, NOW, list(agents), list(letters), standing or {}, list(edges), since, capped
    )


def busy(count: int, armed: tuple[int, ...] = ()) -> Overview:
    """`count` agents that write to the next one; those numbered in `armed` listen, and did nothing else for a day."""
    names = [f"hq:worker-{number:02d}" for number in range(count)]
    agents = [
        agent(name, "armed") if number in armed else agent(name, unread=number % 5, score=float(count - number))
        for number, name in enumerate(names)
    ]
    agents.sort(key=lambda one: -one.score)
    pairs = list(zip(names, names[1:] + names[:1], strict=True))
    letters = [letter(n, a, b, f"message number {n}", n * MINUTE) for n, (a, b) in enumerate(pairs)]
    return overview(
        agents, letters, {letters[0].id: "unread"} if letters else {}, [Edge(a, b, 3, 1, NOW) for a, b in pairs]
    )


def texts(subjects: list[str]) -> Overview:
    letters = [letter(n, "hq:boss", "lab:worker-1", subject, n * SECOND) for n, subject in enumerate(subjects)]
    agents = [agent("lab:worker-1", unread=len(letters)), agent("hq:boss", "armed")]
    return overview(agents, letters, dict.fromkeys((one.id for one in letters), "unread"))


def long_names() -> Overview:
    names = [f"{'p' * 40}:{letter * 50}-{letter}" for letter in "abc"]
    letters = [letter(1, names[0], names[1], "a subject")]
    agents = [agent(name, unread=123456, unacked=1234567, failed=98765432) for name in names]
    return overview(agents, letters, {}, [Edge(names[1], names[0], 123456, 12345, NOW)])


def _pulse(*heights: int) -> tuple[int, ...]:
    """A day from its last hours, one number for two cells."""
    hours = ([0] * (CELLS // 2) + list(heights))[-CELLS // 2 :]
    return tuple(part for height in hours for part in (height // 2, height - height // 2))


def morning() -> Overview:
    """Nine in the morning: a hub and seven workers, two of which got mail overnight and do not listen."""
    night = (2, 6, 8, 9, 7, 4, 3, 1, 0, 1, 2, 5, 9, 12)
    hub = tuple(height + 3 for height in night)
    agents = [
        agent("state-hub", "armed", seen_ms=NOW - 4 * SECOND, pulse=_pulse(*hub)),
        agent("worker-api", "armed", unacked=2, claimed=1, seen_ms=NOW - MINUTE, pulse=_pulse(*night)),
        agent("worker-docs", "armed", seen_ms=NOW - 4 * MINUTE, pulse=_pulse(0, 1, 1, 0, 0, 0, 2, 4, 6, 2)),
        agent("worker-infra", listening=True, seen_ms=NOW - 20 * MINUTE, pulse=_pulse(1, 0, 1, 0, 1, 0, 1)),
        agent(
            "worker-web",
            "released",
            **_owed(3, 4, 2 * HOUR),
            seen_ms=NOW - 3 * HOUR,
            pulse=_pulse(3, 5, 4, 2, 1, 0, 0, 1, 0, 0),
        ),
        agent(
            "worker-search",
            "stale",
            **_owed(1, 1, 40 * MINUTE),
            seen_ms=NOW - 5 * HOUR,
            pulse=_pulse(4, 2, 0, 0, 0, 0, 1),
        ),
        agent("worker-billing", "released", seen_ms=NOW - 9 * HOUR, pulse=_pulse(2, 1, *[0] * 8)),
        agent("worker-legacy", seen_ms=NOW - 12 * DAY),
    ]
    told = (
        (4 * SECOND, "state-hub", "worker-api", "Retry the failed migration", "read"),
        (50 * SECOND, "worker-api", "state-hub", "Migration 0042 failed on the copy", ""),
        (4 * MINUTE, "worker-docs", "state-hub", "FAQ is written, see refs", ""),
        (11 * MINUTE, "state-hub", "worker-docs", "日本語版の README を更新してください", ""),
        (20 * MINUTE, "worker-infra", "*", "Disk is replaced, all green again", "read"),
        (40 * MINUTE, "state-hub", "worker-search", "Why is the index twice as large?", "unread"),
        (95 * MINUTE, "state-hub", "worker-web", "Ship option B", "unread"),
        (2 * HOUR, "worker-api", "worker-web", "The client breaks on an empty list", "unread"),
    )
    letters = [letter(n, *words[1:4], words[0]) for n, words in enumerate(told)]
    standing = {one.id: words[4] for one, words in zip(letters, told, strict=True) if words[4]}
    edges = [
        Edge("state-hub", "worker-web", 9, 2, NOW - 95 * MINUTE),
        Edge("state-hub", "worker-api", 41, 2, NOW - 4 * SECOND),
        Edge("worker-api", "worker-web", 3, 1, NOW - 2 * HOUR),
        Edge("state-hub", "worker-search", 7, 1, NOW - 40 * MINUTE),
        Edge("worker-api", "state-hub", 38, 0, NOW - 50 * SECOND),
        Edge("state-hub", "worker-docs", 12, 0, NOW - 11 * MINUTE),
        Edge("worker-docs", "state-hub", 11, 0, NOW - 4 * MINUTE),
        Edge("worker-infra", "*", 2, 0, NOW - 20 * MINUTE),
    ]
    return overview(agents, letters, standing, edges)


def _owed(unread: int, unacked: int, age_ms: int) -> dict[str, int]:
    return {"unread": unread, "unacked": unacked, "oldest_ms": NOW - age_ms}


def _pulse(*hours: int) -> tuple[int, ...]:
    """A day of which the last hours are given; before them nothing happened."""
    day = (0,) * (CELLS // 2 - len(hours)) + hours
    return tuple(part for hour in day for part in (hour // 2, hour - hour // 2))
