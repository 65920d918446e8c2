"""The contract of the command: whatever is typed, an answer is JSON, a refusal is JSON on standard error with its code,
the exit status is the documented one and never 2, and help comes from the same rows."""

import json
import os
import signal
import subprocess
import sys

import pytest

import proc
from faces.program import Program, until
from maildir_agents.errors import CODES
from maildir_agents.faces import cli
from maildir_agents.faces.cli.words import COMMON, destination, usage

ID = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"
VERBS = [verb for verb in cli.VERBS if verb != "demo"]
STATUSES = {0, 1, 64, 66, 73, 74, 75, 77}


def row(verb: str) -> dict:
    return cli.load(verb).ROW


def options(verb: str, of_kind: str) -> list[str]:
    every = {**row(verb).get("args", {}), **({} if row(verb).get("own") else COMMON)}
    return [name for name, spec in every.items() if ("value" in spec) == (of_kind == "value")]


ROWS = [(verb, name, {**row(verb).get("args", {}), **COMMON}[name]) for verb in VERBS
        for kind in ("value", "flag") for name in options(verb, kind)]  # fmt: skip
VALUES = [(verb, name) for verb, name, spec in ROWS if "value" in spec]
FLAGS = [(verb, name) for verb, name, spec in ROWS if "value" not in spec]
NUMBERS = [(verb, name, spec) for verb, name, spec in ROWS if spec.get("type") in (int, float)]
CHOICES = [(verb, name) for verb, name, spec in ROWS if "choices" in spec]


def needed(verb: str) -> list[str]:
    """Words and options without which the verb is wrong anyway."""
    words = [spec.get("choices", ["x"])[0] for spec in row(verb).get("words", {}).values()
             if not (spec.get("optional") or spec.get("many"))]  # fmt: skip
    for name, spec in row(verb).get("args", {}).items():
        words += [name, "1"] if spec.get("required") else []
    return words


@pytest.fixture
def typed(tmp_path, monkeypatch, capfd):
    """Carry out words in this process: (exit status, standard output, standard error)."""
    monkeypatch.setenv("AGENT_MAIL_SPOOL", str(tmp_path / "spool"))
    monkeypatch.delenv("AGENT_ID", raising=False)

    def carry_out(*words: str) -> tuple[int, str, str]:
        status = cli.carry_out(list(words))
        out, err = capfd.readouterr()
        return status, out, err

    yield carry_out
    assert not (tmp_path / "spool").exists(), "a wrong request made a spool"


def refused(outcome: tuple[int, str, str], code: str = "usage") -> dict:
    """What a wrong request is told; its code decides the exit status."""
    status, out, err = outcome
    assert (status, out) == (CODES[code][0], ""), err
    told = json.loads(err)
    assert told["code"] == code
    assert told["error"][0] != " "
    assert "\n" not in told["error"]
    assert told["hint"]
    return told


# ------------------------------------------------------------------------------------------------ wrong words


@pytest.mark.parametrize(("verb", "option"), VALUES)
def test_an_option_without_its_value_is_named(typed, verb, option):
    told = refused(typed(verb, option))
    assert option in told["error"]
    assert told["usage"] == usage(verb, row(verb))


@pytest.mark.parametrize(("verb", "option"), FLAGS)
def test_a_flag_takes_no_value(typed, verb, option):
    for word in (f"{option}=x", f"{option}="):
        assert option in refused(typed(verb, word))["error"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("word", ["--nope", "--nope=1", "---", "--=", "--\udcff", "--Spool", "--sp"])
def test_an_option_that_is_none_is_named(typed, verb, word):
    refused(typed(verb, word))


@pytest.mark.parametrize(("verb", "option", "spec"), ROWS)
def test_an_option_given_twice_is_refused_unless_it_may_be(typed, verb, option, spec):
    if spec.get("many"):
        return
    twice = [option, "1", option, "1"] if "value" in spec else [option, option]
    words = needed(verb) if option not in needed(verb) else []
    assert "2 times" in refused(typed(verb, *words, *twice))["error"]


@pytest.mark.parametrize("text", ["", "x", "-1", "1e3", "1e400", "nan", "inf", "-inf", "0x10", "1_000", " 5", "5 ",
                                  "٣", "99999999999999999999", "1,5", "--", "\udcff"])  # fmt: skip
@pytest.mark.parametrize(("verb", "option", "spec"), NUMBERS)
def test_what_is_no_number_in_range_is_refused(typed, verb, option, spec, text):
    for words in ([option, text], [f"{option}={text}"]):
        before = needed(verb) if option not in needed(verb) else []
        assert option in refused(typed(verb, *before, *words))["error"]


@pytest.mark.parametrize(("verb", "option", "spec"), [entry for entry in NUMBERS if entry[2]["type"] is int])
def test_a_whole_number_has_no_fraction(typed, verb, option, spec):
    refused(typed(verb, *(needed(verb) if option not in needed(verb) else []), option, "1.5"))


@pytest.mark.parametrize(("verb", "option"), CHOICES)
def test_a_choice_is_one_of_those_listed(typed, verb, option):
    told = refused(typed(verb, *needed(verb), option, "nope"))
    assert "nope" in told["error"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_word_too_many_is_named(typed, verb):
    words = row(verb).get("words", {})
    if any(spec.get("many") for spec in words.values()):
        return
    filled = [spec["choices"][0] if "choices" in spec else "x" for spec in words.values()]
    assert "surplus" in refused(typed(verb, *filled, "surplus"))["error"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_word_too_few_is_named(typed, verb):
    needed = [w for w, spec in row(verb).get("words", {}).items() if not (spec.get("optional") or spec.get("many"))]
    if needed:
        told = refused(typed(verb))
        assert needed[0] in told["error"]
        if row(verb)["words"][needed[0]].get("default") == "$AGENT_ID":
            assert "AGENT_ID" in told["error"]


@pytest.mark.parametrize(
    "word", ["snd", "SEND", "", "-x", "-", "--", "--nope", "\udcff", "../send", "words", "__init__"]
)
def test_a_verb_that_is_none_is_named_and_the_nearest_suggested(typed, word):
    told = refused(typed(word))
    assert "verb" in told["error"]
    if word == "snd":
        assert "agent-mail send" in told["hint"]


@pytest.mark.parametrize(("words", "code"), [
    (["send", "--from", "a", "--to", "b"], "usage"),
    (["send", "--from", "a", "--subject", "s"], "usage"),
    (["send", "--to", "b", "--subject", "s"], "usage"),
    (["send", "--from", "a", "--to", "b", "--subject", "s", "--body", "x", "--body-file", "/dev/null"], "usage"),
    (["send", "--from", "a", "--to", "b", "--subject", "s", "--kind", "task"], "usage"),
    (["send", "--from", "a", "--to", "b", "--subject", "s", "--kind", "task", "--conversation", ID],
     "unknown_conversation"),
    (["send", "--from", "a", "--to", "b", "--subject", "s", "--reply-to", ID], "unknown_id"),
    (["send", "--from", "a", "--to", "b", "--subject", "s", "--reply-to", "x"], "bad_id"),
    (["send", "--from", "*", "--to", "b", "--subject", "s"], "bad_agent"),
    (["send", "--from", "a", "--to", "A", "--subject", "s"], "bad_agent"),
    (["send", "--from", "a", "--to", "", "--subject", "s"], "bad_agent"),
    (["send", "--from", "a", "--to", "b", "--subject", ""], "bad_subject"),
    (["send", "--from", "a", "--to", "b", "--subject", "x" * 501], "bad_subject"),
    (["send", "--from", "a", "--to", "b", "--subject", "a\nb"], "bad_subject"),
    (["send", "--from", "a", "--to", "b", "--subject", "\udcff"], "bad_subject"),
    (["send", "--from", "a", "--to", "b", "--subject", "s", "--body", "\x07"], "bad_body"),
    (["send", "--from", "a", "--to", "b", "--subject", "s", "--body", "\udcff"], "bad_body"),
    (["send", "--from", "a", "--to", "b", "--subject", "s", "--ref", "\udcff"], "bad_refs"),
    (["send", "--from", "a", "--to", "b", "--subject", "s", "--ref", ""], "bad_refs"),
    (["send", "--from", "a", "--to", "b", "--subject", "s", "--dedup-key", ""], "bad_key"),
    (["send", "--from", "a", "--to", "b", "--subject", "s", "--dedup-key", "\udcff"], "bad_key"),
    (["send", "--from", "\udcff", "--to", "b", "--subject", "s"], "bad_agent"),
    (["send", "--from", "a", "--to", "\udcff", "--subject", "s"], "bad_agent"),
    (["read", "../b"], "bad_agent"), (["read", "\udcff"], "bad_agent"), (["read", "broadcast"], "bad_agent"),
    (["read", "b", "--from", "*"], "bad_agent"), (["read", "b", "--fields", "id,nope"], "bad_field"),
    (["read", "b", "--thread", "../x"], "bad_id"), (["watch", "B"], "bad_agent"),
    (["ack", "b"], "usage"), (["ack", "b", ID, "--all"], "usage"), (["ack", "../b", "--all"], "bad_agent"),
    (["status", "--agent", "b/c"], "bad_agent"), (["status", "--fields", "nope"], "bad_field"),
    (["status", "--project", "p:"], "bad_agent"),
    (["thread", "x"], "bad_id"), (["thread", "\udcff"], "bad_id"), (["thread", ID], "unknown_id"),
    (["trace", "*"], "bad_id"), (["trace", ID], "unknown_id"),
    (["failed", "drop"], "usage"), (["failed", "show", "b"], "usage"), (["failed", "list", "b", ID], "usage"),
    (["failed", "show", "b", ID], "unknown_id"), (["failed", "requeue", "b", "x"], "bad_id"),
    (["failed", "purge", "b", ID], "unknown_id"),
    (["init", "--path", "/tmp/x", "--spool", "/tmp/y"], "usage"), (["init", "--path", ""], "usage"),
    (["describe", "nope"], "usage"), (["describe", "view"], "usage"),
    (["read", "b", "--spool", "relative"], "usage"), (["read", "b", "--spool", ""], "usage"),
    (["describe", "--spool", "relative"], "usage"),
])  # fmt: skip
def test_a_wrong_request_has_the_code_of_its_fault_and_makes_nothing(typed, words, code):
    refused(typed(*words), code)


@pytest.mark.parametrize("words", [["ack", "b", ID], ["ack", "b", f"{ID}~n1"], ["ack", "b", "x"]])
def test_what_an_agent_that_is_not_there_cannot_settle_is_unknown(mail, words):
    told = mail(*words).refusal
    assert told["code"] in ("unknown_id", "bad_id", "lease_lost")


# ------------------------------------------------------------------------------------------------ forms of words


@pytest.mark.parametrize("body", ["--help", "-h", "--", "-", "--body", "--no-ack", "---", "--x=y", "-1", "--spool=/x"])
def test_a_body_may_begin_with_dashes_or_be_an_option(quick, body):
    for words in (["--body", body], [f"--body={body}"]):
        quick("send", "--from", "alice", "--to", "bob", "--subject", body, *words).answer  # noqa: B018
        [message] = quick("read", "bob").answer["messages"]
        assert (message["subject"], message["body"]) == (body, body)


def test_an_option_may_be_joined_to_its_value_or_stand_before_it(quick):
    joined = quick("send", "--from=alice", "--to=bob", "--subject=a=b", "--ref=x", "--ref", "y", "--body=").answer
    [message] = quick("read", "--limit=1", "bob").answer["messages"]
    assert (message["id"], message["subject"], message["refs"], message["body"]) == (
        joined["id"],
        "a=b",
        ["x", "y"],
        "",
    )


def test_after_two_dashes_everything_is_a_word(quick):
    sent = quick.send("alice", "bob")["id"]
    assert quick("ack", "--", "bob", sent).answer["count"] == 1
    assert quick("ack", "bob", "--", "--all").refusal["code"] == "bad_id"
    assert quick("ack", "bob", "--", "--help").refusal["code"] == "bad_id"


def test_words_beyond_ascii_arrive_as_they_were_typed(quick):
    text = "Grüße, 漢字 \U0001f680 e\u0301 \u202e"
    words = ["--subject", text, "--body", text, "--ref", text, "--dedup-key", text]
    quick("send", "--from", "alice", "--to", "bob", *words).answer  # noqa: B018
    done = quick("read", "bob")
    [message] = done.answer["messages"]
    assert (message["subject"], message["body"], message["refs"]) == (text, text, [text])
    assert "漢字" in done.out


@pytest.mark.parametrize("words", [["--subject", b"\xff"], ["--body", b"a\xc3"], ["--ref", b"\x80"], ["--to", b"\xfe"],
                                   ["--dedup-key", b"\xff"]])  # fmt: skip
def test_bytes_that_are_no_text_are_refused_and_the_refusal_is_text(quick, words):
    given = {"--from": "alice", "--to": "bob", "--subject": "s"} | dict([words])
    done = quick("send", *[word for pair in given.items() for word in pair])
    assert done.status == 64
    assert done.refusal["code"].startswith("bad_")
    assert quick("status").answer == []


def test_the_agent_comes_from_the_environment_unless_it_is_typed(quick):
    quick.environ["AGENT_ID"] = "bob"
    sent = quick.send("alice", "bob")["id"]
    other = quick.send("alice", "carol")["id"]
    assert quick("read").answer["agent"] == "bob"
    assert quick("read", "carol", "--no-mark-read").answer["agent"] == "carol"
    assert quick("watch", "--once").answer["agent"] == "bob"
    assert quick("ack", sent).answer["message_ids"] == [sent]
    assert quick("ack", "--all").answer["agent"] == "bob"
    assert quick("ack", "carol", other).answer["message_ids"] == [other]
    assert quick("send", "--to", "alice", "--subject", "s").answer["sender"] == "bob"
    assert quick("send", "--from", "carol", "--to", "alice", "--subject", "s").answer["sender"] == "carol"


@pytest.mark.parametrize("name", ["", "Bob", "*", "../b"])
def test_a_wrong_agent_in_the_environment_is_refused_like_a_typed_one(quick, name):
    quick.environ["AGENT_ID"] = name
    assert quick("read").refusal["code"] == ("usage" if name == "" else "bad_agent")


def test_where_the_spool_is_comes_from_the_option_the_environment_or_the_home(mail, tmp_path):
    def storage(*words: str, **environ: str) -> tuple[str, str, bool]:
        kept = {key: value for key, value in mail.environ.items() if key != "AGENT_MAIL_SPOOL"}
        found = mail("describe", *words, env=kept | {"HOME": str(tmp_path / "home")} | environ).answer["storage"]
        return found["path"], found["source"], found["exists"]

    here = str(tmp_path)
    assert storage() == (f"{here}/home/.local/state/agent-mail", "default", False)
    assert storage(XDG_STATE_HOME=f"{here}/state") == (f"{here}/state/agent-mail", "XDG_STATE_HOME", False)
    assert storage(AGENT_MAIL_SPOOL=f"{here}/a/../b") == (f"{here}/b", "AGENT_MAIL_SPOOL", False)
    assert storage("--spool", f"{here}/c", AGENT_MAIL_SPOOL=f"{here}/b") == (f"{here}/c", "--spool", False)
    assert storage(AGENT_MAIL_SPOOL="")[1] == "default"
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------ describe and help


def test_no_words_at_all_print_the_contract(mail):
    assert mail().out == mail("describe").out
    assert mail().answer["commands"]
    assert not mail.spool.exists()


def test_the_contract_is_small(mail):
    text = mail("describe").out
    assert len(text.encode()) <= 16_000, f"{len(text.encode())} bytes are more than 4,000 tokens of four"
    assert len(text.split()) <= 4_000


def test_the_contract_tells_of_every_verb_what_its_row_says(mail):
    whole = mail("describe").answer
    described = [verb for verb in cli.VERBS if verb not in cli.UNDESCRIBED]
    assert list(whole["commands"]) == described
    for verb in described:
        one = mail("describe", verb).answer[verb]
        assert set(one.get("args", {})) == set(row(verb).get("args", {}))
        assert set(one.get("words", {})) == set(row(verb).get("words", {}))
        assert one["usage"] == usage(verb, row(verb))
        assert {key: one[key] for key in whole["commands"][verb] if key != "examples"} == {
            key: value for key, value in whole["commands"][verb].items() if key != "examples"
        }
    assert set(map(int, whole["exit_status"])) == STATUSES
    assert {status for status, _ in CODES.values()} <= STATUSES


@pytest.mark.parametrize("verb", VERBS)
def test_every_example_is_made_of_words_that_the_verb_takes(verb):
    import shlex

    from maildir_agents.faces.cli.words import parse

    assert row(verb)["examples"]
    for example in row(verb)["examples"]:
        program, named, *words = shlex.split(example)
        assert (program, named) == ("agent-mail", verb)
        parse(verb, row(verb), words, {})


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_names_all_it_takes(typed, verb):
    status, out, err = typed(verb, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: {usage(verb, row(verb))}\n")
    for name, spec in {**row(verb).get("words", {}), **row(verb).get("args", {})}.items():
        assert f"  {name}" in out
        assert spec["help"] in out
    for words in (["help", verb], [verb, "-h"]):
        assert typed(*words) == (0, out, "")


def test_help_is_found_behind_other_words_too(typed):
    assert typed("send", "--from", "a", "--help")[0] == 0
    assert typed("ack", "b", "--help")[0] == 0


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_lists_every_verb_with_what_it_does(typed, words):
    status, out, err = typed(*words)
    assert (status, err) == (0, "")
    for verb in cli.VERBS:
        assert f"  {verb} " in out
        assert cli.load(verb).ROW["summary"] in out


def test_the_version_is_told(typed):
    assert typed("--version") == (0, f"agent-mail {sys.modules['maildir_agents'].__version__}\n", "")


def test_every_row_says_what_it_is_about():
    for verb in cli.VERBS:
        assert row(verb)["summary"]
        for part in ("words", "args"):
            names = [destination(name) for name in row(verb).get(part, {})]
            assert len(names) == len(set(names))
            assert all(spec["help"] for spec in row(verb).get(part, {}).values())


# ------------------------------------------------------------------------------------------------ spools that are none


def lay(mail: Program, name: str, text: str) -> None:
    mail.spool.mkdir(exist_ok=True)
    (mail.spool / name).write_text(text)


CHANGING = [["send", "--from", "a", "--to", "b", "--subject", "s"], ["read", "b"], ["watch", "b", "--once"],
            ["ack", "b", "--all"], ["init"]]  # fmt: skip
LOOKING = [["status"], ["agents"], ["thread", ID], ["trace", ID], ["failed", "list"], ["read", "b", "--no-mark-read"]]


@pytest.mark.parametrize("words", [*CHANGING, *LOOKING])
def test_a_relative_spool_is_refused(mail, tmp_path, words):
    mail.environ["AGENT_MAIL_SPOOL"] = "spool"
    done = mail(*words, cwd=tmp_path)
    assert (done.status, done.refusal["code"]) == (64, "usage")
    assert "AGENT_MAIL_SPOOL" in done.refusal["error"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [*CHANGING, *LOOKING])
@pytest.mark.parametrize(("text", "code"), [
    ('{"format": 2}', "newer_format"), ('{"format": "1"}', "newer_format"), ("{}", "newer_format"),
    ("torn {", "not_a_spool"), ("", "not_a_spool"), ("[]", "not_a_spool"),
    ('{"format": 1, "durability": "some"}', "not_a_spool"), ('{"format": 1, "limits": []}', "not_a_spool"),
    ('{"format": 1, "limits": {"waiting": "many"}}', "not_a_spool"), ('{"format": 1, "durability": []}', "not_a_spool"),
])  # fmt: skip
def test_a_spool_of_a_newer_format_or_a_damaged_one_is_refused_and_left(mail, words, text, code):
    lay(mail, "spool.json", text)
    done = mail(*words)
    assert (done.status, done.refusal["code"]) == (73, code)
    assert [path.name for path in mail.spool.iterdir()] == ["spool.json"]
    assert (mail.spool / "spool.json").read_text() == text


@pytest.mark.parametrize("words", [*CHANGING, *LOOKING])
def test_a_directory_of_somebody_elses_files_is_no_place_for_a_spool(mail, words):
    lay(mail, "thesis.tex", "mine")
    done = mail(*words)
    assert (done.status, done.refusal["code"]) == (73, "not_a_spool")
    assert [path.name for path in mail.spool.iterdir()] == ["thesis.tex"]


def test_a_file_where_the_spool_should_be_is_refused(mail):
    mail.spool.write_text("mine")
    for words in [*CHANGING, *LOOKING]:
        assert mail(*words).status == 73
    assert mail.spool.read_text() == "mine"


@pytest.mark.parametrize("words", LOOKING)
def test_looking_at_a_spool_that_is_not_there_makes_none(mail, words):
    done = mail(*words)
    assert done.status in (0, 66)
    assert not mail.spool.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a spool that belongs to another user")
@pytest.mark.parametrize("as_whom", [0, 65534])
def test_a_spool_of_another_user_is_refused_even_to_root(quick, as_whom):
    quick.send("alice", "bob")
    owner, user = (65534, 0) if as_whom == 0 else (0, 65534)
    os.chown(quick.spool, owner, -1)
    os.chmod(quick.place, 0o711)
    before = sorted(path.name for path in quick.spool.iterdir())
    script = f"""
import importlib, os, pkgutil
import maildir_agents.disk, maildir_agents.mail, maildir_agents.verbs
from maildir_agents.faces import cli
for verb in cli.VERBS:  # all that could be imported later: the other user may not be allowed to read it
    cli.load(verb)
for floor in (maildir_agents.disk, maildir_agents.mail, maildir_agents.verbs):
    for module in pkgutil.iter_modules(floor.__path__, floor.__name__ + "."):
        importlib.import_module(module.name)
os.chdir({str(quick.place)!r})
os.seteuid({user})
statuses = [cli.carry_out(words) for words in {[*CHANGING, *LOOKING]!r}]
print(statuses)
"""
    environ = quick.environ | {"AGENT_MAIL_SPOOL": "/proc/self/cwd/spool"}
    done = subprocess.run([sys.executable, "-I", "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [77] * len([*CHANGING, *LOOKING])
    assert done.stderr.count('"wrong_uid"') == len([*CHANGING, *LOOKING])
    assert sorted(path.name for path in quick.spool.iterdir()) == before


# ------------------------------------------------------------------------------------------------ signals and pipes


def test_an_interrupted_watch_says_nothing(quick):
    watch = quick.watching("bob")
    watch.send_signal(signal.SIGINT)
    out, err = watch.communicate(timeout=20)
    assert (watch.returncode, out, err) == (130, b"", b"")
    assert quick.row("bob")["watching"] is False


def test_an_interrupted_send_has_sent_nothing_and_says_nothing(quick):
    sending = quick.start("send", "--from", "alice", "--to", "bob", "--subject", "s", "--body-file", "-",
                          stdin=subprocess.PIPE)  # fmt: skip
    until(lambda: "read" in proc.waits_in(sending.pid), "it waits for its body")
    sending.send_signal(signal.SIGINT)
    out, err = sending.communicate(timeout=20)
    assert (sending.returncode, out, err) == (130, b"", b"")
    assert quick("status").answer == []


@pytest.mark.parametrize("words", [["describe"], ["status"], ["agents"], ["--help"], ["send", "--help"],
                                   ["failed", "list"], ["thread"]])  # fmt: skip
def test_a_reader_that_hangs_up_ends_the_command_quietly(quick, words):
    if words == ["thread"]:
        words = ["thread", quick.send("alice", "bob")["id"]]
    reader, writer = os.pipe()
    os.close(reader)
    process = quick.start(*words, stdout=writer)
    os.close(writer)
    assert process.wait(20) == 141
    assert process.stderr.read() == b""


@pytest.mark.parametrize("words", [["status"], ["describe"], ["--help"]])
def test_an_answer_that_cannot_be_written_is_a_refusal(quick, words):
    script = '"$0" "$@" > /dev/full'
    done = subprocess.run(
        ["sh", "-c", script, quick.command, *words], env=quick.environ, capture_output=True, check=False
    )
    assert done.returncode in (1, 73)
    assert json.loads(done.stderr)["code"]


def test_it_is_the_same_command_as_a_module_and_as_a_script(quick):
    def run(*command: str) -> bytes:
        done = subprocess.run([*command, "status"], env=quick.environ, capture_output=True, check=True)
        return done.stdout

    quick.send("alice", "bob")
    assert run(quick.command) == run(sys.executable, "-P", "-m", "maildir_agents")


def test_a_refusal_does_not_depend_on_the_language_of_the_terminal(quick):
    for locale in ("C", "POSIX", "C.UTF-8", "de_DE.ISO-8859-1"):
        done = quick("send", "--from", "Ä", "--to", "b", "--subject", "ü", env=quick.environ | {"LC_ALL": locale})
        assert (done.status, done.refusal["code"]) == (64, "bad_agent")
        sent = quick("send", "--from", "a", "--to", "b", "--subject", "ü", env=quick.environ | {"LC_ALL": locale})
        assert sent.answer["subject"] == "ü"


def test_no_exit_status_is_two_whatever_goes_wrong():
    assert {status for status, _ in CODES.values()} <= STATUSES
    assert 2 not in {cli.BROKEN_PIPE, cli.INTERRUPTED, *(status for status, _ in CODES.values())}
