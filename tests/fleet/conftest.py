import pytest


@pytest.fixture
def mail(mail):
    """`mail("read", "bob")` runs the command on a spool of this test's own, which syncs nothing."""
    mail("init", "--durability", "none")
    return mail
