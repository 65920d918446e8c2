"""THE table: which directories a verb may leave, which it enters, and what happens to the name on the way.

Pure.  `spool/states.tsv` is the same table for other languages, and a test holds the two together.
A state that is not a row here does not exist; a third `elif` on a state means: extend the table.
"""

from maildir_agents.mail.name import Name


class Row:
    """One verb: directories, stamps added (`?` = only when missing), stamps dropped, what must hold."""

    __slots__ = ("adds", "drops", "enters", "guard", "leaves")

    def __init__(self, leaves: str, enters: str, adds: str, drops: str, guard: str) -> None:
        self.leaves = tuple(leaves.split())
        self.enters = tuple(enters.split())  # two: the second when the name carries r, else the first
        self.adds = tuple(adds.split())
        self.drops = tuple(drops)
        self.guard = guard


TABLE: dict[str, Row] = {
    "deliver": Row("tmp", "new", "", "", "committed and synced; only by publish"),
    "read": Row("new", "cur", "r", "", "adds r; after the output was taken"),
    "claim": Row("new cur", "claimed", "n x b w", "", "n + 1; adds x, b, w; body opened before"),
    "expire": Row("claimed", "new cur", "", "xbw", "lease over, claim not my own; drops x, b, w; to cur if r"),
    "renew": Row("claimed", "claimed", "x b", "", "my exact name; same n, new x and b"),
    "release": Row("claimed", "new cur", "", "xbw", "my exact name; drops x, b, w; to cur if r"),
    "ack": Row(
        "new cur claimed", "acked", "r? a", "xbw", "claimed only by its handle; adds a, and r if missing; drops x, b, w"
    ),
    "archive": Row("new cur acked claimed", "archive", "z", "xbw", "claimed only by its handle; adds z; drops x, b, w"),
    "fail": Row(
        "new cur claimed", "failed", "d?", "xbw", "claimed only by its handle; reason file first; drops x, b, w"
    ),
    "requeue": Row("failed", "new", "n q", "rd", "by a person; n + 1, q = n; drops r and d"),
}

STATES = ("new", "cur", "claimed", "acked", "archive", "failed")
"""Where a delivered message can be, in the order of life."""

SETTLED = ("acked", "archive")
"""States with a directory for each day and minute of the id."""


def successor(verb: str, directory: str, name: Name, stamps: dict[str, str]) -> tuple[str, Name]:
    """Where a name in `directory` goes by `verb`, and how it is called there.

    `stamps` must bring what the row adds (a `?` stamp may be left out); anything else is a fault of the caller.
    """
    row = TABLE[verb]
    needed = {key for key in row.adds if key[-1] != "?"}
    allowed = {key.rstrip("?") for key in row.adds}
    if directory not in row.leaves or not needed <= stamps.keys() <= allowed:
        raise ValueError(f"{verb} does not leave {directory} with {sorted(stamps)}")
    fresh = {key: value for key, value in stamps.items() if key in needed or key not in name.stamps}
    after = name.becoming(fresh, without=row.drops)
    return row.enters[-1 if "r" in after.stamps else 0], after
