"""From the words of a command to its arguments, by the verb's row and nothing else.

A row lists positional words and options.  An option without `value` is a flag, one with `many` may be repeated, a
`default` that begins with `$` is an environment variable.  Whatever follows an option is its value, dashes and all:
bodies begin with anything.  A wrong word is a JSON error that says what would be right.
"""

from maildir_agents.errors import MailError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Row = dict[str, Any]

COMMON: "Row" = {"--spool": {"value": "PATH", "help": "another spool than AGENT_MAIL_SPOOL or the default"}}


NUMERALS = frozenset("0123456789.-")


def common(row: "Row") -> "Row":
    """The options that every verb takes, unless its row says `own: True`."""
    return {} if row.get("own") else COMMON


def destination(option: str) -> str:
    """`--reply-to` -> `reply_to`, `AGENT` -> `agent`, `ID…` -> `id`."""
    return option.strip("-…").replace("-", "_").lower()


def usage(verb: str, row: "Row") -> str:
    """One line: the verb, its words, its options."""
    words = [f"[{p}]" if _optional(spec) else p for p, spec in row.get("words", {}).items()]
    for option, spec in row.get("args", {}).items():
        text = f"{option} {spec['value']}" if "value" in spec else option
        text += "…" if spec.get("many") else ""
        words.append(text if spec.get("required") else f"[{text}]")
    return " ".join(["agent-mail", verb, *words])


def parse(verb: str, row: "Row", words: list[str], environ: "Mapping[str, str]") -> "dict[str, Any]":
    """Argument name -> value: text, int (`type: int`), True for flags, a list where there may be many."""
    options = {**row.get("args", {}), **common(row)}
    given, plain = _split(verb, row, options, words)
    values = _positional(verb, row, plain, environ)
    for option, spec in options.items():
        values[destination(option)] = _value(verb, row, option, spec, given.get(option, []), environ)
    return values


def asks_for_help(row: "Row", words: list[str]) -> bool:
    """Whether `--help` (or a first `-h`) stands where an option may, and is not what some option is given."""
    options = {**row.get("args", {}), **common(row)}
    is_value = False
    for word in words:
        if not is_value and word in ("--", "--help"):
            return word == "--help"
        is_value = not is_value and "value" in options.get(word, {})
    return words[:1] == ["-h"]


def _split(verb: str, row: "Row", options: "Row", words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    given: dict[str, list[str]] = {}
    plain: list[str] = []
    at = 0
    while at < len(words):
        word, at = words[at], at + 1
        if word == "--":
            return given, plain + words[at:]
        if word[:2] != "--":
            plain.append(word)
            continue
        option, mark, value = word.partition("=")
        if option not in options:
            raise _wrong(verb, row, f"{verb} has no option {option}{_meant(option, options)}")
        if "value" not in options[option]:
            if mark:
                raise _wrong(verb, row, f"{option} takes no value")
        elif not mark:
            if at >= len(words):
                raise _wrong(verb, row, f"{option} needs a value: {options[option]['value']}")
            value, at = words[at], at + 1
        given.setdefault(option, []).append(value)
    return given, plain


def _positional(verb: str, row: "Row", plain: list[str], environ: "Mapping[str, str]") -> "dict[str, Any]":
    values: dict[str, Any] = {}
    rest = list(plain)
    for word, spec in row.get("words", {}).items():
        name, default = destination(word), environ.get(str(spec.get("default", ""))[1:])
        if spec.get("many"):
            values[name], rest = rest, []
        elif rest and not (default and _is_identifier(rest[0]) and word == "AGENT"):
            values[name] = rest.pop(0)
        elif default or _optional(spec):
            values[name] = default or None
        else:
            raise _wrong(verb, row, f"{verb} needs {word}" + _or_variable(spec))
        if "choices" in spec and values[name] not in spec["choices"]:
            meant = _meant(str(values[name]), spec["choices"])
            raise _wrong(verb, row, f"{verb}: {values[name]!r} is none of {', '.join(spec['choices'])}{meant}")
    if rest:
        raise _wrong(verb, row, f"{verb} does not take {rest[0]!r}")
    return values


def _is_identifier(word: str) -> bool:
    # `ack ID` with AGENT_ID set: the first word is already the message.
    return len(word) >= 36 and word[8:9] == word[13:14] == word[18:19] == word[23:24] == "-"


def _optional(spec: "Row") -> bool:
    return bool(spec.get("optional") or spec.get("many"))


def _or_variable(spec: "Row") -> str:
    return f" (or set {spec['default'][1:]})" if str(spec.get("default", "")).startswith("$") else ""


def _value(verb: str, row: "Row", option: str, spec: "Row", found: list[str], environ: "Mapping[str, str]") -> "Any":
    if spec.get("many"):
        return found
    if len(found) > 1:
        raise _wrong(verb, row, f"{option} is given {len(found)} times")
    if "value" not in spec:
        return bool(found)
    if found:
        return _typed(verb, row, option, spec, found[0])
    default = spec.get("default")
    if isinstance(default, str) and default.startswith("$"):
        default = environ.get(default[1:]) or None
    if default is None and spec.get("required"):
        raise _wrong(verb, row, f"{verb} needs {option} {spec['value']}{_or_variable(spec)}")
    return default


def _typed(verb: str, row: "Row", option: str, spec: "Row", text: str) -> "Any":
    if "choices" in spec and text not in spec["choices"]:
        raise _wrong(verb, row, f"{option} is one of {', '.join(spec['choices'])}, not {text!r}")
    if spec.get("type") is None:
        return text
    try:
        if not NUMERALS.issuperset(text):  # int() and float() also take underscores, blanks, words and other digits
            raise ValueError
        value = spec["type"](text)
    except ValueError:
        raise _wrong(verb, row, f"{option} takes a number, not {text!r}") from None
    if not spec.get("least", 0) <= value <= spec.get("most", 10**9):
        raise _wrong(verb, row, f"{option} is {spec.get('least', 0)} to {spec.get('most', 10**9)}, not {text}")
    return value


def _meant(word: str, known: "Iterable[str]") -> str:
    from maildir_agents.mail.resemblance import closest

    near = closest(word, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _wrong(verb: str, row: "Row", sentence: str) -> MailError:
    return MailError(
        "usage", sentence, (row.get("examples") or [f"agent-mail {verb} --help"])[0], usage=usage(verb, row)
    )
