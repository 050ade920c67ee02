"""A history of jobs, counts and failures by SQL, in the words of a shop: a million rows in about a minute."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

_STATEMENTS: Final = Path(__file__).with_name("history.sql")
_BATCH: Final = 100_000
_FOLD: Final = 50_000
"""Increments that one call of a duty's function moves."""
_SERIES: Final = 10_000
_KINDS_TABLE: Final = """
CREATE TEMPORARY TABLE kinds_of_history (
  pick bigint PRIMARY KEY, kind text, lane text, priority smallint, run double precision, fails double precision,
  error text, message text, frame text, traceback text, submitter text)
"""


@dataclass(frozen=True, slots=True)
class KindOfHistory:
    """Jobs of one kind. weight: how many beside the others; run: seconds on average; fails: share that failed.

    file, line, function, source: where it raises its error; submitter: the program that enqueues it.
    """

    kind: str
    lane: str
    weight: int
    run: float
    fails: float
    error: str = "TimeoutError"
    message: str = "no answer within ? s"
    file: str = "shop/tasks.py"
    line: int = 17
    function: str = "work"
    source: str = "return await done()"
    priority: int = 0
    submitter: str | None = "web"

    @property
    def frame(self) -> str:
        """As Rowlock names the innermost function of the application."""
        return f"{self.file}:{self.function}"

    @property
    def traceback(self) -> str:
        """Its traceback without the last line, which is the error's."""
        handler = self.kind.rpartition(".")[2]
        return (
            "Traceback (most recent call last):\n"
            f'  File "/srv/shop/tasks.py", line {self.line + 24}, in {handler}\n'
            f"    await {self.function}(order)\n"
            f'  File "/srv/{self.file}", line {self.line}, in {self.function}\n'
            f"    {self.source}\n"
        )


SHOP: Final = (
    KindOfHistory(
        "shop.send_receipt",
        "shop",
        10,
        0.4,
        0.004,
        "ConnectionError",
        "mail server closed the connection after ? s",
        file="shop/mail.py",
        line=58,
        function="deliver",
        source='raise ConnectionError(f"mail server closed the connection after {waited} s")',
        submitter="checkout",
    ),
    KindOfHistory(
        "shop.sync_stock",
        "shop",
        4,
        0.6,
        0.02,
        message="warehouse leeds did not answer within ? s",
        file="shop/warehouse.py",
        line=31,
        function="ask_for_stock",
        source='raise TimeoutError(f"warehouse {name} did not answer within {patience} s")',
        submitter="warehouse",
    ),
    KindOfHistory(
        "shop.resize_images",
        "shop",
        3,
        1.4,
        0.006,
        "ValueError",
        "picture ?-1600.png is truncated",
        file="shop/pictures.py",
        line=77,
        function="read_pixels",
        source='raise ValueError(f"picture {name} is truncated")',
    ),
    KindOfHistory(
        "shop.monthly_report",
        "reports",
        1,
        22.0,
        0.01,
        "MemoryError",
        "no room for ? pages",
        file="shop/reports.py",
        line=112,
        function="lay_out",
        source='raise MemoryError(f"no room for {pages} pages")',
        priority=-5,
        submitter="accounts",
    ),
    KindOfHistory("shop.tidy", "shop", 1, 0.3, 0.0, submitter=None),
)
"""The kinds of `rowlock demo --serve`."""


def large_shop(kinds: int = 40, lanes: int = 8) -> tuple[KindOfHistory, ...]:
    """Many kinds in several lanes, for a large history."""
    return tuple(
        KindOfHistory(
            f"shop.task_{n:02}", f"lane_{n % lanes}", 1 + 40 // (n + 1), 0.2 + n % 5, 0.001 * (n % 7), function=f"f{n}"
        )
        for n in range(kinds)
    )


def fill(
    connection: psycopg.Connection[Any],
    jobs: int,
    kinds: Sequence[KindOfHistory],
    *,
    hours: float,
    waiting: int = 0,
    schema: str = "rowlock",
) -> None:
    """Write `jobs` ended jobs and `waiting` later ones, with their counts, causes and statistics of the planner."""
    statements = _statements(schema)
    connection.execute("SET synchronous_commit = off")
    connection.execute("SET work_mem = '256MB'")
    connection.execute(_KINDS_TABLE)
    rows = [kind for kind in kinds for _ in range(kind.weight)]
    with connection.cursor() as cursor, cursor.copy("COPY kinds_of_history FROM STDIN") as copy:
        for pick, each in enumerate(rows):
            told = (each.error, each.message, each.frame, each.traceback, each.submitter)
            copy.write_row((pick, each.kind, each.lane, each.priority, each.run, each.fails, *told))
    connection.execute("ANALYZE kinds_of_history")
    for first in range(1, jobs + 1, _BATCH):
        size = {"total": jobs, "first": first, "last": min(first + _BATCH - 1, jobs), "hours": hours}
        connection.execute(statements["finished"], size)
    if waiting:
        connection.execute(statements["waiting"], {"waiting": waiting})
    for name in ("pairs", "attempts", "counted", "since", "causes", "deploys"):
        connection.execute(statements[name], {"hours": hours})
    for function in ("counts_fold", "failures_fold"):
        while connection.execute(f"SELECT {schema}.{function}({_FOLD}, {_SERIES})").fetchone() != (0,):
            pass
    connection.execute("VACUUM ANALYZE")


def _statements(schema: str) -> dict[str, str]:
    text = _STATEMENTS.read_text(encoding="utf-8").replace("{schema}", schema).replace("%", "%%")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    # psycopg's own way to write a parameter.
    named = {
        name: re.sub(r"(?<!:):([a-z]+)\b", r"%(\1)s", body) for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {name: re.sub(r"^--.*$", "", body, flags=re.MULTILINE) for name, body in named.items()}
