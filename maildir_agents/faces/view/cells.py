"""Text as a terminal lays it out: in cells, of which a wide character takes two and a combining mark none.

What others wrote must not steer a terminal: whatever is a control, a direction or an invisible thing is shown as a
mark, one cell wide.  Widths follow the Unicode tables; a terminal may know better, so nothing may stand behind such
text but what is placed by column.
"""

import unicodedata
from functools import lru_cache

MARK = "\N{REPLACEMENT CHARACTER}"
MARKS_A_CELL = 4  # combining marks that one character keeps: more is a tower over its neighbours
LOOKED_AT = 8  # characters a cell for which text is looked through: a long one costs no more than a screen

# Joiners and variation selectors choose a shape and are not missed; drawn, they would tear words and emoji apart.
_DROPPED = frozenset("\u200c\u200d\u034f\u180b\u180c\u180d\u180f") | {chr(c) for c in range(0xFE00, 0xFE10)}
_BLANK = frozenset("\u115f\u2800\u3164\uffa0")  # letters that show nothing
# Narrow in the tables of one year and wide in those of another.
_UNSURE = frozenset(
    map(chr, (*range(0x2630, 0x2638), *range(0x268A, 0x2690), *range(0x4DC0, 0x4E00), *range(0x1D300, 0x1D380)))
)
_FLAGS = 0x1F1E6  # the first of 26 letters that terminals join to flags, or do not
_NEUTRALISED = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


@lru_cache(maxsize=4096)
def _cell(character: str) -> tuple[str, int]:
    """(what is drawn, cells it takes)."""
    category = unicodedata.category(character)
    if character in _DROPPED or 0xE0100 <= ord(character) <= 0xE01EF:
        return "", 0
    if category in _NEUTRALISED or character in _BLANK or character in _UNSURE:
        return MARK, 1
    if _FLAGS <= ord(character) < _FLAGS + 26:
        return chr(ord("A") + ord(character) - _FLAGS), 1
    if category == "Zs":
        return " ", 1
    if category in ("Mn", "Me") or _joins(ord(character)):
        return character, 0
    return character, 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _joins(code: int) -> bool:
    """Vowels and finals that complete a Hangul syllable, and the two tone marks beside it."""
    return 0x1160 <= code <= 0x11FF or 0xD7B0 <= code <= 0xD7FF or code in (0x302E, 0x302F)


def _cells(text: str, most: int) -> list[tuple[str, int]]:
    """The characters of `text` with their marks, until they take more than `most` cells."""
    cells: list[tuple[str, int]] = []
    used = marks = 0
    for character in text:
        drawn, width = _cell(character)
        if width:
            cells.append((drawn, width))
            used, marks = used + width, 0
            if used > most:
                break
        elif drawn and cells and marks < MARKS_A_CELL:
            cells[-1] = (cells[-1][0] + drawn, cells[-1][1])
            marks += 1
    return cells


def clip(text: str, width: int) -> str:
    """At most `width` cells of `text`, made harmless; an ellipsis where something is missing."""
    looked_at = text[: width * LOOKED_AT + LOOKED_AT]
    cells = _cells(looked_at, width)
    used = sum(taken for _, taken in cells)
    if used > width or len(looked_at) < len(text):
        while cells and used > width - 1:
            used -= cells.pop()[1]
        cells += [("…", 1)] if width > 0 else []
    return "".join(drawn for drawn, _ in cells)


def measure(text: str) -> int:
    """The cells that harmless text takes."""
    return sum(_cell(character)[1] for character in text)


def fit(text: str, width: int, right: bool = False) -> str:
    """Exactly `width` cells of `text`: clipped, or padded (on the left when it stands `right`)."""
    shown = clip(text, width)
    blank = " " * (width - measure(shown))
    return blank + shown if right else shown + blank


def shorten(name: str, width: int) -> str:
    """An agent's name in at most `width` cells: the middle gives way, for what tells two apart is often the end."""
    if len(name) <= width or width < 5:
        return clip(name, width)
    end = (width - 1) // 2
    return f"{name[: width - 1 - end]}…{name[len(name) - end :]}"


def age(ms: int | None) -> str:
    """`9s`, `4m`, `2h`, `3d`; nothing for None."""
    if ms is None:
        return ""
    seconds = max(0, ms) // 1000
    for unit, length, most in (("s", 1, 60), ("m", 60, 3600), ("h", 3600, 86400)):
        if seconds < most:
            return f"{seconds // length}{unit}"
    return f"{seconds // 86400}d"


def count(number: int) -> str:
    """A number for a column; a point where there is nothing to see."""
    return str(number) if number else "·"
