"""The Python implementation keeps the specification: table, names, limits, examples, codes, skeleton."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from maildir_agents.disk.jsonfile import MAX_DEPTH, MAX_INTEGER, take
from maildir_agents.errors import CODES as REFUSALS
from maildir_agents.errors import Malformed
from maildir_agents.mail import deadletter, message
from maildir_agents.mail.dedup import key_path
from maildir_agents.mail.founding import MAILBOX_DIRS, make_mailbox, make_spool
from maildir_agents.mail.lifecycle import STATES, TABLE
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import MAX_AGENT, MAX_NAME, ORDER, is_agent, is_id, is_stamp, parse
from maildir_agents.mail.reading import judge
from maildir_agents.mail.spool import BALLAST_BYTES, BALLAST_FILES, SpoolFiles

SPOOL = Path(__file__).parents[2] / "spool"
README = (SPOOL / "README.md").read_text(encoding="utf-8")
VALID = sorted((SPOOL / "examples/valid").glob("*.json"))
INVALID = sorted((SPOOL / "examples/invalid").glob("*.json"))
ID = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"
TIME = "20261130T184712.123Z"


def table(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


CODES = dict(table(SPOOL / "examples/invalid/CODES.tsv")[1:])


def schema(name: str) -> dict:
    return json.loads((SPOOL / f"schema/{name}.json").read_text(encoding="utf-8"))


def read(path: Path, message_id: str = ID, mailbox: str = "bob") -> dict:
    return judge(take(str(path), message.MAX_FILE), message_id, mailbox)


# ------------------------------------------------------------------------------------------------ the table


def test_the_table_is_states_tsv():
    rows = [[verb, ",".join(row.leaves), ",".join(row.enters), row.guard] for verb, row in TABLE.items()]
    assert rows == table(SPOOL / "states.tsv")[1:]


def test_the_states_are_the_directories_a_message_can_enter():
    entered = {place for row in table(SPOOL / "states.tsv")[1:] for place in row[2].split(",")}
    assert set(STATES) == entered
    assert set(MAILBOX_DIRS) == {"tmp", *entered}


# ------------------------------------------------------------------------------------------------ messages


@pytest.mark.parametrize("path", VALID, ids=lambda p: p.stem)
def test_a_valid_example_is_accepted_and_nothing_in_it_is_altered(path):
    data = path.read_bytes()
    written = json.loads(data)
    accepted = read(path, written["id"], "bob" if written["recipient"] == "*" else written["recipient"])
    assert {field: accepted[field] for field in written} == written
    assert {field for field in accepted if field not in written} <= message.FIELDS.keys()
    assert path.read_bytes() == data


@pytest.mark.parametrize("path", INVALID, ids=lambda p: p.stem)
def test_an_invalid_example_is_refused_with_its_code(path):
    with pytest.raises(Malformed) as refused:
        read(path)
    assert refused.value.code == CODES[path.name]


def test_a_body_over_one_mebibyte_is_too_large(tmp_path):
    good = json.loads((SPOOL / "examples/valid/minimal-message.json").read_text(encoding="utf-8"))
    path = tmp_path / "message.json"
    for body, fits in (
        ("x" * (1 << 20), True),
        ("x" * (1 << 20) + "x", False),
        ("ü" * (1 << 19), True),
        ("ü" * (1 << 19) + "x", False),
    ):
        path.write_text(json.dumps(good | {"body": body}), encoding="utf-8")
        if fits:
            assert read(path, good["id"])["body"] == body
        else:
            with pytest.raises(Malformed) as refused:
                read(path, good["id"])
            assert refused.value.code == "too_large"


def test_a_file_over_its_limit_is_too_large_and_not_read(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate((8 << 20) + 1)  # a hole: no byte of it is on the disk
    with pytest.raises(Malformed) as refused:
        read(path)
    assert refused.value.code == "too_large"
    assert take(str(path), message.MAX_FILE).data is None


@pytest.mark.parametrize(("message_id", "mailbox", "code"), [(ID, "bob", "bad_id"), (None, "carol", "not_yours")])
def test_a_message_that_lies_about_its_name_or_its_mailbox_is_refused(message_id, mailbox, code):
    path = SPOOL / "examples/valid/minimal-message.json"
    with pytest.raises(Malformed) as refused:
        read(path, message_id or json.loads(path.read_bytes())["id"], mailbox)
    assert refused.value.code == code


def test_every_code_of_the_examples_is_a_refusal_with_an_exit_status():
    assert set(CODES.values()) <= REFUSALS.keys()


def test_the_fields_are_those_of_the_schema_with_their_defaults_in_the_order_of_the_table():
    document = schema("message")
    rows = re.findall(r"^\| `(\w+)` \|(?:[^|\n]*\|){4}$", README, re.M)
    assert list(message.FIELDS) == [row for row in rows if row in message.FIELDS] == rows
    for field, (_, default) in message.FIELDS.items():
        if default is ...:
            assert field in document["required"]
        else:
            assert document["properties"][field]["default"] == default


def test_the_limits_are_those_of_the_schema_and_the_text():
    fields = schema("message")["properties"]
    assert fields["subject"]["maxLength"] == message.MAX_SUBJECT
    assert fields["dedup_key"]["maxLength"] == message.MAX_KEY
    assert fields["kind"]["maxLength"] == message.MAX_KIND
    assert fields["refs"]["maxItems"] == message.MAX_REFS
    assert fields["refs"]["items"]["maxLength"] == message.MAX_REF
    assert fields["body"]["maxLength"] == message.MAX_BODY
    assert schema("message")["$defs"]["agent"]["maxLength"] == MAX_AGENT
    assert (message.MAX_HEADERS, message.MAX_ENVELOPE, message.MAX_FILE) == (4096, 8192, 8 << 20)
    assert (MAX_DEPTH, MAX_INTEGER, MAX_NAME) == (32, 2**53, 150)
    for said in ("4,096 bytes encoded", "8,192 bytes", "8 MiB", "32 levels", "±2⁵³", "150 bytes"):
        assert said in README


# ------------------------------------------------------------------------------------------------ names


def expression(name: str) -> re.Pattern:
    return re.compile(re.search(rf"^{name} +(\S+)$", README, re.M)[1])


@pytest.mark.parametrize(
    "text",
    [
        ID,
        ID.upper(),
        ID + "\n",
        ID[:-1],
        ID.replace("-7", "-4"),
        ID.replace("-9", "-c"),
        ID.replace("-", ""),
        "",
        ID[:8] + "_" + ID[9:],
    ],
)
def test_an_id_is_what_the_expression_matches(text):
    assert is_id(text) == bool(expression("id").fullmatch(text))


@pytest.mark.parametrize(
    "text",
    [
        "bob",
        "shop:bob",
        "a.b_c-d",
        "0",
        "",
        "-bob",
        ".bob",
        "bob\n",
        "Bob",
        "a:b:c",
        "a:",
        ":a",
        "bob@node",
        "*",
        "büb",
        "b b",
        "../b",
    ],
)
def test_an_agent_is_what_the_expression_matches(text):
    assert is_agent(text) == bool(expression("agent").fullmatch(text))


def test_everybody_is_nobodys_name():
    assert not is_agent("broadcast")
    assert is_agent("shop:broadcast")


@pytest.mark.parametrize("text", [TIME, TIME[:-1], TIME.lower(), TIME + "\n", "2026-11-30T18:47:12.123Z"])
def test_a_time_in_a_name_is_what_the_expression_matches(text):
    assert is_stamp(text) == bool(expression("time").fullmatch(text))


def test_the_stamps_are_those_of_the_table_in_its_order():
    assert "".join(re.findall(r"^\| `([a-z])` \|", README, re.M)) == ORDER


@pytest.mark.parametrize(
    "stamps",
    [
        "",
        f"~r{TIME}",
        "~n1",
        f"~r{TIME}~n12~q3",
        f"~r{TIME}~n1~x{TIME}~b9f44af0deffffffa-86400123~wbuild-7",
        f"~a{TIME}~z{TIME}",
        "~d1",
        "~p",
        "~pa.b-c_1",
        "~n1~r" + TIME,
        "~n999999999",
        "~b" + "0" * 16 + "-" + "9" * 13,
    ],
)
def test_a_message_name_is_taken_apart_and_put_together_again(stamps):
    name = parse(f"{ID}{stamps}.json")
    assert name is not None
    assert name.id == ID
    assert name.text == f"{ID}{stamps}.json"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ID,
        ID + ".txt",
        ID.upper() + ".json",
        "." + ID + ".json",
        ID + ".json~",
        ID + "x.json",
        ID + "~.json",
        ID + "~n.json",
        ID + "~nx.json",
        ID + "~n1~n2.json",
        ID + "~n1234567890.json",
        ID + "~r2026.json",
        ID + "~wBuild.json",
        ID + "~w" + "w" * 49 + ".json",
        ID + "~w.json",
        ID + "~b9f44af0d-1.json",
        ID + "~N1.json",
        ID + "~b" + "0" * 16 + "-" + "9" * 14 + ".json",
        ID + "~p" + "x" * 108 + ".json",
        ID + "~n1.json\n",
        ID + "~pä.json",
        ID + "~p/..json",
        ID + ".reason.json",
    ],
)
def test_any_other_name_is_foreign(text):
    assert parse(text) is None


def test_unknown_stamps_move_along_behind_the_known_ones():
    name = parse(f"{ID}~n1~pfuture.json")
    assert name.becoming({"r": TIME}).text == f"{ID}~r{TIME}~n1~pfuture.json"


def test_the_longest_name_a_mailbox_takes_can_be_claimed():
    name = parse(f"{ID}~r{TIME}~n{'9' * 9}~q{'9' * 9}~a{TIME}~z{TIME}~d{'9' * 9}~p{'x' * 8}.json")
    assert len(name.text) == MAX_NAME
    claimed = name.becoming({"x": TIME, "b": "f" * 16 + "-" + "9" * 13, "w": "w" * 48})
    assert len(claimed.text) == 254
    assert parse(claimed.text) is not None


# ------------------------------------------------------------------------------------------------ the spool


def test_a_key_lies_where_the_text_says(tmp_path):
    digest = re.search(r"^# ([0-9a-f]{64})$", README, re.M)[1]
    spool = SpoolFiles(tmp_path)
    assert key_path(spool, "alice", "invoice-7") == f"{tmp_path}/dedup/{digest[:2]}/{digest}.json"


def test_lengths_in_a_key_are_bytes_and_keep_sender_and_key_apart(tmp_path):
    spool = SpoolFiles(tmp_path)
    assert key_path(spool, "a", "bc") != key_path(spool, "ab", "c")
    done = subprocess.run(["sha256sum"], input="5:alice,6:Grüß,".encode(), capture_output=True, check=True)
    assert key_path(spool, "alice", "Grüß").endswith(f"/{done.stdout[:64].decode()}.json")


def entries(root: Path) -> set[str]:
    """Every file and directory below root, as the skeleton has them: without `.keep`, without the ballast's files."""
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.name != ".keep"}
    return {name for name in found if not name.startswith("ballast/")}


def keys(value) -> object:
    return {key: keys(inner) for key, inner in value.items()} if isinstance(value, dict) else None


def assert_is_the_skeleton(made: Path) -> None:
    skeleton = SPOOL / "skeleton"
    assert entries(made) == entries(skeleton)
    registry = Registry().with_resource(schema("message")["$id"], Resource.from_contents(schema("message")))
    for name in ("spool", "config"):
        here, there = (json.loads((root / f"{name}.json").read_text(encoding="utf-8")) for root in (made, skeleton))
        assert keys(here) == keys(there)
        assert list(here) == list(there)
        Draft202012Validator(schema(name), registry=registry).validate(here)
    assert json.loads((made / "config.json").read_text()) == json.loads((skeleton / "config.json").read_text())
    ballast = sorted((made / "ballast").iterdir())
    assert [path.name for path in ballast] == [f"{number:02}" for number in range(16)]
    assert {path.stat().st_size for path in ballast} == {64 << 10}
    assert {path.stat().st_mode & 0o777 for path in made.rglob("*") if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made.rglob("*") if path.is_file()} == {0o600}


def test_a_new_spool_is_the_skeleton(tmp_path):
    made = tmp_path / "spool"
    assert make_spool(SpoolFiles(made))
    assert_is_the_skeleton(made)
    assert (BALLAST_FILES, BALLAST_BYTES) == (16, 64 << 10)


def test_init_makes_the_skeleton(command, tmp_path):
    made = tmp_path / "spool"
    subprocess.run([command, "init", "--path", str(made)], check=True, capture_output=True)
    assert_is_the_skeleton(made)


@pytest.fixture
def copied(tmp_path) -> SpoolFiles:
    return SpoolFiles(shutil.copytree(SPOOL / "skeleton", tmp_path / "spool"))


def test_a_copy_of_the_skeleton_is_a_spool(copied):
    assert copied.exists
    assert not make_spool(copied)
    assert make_mailbox(copied, "bob")
    assert set(os.listdir(copied.box("bob"))) == set(MAILBOX_DIRS)


@pytest.mark.parametrize("attempts", [0, 2])
def test_a_dead_letter_has_the_reason_that_the_schema_describes(copied, attempts):
    make_mailbox(copied, "bob")
    box = Mailbox(copied, "bob")
    name = parse(f"{ID}~n{attempts + 5}~q5.json")
    Path(box.where(Found("new", name))).write_bytes(b"no message")
    failed = deadletter.fail(box, Found("new", name), "not_json", "not JSON: a value is missing")
    reason = json.loads(Path(deadletter.reason_path(box, failed)).read_text(encoding="utf-8"))
    registry = Registry().with_resource(schema("message")["$id"], Resource.from_contents(schema("message")))
    Draft202012Validator(schema("reason"), registry=registry).validate(reason)
    assert (reason["id"], reason["code"], reason["attempts"]) == (ID, "not_json", attempts)
    assert sorted(os.listdir(f"{box.path}/failed")) == [f"{name.text[:-5]}.json", f"{name.text[:-5]}.reason.json"]
