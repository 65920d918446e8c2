"""What a directory holds, by name only: a listing never looks into a file, and never waits for one.

A missing directory is empty.  Dot names and `*~` are nobody's mail and are left out everywhere.
"""

import os


def unsorted(directory: str) -> list[str]:
    """All entries, hidden ones too, in no order; [] when there is no such directory."""
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


def names(directory: str) -> list[str]:
    """All names, sorted, as `unsorted` otherwise."""
    return sorted(name for name in unsorted(directory) if name[0] != "." and name[-1] != "~")


def regular(directory: str) -> list[str]:
    """As `names`, regular files only.  The kind comes with the listing on most file systems: no stat."""
    try:
        with os.scandir(directory) as entries:
            found = [
                e.name for e in entries if e.name[0] != "." and e.name[-1] != "~" and e.is_file(follow_symlinks=False)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found)


def first(directory: str, most: int) -> list[str]:
    """At most `most` names, in no order: what a directory of any size costs little to tell."""
    found: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name[0] != "." and entry.name[-1] != "~":
                    found.append(entry.name)
                    if len(found) >= most:
                        break
    except (FileNotFoundError, NotADirectoryError):
        pass
    return found
