"""Whatever stands in a settings file: what install puts in comes out again, and no other byte was ever touched."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maildir_agents.faces.install import block, jsonc, splice
from maildir_agents.faces.install.plan import _json_without, _with
from maildir_agents.faces.install.tools import TOOLS, Words, parts

WORDS = Words("worker-x", ["/opt/agent-mail"], None)
EVENTS = ["SessionStart", "UserPromptSubmit", "Stop", "PreToolUse", "BeforeAgent", "stop", "sessionStart"]
THEIRS = st.sampled_from([
    {"hooks": [{"type": "command", "command": "echo hook"}]},
    {"matcher": "*", "hooks": [{"type": "command", "command": "agent-mailer hook stop"}]},
    {"command": "./own.sh"},
    {"hooks": []},
])  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=6)
    | st.floats(allow_nan=False, allow_infinity=False, width=16)
)
ANY = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "version": st.just(1),
        "hooks": st.dictionaries(st.sampled_from(EVENTS), st.lists(THEIRS, max_size=2), max_size=4),
        "mcpServers": st.dictionaries(st.sampled_from(["other", "mail"]), st.just({"command": "x"}), max_size=2),
        "mcp": st.dictionaries(st.sampled_from(["other"]), st.just({"command": ["x", "mcp"]}), max_size=1),
        "model": ANY,
        "é\t": ANY,
        "zz": ANY,
    },
)


@st.composite
def texts(draw, comments: bool):
    """Settings as somebody may have written them: any indentation, white space, line ends, order."""
    value = draw(SETTINGS)
    value = {key: value[key] for key in draw(st.permutations(list(value)))}
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    blanks = ["", " ", "\t", newline, newline + "  ", "  " + newline, newline * 2]
    if comments:
        blanks += [f' // it\'s "a" comment{newline}', " /* {[, */ ", f"{newline}// x{newline}"]
    if draw(st.booleans()):
        indent = draw(st.sampled_from([None, 0, 1, 2, 4, "\t"]))
        text = json.dumps(value, indent=indent, ensure_ascii=draw(st.booleans())).replace("\n", newline)
        return text + draw(st.sampled_from(["", newline, newline * 2, " "]))
    blank = st.sampled_from(blanks)

    def written(item) -> str:
        if isinstance(item, dict):
            members = [f"{json.dumps(key)}{draw(blank)}:{draw(blank)}{written(value)}" for key, value in item.items()]
            inner = [f"{draw(blank)}{member}{draw(blank)}" for member in members]
        elif isinstance(item, list):
            inner = [f"{draw(blank)}{written(value)}{draw(blank)}" for value in item]
        else:
            return json.dumps(item)
        comma = "," + draw(blank) if comments and inner and draw(st.booleans()) else ""
        filling = ",".join(inner) + comma if inner else draw(blank)
        return ("{%s}" if isinstance(item, dict) else "[%s]") % filling

    return draw(blank) + written(value) + draw(blank)


def ours_of(tool, words=WORDS):
    found = parts(tool, "project", "/nowhere", words, {"HOME": "/h"})
    return [part for part in found if part.form in ("json", "jsonc")]


@settings(max_examples=60)
@given(st.data(), st.sampled_from(TOOLS))
def test_what_is_put_in_comes_out_and_nothing_else_changes(data, tool):
    for part in ours_of(tool):
        text = data.draw(texts(comments=part.form == "jsonc"))
        lenient = part.form == "jsonc"
        before = jsonc.parse(text, lenient).value
        after = _with(text, part, tool, WORDS)
        assert after is not None and after != text
        root = jsonc.parse(after, lenient).value
        for entry in part.entries:
            if entry.beside in before:
                continue  # it comes only along with what it stands beside
            at = root
            for step in entry.path:
                at = at[step]
            assert at[entry.key] == entry.value if entry.key else entry.value in at
        assert _with(after, part, tool, WORDS) == after
        assert _json_without(after, part) == text
        kept = [key for key in root if key in before]
        assert kept == list(before), "the order of the others"
        for key in before.keys() - {"hooks", "mcpServers", "mcp"}:
            assert root[key] == before[key]
        if not lenient:
            assert json.loads(after) == root


@settings(max_examples=60)
@given(st.data(), st.sampled_from(TOOLS))
def test_another_agent_takes_the_place_of_the_first(data, tool):
    other = Words("worker-y", ["agent-mail"], "/a spool")
    for part, changed in zip(ours_of(tool), ours_of(tool, other), strict=True):
        text = data.draw(texts(comments=part.form == "jsonc"))
        after = _with(_with(text, part, tool, WORDS), changed, tool, other)
        assert "worker-x" not in after
        assert after == _with(text, changed, tool, other)


@given(SETTINGS.map(json.dumps) | st.text(max_size=30) | st.text('{}[],:"a1 /*\n', max_size=12))
def test_strict_reading_is_json_s_own_but_for_equal_keys(text):
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        with pytest.raises(jsonc.Broken):
            jsonc.parse(text)
        return
    try:
        assert jsonc.parse(text).value == value
    except jsonc.Broken as broken:
        assert "same key" in str(broken) or "NaN" in text or "Infinity" in text


@given(
    st.text(st.sampled_from("ab #<!->\t"), max_size=8).flatmap(
        lambda line: st.lists(st.sampled_from([line, "", "x = 1", "# agent-mail: begin", "é"]), max_size=4)
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from([block.MARKDOWN, block.TOML]),
)
def test_a_block_comes_out_as_it_went_in(lines, newline, ended, comment):
    text = newline.join(lines) + (newline if ended else "")
    once = block.put(text, comment, "worker-x", "codex", "some\nlines\n")
    assert block.put(once, comment, "worker-x", "codex", "some\nlines\n") == once
    two = block.put(once, comment, "worker-y", "cursor", "other\n")
    assert two.count("agent-mail: end") == 1 and "(codex, cursor)" in two
    assert block.take(once, comment, "cursor") == once
    assert block.take(block.take(two, comment, "codex"), comment, "cursor") == text
    assert block.take(once, comment, "codex") == text


def test_a_file_that_was_made_for_the_block_goes_with_it():
    made = block.put(None, block.MARKDOWN, "worker-x", "codex", "lines")
    assert block.take(made, block.MARKDOWN, "codex") is None
    empty = block.put("", block.MARKDOWN, "worker-x", "codex", "lines")
    assert block.take(empty, block.MARKDOWN, "codex") == ""


def test_taking_out_something_else_would_be_seen():
    """The negative control: the text is not merely compared with itself."""
    [part, *_] = ours_of("claude")
    text = '{"hooks": {"Stop": []}}'
    after = _with(text, part, "claude", WORDS)
    broken = after.replace("\n\n", "\n")
    assert _json_without(broken, part) != text
    assert splice.take(after, ("hooks",)) != text
