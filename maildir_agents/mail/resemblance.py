"""Which known names a mistyped one may have meant.

By the number of single-letter edits.  The standard library's difflib does this, but it imports `re`, which
costs a send to a new mailbox half an interpreter start.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def edits(one: str, other: str) -> int:
    """Letters to insert, remove or replace, or neighbours to swap, to make one from the other (Damerau-Levenshtein)."""
    older: list[int] = []
    old = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            row.append(min(old[j] + 1, row[-1] + 1, old[j - 1] + (a != b)))
            if i > 1 and j > 1 and (a, one[i - 2]) == (other[j - 2], b):
                row[j] = min(row[j], older[j - 2] + 1)
        older, old = old, row
    return old[-1]


def closest(name: str, known: "Iterable[str]", most: int = 3) -> list[str]:
    """At most `most` known names that differ in few letters, the nearest first."""
    allowed = len(name) // 3
    near = sorted(
        (edits(name, other), other) for other in known if other != name and abs(len(other) - len(name)) <= allowed
    )
    return [other for distance, other in near if distance <= allowed][:most]
