"""Whether a claim's time is over, from its name and two clocks.

The boot clock decides alone where it is this boot's: it counts suspend and ignores wall-clock jumps.  Another boot
on this machine: the holder is dead.  Otherwise the wall clock, with a margin for skew.
"""

from maildir_agents.disk.clock import UNKNOWN_BOOT, Clock
from maildir_agents.mail.name import Name, ms_of_stamp

SHORTEST, DEFAULT, LONGEST = 30, 300, 3600  # seconds
SKEW_MS = 5000


def left_ms(name: Name, clock: Clock, boot: str, local: bool = True) -> int:
    """Milliseconds until the claim may be taken by another; 0 or less: it is over."""
    wall_end = ms_of_stamp(name.stamps["x"])
    where, _, at = name.stamps.get("b", f"{UNKNOWN_BOOT}-0").partition("-")
    if where == boot != UNKNOWN_BOOT:
        return int(at) - clock.boot_ms()
    if local and UNKNOWN_BOOT not in (where, boot) and where[:8] != boot[:8]:
        return 0
    left = wall_end + SKEW_MS - clock.wall_ms()
    return 0 if left > LONGEST * 1000 + SKEW_MS else left
