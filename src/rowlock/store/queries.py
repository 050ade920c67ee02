"""Reads the files of the sql folder: named statements, shared fragments, named parameters, the schema's name.

    -- name: finish                 a statement; the comment lines below it say why it is written as it is
    -- fragment: requeue            text that statements include as {requeue}

Parameters are written :like_this and rendered per driver; {schema} becomes the quoted schema name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rowlock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FOLDER: Final = Path(__file__).parent / "sql"
_HEADER = re.compile(r"^-- (name|fragment): (\w+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_SLOT = re.compile(r"\{(\w+)\}")
# A colon after a colon is a cast; '::text' therefore never starts a parameter.
_PARAMETER = re.compile(r"(?<!:):([a-z_]\w*)")


def quoted(identifier: str) -> str:
    """Return the identifier as SQL writes it."""
    return '"' + identifier.replace('"', '""') + '"'


def numbered(text: str, n: int) -> str:
    """The text with a number behind every parameter, so that a statement can include one fragment several times."""
    return _PARAMETER.sub(rf":\1_{n}", text)


def checked_schema(name: str) -> str:
    """Return the schema name if PostgreSQL, NOTIFY and our statements can carry it."""
    longest = 50  # a NOTIFY channel is made of it and may have 63 bytes
    # The name goes into statement texts before their :parameters, {slots}, literals and $$ bodies are parsed.
    if not name or set(name) & set("\x00:{}'$") or len(name.encode()) > longest:
        message = (
            f"A schema name of 1 to {longest} bytes without : {{ }} ' $ is expected; got {name!r}. "
            "Set ROWLOCK_SCHEMA or Rowlock(schema=…)."
        )
        raise ConfigurationError(message)
    return name


@dataclass(frozen=True)
class Statement:
    """One statement with named parameters, renderable for each driver's parameter style."""

    name: str
    text: str

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameter names in order of first appearance."""
        return tuple(dict.fromkeys(_PARAMETER.findall(self.text)))

    @cached_property
    def dollar(self) -> str:
        """The text with $1, $2 … (asyncpg)."""
        numbers = {name: f"${n}" for n, name in enumerate(self.parameters, 1)}
        return _PARAMETER.sub(lambda match: numbers[match[1]], self.text)

    @cached_property
    def pyformat(self) -> str:
        """The text with %(name)s (psycopg)."""
        return _PARAMETER.sub(r"%(\1)s", self.text.replace("%", "%%"))

    @cached_property
    def format(self) -> str:
        """The text with %s; values in the order of `occurrences`."""
        return _PARAMETER.sub("%s", self.text.replace("%", "%%"))

    @cached_property
    def occurrences(self) -> tuple[str, ...]:
        """One name per placeholder of `format`."""
        return tuple(_PARAMETER.findall(self.text))

    def bind(self, values: Mapping[str, object]) -> list[object]:
        """The values in the order of `dollar`."""
        return [values[name] for name in self.parameters]


class Statements:
    """Every statement of the sql folder, rendered for one schema."""

    def __init__(self, schema: str) -> None:
        self.schema = checked_schema(schema)
        self.channel = f"{schema}_events"
        names, fragments = read(files())
        fragments["schema"] = quoted(schema)
        self._fragments = fragments
        self._bodies, self._statements = names, dict[str, Statement]()

    def __getitem__(self, name: str) -> Statement:
        """Return the statement of that name."""
        found = self._statements.get(name)
        if found is None:
            # Rendered on first use: no process needs all of them.
            found = self._statements[name] = Statement(name, _filled(self._bodies[name], self._fragments))
        return found

    def fragment(self, name: str, /, **slots: str) -> str:
        """The fragment of that name with these texts in its slots, for statements composed at run time."""
        return _filled(self._fragments[name], {**self._fragments, **slots})

    def __iter__(self) -> Iterator[str]:
        """Iterate over the statements' names."""
        return iter(self._bodies)


def files() -> dict[str, str]:
    """The texts of the sql folder by name of the file."""
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(_FOLDER.iterdir())}


def read(texts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Statements and fragments by name; ConfigurationError for a name that is used twice."""
    names: dict[str, str] = {}
    fragments: dict[str, str] = {}
    where: dict[str, str] = {"schema": "every statement, as the schema's own name"}
    for file, text in texts.items():
        for what, name, body in _blocks(text):
            if name in where:
                message = f"{file} has a {what} {name!r}, and so has {where[name]}. Give one of them another name."
                raise ConfigurationError(message)
            where[name] = file
            (names if what == "name" else fragments)[name] = body
    return names, fragments


def _blocks(text: str) -> list[tuple[str, str, str]]:
    parts = _HEADER.split(text)[1:]
    # Comments are for readers, not for the server.
    return [
        (what, name, _COMMENT.sub("", body).strip().rstrip(";"))
        for what, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def _filled(body: str, fragments: dict[str, str]) -> str:
    while (filled := _SLOT.sub(lambda match: fragments.get(match[1], match[0]), body)) != body:
        body = filled
    return "\n".join(line.rstrip() for line in body.splitlines() if line.strip())
