"""When a claim is over: the boot clock decides alone where it can, the wall clock only where it must."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maildir_agents.disk.clock import Clock
from maildir_agents.mail.lease import LONGEST, SKEW_MS, left_ms
from maildir_agents.mail.mailbox import Found, Mailbox
from maildir_agents.mail.name import Name, parse, stamp
from maildir_agents.mail.spool import SpoolFiles

ID = "01a22dc8-4ffb-7e11-9d3f-5b0c6a1e8f02"
NOW, UP = 1_796_064_432_123, 86_400_123  # the wall clock; milliseconds since boot
BOOT = "9f44af0deffffffa"
OTHER_BOOT = "0000000beffffffa"
OTHER_NAMESPACE = "9f44af0deffffff0"
UNKNOWN = "0" * 16
DAY = 86_400_000


class Still(Clock):
    """A clock that shows what it is told."""

    def __init__(self, wall: int = NOW, up: int = UP, boot: str = BOOT) -> None:
        self.wall, self.up, self.name = wall, up, boot

    def wall_ms(self) -> int:
        return self.wall

    def boot_ms(self) -> int:
        return self.up

    def boot(self) -> str:
        return self.name


def claim(boot: str | None = BOOT, wall_end: int = NOW + 1000, boot_end: int = UP + 1000) -> Name:
    stamps = {"n": "1", "x": stamp(wall_end)} | ({"b": f"{boot}-{boot_end}"} if boot else {}) | {"w": "w"}
    return Name(ID, stamps)


def left(name: Name, clock: Clock, **rest: bool) -> int:
    return left_ms(name, clock, clock.boot(), **rest)


@given(st.integers(-3650 * DAY, 3650 * DAY), st.integers(-3650 * DAY, 3650 * DAY))
def test_within_one_boot_no_jump_of_the_wall_clock_matters(jump, end):
    assert left(claim(wall_end=NOW + end), Still(wall=NOW + jump)) == 1000


@given(st.integers(0, 7 * DAY))
def test_within_one_boot_sleep_of_the_machine_counts(slept):
    assert left(claim(), Still(up=UP + slept)) == 1000 - slept


def test_a_claim_is_held_to_its_last_millisecond():
    assert left(claim(), Still(up=UP + 999)) == 1
    assert left(claim(), Still(up=UP + 1000)) == 0


def test_a_claim_of_another_boot_is_over_at_once():
    assert left(claim(OTHER_BOOT, wall_end=NOW + 3_600_000, boot_end=UP + DAY), Still()) == 0


def test_a_claim_of_another_machine_goes_by_the_wall_clock_and_five_seconds():
    assert left(claim(OTHER_BOOT), Still(), local=False) == 1000 + 5000


@pytest.mark.parametrize("boot", [OTHER_NAMESPACE, UNKNOWN, None])
def test_where_the_boot_clock_cannot_tell_the_wall_clock_does_with_five_seconds_more(boot):
    assert left(claim(boot, boot_end=0), Still()) == 1000 + 5000
    assert left(claim(boot), Still(wall=NOW + 1000)) == 5000
    assert left(claim(boot), Still(wall=NOW + 5999)) == 1
    assert left(claim(boot), Still(wall=NOW + 6000)) == 0


def test_a_machine_that_does_not_know_its_boot_goes_by_the_wall_clock():
    assert left(claim(BOOT), Still(boot=UNKNOWN)) == 1000 + 5000
    assert left(claim(UNKNOWN, boot_end=UP - 1), Still(boot=UNKNOWN)) == 1000 + 5000


@pytest.mark.parametrize("boot", [OTHER_NAMESPACE, UNKNOWN, None])
def test_an_end_further_off_than_any_lease_means_that_a_clock_was_wrong(boot):
    longest = LONGEST * 1000
    assert left(claim(boot, wall_end=NOW + longest), Still()) == longest + SKEW_MS
    assert left(claim(boot, wall_end=NOW + longest + 1), Still()) == 0


@pytest.mark.parametrize("stamps", ["", "~n1", "~x20991130T184712.123Z", "~n1~wme", f"~b{BOOT}-99999999999"])
def test_a_name_without_token_or_end_holds_nothing(tmp_path, stamps):
    box = Mailbox(SpoolFiles(tmp_path, clock=Still()), "bob")
    assert box.claim_left_ms(Found("claimed", parse(f"{ID}{stamps}.json"))) <= 0
    assert box.claim_left_ms(Found("claimed", claim())) == 1000


def test_the_real_clocks_go_forward_and_know_their_boot():
    clock = Clock()
    assert clock.boot() == clock.boot()
    assert len(clock.boot()) == 16
    assert 0 < clock.boot_ms() <= clock.boot_ms()
    if os.path.exists("/proc/sys/kernel/random/boot_id"):
        assert clock.boot() != UNKNOWN
