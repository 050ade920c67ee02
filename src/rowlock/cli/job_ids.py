"""Job ids on the command line or, for `-`, from standard input: the output of `rowlock jobs ls`, text or JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from rowlock.errors import InvalidId

if TYPE_CHECKING:
    from collections.abc import Iterable

_STDIN: Final = "-"


def expanded(job_ids: Iterable[str]) -> list[str]:
    """The ids, each once; `-` is replaced by the ids on standard input."""
    found: dict[str, None] = {}
    for job_id in job_ids:
        found.update(dict.fromkeys(_read() if job_id == _STDIN else [job_id]))
    return list(found)


def _read() -> list[str]:
    if sys.stdin is None or sys.stdin.isatty():
        sys.stderr.write("rowlock: reading job ids from standard input; Ctrl-D ends them.\n")
    return ids_in("" if sys.stdin is None else sys.stdin.read())


def ids_in(text: str) -> list[str]:
    """The ids of a list: JSON objects with an `id`, or the first word of every line except a heading."""
    if text.lstrip()[:1] in ("[", "{"):
        return _from_json(text)
    words = (line.split(None, 1)[0] for line in text.splitlines() if line.strip() and line.strip() != "No jobs.")
    return [word for word in words if word != "ID"]


def _from_json(text: str) -> list[str]:
    try:
        values = _values(text)
        return [str(value["id"] if isinstance(value, dict) else value) for value in values]
    except (ValueError, KeyError) as error:
        raise InvalidId(
            f"Standard input is no list of jobs: {error}. Give one id per line, or what `jobs ls --json` prints."
        ) from None


def _values(text: str) -> list[Any]:
    """A JSON list, one object, or one object per line (as `jobs watch --json` prints)."""
    decoder, values, at = json.JSONDecoder(), [], 0
    while (rest := text[at:].lstrip()) != "":
        value, end = decoder.raw_decode(rest)
        values += value if isinstance(value, list) else [value]
        at = len(text) - len(rest) + end
    return values
