"""The rules of the house that a machine can check: names, sizes, what is shipped, what an import costs."""

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import maildir_agents

TOP = {
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "pyproject.toml",
    "Makefile",
    ".github",
    ".ci",
    ".gitignore",
    "maildir_agents",
    "spool",
    "tools",
    "systemd",
    "tests",
    "docs",
}
MODULE_LINES = 320
FUNCTION_LINES = 50

# Written so that neither pattern finds itself.
MACHINE_PATH = re.compile(r"/(?:root|work|farm)/|/home/[a-z][\w.-]*/")
REGISTRY = re.compile(r"https?://[\w.-]*(?:pypi|pythonhosted|npmjs|crates|docker|ghcr|quay)\.(?:org|com|io)")


@pytest.fixture(scope="module")
def tracked(repository) -> list[str]:
    """What a commit would hold: tracked files, and new ones that are not ignored."""
    if not (repository / ".git").exists():
        pytest.skip("needs a git checkout: which files belong to the project")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return sorted({name for name in listing.split("\0") if name and (repository / name).is_file()})


@pytest.fixture(scope="module")
def modules(repository) -> list[Path]:
    return sorted((repository / "maildir_agents").rglob("*.py"))


@pytest.fixture(scope="session")
def built(repository, tmp_path_factory) -> Path:
    """A directory with the sdist and the wheel made from it, without asking the network."""
    pytest.importorskip("hatchling", reason="needs hatchling: what the wheel contains")
    place = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place), str(repository)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.fixture(scope="session")
def wheel(built) -> set[str]:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="session")
def sdist(built) -> set[str]:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        return {member.name.partition("/")[2] for member in archive if member.isfile()}


def test_the_version_is_one_number_everywhere(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == maildir_agents.__version__
    newest = re.search(r"^## \[(.+?)\]", (repository / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert newest and newest[1] == maildir_agents.__version__


def test_the_tests_look_at_the_installed_package_and_not_at_the_checkout(repository):
    assert repository / "maildir_agents" not in Path(maildir_agents.__file__).parents


def test_what_is_installed_is_what_stands_in_the_checkout(repository, modules):
    """`make test` installs anew after each change; a run by hand may have forgotten it."""
    installed = Path(maildir_agents.__file__).parent
    here = {p.relative_to(repository / "maildir_agents"): p.read_bytes() for p in modules}
    there = {p.relative_to(installed): p.read_bytes() for p in installed.rglob("*.py")}
    differing = sorted(str(name) for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    assert differing == [], "run `make test`, which installs first"


def test_the_top_level_holds_the_fixed_names_only(tracked):
    assert {name.partition("/")[0] for name in tracked} - TOP == set()


def test_no_module_is_longer_than_one_can_read(modules):
    lines = {str(p): len(p.read_text(encoding="utf-8").splitlines()) for p in modules}
    assert {name: count for name, count in lines.items() if count > MODULE_LINES} == {}


def test_no_function_is_longer_than_one_screen(modules):
    long = []
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = node.end_lineno - node.lineno + 1
                if count > FUNCTION_LINES:
                    long.append(f"{path}:{node.lineno} {node.name}: {count} lines")
    assert long == []


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY], ids=["paths of one machine", "hosts of registries"])
def test_no_file_names(repository, tracked, pattern):
    found = []
    for name in tracked:
        text = (repository / name).read_bytes().decode("utf-8", "replace")
        found += [f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {m[0]}" for m in pattern.finditer(text)]
    assert found == []


@pytest.mark.parametrize("text", ["in /" + "root/.cache", "/" + "work/x", "/" + "home/someone/spool"])
def test_a_path_of_one_machine_would_be_seen(text):
    assert MACHINE_PATH.search(text)


def test_importing_the_package_loads_nothing_else():
    code = "import sys; before = set(sys.modules); import maildir_agents; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["maildir_agents"]


SHIPPED_AS = {"spool/": "maildir_agents/_spool/", "systemd/": "maildir_agents/_systemd/"}


@pytest.mark.parametrize("name", ["py.typed", "_spool/README.md", "_spool/states.tsv", "_systemd/README.md"])
def test_the_wheel_ships(wheel, name):
    assert f"maildir_agents/{name}" in wheel


def test_the_wheel_ships_the_specification_the_units_and_the_package_whole(tracked, wheel):
    wanted = {n for n in tracked if n.startswith("maildir_agents/")}
    for top, directory in SHIPPED_AS.items():
        wanted |= {n.replace(top, directory, 1) for n in tracked if n.startswith(top)}
    assert wanted - wheel == set()
    assert {n for n in wheel if ".dist-info/" not in n} - wanted == set()


def test_the_sdist_is_the_repository(tracked, sdist):
    assert set(tracked) - sdist == set()
    assert sdist - set(tracked) == {"PKG-INFO"}
