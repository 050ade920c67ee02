"""The numbered SQL files of the migrations, rendered for execution and for a DBA to read.

The files are named NNNN_name.up.sql and NNNN_name.down.sql. An index written as CREATE INDEX CONCURRENTLY is built
before the step's transaction, without blocking anybody; so it must not use a column that its own step adds. In a new
schema it is built inside the transaction, like any other. The same goes for indexes that a downgrade restores.

A line `-- For code made for version N or later.` in a step says that such code also runs on the schema with this step:
so all steps between two releases can be applied under workers of the older release. Without that line only code made
for the version before does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from rowlock.store.queries import checked_schema, quoted

_FOLDER: Final = Path(__file__).parents[1] / "migrations"
_FILE: Final = re.compile(r"(\d{4})_(\w+)\.up\.sql")
_INDEX: Final = re.compile(r"^CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+) ON [^;]+;", re.MULTILINE)
_TABLE: Final = re.compile(r"^CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?\{schema\}\.(\w+)", re.MULTILINE)
_TOKEN: Final = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|(?P<quote>\$\w*\$).*?(?P=quote)|;|[^-/'"$;]+|.""", re.DOTALL
)
"""Comments, literals, names in quotes, bodies in dollar quotes, semicolons, and the rest."""
_COMPATIBLE: Final = re.compile(r"^-- For code made for version (\d+) or later\.$", re.MULTILINE)
LEDGER: Final = "schema_steps"
"""The table of the applied steps."""
FIRST_LEDGER: Final = "migrations"
"""The table that code made for version 2 reads. That code refuses a schema more than one version ahead, so only steps
that it cannot run with are recorded there, too."""
_RELEASED: Final = 2
_LEDGER_FROM: Final = 3
"""The step that created the newer ledger."""
LOCK_WAIT: Final = "200ms"
"""How long a step waits for a lock. Other transactions queue up behind it meanwhile, so it is short and repeated."""


@dataclass(frozen=True, slots=True)
class Index:
    """An index that is built concurrently."""

    name: str
    text: str

    def sql(self, schema: str) -> str:
        """The statement that builds it."""
        return self.text.replace("{schema}", quoted(schema))

    def online_sql(self, schema: str) -> str:
        """The same, where the index may be there already."""
        return self.sql(schema).replace("CONCURRENTLY", "CONCURRENTLY IF NOT EXISTS")

    def plain_sql(self, schema: str) -> str:
        """The statement that builds it inside a transaction; writers of the table wait."""
        return self.sql(schema).replace("CONCURRENTLY", "IF NOT EXISTS")


@dataclass(frozen=True)
class Migration:
    """One numbered step of the schema."""

    version: int
    name: str
    up: str
    down: str

    @cached_property
    def indexes(self) -> tuple[Index, ...]:
        """The indexes to build before the step."""
        return _indexes(self.up)

    @cached_property
    def restored(self) -> tuple[Index, ...]:
        """The indexes to build before the step is undone."""
        return _indexes(self.down)

    @property
    def compatible_since(self) -> int:
        """The oldest code that runs with this step, by the schema version which that code was made for."""
        said = _COMPATIBLE.search(self.up)
        return int(said[1]) if said else self.version - 1

    def sql(self, schema: str, *, up: bool, whole: bool = False) -> str:
        """The SQL of its transaction. whole: with its indexes, for a new schema."""
        text = (
            _INDEX.sub("", self.up if up else self.down)
            if not whole
            else self.up.replace("INDEX CONCURRENTLY", "INDEX")
        )
        marks = [self._mark(ledger, quoted(schema), up=up) for ledger in self._ledgers(up=up)]
        return "\n\n".join([text.replace("{schema}", quoted(schema)).strip(), *marks])

    def _ledgers(self, *, up: bool) -> list[str]:
        # Undoing the step that created the newer ledger has dropped it.
        newer = self.version >= _LEDGER_FROM if up else self.version > _LEDGER_FROM
        first = self.version < _LEDGER_FROM or self.compatible_since > _RELEASED
        return [LEDGER] * newer + [FIRST_LEDGER] * first

    def _mark(self, ledger: str, schema: str, *, up: bool) -> str:
        if not up:
            return f"DELETE FROM {schema}.{ledger} WHERE version = {self.version};"
        columns, values = "version, name", f"{self.version}, '{self.name}'"
        if ledger == LEDGER:
            columns, values = f"{columns}, compatible_since", f"{values}, {self.compatible_since}"
        return f"INSERT INTO {schema}.{ledger} ({columns}) VALUES ({values});"


def _indexes(text: str) -> tuple[Index, ...]:
    return tuple(Index(match[1], match[0]) for match in _INDEX.finditer(text))


def migrations() -> list[Migration]:
    """Every step that this code ships, in order."""
    steps = []
    for number, name, file in _files():
        down = file.with_name(file.name.replace(".up.", ".down.")).read_text(encoding="utf-8")
        steps.append(Migration(number, name, file.read_text(encoding="utf-8"), down))
    return steps


def _files() -> list[tuple[int, str, Path]]:
    """Version, name and .up.sql file of every step, in order."""
    found = [(_FILE.fullmatch(file.name), file) for file in _FOLDER.iterdir()]
    return sorted((int(match[1]), match[2], file) for match, file in found if match)


def newest() -> int:
    """The schema version that this code was made for."""
    return _files()[-1][0]


def path(version: int, target: int) -> list[tuple[Migration, bool]]:
    """The steps between two versions, each with whether it goes up."""
    if target >= version:
        return [(step, True) for step in migrations() if version < step.version <= target]
    return [(step, False) for step in reversed(migrations()) if target < step.version <= version]


def ledger(schema: str) -> str:
    """The table that records the first steps."""
    return (
        f"CREATE TABLE {quoted(schema)}.{FIRST_LEDGER} "
        "(version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());"
    )


def script(schema: str = "rowlock", *, since: int = 0, to: int | None = None, transaction: bool = True) -> str:
    """The upgrade (or, with to < since, the downgrade) for a DBA to read and run with psql.

    transaction False: for a tool that runs all of it in a transaction of its own.
    """
    target = newest() if to is None else to
    checked_schema(schema)
    if since == 0:
        parts = creation(schema, target)
        return "\n\n".join(["BEGIN;", *parts, "COMMIT;"] if transaction else parts) + "\n"
    rendered = _step if transaction else _plain_step
    steps = [part for step, up in path(since, target) for part in rendered(step, schema, up=up)]
    tail = [removal(schema)] if target == 0 else []
    return "\n\n".join([_FOR_DBAS if transaction else _FOR_TOOLS, *steps, *tail]) + "\n"


def creation(schema: str, target: int) -> list[str]:
    """The texts that make a new schema of this version, indexes included, inside one transaction."""
    head = [f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)};", ledger(schema)]
    return head + [step.sql(schema, up=True, whole=True) for step, _ in path(0, target)]


def removal(schema: str) -> str:
    """The end of a downgrade to 0: without its ledger a schema counts as empty, with an empty one it stops upgrades."""
    return f"DROP TABLE {quoted(schema)}.{FIRST_LEDGER};"


def tables() -> frozenset[str]:
    """The names of every table that any version has or had."""
    made = {name for step in migrations() for name in _TABLE.findall(step.up)}
    return frozenset(made | {LEDGER, FIRST_LEDGER})


def statements(text: str) -> list[str]:
    """The single statements of a script, without comments: some drivers run one at a time."""
    parts, current = list[str](), list[str]()
    for match in _TOKEN.finditer(text):
        part = match[0]
        if part.startswith(("--", "/*")):
            continue
        if part != ";":
            current.append(part)
            continue
        parts.append("".join(current).strip())
        current = []
    return [part for part in [*parts, "".join(current).strip()] if part]


_FOR_DBAS: Final = f"""\
-- For psql -v ON_ERROR_STOP=1, statement by statement: no index is built concurrently inside a transaction.
-- A step that meets a lock gives up after {LOCK_WAIT}, so that nobody queues behind it: go on from there.
-- An index whose building broke off is there and invalid; drop it first."""


_FOR_TOOLS: Final = """\
-- For a migration tool, in one transaction of its own. Its indexes are built there too: writers wait meanwhile."""


def _plain_step(step: Migration, schema: str, *, up: bool) -> list[str]:
    head = f"-- {step.version} {step.name}" + ("" if up else ", undone")
    built = [index.plain_sql(schema) for index in (step.indexes if up else step.restored)]
    return ["\n".join([head, *built]), step.sql(schema, up=up)]


def _step(step: Migration, schema: str, *, up: bool) -> list[str]:
    head = f"-- {step.version} {step.name}" + ("" if up else ", undone")
    wanted = step.indexes if up else step.restored
    built = [index.online_sql(schema) for index in wanted]
    body = f"BEGIN;\nSET LOCAL lock_timeout = '{LOCK_WAIT}';\n\n{step.sql(schema, up=up)}\n\nCOMMIT;"
    return ["\n".join([head, *built]), body]
