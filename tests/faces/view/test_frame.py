"""Frames without a spool: whatever is in it and however large the window, it is straight and hides nothing."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faces.view import scenes
from faces.view.glass import SIZES, Glass
from maildir_agents.faces.view.cells import measure
from maildir_agents.faces.view.frame import compose, render
from maildir_agents.faces.view.ink import COLOURED
from maildir_agents.faces.view.terminal import placed

SCENES = {
    "empty": scenes.overview(),
    "no spool": scenes.overview(exists=False),
    "one agent": scenes.busy(1),
    "forty agents": scenes.busy(40),
    "two of forty armed": scenes.busy(40, (7, 38)),
    "twelve of forty armed": scenes.busy(40, tuple(range(20, 32))),
    "all of forty armed": scenes.busy(40, tuple(range(40))),
    "wide characters": scenes.texts([scenes.WIDE] * 30),
    "long names": scenes.long_names(),
    "a morning": scenes.morning(),
    **{f"hostile: {name}": scenes.texts([text, "after it"]) for name, text in scenes.HOSTILE.items()},
}
PANELS = ("recent", "flow")
CALM = "✓ All calm"
INVISIBLE = r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"


def agent_rows(lines: list[str]) -> list[str]:
    """The lines between the titles and the lower border of the table."""
    start = next(n for n, line in enumerate(lines) if line.startswith("╭")) + 1
    end = next(n for n, line in enumerate(lines) if line[:1] in "├╰" and n > start)
    return [line for line in lines[start:end] if " agent " not in line[:10]]


def armed_in_header(lines: list[str]) -> int:
    return int(re.search(r"(\d+) armed", lines[1])[1])


@pytest.fixture(params=SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def size(request):
    return request.param


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_every_line_is_as_wide_as_the_window_and_the_borders_are_straight(scene, size, panel):
    lines = render(scene, *size, panel).split("\n")
    glass = Glass(*size)
    taken = glass.print(lines)
    assert 4 <= len(lines) <= size[1]
    assert taken[0] < size[0]
    assert set(taken[1:]) == {size[0]}
    assert glass.crooked() == []


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_painted_in_place_it_looks_the_same(scene, size, panel):
    """The way of the living view: colours, each line put where it belongs, the border in its column."""
    plain, painted = Glass(*size), Glass(*size, "\x1b[?7l")
    lines = compose(scene, *size, panel, tall=True)
    plain.print([line.text + line.edge for line in lines])
    coloured = compose(scene, *size, panel, COLOURED, tall=True)
    painted.feed("".join(placed(number, line, size[0]) for number, line in enumerate(coloured, 1)))
    assert len(lines) == size[1]
    assert painted.rows == plain.rows
    assert painted.crooked() == []


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_the_header_counts_the_rows_that_are_drawn_as_armed(scene, size, panel):
    lines = render(scene, *size, panel).split("\n")
    drawn = sum(" armed " in row for row in agent_rows(lines))
    assert armed_in_header(lines) == drawn
    assert drawn == min(sum(agent.armed for agent in scene.agents), size[1] - 3)


@pytest.mark.parametrize("name", scenes.HOSTILE)
def test_no_text_hides_a_row_or_forges_one(name):
    lines = render(scenes.texts(["first", scenes.HOSTILE[name], "after it"]), 100, 30, "recent").split("\n")
    glass = Glass(100, 30)
    glass.print(lines)
    panel = glass.rows[next(n for n, row in enumerate(glass.rows) if row.startswith("├")) + 1 :]
    assert [("first" in panel[0]), ("after it" in panel[2])] == [True, True]
    assert sum(row.startswith("│") for row in panel) == 3
    assert not re.search(INVISIBLE, "\n".join(lines))


def test_the_panel_gives_way_to_armed_agents_and_they_to_nobody():
    for armed in range(12):
        lines = render(scenes.busy(40, tuple(range(40 - armed, 40))), 60, 14, "recent").split("\n")
        assert sum(" armed " in row for row in agent_rows(lines)) == min(armed, 11)
    assert not any(line.startswith("├") for line in lines)


def test_what_does_not_fit_is_counted():
    assert "28 not shown" in render(scenes.busy(40), 80, 24, "recent")
    assert "11 armed of 40" in render(scenes.busy(40, tuple(range(40))), 60, 14, "recent")


def test_agents_stand_in_the_order_of_their_activity():
    rows = agent_rows(render(scenes.busy(9, (4,)), 80, 24, "recent").split("\n"))
    assert [int(re.search(r"hq:worker-(\d\d)", row)[1]) for row in rows] == [0, 1, 2, 3, 5, 6, 7, 8, 4]


def test_the_verdict_names_whom_nobody_hears_the_longest_waiting_first():
    first = render(scenes.morning(), 120, 40, "recent").split("\n")[0]
    assert first == "▲ 2 unheard: worker-web (3 unread, 2h), worker-search (1 unread, 40m)"


@pytest.mark.parametrize(
    "agents, sentence",
    [
        ([scenes.agent("a:b", "armed", unread=2)], f"{CALM}: 2 unread, every reader is listening, 2 not acknowledged"),
        (
            [scenes.agent("a", listening=True, unread=1)],
            f"{CALM}: 1 unread, every reader is listening, 1 not acknowledged",
        ),
        ([scenes.agent("a:b", unacked=1)], f"{CALM}: nothing unread, 1 not acknowledged"),
        ([scenes.agent("a:b")], f"{CALM}: nothing unread"),
        ([scenes.agent("a:b", "armed", failed=1)], "▲ 1 dead letter: a:b"),
        ([scenes.agent("a:b", "stale", unread=1, failed=2)], "▲ 1 unheard, 2 dead letters: a:b (1 unread, 1m)"),
        ([], "No agents yet: the first send, read or watch makes one"),
    ],
)
def test_the_verdict(agents, sentence):
    assert render(scenes.overview(agents), 120, 40, "recent").split("\n")[0] == sentence


def test_flow_says_what_did_not_land_and_only_that():
    lines = render(scenes.morning(), 100, 30, "flow").split("\n")
    edges = [line.split() for line in lines if "→" in line]
    assert edges[0][1:9] == ["state-hub", "→", "worker-web", "9", "sent", "2", "unacked", "1h"]
    assert edges[4][1:7] == ["worker-api", "→", "state-hub", "38", "sent", "50s"]


def test_the_panel_names_its_window():
    assert "Recent · last 24 h" in render(scenes.morning(), 80, 24, "recent")
    full = scenes.overview([scenes.agent("a:b")], capped=True, since_ms=scenes.NOW - 3 * scenes.HOUR)
    assert "Flow · newest 10,000, last 3h" in render(full, 80, 24, "flow")


def test_history_is_blank_where_the_window_does_not_reach():
    full = scenes.overview([scenes.agent("a:b", pulse=(1,) * 48)], capped=True, since_ms=scenes.NOW - 6 * scenes.HOUR)
    row = agent_rows(render(full, 100, 30, "recent").split("\n"))[0]
    assert re.search(r"[▁-█]+", row)[0] == "█" * 7  # the hour that is not over yet is one of them


@given(st.integers(0, 210), st.integers(0, 60), st.sampled_from(sorted(SCENES)), st.sampled_from(PANELS), st.booleans())
def test_no_window_is_too_small(width, height, name, panel, tall):
    lines = compose(SCENES[name], width, height, panel, keys="Tab flow · q quit", tall=tall)
    assert len(lines) <= height
    assert all(measure(line.text + line.edge) <= width for line in lines)


def test_the_screenshots_in_the_documents_are_what_is_drawn(repository):
    page = (repository / "docs/how-to/watch-the-fleet.md").read_text(encoding="utf-8")
    shots = re.findall(r"<!-- morning, (\d+) by (\d+), (\w+) -->\n```text\n(.*?)\n```", page, re.S)
    assert len(shots) == page.count("```text")
    for width, height, panel, shown in shots:
        drawn = render(scenes.morning(), int(width), int(height), panel)
        assert shown == "\n".join(line.rstrip() for line in drawn.split("\n"))


def test_colour_tells_nothing_that_is_not_there_without_it():
    coloured = render(scenes.morning(), 100, 30, "recent", COLOURED)
    assert re.sub(r"\x1b\[[0-9]*m", "", coloured) == render(scenes.morning(), 100, 30, "recent")
