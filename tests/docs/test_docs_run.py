"""Every command in the documents is run, and what a page shows is what comes out.

README.md beside this file says how a page is read.  A page is played to its end in a shell of its own; the faults
found are sentences with the page's line, and the tests at the end plant faults to see them found.
"""

import json
import os
import re
import runpy
import select
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from maildir_agents.faces.cli import VERBS, load
from maildir_agents.faces.cli.words import parse

TOP = Path(__file__).parent.parent.parent
PAGES = ["README.md", "systemd/README.md", *sorted(str(p.relative_to(TOP)) for p in (TOP / "docs").rglob("*.md"))]
PATIENCE = 60.0  # seconds for one command of a page

RUN = {"sh", "python"}
SHOWN = {"json", "jsonc", "text"}
OTHER = {"markdown", "toml"}
MANAGED = "with a user manager"

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
VARYING = [
    (re.compile(r"(?<![\w.~…/])/[\w.~…/-]*"), "<path>"),
    (ID, "<id>"),
    (re.compile(r"\d{8}T\d{6}\.\d{3}Z"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\d(?:/\d{4}\b)?"), "<day>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<lock>"),
    (re.compile(r"[0-9a-f]{16}-\d{1,13}"), "<boot>"),
]
SECONDS = {"oldest_age"}
KINDS = {"type", "verdict", "node"}  # of the file system and machine it happens to run on


# ------------------------------------------------------------------------------------------------ a page, read


class Fence:
    """A fenced block: language, text, its first line's number, the comment before it, whether a fence adjoins it."""

    def __init__(self, language: str, text: str, line: int, mark: str, adjoins: bool) -> None:
        self.language, self.text, self.line, self.mark, self.adjoins = language, text, line, mark, adjoins


def fences(page: str) -> list[Fence]:
    found: list[Fence] = []
    mark, adjoins, opened, start, language, body = "", False, "", 0, "", []
    for number, line in enumerate(page.splitlines(), 1):
        text = line.strip()
        if opened:
            if text == "```":
                found.append(Fence(language, "\n".join(body), start + 1, mark, adjoins))
                mark, adjoins, opened = "", True, ""
            else:
                body.append(line.removeprefix(opened[: len(opened) - len(opened.lstrip())]))
        elif text.startswith("```"):
            opened, start, language, body = line, number, text[3:], []
        elif re.fullmatch(r"<!-- .* -->", text):
            mark = text[5:-4]
        elif text:
            mark, adjoins = "", False
    assert not opened, f"line {start}: a fence is not closed"
    return found


class Step:
    """Something to do: a command for a terminal, a file to write, or an output to wait for."""

    def __init__(self, line: int, act: str, text: str, shown: str | None = None) -> None:
        self.line, self.act, self.text, self.shown = line, act, text, shown


def transcript(fence: Fence) -> list[Step]:
    steps: list[Step] = []
    continued = False
    for number, line in enumerate(fence.text.splitlines(), fence.line):
        if line.startswith("$ "):
            steps.append(Step(number, "run", line[2:]))
        elif continued:
            steps[-1].text += "\n" + line
        elif steps:
            steps[-1].shown = (steps[-1].shown or "") + line + "\n"
        continued = line.endswith("\\") and (line.startswith("$ ") or continued)
    return steps


def steps(page: str, managed: bool = False) -> list[Step]:
    """What a page has done, and what it shows of it; `managed`: with what needs a user manager of systemd."""
    todo: list[Step] = []
    passed_over = False
    for fence in fences(page):
        passed_over = not managed and (fence.mark == MANAGED or (passed_over and fence.adjoins))
        if fence.language not in RUN | SHOWN | OTHER:
            raise Wrong(fence.line, f"a fence says what it holds: {', '.join(sorted(RUN | SHOWN | OTHER))}")
        if passed_over:
            continue
        if fence.mark.startswith("file: "):
            todo.append(Step(fence.line, "file", f"{fence.mark[6:]}\n{fence.text}\n"))
        elif fence.language == "sh" and fence.mark == "second terminal":
            todo.append(Step(fence.line, "second", fence.text))
        elif fence.language == "sh" and re.search(r"^\$ ", fence.text, re.M):
            todo += transcript(fence)
        elif fence.language in RUN:
            todo.append(Step(fence.line, fence.language.replace("sh", "run"), fence.text))
        elif fence.mark == "the second terminal prints":
            todo.append(Step(fence.line, "printed", "", fence.text))
        elif fence.language in SHOWN and fence.adjoins and todo and todo[-1].shown is None:
            todo[-1].shown = fence.text
    return todo


class Wrong(Exception):
    """The page's line, and what is wrong there."""


# ------------------------------------------------------------------------------------------------ what was left out


def left_out(text: str) -> bool:
    """Whether this is a line of those that install something; raises Wrong(…) unless what it names exists."""
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    known = [_installs(words) for words in lines if words]
    if any(known) and not all(known):
        raise ValueError("installing and running are two fences")
    return bool(known) and all(known)


def _installs(words: list[str]) -> bool:
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word]
        missing = [t for t in targets if not re.search(rf"^{re.escape(t)}:", (TOP / "Makefile").read_text(), re.M)]
        if missing or not targets:
            raise ValueError(f"the Makefile has no target {' '.join(missing)}")
        return True
    if words[0].endswith(("pip", "pipx")) and words[1:2] == ["install"]:
        if words[2:] != ["."]:
            raise ValueError("the directory of this project is what can be installed")
        return "agent-mail" in tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["scripts"]
    return words[:3] == ["python3", "-m", "venv"]


# ------------------------------------------------------------------------------------------------ a page, played


class Terminal:
    """A shell that a page's commands are given to, one after another; the first that fails ends it."""

    def __init__(self, cwd: Path, environment: dict[str, str], logs: Path, under: Sequence[str] = ()) -> None:
        self.logs = logs
        self.number = 0
        logs.mkdir()
        self.process = subprocess.Popen(
            [*under, "/bin/sh", "-e"],
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def give(self, text: str) -> None:
        self.number += 1
        log = shlex.quote(str(self.logs / str(self.number)))
        self.process.stdin.write(f"{{\n{text}\n}} > {log} 2>&1 < /dev/null\necho {self.number}\n")
        self.process.stdin.flush()

    def done(self) -> bool:
        """Wait for what was given last.  False: it failed, or did not end."""
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        return bool(ready) and self.process.stdout.readline() == f"{self.number}\n"

    def printed(self) -> str:
        log = self.logs / str(self.number)
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    def close(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # the shell and every job it left
        except ProcessLookupError:
            pass
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        self.process.wait()


class Play:
    """One page being played.  `ids`: an id as the page shows it -> the one that was really given."""

    def __init__(self, place: Path, command: str, under: Sequence[str] = (), **more: str) -> None:
        """`under` is a program that runs the shells, in an environment with `more`."""
        self.cwd, home, temporary = place / "here", place / "home", place / "tmp"
        for directory in (self.cwd, home, temporary):
            directory.mkdir(parents=True, exist_ok=True)
        kept = {k: v for k, v in os.environ.items() if k != "AGENT_ID" and not k.startswith(("AGENT_MAIL_", "XDG_"))}
        environment = {
            **kept,
            "HOME": str(home),
            "TMPDIR": str(temporary),
            "PATH": f"{Path(command).parent}:{os.environ.get('PATH', os.defpath)}",
            "LC_ALL": "C.UTF-8",
            **more,
        }
        self.place, self.ids = place, {}
        self.first = Terminal(self.cwd, environment, place / "first", under)
        self.second = Terminal(self.cwd, environment, place / "second", under)

    def step(self, step: Step) -> None:
        text = self.real(step.text)
        if step.act == "file":
            name, _, content = text.partition("\n")
            (self.cwd / name).write_text(content, encoding="utf-8")
            (self.cwd / name).chmod(0o755)
        elif step.act == "second":
            self.watched(self.second, text)
        elif step.act == "printed":
            self.ended(self.second, step)
        elif step.act == "python" or not left_out(text):
            if step.act == "python":
                (self.cwd / ".page.py").write_text(text, encoding="utf-8")
                text = f"{shlex.quote(sys.executable)} .page.py"
            self.watched(self.first, text) if re.search(r"\bwatch\b.*&$", text) else self.first.give(text)
            self.ended(self.first, step)

    def watched(self, terminal: Terminal, text: str) -> None:
        """Give a command that watches, and go on when the watch is armed (or, in the second terminal, has ended)."""
        before = self.armed()
        terminal.give(text)
        deadline = time.monotonic() + PATIENCE
        while self.armed() <= before:
            if terminal is self.second and select.select([terminal.process.stdout], [], [], 0)[0]:
                return
            if time.monotonic() > deadline:
                raise ValueError(f"the watch was not armed: {terminal.printed()}")
            time.sleep(0.02)

    def armed(self) -> set[Path]:
        return set(self.place.rglob("watch/*.lock"))

    def ended(self, terminal: Terminal, step: Step) -> None:
        if not terminal.done():
            raise ValueError(f"this failed or did not end: {step.text}\n{terminal.printed()}")
        if step.shown is not None:
            self.compare(step.shown, terminal.printed())

    def real(self, text: str) -> str:
        return ID.sub(lambda found: self.ids.get(found[0], found[0]), text)

    def compare(self, shown: str, real: str) -> None:
        if shown.lstrip()[:1] in ("{", "["):
            excerpt = re.search(r"^\s*(// )?…$", shown, re.M) is not None
            bare = re.sub(r",(\s*[}\]])", r"\1", re.sub(r"^\s*(// )?…\n", "", shown, flags=re.M))
            faults = list(self.differences(json.loads(bare), json.loads(real), "", excerpt))
        else:
            faults = [] if self.matches(shown, real) else ["it is another text"]
        if faults:
            raise ValueError(f"{'; '.join(faults)}.  This came out:\n{real}")

    def matches(self, shown: str, real: str) -> bool:
        wanted = [usual(line.rstrip()) for line in shown.splitlines()]
        pattern = "".join(r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line) + r"\n" for line in wanted)
        same = re.fullmatch(pattern, "".join(usual(line.rstrip()) + "\n" for line in real.splitlines()))
        return same is not None and self.learn(shown, real)

    def learn(self, shown: str, real: str) -> bool:
        """Whether the ids in both texts can be the same ones; remembered, if so."""
        pairs = list(zip(ID.findall(shown), ID.findall(real), strict=False))
        return all(self.ids.setdefault(a, b) == b for a, b in pairs)

    def differences(self, shown, real, where, excerpt):
        if isinstance(shown, dict) and isinstance(real, dict):
            there = [key for key in real if key in shown] if excerpt else list(real)
            if list(shown) != there:
                yield f"{where or 'the answer'} has the keys {', '.join(real)}"
            for key in shown.keys() & real.keys():
                if key in SECONDS or key in KINDS:
                    if type(shown[key]) is not type(real[key]):
                        yield f"{where}.{key} is {real[key]!r}"
                else:
                    yield from self.differences(shown[key], real[key], f"{where}.{key}", excerpt)
        elif isinstance(shown, list) and isinstance(real, list):
            if len(shown) != len(real) and not (excerpt and len(shown) < len(real)):
                yield f"{where or 'the answer'} has {len(real)} members"
            for number, (one, other) in enumerate(zip(shown, real, strict=False)):
                yield from self.differences(one, other, f"{where}[{number}]", excerpt)
        elif isinstance(shown, str) and isinstance(real, str):
            if usual(shown) != usual(real) or not self.learn(shown, real):
                yield f"{where} is {real!r}"
        elif type(shown) is not type(real) or shown != real:
            yield f"{where} is {real!r}"

    def close(self) -> None:
        self.first.close()
        self.second.close()


def usual(text: str) -> str:
    """A text without what differs from run to run."""
    for pattern, stand_in in VARYING:
        text = pattern.sub(stand_in, text)
    return text


def play(page: str, place: Path, command: str, under: Sequence[str] = (), **more: str) -> list[str]:
    """Play a page; the faults, each with its line.  What follows a fault is not played."""
    try:
        todo = steps(page, managed=bool(under))
    except Wrong as wrong:
        return [f"line {wrong.args[0]}: {wrong.args[1]}"]
    playing = Play(place, command, under, **more)
    try:
        for step in todo:
            try:
                playing.step(step)
            except ValueError as fault:
                return [f"line {step.line}: {fault}"]
        return []
    finally:
        playing.close()


@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_the_page_works_and_answers_as_shown(name, tmp_path, command):
    assert play((TOP / name).read_text(encoding="utf-8"), tmp_path / "page", command) == []


def waited_for_twice(page: str) -> set[str]:
    """Files that a page waits for more than once: the second time it may see what the first has left there."""
    files = re.findall(r"^until grep -qs \S+ (\S+);", page, re.M)
    return {file for file in files if files.count(file) > 1}


@pytest.mark.parametrize("name", PAGES)
def test_no_command_in_the_background_is_waited_for_by_the_file_of_an_earlier_one(name):
    assert waited_for_twice((TOP / name).read_text(encoding="utf-8")) == set()


def test_a_file_that_is_waited_for_twice_would_be_seen():
    waiting = 'until grep -qs "}" serving.json; do sleep 0.1; done\n'
    assert waited_for_twice(waiting) == set()
    assert waited_for_twice(waiting * 2) == {"serving.json"}


def test_the_pages_hold_enough_to_be_worth_playing():
    """A change of the fences that hid all commands from the test would pass everything else."""
    todo = {name: steps((TOP / name).read_text(encoding="utf-8")) for name in PAGES}
    assert len(todo["README.md"]) >= 10
    assert sum(map(len, todo.values())) >= 45
    assert sum(step.shown is not None for page in todo.values() for step in page) >= 25


# ------------------------------------------------------------------------------------------------ what pages refer to


def headings(page: str) -> set[str]:
    plain = re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", plain, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def dead_links(page: str, path: Path) -> list[str]:
    plain = re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", plain):
        name, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = path.parent / name if name else path
        is_page = there.is_file() and there.suffix != ".png"
        text = page if not name else there.read_text(encoding="utf-8") if is_page else None
        if not there.exists() or (anchor and (text is None or anchor not in headings(text))):
            dead.append(target)
    return dead


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name):
    assert dead_links((TOP / name).read_text(encoding="utf-8"), TOP / name) == []


@pytest.mark.parametrize("name", PAGES)
def test_only_verbs_that_exist_are_named(name):
    text = (TOP / name).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|\$ |^)agent-mail ([a-z]+)", text, re.M))
    assert named - {*VERBS, "help"} == set()


def test_every_page_can_be_found_from_the_readme():
    seen, todo = set(), ["README.md"]
    while todo:
        name = todo.pop()
        if name in seen or not name.endswith(".md"):
            continue
        seen.add(name)
        for target in re.findall(r"\]\(([^)\s#]+)", (TOP / name).read_text(encoding="utf-8")):
            there = (TOP / name).parent / target
            if ":" not in target and there.is_file():
                todo.append(os.path.relpath(there.resolve(), TOP))
    assert set(PAGES) - seen == set()


def test_the_reference_is_what_the_commands_say_of_themselves():
    reference = runpy.run_path(str(TOP / "docs/reference/generate.py"))
    written = (TOP / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert written == reference["page"](), "run: python docs/reference/generate.py"


@pytest.mark.parametrize("verb", VERBS)
def test_every_example_of_a_command_is_one_of_its_usages(verb):
    row = load(verb).ROW
    for example in row["examples"]:
        for part in example.split(" | "):
            words = shlex.split(part.partition(" > ")[0])
            if words[:2] == ["agent-mail", verb]:
                parse(verb, row, words[2:], {})
    assert any(f"agent-mail {verb}" in example for example in row["examples"])


# ------------------------------------------------------------------------------------------------ the test, tested

SENT = """
```sh
agent-mail send --from hub --to worker-docs --subject hello
```

```jsonc
{
  "id": "01a22e55-4163-70f7-b806-8603b71b593f",
  "subject": "hello",
  // …
}
```
"""

FAULTS = {
    "a command that fails": "```sh\nagent-mail sned\n```\n",
    "a command that fails in the middle": "```sh\ncd /nowhere\necho gone on\n```\n",
    "a value that is not what comes out": SENT.replace('"hello",', '"hullo",'),
    "a key that does not exist": SENT.replace('"subject"', '"title"'),
    "a key left out without saying so": SENT.replace("  // …\n", ""),
    "an id that was never given": SENT + "\n```sh\nagent-mail trace 01a22e55-4163-70f7-b806-000000000000\n```\n",
    "an id that stands for two": SENT + SENT,
    "a text that is another": "```sh\n$ echo one\ntwo\n```\n",
    "a transcript whose second command fails": "```sh\n$ echo one\none\n$ false\n```\n",
    "a script that breaks": "```python\nfrom maildir_agents import Nothing\n```\n",
    "a target that make does not know": "```sh\nmake nothing\n```\n",
    "another project's package": "```sh\npip install agent-mail\n```\n",
    "a fence of no kind": "```\nagent-mail send\n```\n",
    "a fence that would not be run": "```console\n$ agent-mail status\n```\n",
}


@pytest.mark.parametrize("page", FAULTS.values(), ids=FAULTS.keys())
def test_this_is_noticed(page, tmp_path, command):
    assert len(play(page, tmp_path / "page", command)) == 1


def test_a_page_without_a_fault_passes(tmp_path, command):
    page = SENT + "```sh\n$ agent-mail thread 01a22e55-4163-70f7-b806-8603b71b593f | \\\n    grep -c subject\n1\n```\n"
    assert play(page, tmp_path / "page", command) == []


def test_a_link_to_nowhere_is_noticed():
    page = "[a](docs/nowhere.md) [b](#not-here) [c](Makefile) [d](#a-heading)\n\n# A heading\n"
    assert dead_links(page, TOP / "README.md") == ["docs/nowhere.md", "#not-here"]
