"""Colour, little of it: one accent for what asks for somebody, dim for what is quiet, the terminal's own for the rest.

Nothing is told by colour alone, so `PLAIN` loses nothing.
"""


class Ink:
    """Paints text; `coloured` False leaves it as it is."""

    __slots__ = ("_coloured",)

    def __init__(self, coloured: bool) -> None:
        self._coloured = coloured

    def quiet(self, text: str) -> str:
        return self._paint("2", text)

    def strong(self, text: str) -> str:
        return self._paint("1", text)

    def accent(self, text: str) -> str:
        return self._paint("33", text)

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._coloured and text.strip() else text


PLAIN, COLOURED = Ink(False), Ink(True)
