"""Gates and rates: read, set, pause, resume, reset, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from rowlock.api.dependencies import CurrentDesk, Limit
from rowlock.api.routing import Routes
from rowlock.api.schemas.fields import STORABLE
from rowlock.api.schemas.limits import (
    GateAnswer,
    GateChange,
    GatesAnswer,
    RateAnswer,
    RateLimitBody,
    RatePause,
    RatesAnswer,
)
from rowlock.model.access import Permission

routes = Routes("limits")
Key = Annotated[
    str, Path(max_length=1000, pattern=r"^[^\x00]+$", description="Key; may contain slashes.", examples=["org:7"])
]
Prefix = Annotated[
    str | None,
    Query(max_length=1000, pattern=STORABLE, description="Only keys that begin with this.", examples=["org:"]),
]
After = Annotated[
    str,
    Query(max_length=1000, pattern=STORABLE, description="Key after which the page begins.", examples=["org:7"]),
]
_MISSING = ("limit-not-found",)
_INVALID = (*_MISSING, "invalid-option")


@routes.get("/limits/gates", needs=Permission.WORKERS_VIEW)
async def list_gates(desk: CurrentDesk, prefix: Prefix = None, after: After = "", *, limit: Limit = 50) -> GatesAnswer:
    """Gates by key, with the places taken and the jobs that wait."""
    found = await desk.limits.gates(prefix=prefix, after=after, limit=limit)
    return GatesAnswer(items=[GateAnswer.of(gate) for gate in found])


@routes.get("/limits/gates/{key:path}", needs=Permission.WORKERS_VIEW, problems=_MISSING)
async def get_gate(desk: CurrentDesk, key: Key) -> GateAnswer:
    """One gate, with the jobs that hold its places."""
    return GateAnswer.of(await desk.limits.gate(key))


@routes.patch("/limits/gates/{key:path}", needs=Permission.WORKERS_MANAGE, problems=_INVALID)
async def change_gate(desk: CurrentDesk, key: Key, change: GateChange) -> GateAnswer:
    """Change a gate; a raised limit lets waiting jobs pass at once."""
    return GateAnswer.of(await desk.limits.set_gate(key, limit=change.limit, fifo=change.fifo))


@routes.delete("/limits/gates/{key:path}", needs=Permission.WORKERS_MANAGE, problems=(*_MISSING, "conflict"))
async def delete_gate(desk: CurrentDesk, key: Key) -> GateAnswer:
    """Delete a gate that no job needs. Answers with it as it was."""
    return GateAnswer.of(await desk.limits.delete_gate(key))


@routes.get("/limits/rates", needs=Permission.WORKERS_VIEW)
async def list_rates(desk: CurrentDesk, prefix: Prefix = None, after: After = "", *, limit: Limit = 50) -> RatesAnswer:
    """Rates by key, with the number of jobs that may start now; the key of a lane's rate is `lane:NAME`."""
    found = await desk.limits.rates(prefix=prefix, after=after, limit=limit)
    return RatesAnswer(items=[RateAnswer.of(rate) for rate in found])


@routes.post("/limits/rates/{key:path}/pause", needs=Permission.WORKERS_MANAGE, problems=_INVALID)
async def pause_rate(desk: CurrentDesk, key: Key, pause: RatePause) -> RateAnswer:
    """Start no job of the key for a while; running ones go on."""
    return RateAnswer.of(await desk.limits.pause(key, pause.lasting, until=pause.until))


@routes.post("/limits/rates/{key:path}/resume", needs=Permission.WORKERS_MANAGE, problems=_MISSING)
async def resume_rate(desk: CurrentDesk, key: Key) -> RateAnswer:
    """End a pause; jobs that waited for its end get their turns from now on."""
    return RateAnswer.of(await desk.limits.resume(key))


@routes.post("/limits/rates/{key:path}/reset", needs=Permission.WORKERS_MANAGE, problems=_MISSING)
async def reset_rate(desk: CurrentDesk, key: Key) -> RateAnswer:
    """Reset the rate as if no job had started, so that a full burst may start."""
    return RateAnswer.of(await desk.limits.reset(key))


@routes.get("/limits/rates/{key:path}", needs=Permission.WORKERS_VIEW, problems=_MISSING)
async def get_rate(desk: CurrentDesk, key: Key) -> RateAnswer:
    """One rate."""
    return RateAnswer.of(await desk.limits.rate(key))


@routes.patch("/limits/rates/{key:path}", needs=Permission.WORKERS_MANAGE, problems=_INVALID)
async def set_rate(desk: CurrentDesk, key: Key, rate: RateLimitBody) -> RateAnswer:
    """Set another rate for the key; waiting jobs get new turns. Change a lane's rate with the lane."""
    return RateAnswer.of(await desk.limits.set_rate(key, rate.rate()))


@routes.delete("/limits/rates/{key:path}", needs=Permission.WORKERS_MANAGE, problems=(*_MISSING, "conflict"))
async def delete_rate(desk: CurrentDesk, key: Key) -> RateAnswer:
    """Delete a rate that no job used for an hour. Answers with it as it was."""
    return RateAnswer.of(await desk.limits.delete_rate(key))
