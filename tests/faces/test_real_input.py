"""Real input: the sources of the interpreter's own library as bodies.  What is taken comes back byte for byte, what is
not is refused by name, and nothing was sent then."""

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from maildir_agents import MailError, Spool

LIBRARY = Path(sysconfig.get_path("stdlib"))
LIMIT = 1 << 20
FORBIDDEN = bytes([*range(0x20), 0x7F]).translate(None, b"\t\n\r")
CLI_SAMPLE = 150


def below(place: Path, ending: str) -> list[Path]:
    found = []
    for directory, inner, names in os.walk(place):
        inner[:] = [name for name in inner if name not in ("site-packages", "dist-packages")]
        found += [Path(directory, name) for name in names if name.endswith(ending)]
    return sorted(found)


def is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def verdict(data: bytes) -> str:
    """The code that a body is refused with, or "": said once more, and not by the code under test."""
    if len(data) > LIMIT:
        return "too_large"
    if not is_text(data):
        return "bad_body"
    text = data.decode("utf-8")
    controls = data.translate(None, FORBIDDEN) != data or any("\x80" <= character <= "\x9f" for character in text)
    return "bad_body" if controls else ""


@pytest.fixture(scope="module")
def sources() -> dict[Path, bytes]:
    """Every source of the library, and of what is no text or too large a few files that lie beside them."""
    found = {path: path.read_bytes() for path in below(LIBRARY, ".py")}
    assert len(found) > 500
    return found


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> dict[Path, bytes]:
    """Real files that no body can be, whatever this interpreter's library happens to hold."""
    compiled = below(LIBRARY, ".pyc")[:3] + below(LIBRARY, ".so")[:3]
    program = Path(os.path.realpath(sys.executable))
    joined = tmp_path_factory.mktemp("joined") / "everything.py"
    text = b"\n".join(path.read_bytes() for path in below(LIBRARY, ".py") if verdict(path.read_bytes()) == "")
    joined.write_bytes(text[: LIMIT + 1])
    return {path: path.read_bytes() for path in [*compiled, program, joined]}


def groups(files: dict[Path, bytes]) -> tuple[dict[Path, bytes], dict[Path, bytes]]:
    taken = {path: data for path, data in files.items() if verdict(data) == ""}
    return taken, {path: data for path, data in files.items() if path not in taken}


def drain(spool: Spool) -> dict[str, bytes]:
    """Subject -> body of everything that bob has unread."""
    bodies: dict[str, bytes] = {}
    while True:
        with spool.read("bob", limit=100) as batch:
            if not batch.messages:
                return bodies
            assert batch.warnings == []
            bodies |= {message["subject"]: message["body"].encode("utf-8") for message in batch.messages}


def test_the_library_holds_what_is_taken_and_what_is_refused(sources, odd):
    taken, refused = groups(sources | odd)
    assert len(taken) > 500
    assert len(refused) > 5
    assert {verdict(data) for data in refused.values()} == {"too_large", "bad_body"}
    assert any(b"\f" in data for data in refused.values())
    assert b"" in taken.values()
    assert max(map(len, taken.values())) > 100_000
    assert any(not data.isascii() for data in taken.values())


def test_every_source_sent_from_python_comes_back_byte_for_byte_or_is_refused_by_name(tmp_path, sources, odd):
    spool = Spool(tmp_path / "spool", durability="none")
    taken, refused = groups(sources | odd)
    for path, data in (sources | odd).items():
        body = data.decode("utf-8", "surrogateescape")  # how Python hands on what is no text
        expected = verdict(data) if is_text(data) else "bad_body"
        try:
            spool.send(sender="alice", recipient="bob", subject=str(path)[:500], body=body)
            code = ""
        except MailError as error:
            code = error.code
            assert error.exit_status == 64
        assert code == expected, path
    assert spool.status("bob")[0]["unread"] == len(taken)
    came_back = drain(spool)
    assert came_back.keys() == {str(path)[:500] for path in taken}
    differing = [path for path, data in taken.items() if came_back[str(path)[:500]] != data]
    assert differing == []
    assert refused
    assert os.listdir(f"{spool.box('bob')}/tmp") == []


def sample(sources: dict[Path, bytes], odd: dict[Path, bytes]) -> list[Path]:
    """All that are refused, the empty, the largest, the ones beyond ASCII, and every so many of the rest."""
    taken, refused = groups(sources | odd)
    by_size = sorted(taken, key=lambda path: len(taken[path]))
    chosen = [*refused, *by_size[:5], *by_size[-5:], *[path for path in taken if not taken[path].isascii()][:30]]
    chosen += [path for path in taken if b"\r" in taken[path]][:10]
    rest = [path for path in by_size if path not in set(chosen)]
    missing = max(0, CLI_SAMPLE - len(set(chosen)))
    return list(dict.fromkeys(chosen + rest[:: max(1, len(rest) // (missing + 1))]))


def test_a_sample_sent_by_the_command_comes_back_byte_for_byte_or_is_refused_by_name(quick, sources, odd):
    files = sources | odd
    chosen = sample(sources, odd)
    assert len(chosen) >= CLI_SAMPLE
    taken = []
    for path in chosen:
        done = quick("send", "--from", "alice", "--to", "bob", "--subject", str(path)[:500], "--body-file", str(path))
        code = verdict(files[path])
        if code:
            assert (done.status, done.refusal["code"]) == (64, code), path
        else:
            assert done.answer["duplicate"] is False
            taken.append(path)
    assert 0 < len(taken) < len(chosen)
    assert quick.row("bob")["unread"] == len(taken)
    came_back = {}
    while (answer := quick("read", "bob", "--limit", "40").answer)["count"]:
        came_back |= {message["subject"]: message["body"].encode("utf-8") for message in answer["messages"]}
    assert {path for path in taken if came_back[str(path)[:500]] != files[path]} == set()
    assert len(came_back) == len(taken)
    assert os.listdir(quick.spool / "agents/bob/tmp") == []


@pytest.mark.parametrize("how", ["standard input", "argument"])
def test_the_body_is_the_same_whichever_way_it_came(quick, sources, how):
    texts = [data for data in sources.values() if verdict(data) == "" and b"\0" not in data and len(data) < 100_000]
    for data in [*sorted(texts, key=len)[-5:], b"line 1\r\nline 2\r\n", b"no end of line", b"\r", b"\t", b"", b"\n\n",
                 "\u202e\u2028\U0001f4ec".encode(), b"`id` $(id) \"'\\ %s", b"--- \nFrom: x\n"]:  # fmt: skip
        words = ["--body-file", "-"] if how == "standard input" else ["--body", data]
        stdin = data if how == "standard input" else None
        quick("send", "--from", "alice", "--to", "bob", "--subject", "s", *words, stdin=stdin)
        [message] = quick("read", "bob").answer["messages"]
        assert message["body"].encode("utf-8") == data


def test_a_body_of_exactly_the_limit_is_taken_and_one_byte_more_is_not(quick, tmp_path, sources):
    text = b"".join(data for data in sources.values() if verdict(data) == "" and data.isascii())[: LIMIT + 1]
    assert len(text) == LIMIT + 1
    path = tmp_path / "body"
    for size, code in ((LIMIT, ""), (LIMIT + 1, "too_large")):
        path.write_bytes(text[:size])
        done = quick("send", "--from", "alice", "--to", "bob", "--subject", "s", "--body-file", str(path))
        assert (done.status, code and done.refusal["code"]) == ((64, code) if code else (0, ""))
    [message] = quick("read", "bob").answer["messages"]
    assert message["body"].encode() == text[:LIMIT]


def test_a_file_that_is_not_there_is_named_and_nothing_is_sent(quick, tmp_path):
    for path, reason in ((tmp_path / "missing", "No such file"), (tmp_path, "Is a directory")):
        done = quick("send", "--from", "alice", "--to", "bob", "--subject", "s", "--body-file", str(path))
        assert (done.status, done.refusal["code"]) == (64, "usage")
        assert str(path) in done.refusal["error"]
        assert reason in done.refusal["error"]
    assert quick("status").answer == []
