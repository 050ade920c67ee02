"""Rowlock under what grows in production: history, backlog, schedules, a pinned xmin, many lanes, large arguments.

Every condition keeps its database over the rounds and is drained in turn with the plain one, so that all of them see
the same machine. Rows are made by SQL from one job that was enqueued properly.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bench import gauges, roster, scenes
from bench.results import Reading, say, tell
from bench.stage import Failed
from rowlock.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.results import Results
    from bench.stage import Play, Stage

_MILLION: Final = 1_000_000
_BATCH: Final = 500_000
# Finished over the last days, inside the retention: upkeep has nothing to remove.
_FINISHED: Final = """
INSERT INTO rowlock.jobs (kind, state, attempt, fence, seq, lane, args, created_at, run_after, claimed_at, finished_at)
SELECT kind, 'completed', 1, 2, 2, 'default', args, at, at, at, at
FROM (SELECT kind, args FROM rowlock.jobs ORDER BY id LIMIT 1) one,
     LATERAL (SELECT now() - interval '5 days' + (%(done)s + g) * interval '1 day' / %(all)s AS at
              FROM generate_series(1, %(batch)s) g) moments
"""
_WAITING: Final = """
INSERT INTO rowlock.jobs (kind, args, run_after)
SELECT kind, args, now() + %(due)s::interval + (%(done)s + g) * interval '1 minute' / %(all)s
FROM (SELECT kind, args FROM rowlock.jobs ORDER BY id LIMIT 1) one, generate_series(1, %(batch)s) g
"""


@dataclass(frozen=True, slots=True)
class Condition:
    """One adversity. finished, waiting, scheduled: rows; pinned: a transaction as old as the run is left open."""

    name: str
    finished: int = 0
    waiting: int = 0
    scheduled: int = 0
    pinned: bool = False
    like: str | None = None
    """A condition whose rows are copied instead of made again."""
    jobs: int = 50_000
    extra: dict[str, int] = field(default_factory=dict)
    """For the driver: kinds, lanes, payload."""


CONDITIONS: Final = (
    Condition("plain"),
    Condition("1 M finished", finished=_MILLION),
    Condition("10 M finished", finished=10 * _MILLION),
    Condition("1 M backlog", waiting=_MILLION),
    Condition("200 k in the future", scheduled=200_000),
    Condition("xmin pinned", pinned=True),
    Condition("500 kinds", extra={"kinds": 500}),
    Condition("64 lanes, 500 kinds", extra={"lanes": 64, "kinds": 500}),
    Condition("20 kB arguments", jobs=10_000, extra={"payload": 20_000}),
    Condition("10 M finished, 1 M backlog, xmin pinned", waiting=_MILLION, pinned=True, like="10 M finished"),
)


def run(stage: Stage, results: Results, rounds: int, *, scale: float, names: list[str] | None = None) -> None:
    """Drain under every condition in turn. scale: 1 for the real sizes; names: only these conditions."""
    wanted = [c for c in CONDITIONS if names is None or c.name in names or c.name == "plain"]
    with contextlib.ExitStack() as opened:
        plays: dict[str, Play] = {}
        for condition in wanted:
            say(f"making: {condition.name}")
            plays[condition.name] = opened.enter_context(_prepared(stage, condition, plays, scale))
        for number in range(rounds):
            for condition in wanted:
                results.add(tell(_reading(plays[condition.name], condition, number, scale)))


def _reading(play: Play, condition: Condition, number: int, scale: float) -> Reading:
    scene = f"adversity: {condition.name}"
    try:
        values = _drained(play, condition, max(500, int(condition.jobs * scale)))
    except Failed as failure:
        return Reading("rowlock", scene, number, problem=str(failure))
    return Reading("rowlock", scene, number, values, noise=values.pop("noise"))


@contextlib.contextmanager
def _prepared(stage: Stage, condition: Condition, plays: dict[str, Play], scale: float) -> Iterator[Play]:
    like = plays.get(condition.like) if condition.like else None
    finished = condition.finished
    if condition.like and like is None:
        finished = next(c.finished for c in CONDITIONS if c.name == condition.like)
    with stage.play(roster.ROWLOCK, like=like, extra=condition.extra) as play, contextlib.ExitStack() as held:
        if condition.pinned:
            held.callback(_pin(play).close)
        scenes.fill(play, 1)
        _make(play, _FINISHED, int(finished * scale))
        _make(play, _WAITING, int(condition.waiting * scale), due="-1 hour")
        _make(play, _WAITING, int(condition.scheduled * scale), due="1 day")
        play.settle()
        yield play


def backlog(play: Play, jobs: int) -> None:
    """Fill the queue by SQL."""
    scenes.fill(play, 1)
    _make(play, _WAITING, jobs, due="-1 hour")


def _pin(play: Play) -> Any:  # noqa: ANN401 - a psycopg connection
    connection = play.stage.server.connect(play.tag)
    connection.autocommit = False
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    connection.execute("SELECT txid_current()")
    return connection


def _make(play: Play, statement: str, rows: int, **values: object) -> None:
    with play.stage.server.connect(play.tag) as connection:
        connection.execute("SET synchronous_commit = off")
        for done in range(0, rows, _BATCH):
            size = {"done": done, "all": rows, "batch": min(_BATCH, rows - done)}
            connection.execute(statement, size | values)


def _drained(play: Play, condition: Condition, jobs: int) -> dict[str, float]:
    play.forget()
    scenes.fill(play, jobs)
    with play.stage.server.connect(play.tag) as connection:
        connection.execute("ANALYZE")
        connection.execute("CHECKPOINT")
    play.stage.quiet()
    before = _claimed(play)
    values = scenes.emptied(play, jobs, 1, 60.0, endless=condition.waiting > 0)
    blocks, rows = (after - earlier for after, earlier in zip(_claimed(play), before, strict=True))
    if rows:
        values["claim_blocks"] = blocks / rows
    return values


def _claimed(play: Play) -> tuple[int, int]:
    server = play.stage.server
    if not server.counts_statements:
        return 0, 0
    statements = Database(server.at(play.tag)).statements
    return gauges.claim_blocks(server, play.tag, [statements[name].dollar for name in ("claim", "claim_pairs")])
