"""Text in cells: as wide as a terminal makes it, and harmless."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maildir_agents.faces.view.cells import MARK, age, clip, fit, measure, shorten

texts = st.text(st.characters(exclude_categories=()), max_size=60)


@given(texts, st.integers(0, 40))
def test_fitted_text_takes_its_cells_exactly_and_holds_no_control(text, width):
    shown = fit(text, width)
    assert measure(shown) == width
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for c in shown)


@given(texts, st.integers(0, 40))
def test_clipping_twice_is_clipping_once(text, width):
    assert clip(clip(text, width), width) == clip(text, width)


@pytest.mark.parametrize(
    "text, width, shown",
    [
        ("short", 9, "short"),
        ("just right", 10, "just right"),
        ("one too many", 11, "one too ma…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("e\u0301te\u0301", 3, "e\u0301te\u0301"),
        ("\u0301lonely", 9, "lonely"),
        ("tab\tnl\n", 9, f"tab{MARK}nl{MARK}"),
        ("\x1b[2J", 9, f"{MARK}[2J"),
        ("family 👩\u200d👧", 20, "family 👩👧"),
        ("anything", 0, ""),
        ("anything", 1, "…"),
    ],
)
def test_clip(text, width, shown):
    assert clip(text, width) == shown


def test_a_tower_of_marks_is_cut_down():
    assert len(clip("e" + "\u0301" * 100_000, 10)) <= 6


def test_a_name_keeps_its_beginning_and_its_end():
    assert shorten("project:worker-parser-tests", 15) == "project…r-tests"
    assert shorten("short", 15) == "short"


@pytest.mark.parametrize(
    "ms, text",
    [(-5, "0s"), (9_999, "9s"), (60_000, "1m"), (3_599_999, "59m"), (7_200_000, "2h"), (259_200_000, "3d"), (None, "")],
)
def test_ages_are_one_number_and_a_unit(ms, text):
    assert age(ms) == text
