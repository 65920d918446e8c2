"""A hook runs before every turn: it loads as little as the commands an agent runs all day."""

import pytest

from faces.test_hot_verbs_import_little import DRIVER, bare, forbidden, loaded, ours  # noqa: F401

# How many of ours.  When nothing is owed: the command, its dialect, the opened spool; `stop` has a session to look up
# and, once in it, whether a watch is armed.  When mail is owed, messages are opened.
SILENT, TELLING = {"session-start": 22, "prompt": 22, "stop": 25}, 37


@pytest.mark.parametrize("event", SILENT)
@pytest.mark.parametrize("owed", [False, True], ids=["nothing is owed", "mail is owed"])
def test_a_hook_loads_nothing_expensive(mail, bare, event, owed):  # noqa: F811
    if owed:
        mail.send("peer", "worker-x")
    names = loaded(DRIVER, mail, "hook", event, "--agent", "worker-x", "--dialect", "codex")
    assert forbidden(names, bare) == set()
    count = len(ours(names))
    assert count <= (TELLING if owed else SILENT[event]), f"{count}: {', '.join(ours(names))}"


def test_it_loads_neither_the_watch_nor_the_installer(mail):
    names = ours(loaded(DRIVER, mail, "hook", "stop", "--agent", "worker-x"))
    assert not [name for name in names if ".install" in name or name.endswith((".rewake", ".watch", ".doorbell"))]


def test_the_watch_would_be_noticed(mail, bare):  # noqa: F811
    """The negative control: `rewake` waits, so it loads the doorbell's library."""
    mail.send("peer", "worker-x")
    script = DRIVER.replace("str(status)", "'0' if status == 2 else str(status)")
    names = loaded(script, mail, "hook", "rewake", "--agent", "worker-x")
    assert "watchdog" in forbidden(names, bare)
