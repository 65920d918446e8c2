import pytest

from maildir_agents import Spool


@pytest.fixture
def mail(mail):
    """`mail("conversation", "list")` runs the command on a spool of this test's own that syncs nothing."""
    Spool(mail.spool, durability="none").init()
    return mail
