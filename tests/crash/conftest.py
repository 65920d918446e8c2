"""Where the sweeps run."""

import os
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def memory(tmp_path):
    """A directory in memory, where there is one: a sweep makes and removes ten thousand small trees."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="agent-mail-", dir="/dev/shm") as directory:
        yield Path(directory)
