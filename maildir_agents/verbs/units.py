"""units: put the unit files of this package where systemd looks for them, naming this very program; take them away.

Only files that the package ships are written or removed, so what people add goes into drop-ins of their own.  Nothing
is started, enabled or reloaded: the answer says with which commands that is done.
"""

import os
import re
import stat
import sys
from importlib.resources import files

from maildir_agents.disk.replacing import replace
from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable
    from typing import Any

SCOPES = ("user", "system")
BACK_OFF_SINCE = 254  # the version of systemd that knows RestartSteps=
BACKING_OFF = ("agent-mail-listener@.service", "agent-mail-listener.service", "agent-mail-serve.service")
STARTED_AS = re.compile(r"^(Exec\w+=)/usr/bin/env (?:PATH=(\S+) )?agent-mail ", re.M)

HOMES = ("/home", "/root")  # that ProtectHome= hides

NEW, CHANGED, SAME, REMOVED = "made", "changed", "unchanged", "removed"


def install_units(
    environ: "Mapping[str, str]",
    *,
    scope: str = "user",
    dry_run: bool = False,
    program: str | None = None,
    root: str = "",
    version: int | None = None,
) -> "dict[str, Any]":
    """Write the units of `scope` ("user": of the caller, "system": of the machine); said again it changes nothing.

    Answers `{scope, dry_run, files: [{path, change}], next}`, `change` being made, changed or unchanged.  `program` is
    the absolute path of the agent-mail they start (this one's), `root` a directory that stands for /, `version`
    systemd's.
    Raises `usage`, `cannot_write`.
    """
    known = systemd_version() if version is None else version
    wanted = list(_wanted(environ, scope, program or _this_program(scope), root, known))
    changes = [{"path": path, "change": _change(path, text)} for path, text in wanted]
    if not dry_run:
        for (path, text), change in zip(wanted, changes, strict=True):
            if change["change"] != SAME:
                _write(path, text)
    return {"scope": scope, "dry_run": dry_run, "files": changes, "next": _next(scope)}


def uninstall_units(
    environ: "Mapping[str, str]", *, scope: str = "user", dry_run: bool = False, root: str = ""
) -> "dict[str, Any]":
    """Remove what `install_units` writes, and the directories of drop-ins that are empty then.

    Answers `{scope, dry_run, files: [{path, change}], next}`.  What runs goes on running until it is stopped.  A link,
    by which a unit is masked for example, is not ours and stays.
    """
    wanted = _wanted(environ, scope, "/agent-mail", root, BACK_OFF_SINCE)
    paths = [path for path, _ in wanted if os.path.isfile(path) and not os.path.islink(path)]
    for path in () if dry_run else paths:
        try:
            os.unlink(path)
            if path.endswith(".conf"):
                os.rmdir(os.path.dirname(path))
        except OSError as error:
            if os.path.lexists(path):
                raise _refused(path, error) from error
    return {"scope": scope, "dry_run": dry_run, "files": [{"path": path, "change": REMOVED} for path in paths],
            "next": [f"{_systemctl(scope)} daemon-reload"]}  # fmt: skip


def planned(
    environ: "Mapping[str, str]", *, scope: str = "user", remove: bool = False, root: str = ""
) -> "list[tuple[str, str | None, str | None]]":
    """(path, text that is there, text that would be there) of every file; None is no file.  Nothing is written."""
    program = "/agent-mail" if remove else _this_program(scope)
    wanted = _wanted(environ, scope, program, root, BACK_OFF_SINCE if remove else systemd_version())
    if remove:
        return [(path, _there(path), None) for path, _ in wanted if not os.path.islink(path)]
    return [(path, _there(path), text) for path, text in wanted]


def systemd_version() -> int:
    """The version of the systemd that is installed, 0 where none is."""
    import subprocess

    try:
        done = subprocess.run(["systemctl", "--version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.match(r"systemd (\d+)", done.stdout)
    return int(found[1]) if found else 0


def _wanted(
    environ: "Mapping[str, str]", scope: str, program: str, root: str, version: int
) -> "Iterator[tuple[str, str]]":
    """(path, content) of every file."""
    if scope not in SCOPES:
        raise MailError("usage", f"units are installed for {' or '.join(SCOPES)}, not {scope!r}")
    shipped = files("maildir_agents") / "_systemd"
    home = environ.get("HOME") or os.path.expanduser("~")
    config = environ.get("XDG_CONFIG_HOME", "")
    config = config if config[:1] == "/" else f"{home}/.config"
    units = f"{root}{config}/systemd/user" if scope == "user" else f"{root}/etc/systemd/system"
    for name, file in _under(shipped / scope):
        yield f"{units}/{name}", started_by(file.read_text("utf-8"), program)
    if version >= BACK_OFF_SINCE:
        for unit in BACKING_OFF:
            yield f"{units}/{unit}.d/50-back-off.conf", (shipped / "back-off.conf").read_text("utf-8")
    if scope == "user":
        return
    limits = "agent-mail-worker-.service.d/50-limits.conf"  # workers are units of the user manager here, too
    yield f"{root}/etc/systemd/user/{limits}", (shipped / "user" / limits).read_text("utf-8")
    for kind in ("sysusers.d", "tmpfiles.d"):
        yield f"{root}/etc/{kind}/agent-mail.conf", (shipped / kind / "agent-mail.conf").read_text("utf-8")


def _under(directory: "Traversable", before: str = "") -> "Iterator[tuple[str, Traversable]]":
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _under(entry, f"{before}{entry.name}/")
        else:
            yield f"{before}{entry.name}", entry


def started_by(unit: str, program: str) -> str:
    """A unit's text with that program in it, first in the PATH of whatever it starts."""
    directory = os.path.dirname(program)

    def named(found: "re.Match[str]") -> str:
        path = f"{_literally(directory)}:{found[2] or '${PATH}'}"
        return f"{found[1]}/usr/bin/env {_word(f'PATH={path}')} {_word(_literally(program))} "

    return STARTED_AS.sub(named, unit)


def _literally(text: str) -> str:
    """So that systemd reads neither a specifier nor a variable in it."""
    return text.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$")


def _word(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"' if re.search(r"[\s\"';]", text) else text


def _this_program(scope: str) -> str:
    program = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "agent-mail")
    if not os.access(program, os.X_OK):
        raise MailError("usage", f"there is no {program}", "say it with an agent-mail that is installed")
    if scope == "system" and program.startswith(tuple(f"{home}/" for home in HOMES)):
        raise MailError(
            "usage",
            f"{program} is in somebody's home, which the units of the system do not see",
            "install the package for all, in a virtual environment below /opt for example, and say it with that one's",
        )
    return program


def _change(path: str, text: str) -> str:
    there = _there(path)
    return NEW if there is None else SAME if there == text else CHANGED


def _there(path: str) -> str | None:
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise MailError(
                "cannot_write",
                f"{path} is no file of its own: a link to /dev/null masks the unit",
                "systemctl unmask it, with --user for your own, or remove the link",
                path=path,
            )
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refused(path, error) from error


def _write(path: str, text: str) -> None:
    """Whole or not at all: systemd may read it at any moment."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace(path, text, mode=0o644)
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: str, error: OSError) -> MailError:
    hint = "units of the system are root's"
    return MailError("cannot_write", f"cannot write {path}: {error.strerror}", hint, path=path)


def _systemctl(scope: str) -> str:
    return "systemctl --user" if scope == "user" else "systemctl"


def _next(scope: str) -> list[str]:
    first = ["systemd-sysusers", "systemd-tmpfiles --create", "loginctl enable-linger agent-mail"]
    ctl = _systemctl(scope)
    return [
        *(first if scope == "system" else []),
        f"{ctl} daemon-reload",
        f"{ctl} enable --now agent-mail-listener@AGENT.service",
        f"{ctl} enable --now agent-mail-tidy.timer",
    ]
