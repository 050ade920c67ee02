"""Lanes: read, created, and prepared at worker start together with kinds and retention rules."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from rowlock.errors import InvalidOption, UnknownLane
from rowlock.model.lane import DEFAULT_LANE, Lane
from rowlock.model.rate import Rate
from rowlock.model.retention import EVERY
from rowlock.model.spelling.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import timedelta

    from rowlock.model.kind import Kind
    from rowlock.model.lane import LaneOrder
    from rowlock.store.connections.worker_connection import WorkerConnection
    from rowlock.store.database import Record
    from rowlock.store.executor import SqlExecutor

logger = logging.getLogger("rowlock.lanes")


def unknown_lane(name: str, known_names: Iterable[str]) -> UnknownLane:
    """The error for a lane that does not exist."""
    names = sorted(known_names)
    known = f"there are {', '.join(names)}" if names else "there are none yet; a worker creates them at its start"
    near = closest(name, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UnknownLane(f"There is no lane {name!r}; {known}.{hint}")


def lane_of(row: Record) -> Lane:
    """A Lane from its row. One whose rate was written by hand and cannot be read claims nothing until it is mended."""
    try:
        rate, readable = Rate.from_stored(row["rate"]), True
    except (InvalidOption, KeyError, TypeError, ValueError) as error:
        rate, readable = None, False
        logger.warning(
            "lane %s claims no jobs, its rate %s cannot be read (%s: %s): set it with rowlock lanes set %s --rate",
            *(row["name"], row["rate"], type(error).__name__, error, row["name"]),
        )
    return Lane(
        name=row["name"],
        kinds=tuple(row["kinds"]),
        slots=row["slots"],
        max_total=row["max_total"],
        order=cast("LaneOrder", row["ordering"]),
        poll_interval=row["poll_every"],
        heartbeat_timeout=row["stale_after"],
        enabled=row["enabled"] and readable,
        version=row["version"],
        updated_at=row["updated_at"],
        progress_timeout=row["stall_after"],
        requires_approval=row["requires_approval"],
        rate=rate,
        aging_interval=row["age_every"],
    )


def columns_of(lane: Lane) -> dict[str, object]:
    """What the statement lane_add takes."""
    return {
        "name": lane.name,
        "kinds": list(lane.kinds),
        "slots": lane.slots,
        "max_total": lane.max_total,
        "ordering": lane.order,
        "poll_every": lane.poll_interval,
        "stale_after": lane.heartbeat_timeout,
        "stall_after": lane.progress_timeout,
        "requires_approval": lane.requires_approval,
        "rate": None if lane.rate is None else lane.rate.stored,
        "age_every": lane.aging_interval,
    }


async def read(link: SqlExecutor) -> list[Lane]:
    """Every lane, by name."""
    return [lane_of(row) for row in await link.fetch("lanes")]


async def add(link: SqlExecutor, lane: Lane) -> Lane | None:
    """Create the lane if there is none of that name; None: there is one, which stays as it is."""
    rows = await link.fetch("lane_add", **columns_of(lane))
    if rows and lane.max_total is not None:
        await link.fetch("lane_cap", name=lane.name)
    if rows and lane.rate is not None:
        await link.fetch("lane_rate", only=[f"lane:{lane.name}"])
    return lane_of(rows[0]) if rows else None


async def prepare(
    link: WorkerConnection,
    kinds: Sequence[Kind],
    lanes: Iterable[Lane],
    isolates: Callable[[str], bool] = lambda _: False,
    secret: Callable[[str], bool] = lambda _: True,
) -> None:
    """At worker start: create missing lanes, and write what upkeep and other processes must know of the kinds.

    kinds: each under all its names, the current one first. isolates: whether a kind's jobs run in a child process;
    secret: whether its arguments may hold secrets, so that its defaults are not published.
    """
    # A kind is in at most one lane. The lane that names it keeps it: only a person moves it.
    taken = {kind for lane in await read(link) for kind in lane.kinds}
    for lane in lanes:
        made = await add(link, replace(lane, kinds=tuple(kind for kind in lane.kinds if kind not in taken)))
        taken.update(made.kinds if made is not None else ())
    for kind in kinds:
        if kind.aliases:
            await link.fetch("lane_follow", kind=kind.name, others=list(kind.aliases))
        if kind.lane is not None:
            await add(link, Lane(kind.lane))
            await link.fetch("lane_hint", name=kind.lane, kind=kind.name)
    if not any("*" in lane.kinds for lane in await read(link)):
        # Without a lane for "*", jobs of kinds that no lane names would wait for ever.
        await add(link, DEFAULT_LANE)
    if kinds:
        await link.fetch(
            "register_kinds",
            names=[kind.name for kind in kinds],
            on_worker_lost=[kind.on_worker_lost for kind in kinds],
            max_losses=[kind.retry.loss_limit for kind in kinds],
            isolates=[isolates(kind.name) for kind in kinds],
            hooks=[_hooks(kind) for kind in kinds],
            defaults=[None if secret(kind.name) else _defaults(kind) for kind in kinds],
        )
        own = [kind.name for kind in kinds if kind.own_approval]
        await link.fetch("set_own_approval", names=[kind.name for kind in kinds], own=own)
        await link.fetch(
            "register_pairs",
            kinds=[kind.name for kind in kinds],
            priorities=[kind.priority for kind in kinds],
            shares=[0] * len(kinds),
        )


async def declare_retention(
    link: WorkerConnection, kinds: Iterable[Kind], of_all: Iterable[tuple[str, timedelta]]
) -> None:
    """Write the retention that code and settings declare. of_all: for every kind, by final state or *."""
    rules = [(EVERY, state, keep) for state, keep in of_all]
    rules += [(kind.name, state, keep) for kind in kinds for state, keep in (kind.retention or {}).items()]
    if rules:
        names, states, keeps = zip(*rules, strict=True)
        await link.fetch("set_retention", kinds=list(names), states=list(states), keeps=list(keeps))


def _defaults(kind: Kind) -> str | None:
    defaults = kind.defaults()
    return None if defaults is None else json.dumps(defaults)


def _hooks(kind: Kind) -> str | None:
    # Each with its own kind, since an alias of a kind has the hooks of the kind.
    return json.dumps({event: hook._asdict() for event, hook in kind.hooks.items()}) if kind.hooks else None
