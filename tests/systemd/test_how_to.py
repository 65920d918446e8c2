"""The page on services, played as it stands by somebody who has a user manager."""

from pathlib import Path

from docs.test_docs_run import play, steps

TOP = Path(__file__).parent.parent.parent
PAGE = TOP / "docs/how-to/run-as-a-service.md"


def test_every_command_of_the_page_works_and_answers_as_shown(bare_manager, command):
    page = PAGE.read_text(encoding="utf-8")
    here = bare_manager.place / "here"
    here.mkdir()
    under = bare_manager.inside("sh", "-c", 'cd "$0" && exec "$@"', str(here))
    runtime = bare_manager.environ["XDG_RUNTIME_DIR"]
    assert play(page, bare_manager.place, command, under, XDG_RUNTIME_DIR=runtime) == []


def test_the_page_has_commands_that_only_a_manager_can_show():
    page = PAGE.read_text(encoding="utf-8")
    assert len(steps(page, managed=True)) >= len(steps(page)) + 6
