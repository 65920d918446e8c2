"""Waits for files in DIRECTORY/new, moves each out, and prints when (monotonic nanoseconds) it heard of it.

usage: receiver.py DIRECTORY [observer]     observer: through watchdog's default observer, for comparison
"""

import os
import sys
import threading
import time
from pathlib import Path

from maildir_agents.disk.doorbell import Doorbell

place = Path(sys.argv[1])
(place / "new").mkdir()
(place / "cur").mkdir()


def take() -> None:
    for name in os.listdir(place / "new"):
        print(time.monotonic_ns(), flush=True)
        os.rename(place / "new" / name, place / "cur" / name)


def by_observer() -> None:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers import Observer

    class Handler(FileSystemEventHandler):
        def on_created(self, event: FileSystemEvent) -> None:
            take()

    observer = Observer()
    observer.schedule(Handler(), str(place / "new"))
    observer.start()
    print("armed", flush=True)
    threading.Event().wait()


if sys.argv[2:] == ["observer"]:
    by_observer()
with Doorbell([str(place / "new")]) as bell:
    print("armed", flush=True)
    while True:
        take()
        bell.wait(None)
