"""Writes the generated parts of docs/reference: job options, fields of a job, names of a context, tables.

python tools/reference.py            write them
python tools/reference.py --check    fail when a page differs from the code or the schema

A page keeps its own words. Only what stands between `<!-- reference:NAME -->` and `<!-- /reference:NAME -->` is
written here. A line about an option, field or method is the code's own: an Annotated text, the string below an
attribute, a line of a docstring or the first sentence of one. An entry without a line is an error, so that nothing
becomes public undocumented. Columns come from a real database with all migrations; their lines stand in
tools/columns.toml.
"""

from __future__ import annotations

import ast
import asyncio
import difflib
import inspect
import itertools
import re
import sys
import textwrap
import tomllib
import typing
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import asyncpg

from rowlock import (
    Approval,
    Context,
    Gate,
    ItemContext,
    Job,
    Rate,
    Retry,
    Rowlock,
    SyncContext,
    SyncItemContext,
    Task,
)
from rowlock.model import kind
from rowlock.testing import Databases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = ROOT / "docs" / "reference"
BLOCK: Final = re.compile(r"(<!-- reference:([\w-]+) -->\n).*?(<!-- /reference:\2 -->)", re.DOTALL)
COLUMNS: Final = """
SELECT t.relname AS "table", a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS required,
       CASE WHEN a.attgenerated <> '' THEN 'generated' WHEN a.attidentity <> '' THEN 'identity'
            ELSE pg_get_expr(d.adbin, d.adrelid) END AS "default"
FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid
LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (t.oid, a.attnum)
WHERE t.relnamespace = 'rowlock'::regnamespace AND t.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY t.relname, a.attnum
"""
SHORT: Final = {"timestamp with time zone": "timestamptz", "double precision": "float8"}
TYPES: Final = {
    "Errors": "type[BaseException] | tuple",
    "Delay": "Callable",
    "Span": "duration",
    "Duration": "duration",
    "Size": "size",
    "Rated": "Rate | Sequence[Rate]",
}
"""Names of type aliases that a reader need not know."""


class Entry(NamedTuple):
    """One line of a table: an option, a field, a method or a column."""

    name: str
    type: str
    default: str
    text: str


class Undocumented(Exception):
    """Something public has no line."""


# --- lines about parameters and fields -------------------------------------------------------------------------------


def option_texts(function: Callable[..., object]) -> dict[str, str]:
    """A line for each parameter, from the docstring."""
    return docstring_lines(inspect.getdoc(function) or "")


def docstring_lines(text: str) -> dict[str, str]:
    """Lines such as `attempts    all attempts` or `limit: jobs at once`; names that share a line are split."""
    found: dict[str, str] = {}
    last: list[str] = []
    for line in text.splitlines():
        match = re.fullmatch(r"\s*((?:\w+, )*\w+)(?::\s+|\s{2,})(\S.*)", line)
        if match and not line.startswith("    "):
            last = match[1].split(", ")
            found |= dict.fromkeys(last, match[2].strip())
        elif last and line.startswith("  ") and line.strip():
            found |= {name: f"{found[name]} {line.strip()}" for name in last}
        else:
            last = []
    return found


def attribute_texts(cls: type) -> dict[str, str]:
    """The string below each attribute, in the class or in its __init__; base classes of Rowlock included."""
    found: dict[str, str] = {}
    for one in reversed([one for one in cls.__mro__ if one.__module__.startswith("rowlock.")]):
        found.update(docstring_lines(inspect.getdoc(one) or ""))
        for block in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(one)))):
            statements = getattr(block, "body", [])
            for above, below in itertools.pairwise(statements) if isinstance(statements, list) else ():
                if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                    found |= dict.fromkeys(targets(above), inspect.cleandoc(str(below.value.value)))
    return found


def targets(statement: ast.stmt) -> list[str]:
    """The attributes that a statement declares or sets."""
    if isinstance(statement, ast.AnnAssign):
        return [last_name(statement.target)]
    return [last_name(target) for target in statement.targets] if isinstance(statement, ast.Assign) else []


def last_name(target: ast.expr) -> str:
    """`name` of `name = …` and of `self.name = …`."""
    return ast.unparse(target).rpartition(".")[2]


def parameters(function: Callable[..., object]) -> list[Entry]:
    """The keyword parameters of a function, each with its line."""
    texts = option_texts(function)
    return [
        Entry(p.name, readable(p.annotation), shown(p.default), line(texts, p.name, function.__qualname__))
        for p in signature(function).parameters.values()
        if p.kind is inspect.Parameter.KEYWORD_ONLY or p.name in texts
    ]


def signature(function: Callable[..., object]) -> inspect.Signature:
    """The signature with the most parameters: a function that takes **options shows them in an overload."""
    return max(
        map(inspect.signature, [function, *typing.get_overloads(function)]), key=lambda found: len(found.parameters)
    )


def dataclass_fields(cls: type[Any]) -> list[Entry]:
    """The fields and properties of a dataclass that Rowlock hands out, each with its line."""
    texts = attribute_texts(cls)
    where = cls.__qualname__
    entries = [Entry(item.name, readable(item.type), "", line(texts, item.name, where)) for item in fields(cls)]
    properties = [(name, value.fget) for name, value in vars(cls).items() if isinstance(value, property) and value.fget]
    return entries + [
        Entry(name, readable(getter.__annotations__["return"]), "", sentence(getter, f"{where}.{name}"))
        for name, getter in properties
    ]


def constructor(cls: type[Any]) -> list[Entry]:
    """What a class that users construct takes, each with its line."""
    texts = attribute_texts(cls)
    return [
        Entry(p.name, readable(p.annotation), shown(p.default), line(texts, p.name, cls.__qualname__))
        for p in inspect.signature(cls).parameters.values()
    ]


def line(texts: Mapping[str, str], name: str, where: str) -> str:
    """The line of one entry as a table cell."""
    if name not in texts:
        message = f"{where}: {name} has no line of documentation; write one where the code declares it."
        raise Undocumented(message)
    text = " ".join(texts[name].split())
    return text[0].upper() + text[1:].removesuffix(".")


# --- lines about methods ---------------------------------------------------------------------------------------------


def members(cls: type) -> list[Entry]:
    """The public names of a context: how each is called, and the first sentence about it."""
    texts = attribute_texts(cls)
    entries = []
    for name in sorted(name for name in dir(cls) if not name.startswith("_")):
        where = f"{cls.__qualname__}.{name}"
        plain = inspect.isdatadescriptor(value := inspect.getattr_static(cls, name)) and not isinstance(value, property)
        text = line(texts, name, cls.__qualname__) if plain else sentence(value, where)
        entries.append(Entry(call(cls, name), "", "", text))
    return entries


def call(cls: type, name: str) -> str:
    """`name` of a property, `name(a, *, b=1)` of a method."""
    value = inspect.getattr_static(cls, name)
    if not inspect.isroutine(value):
        return name
    wanted = [
        re.sub(r"<class '(\w+)'>", r"\1", str(p.replace(annotation=inspect.Parameter.empty))).replace("'", '"')
        for p in inspect.signature(value).parameters.values()
        if p.name != "self"
    ]
    keyword_only = [p.kind is inspect.Parameter.KEYWORD_ONLY for p in inspect.signature(value).parameters.values()][1:]
    if True in keyword_only:
        wanted.insert(keyword_only.index(True), "*")
    return f"{name}({', '.join(wanted)})"


def sentence(value: object, where: str) -> str:
    """The first paragraph of a docstring as a table cell."""
    text = inspect.getdoc(value)
    if not text:
        message = f"{where} has no docstring."
        raise Undocumented(message)
    first = " ".join(text.partition("\n\n")[0].split())
    return first.removesuffix(".")


# --- cells -----------------------------------------------------------------------------------------------------------


def readable(annotation: object) -> str:
    """An annotation as source text, with aliases replaced."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b[A-Z]\w*\b", lambda name: TYPES.get(name[0]) or choices(name[0]) or name[0], text)


def choices(name: str) -> str:
    """The values of a Literal of the model, such as OnConflict; empty for any other name."""
    alias = getattr(kind, name, None)
    return " | ".join(f'"{value}"' for value in typing.get_args(alias)) if typing.get_origin(alias) is Literal else ""


def shown(default: object) -> str:
    """A default value; empty for a value that must be given."""
    if default is inspect.Parameter.empty or default is MISSING:
        return ""
    text = repr(default)
    classes = re.findall(r"<class '([\w.]+)'>", text)
    return f"({', '.join(classes)},)" if classes else text.replace("'", '"')


def code(text: str) -> str:
    """Source text inside a cell."""
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""


def table(heads: Sequence[str], entries: Iterable[Entry]) -> str:
    """A Markdown table; columns without a head are left out."""
    rows = [["name", "type", "default", "meaning"]]
    rows += [[code(e.name), code(e.type), code(e.default), e.text.replace("|", "\\|")] for e in entries]
    keep = [rows[0].index(head) for head in heads]
    lines = [[row[index] for index in keep] for row in rows]
    lines.insert(1, ["---"] * len(keep))
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)


# --- the database ----------------------------------------------------------------------------------------------------


def tables() -> str:
    """Every table of an upgraded database with its columns, jobs first."""
    texts = tomllib.loads((ROOT / "tools" / "columns.toml").read_text(encoding="utf-8"))
    found: dict[str, list[Entry]] = {name: [] for name in texts}
    for row in columns():
        if row["name"] not in texts.get(row["table"], {}):
            message = f"tools/columns.toml has no line for {row['table']}.{row['name']}."
            raise Undocumented(message)
        sort = SHORT.get(row["type"], row["type"]) + (" NOT NULL" if row["required"] else "")
        default = re.sub(r"::[a-z ]+(\[\])?$", "", row["default"] or "")
        found[row["table"]].append(Entry(row["name"], sort, default, texts[row["table"]][row["name"]]))
    for name, lines in texts.items():
        if gone := lines.keys() - {"_", *(entry.name for entry in found[name])}:
            message = f"tools/columns.toml describes columns that {name} does not have: {', '.join(sorted(gone))}."
            raise Undocumented(message)
    heads = ("name", "type", "default", "meaning")
    return "\n".join(f"### {name}\n\n{texts[name]['_']}\n\n{table(heads, found[name])}" for name in texts)


def columns() -> Sequence[Mapping[str, Any]]:
    """The columns of a database that the migrations made."""

    async def read(url: str) -> Sequence[Mapping[str, Any]]:
        connection = await asyncpg.connect(url)
        try:
            return typing.cast("Sequence[Mapping[str, Any]]", await connection.fetch(COLUMNS))
        finally:
            await connection.close()

    with Databases(ahead=0) as databases:
        return asyncio.run(read(databases.lend().url))


# --- pages -----------------------------------------------------------------------------------------------------------

FULL: Final = ("name", "type", "default", "meaning")
CALLS: Final = ("name", "meaning")
BLOCKS: Final[Mapping[str, Callable[[], str]]] = {
    "job-options": lambda: table(FULL, parameters(Rowlock.job)),
    "enqueue-options": lambda: table(FULL, parameters(Task.options)),
    "retry": lambda: table(FULL, constructor(Retry)),
    "gate": lambda: table(FULL, constructor(Gate)),
    "rate": lambda: table(FULL, constructor(Rate)),
    "approval": lambda: table(FULL, constructor(Approval)),
    "job": lambda: table(("name", "type", "meaning"), dataclass_fields(Job)),
    "context": lambda: table(CALLS, members(Context)),
    "sync-context": lambda: table(CALLS, members(SyncContext)),
    "item-context": lambda: table(CALLS, members(ItemContext)),
    "sync-item-context": lambda: table(CALLS, members(SyncItemContext)),
    "tables": tables,
}


def written(page: str) -> str:
    """A page with its generated parts as the code has them now."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{BLOCKS[found[2]]()}\n{found[3]}", page)


def main() -> int:
    """Write, or compare."""
    try:
        return write_or_compare(check="--check" in sys.argv)
    except Undocumented as missing:
        sys.stderr.write(f"{missing}\n")
        return 1


def write_or_compare(*, check: bool) -> int:
    """1 when a page was to be compared and differs."""
    stale = []
    for path in sorted(PAGES.glob("*.md")):
        old = path.read_text(encoding="utf-8")
        new = written(old)
        if new == old:
            continue
        if not check:
            path.write_text(new, encoding="utf-8")
            continue
        stale.append(path.name)
        sys.stderr.writelines(
            difflib.unified_diff(
                old.splitlines(keepends=True), new.splitlines(keepends=True), path.name, "the code", n=0
            )
        )
    if stale:
        sys.stderr.write(f"{', '.join(stale)} differ from the code: run python tools/reference.py\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
