import pytest

from listener.stage import stage


@pytest.fixture
def scene(mail):
    """Listeners and scripted workers on a spool of this test's own that syncs nothing."""
    with stage(mail) as place:
        yield place
