"""The two clocks a lease is measured by: the wall, and the time since boot, which no one can set.

The boot clock counts suspend and ignores jumps of the wall clock, but means something only within one boot
and one time namespace; `boot()` names both.  Everything that asks for the time takes a Clock as argument.
"""

import os
import time

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NAMESPACE = "/proc/self/ns/time"
UNKNOWN_BOOT = "0" * 16


class Clock:
    """The machine's clocks, in milliseconds."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        # macOS has no CLOCK_BOOTTIME; its boot is unknown anyway, so leases there go by the wall clock.
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return time.clock_gettime_ns(clock) // 1_000_000

    def boot(self) -> str:
        """Sixteen hexadecimal digits: eight of the boot id, eight of the time namespace's inode."""
        try:
            with open(_BOOT_ID, "rb") as file:
                boot = file.read(8).decode("ascii")
            return boot + format(os.stat(_NAMESPACE).st_ino & 0xFFFFFFFF, "08x")
        except (OSError, UnicodeDecodeError):
            return UNKNOWN_BOOT
