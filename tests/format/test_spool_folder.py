"""The specification agrees with itself: schemas, examples, tables, tree and skeleton, without the implementation."""

import json
import re
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

SPOOL = Path(__file__).parents[2] / "spool"
VALID = sorted((SPOOL / "examples/valid").glob("*.json"))
INVALID = sorted((SPOOL / "examples/invalid").glob("*.json"))
SCHEMAS = sorted((SPOOL / "schema").glob("*.json"))
BODY_BYTES = 1 << 20

# Sizes in bytes of the encoded form, and of UTF-8: no schema can count them.
ONLY_AN_IMPLEMENTATION_CAN_TELL = {"headers-too-large", "envelope-too-large", "ref-too-long-in-bytes"}

FORMATS = FormatChecker(formats=())


@FORMATS.checks("date-time", raises=ValueError)
def _is_a_day_that_exists(value) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value) is not None


def table(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def readme(name: str = "README.md") -> str:
    return (SPOOL / name).read_text(encoding="utf-8")


def section(title: str) -> str:
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", readme(), re.M | re.S)[1]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


CODES = dict(table(SPOOL / "examples/invalid/CODES.tsv")[1:])


@pytest.fixture(scope="module")
def registry() -> Registry:
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in SCHEMAS]
    return Registry().with_resources((d["$id"], Resource.from_contents(d)) for d in documents)


@pytest.fixture(scope="module")
def schema(registry):
    def validator(name: str) -> Draft202012Validator:
        document = json.loads((SPOOL / f"schema/{name}.json").read_text(encoding="utf-8"))
        return Draft202012Validator(document, registry=registry, format_checker=FORMATS)

    return validator


# ------------------------------------------------------------------------------------------------ a strict reader


def _object(pairs):
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("duplicate_key")
    return dict(pairs)


def _integer(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > 2**53:
        raise ValueError("bad_number")
    return int(text)


def _number(text: str) -> float:
    if float(text) in (float("inf"), float("-inf")):
        raise ValueError("bad_number")
    return float(text)


def _no_number(text: str) -> float:
    raise ValueError("bad_number")


def _judge_depth(value, levels: int = 32) -> None:
    if isinstance(value, dict | list):
        if levels == 0:
            raise ValueError("too_deep")
        for inner in value.values() if isinstance(value, dict) else value:
            _judge_depth(inner, levels - 1)


def strict(data: bytes) -> dict:
    """The message in these bytes; ValueError with a code where it is told from others, else with JSON's own words."""
    text = data.decode("utf-8")
    if text.startswith("\ufeff"):
        raise ValueError("not_json")
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_no_number
        )
    except RecursionError:
        raise ValueError("too_deep") from None
    if not isinstance(value, dict):
        raise ValueError("not_an_object")
    _judge_depth(value)
    json.dumps(value, ensure_ascii=False).encode("utf-8")  # UnicodeEncodeError, a ValueError: half a surrogate pair
    return value


# ------------------------------------------------------------------------------------------------ schemas


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda p: p.stem)
def test_a_schema_is_a_json_schema_with_titles_and_descriptions(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(document)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert {"title", "description", "properties"} <= document.keys()
    assert [name for name, inner in document["properties"].items() if "title" not in inner] == []
    assert document["additionalProperties"] is True


@pytest.mark.parametrize("name", ["spool", "config"])
def test_the_skeleton_keeps_its_schemas(schema, name):
    schema(name).validate(json.loads((SPOOL / f"skeleton/{name}.json").read_text(encoding="utf-8")))


def test_a_configuration_names_whom_a_listener_may_start(schema):
    config = schema("config")
    config.validate(
        {
            "auto": {"shop:worker": {"command": ["work", "--once"], "max_attempts": 3, "time_limit_seconds": 3600}},
            "retention_days": 30,
            "later": 1,
        }
    )
    for broken in (
        {"auto": {"Bob": {"command": ["work"]}}},
        {"auto": {"bob": {"command": "work"}}},
        {"auto": {"bob": {"command": []}}},
        {"auto": {"bob": {}}},
        {"retention_days": -1},
    ):
        assert not config.is_valid(broken), broken


def test_a_reason_says_why_when_and_after_how_many_attempts(schema):
    reason = {
        "reason": "the key 'body' stands there twice",
        "code": "duplicate_key",
        "at": "2026-11-30T18:47:12.123Z",
        "by": None,
        "attempts": 0,
        "id": None,
    }
    schema("reason").validate(reason)
    for field in reason:
        assert not schema("reason").is_valid({key: value for key, value in reason.items() if key != field})


def test_another_format_is_no_spool_of_this_one(schema):
    spool = json.loads((SPOOL / "skeleton/spool.json").read_text(encoding="utf-8"))
    assert not schema("spool").is_valid(spool | {"format": 2})
    assert schema("spool").is_valid(spool | {"unheard-of": 2})


# ------------------------------------------------------------------------------------------------ examples


@pytest.mark.parametrize("path", VALID, ids=lambda p: p.stem)
def test_a_valid_example_is_read_strictly_and_keeps_the_schema(schema, path):
    schema("message").validate(strict(path.read_bytes()))


@pytest.mark.parametrize("path", INVALID, ids=lambda p: p.stem)
def test_an_invalid_example_is_refused(schema, path):
    try:
        refused = not schema("message").is_valid(strict(path.read_bytes()))
    except ValueError:
        refused = True
    assert refused is (path.stem not in ONLY_AN_IMPLEMENTATION_CAN_TELL)


@pytest.mark.parametrize(
    "path",
    [p for p in INVALID if CODES[p.name] in ("duplicate_key", "bad_number", "too_deep", "not_an_object")],
    ids=lambda p: p.stem,
)
def test_what_a_strict_reader_refuses_has_the_code_of_its_fault(path):
    try:
        message = strict(path.read_bytes())
    except ValueError as error:
        assert str(error) == CODES[path.name]
    else:
        assert message.get("turn", 1) < 1 or message.get("hops", 0) < 0  # a number, but none that counts


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in INVALID
        if CODES[p.name].startswith(("bad_", "missing_")) and p.stem not in ONLY_AN_IMPLEMENTATION_CAN_TELL
    ],
    ids=lambda p: p.stem,
)
def test_an_invalid_example_has_one_fault(schema, path):
    try:
        message = strict(path.read_bytes())
    except ValueError:
        return
    faults = list(schema("message").iter_errors(message))
    places = {fault.absolute_path[0] if fault.absolute_path else fault.message for fault in faults}
    assert len(places) == 1, [fault.message for fault in faults]


def test_there_are_examples_enough_and_each_valid_one_has_an_id_of_its_own():
    assert len(VALID) >= 25
    assert len(INVALID) >= 40
    ids = [strict(path.read_bytes())["id"] for path in VALID]
    assert len(set(ids)) == len(ids)


def test_every_example_is_in_the_table_and_nothing_else():
    rows = [cells(line) for line in readme("examples/README.md").splitlines() if line.startswith("| `")]
    wanted = {f"valid/{p.name}": "accepted" for p in VALID}
    wanted |= {f"invalid/{p.name}": f"`{CODES[p.name]}`" for p in INVALID}
    assert {file.strip("`"): expected for file, _, expected in rows} == wanted
    assert len(rows) == len(wanted)
    assert [file for file, lesson, _ in rows if not lesson.endswith(".")] == []


def test_the_codes_list_exactly_the_invalid_files_and_codes_of_the_specification():
    assert table(SPOOL / "examples/invalid/CODES.tsv")[0] == ["file", "code"]
    assert list(CODES) == [p.name for p in INVALID]
    named = {
        code
        for line in section("The message file").splitlines()
        if line.startswith("| `")
        for code in re.findall(r"`(\w+)`", line.split(" | ")[0])
    }
    assert set(CODES.values()) <= named


def test_a_body_of_one_mebibyte_is_the_largest(schema):
    message = strict((SPOOL / "examples/valid/minimal-message.json").read_bytes())
    assert schema("message").is_valid(message | {"body": "x" * BODY_BYTES})
    assert not schema("message").is_valid(message | {"body": "x" * (BODY_BYTES + 1)})


# ------------------------------------------------------------------------------------------------ the README


def test_the_state_table_is_states_tsv():
    text = re.search(r"<!-- states\.tsv -->\n(.*?)\n<!-- end of states\.tsv -->", readme(), re.S)[1].splitlines()
    del text[1]  # the rule under the head
    assert [cells(line) for line in text] == table(SPOOL / "states.tsv")


def test_the_states_are_ten_verbs_between_seven_directories():
    head, *rows = table(SPOOL / "states.tsv")
    assert head == ["verb", "leaves", "enters", "guard"]
    assert " ".join(row[0] for row in rows) == "deliver read claim expire renew release ack archive fail requeue"
    places = {place for row in rows for place in f"{row[1]},{row[2]}".split(",")}
    assert places == {"tmp", "new", "cur", "claimed", "acked", "archive", "failed"}
    assert all(row[3] and len(row) == 4 for row in rows)


def test_the_fields_of_the_table_are_those_of_the_schema():
    rows = [cells(line) for line in section("The message file").splitlines() if line.startswith("| `")]
    rows = [row for row in rows if len(row) == 5]
    document = json.loads((SPOOL / "schema/message.json").read_text(encoding="utf-8"))
    assert {row[0].strip("`") for row in rows} == document["properties"].keys()
    assert {row[0].strip("`") for row in rows if row[3] == "required"} == set(document["required"])


def test_the_tree_names_every_entry_of_the_skeleton_and_no_other():
    tree = re.search(r"^```\n<spool>/\n(.*?)^```", readme(), re.M | re.S)[1]
    named = set()
    for line in tree.splitlines():
        if re.match(r"  \S", line):
            named |= {word.partition("/")[0] for word in re.split(r" {3,}", line.strip())[0].split("  ")}
    there = {path.name for path in (SPOOL / "skeleton").iterdir()}
    assert named == there
    assert {p.name for p in (SPOOL / "skeleton").rglob("*") if p.is_file()} == {
        ".keep",
        "spool.json",
        "config.json",
        "upkeep.lock",
        "broadcast.lock",
    }


def test_every_directory_of_a_mailbox_is_in_the_tree():
    for row in table(SPOOL / "states.tsv")[1:]:
        for place in f"{row[1]},{row[2]}".split(","):
            assert re.search(rf"^    (\S+ )*{place}/", section("Tree"), re.M), place


def expression(name: str) -> re.Pattern:
    return re.compile(re.search(rf"^{name} +(\S+)$", section("Names and stamps"), re.M)[1])


def test_the_expressions_match_what_the_schema_matches():
    document = json.loads((SPOOL / "schema/message.json").read_text(encoding="utf-8"))["$defs"]
    for name in ("id", "agent"):
        assert document[name]["pattern"] == f"^{expression(name).pattern}$(?!\\n)"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("id", "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02", "01A22DC8-4ffb-7e11-9d3f-5b0c6a1e8f02"),
        ("agent", "shop:worker-1.b_2", "-shop"),
        ("time", "20261130T184712.123Z", "2026-11-30T18:47:12.123Z"),
        ("number", "123456789", "1234567890"),
        ("boot", "9f44af0deffffffa-86400123", "9f44af0d-86400123"),
        ("worker", "build-7", "build 7"),
        ("unknown", "~p1.x", "~P1"),
    ],
)
def test_an_expression_matches_to_the_very_end(name, good, bad):
    assert expression(name).fullmatch(good)
    assert not expression(name).fullmatch(good + "\n")
    assert not expression(name).fullmatch(bad)


def test_the_longest_name_can_be_claimed():
    time, number = "20261130T184712.123Z", "9" * 9
    kept = "".join(["0" * 36, "~r", time, "~n", number, "~q", number, "~a", time, "~z", time, "~d", number, ".json"])
    claim = "".join(["~x", time, "~b", "f" * 16, "-", "9" * 13, "~w", "w" * 48])
    assert (len(kept), len(claim)) == (140, 104)
    assert "140 bytes" in section("Names and stamps")
    assert "104 more" in section("Names and stamps")


def test_the_key_in_the_text_has_the_hash_in_the_text():
    command, answer = re.search(r"```sh\n(printf .* \| sha256sum)\n# ([0-9a-f]{64})\n```", readme()).groups()
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == answer


@pytest.fixture
def spool_with_bob(tmp_path) -> Path:
    for directory in ["tmp", "new", "cur", "claimed", "acked", "archive", "failed"]:
        (tmp_path / "spool/agents/bob" / directory).mkdir(parents=True)
    return tmp_path / "spool"


@pytest.mark.needs("sh", "the specification's script that delivers with mv")
def test_the_script_in_the_text_delivers_a_good_message_with_mv_alone(schema, spool_with_bob, tmp_path):
    script = re.search(r"<!-- example: deliver with mv -->\n```sh\n(.*?)^```", readme(), re.M | re.S)[1]
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sync").write_text("#!/bin/sh\n")  # syncing the whole machine is no part of the promise
    (programs / "sync").chmod(0o755)
    arguments = ["deliver", "cron", "bob", "Disk is filling", "91 % of / is used."]
    done = subprocess.run(
        ["sh", "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={"AGENT_MAIL_SPOOL": str(spool_with_bob), "PATH": f"{programs}:/usr/bin:/bin"},
    )
    delivered = spool_with_bob / f"agents/bob/new/{done.stdout.strip()}.json"
    message = strict(delivered.read_bytes())
    schema("message").validate(message)
    assert message["id"] == done.stdout.strip()
    assert (message["sender"], message["recipient"], message["body"]) == ("cron", "bob", "91 % of / is used.")
    assert list((spool_with_bob / "agents/bob/tmp").iterdir()) == []
    assert delivered.stat().st_mode & 0o777 == 0o600


def test_invariants_are_numbered_through_and_say_must_or_should():
    must, should = section("Invariants").split("Should:")
    numbers = [int(n) for n in re.findall(r"^(\d+)\. ", section("Invariants"), re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
    for part, word in ((must, "*must"), (should, "*should")):
        for item in re.split(r"^(?=\d+\. )", part, flags=re.M)[1:]:
            assert word in item
