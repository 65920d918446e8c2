"""Text from a message, made harmless for a terminal.

Pure.  Whatever could move the cursor, change colours, reorder the line or hide in it is shown as a visible mark, so a
subject can never act on the screen it is printed on.
"""

import unicodedata

MARK = "\N{REPLACEMENT CHARACTER}"
_HARMFUL = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))  # controls, bidi and zero-width, line breakers


class _Shown(dict[int, str]):
    """A character, as it is shown: each is looked up once and kept."""

    def __missing__(self, code: int) -> str:
        c = chr(code)
        self[code] = " " if c == "\t" else MARK if unicodedata.category(c) in _HARMFUL else c
        return self[code]


_SHOWN = _Shown()
_SHOWN_TEXT = _Shown({10: "\n"})


def visible(text: str, most: int = 500) -> str:
    """One line, at most `most` characters, with every character that is not plainly visible replaced by a mark."""
    shown = text[:most]
    return shown if shown.isascii() and shown.isprintable() else shown.translate(_SHOWN)


def visible_text(text: str) -> str:
    """The same for a text of many lines, at its full length; line ends stay."""
    return text.replace("\r\n", "\n").translate(_SHOWN_TEXT)
