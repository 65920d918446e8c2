import os
from pathlib import Path

import pytest

from maildir_agents.verbs.units import install_units
from systemd.manager import manager


@pytest.fixture
def bare_manager(tmp_path, command, needs):
    """A user manager that runs and knows no unit of ours."""
    for program in ("unshare", "nsenter", "systemd-run", "dbus-daemon"):
        needs(program, "a user manager of systemd")
    if os.geteuid() != 0:
        pytest.skip("needs root: a user manager of systemd in namespaces")
    with manager(tmp_path / "there", Path(command).parent) as (there, trouble):
        if trouble:
            print(trouble)
            pytest.skip("needs namespaces in which a user manager of systemd starts")
        yield there


@pytest.fixture
def there(bare_manager, command):
    """A user manager with our units, whose waits are short."""
    install_units(bare_manager.environ, program=command)
    bare_manager.drop_in("agent-mail-listener@.service", "RestartSec=100ms")
    return bare_manager
