"""Gates and rates over the wire: read, set, pause, resume, reset, forget."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path, Query
from pydantic import AwareDatetime, Field

from rowlock.api.dependencies import Asked, Limit
from rowlock.api.rate_shape import RateShape
from rowlock.api.routing import Routes
from rowlock.api.shapes import Answer, Body
from rowlock.model.access import Permission
from rowlock.model.rate import GateView, RateView

routes = Routes("limits")
Key = Annotated[str, Path(max_length=1000, pattern=r"^[^\x00]+$")]
Prefix = Annotated[str | None, Query(max_length=1000, pattern=r"^[^\x00]*$")]
After = Annotated[str, Query(max_length=1000, pattern=r"^[^\x00]*$")]


class HolderAnswer(Answer):
    """A job that has a place at a gate; since null: it was handed the place and is about to start."""

    job_id: str
    kind: str
    worker: str | None
    since: datetime | None


class GateAnswer(Answer):
    """A gate. held: places taken; parked: jobs that wait at it, counted to a thousand; holders: of one gate alone."""

    key: str
    limit: int
    fifo: bool
    held: int
    parked: int
    parked_capped: bool
    used_at: datetime
    edited_at: datetime | None
    holders: list[HolderAnswer]

    @classmethod
    def of(cls, gate: GateView) -> GateAnswer:
        """From the desk's value."""
        values = {name: getattr(gate, name) for name in cls.model_fields if name not in ("holders", "parked")}
        holders = [HolderAnswer(job_id=h.public_id, kind=h.kind, worker=h.worker, since=h.since) for h in gate.holders]
        return cls(**values, parked=gate.parked.value, holders=holders)


class RateAnswer(Answer):
    """A rate. available: what may start now; waiting: about how many jobs have a turn, the last at busy_until."""

    key: str
    rate: RateShape
    available: int
    waiting: int
    busy_until: datetime | None
    paused_until: datetime | None
    paused_by: str | None
    used_at: datetime
    edited_at: datetime | None

    @classmethod
    def of(cls, view: RateView) -> RateAnswer:
        """From the desk's value."""
        values = {name: getattr(view, name) for name in cls.model_fields if name != "rate"}
        return cls(**values, rate=RateShape.of(view.rate))


class GatesAnswer(Answer):
    """Gates by key; after the last of them the next page begins."""

    items: list[GateAnswer]


class RatesAnswer(Answer):
    """Rates by key; after the last of them the next page begins."""

    items: list[RateAnswer]


class GateChange(Body):
    """What is to change; what is left out stays."""

    limit: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    fifo: bool | None = None


class Pause(Body):
    """How long nothing of the key starts: one of the two."""

    lasting_s: Annotated[float, Field(gt=0, le=366 * 86_400)] | None = None
    until: AwareDatetime | None = None


@routes.get("/limits/gates", needs=Permission.WORKERS_VIEW)
async def list_gates(desk: Asked, prefix: Prefix = None, after: After = "", *, limit: Limit = 50) -> GatesAnswer:
    """Gates by key, with the places taken and the jobs that wait."""
    found = await desk.limits.gates(prefix=prefix, after=after, limit=limit)
    return GatesAnswer(items=[GateAnswer.of(gate) for gate in found])


@routes.get("/limits/gates/{key:path}", needs=Permission.WORKERS_VIEW)
async def get_gate(desk: Asked, key: Key) -> GateAnswer:
    """One gate, with those that have its places."""
    return GateAnswer.of(await desk.limits.gate(key))


@routes.patch("/limits/gates/{key:path}", needs=Permission.WORKERS_MANAGE)
async def change_gate(desk: Asked, key: Key, change: GateChange) -> GateAnswer:
    """Change what is given; a raised limit lets waiting jobs in at once."""
    return GateAnswer.of(await desk.limits.set_gate(key, limit=change.limit, fifo=change.fifo))


@routes.delete("/limits/gates/{key:path}", needs=Permission.WORKERS_MANAGE)
async def delete_gate(desk: Asked, key: Key) -> GateAnswer:
    """Forget a gate that no job needs; answers with it as it was."""
    return GateAnswer.of(await desk.limits.delete_gate(key))


@routes.get("/limits/rates", needs=Permission.WORKERS_VIEW)
async def list_rates(desk: Asked, prefix: Prefix = None, after: After = "", *, limit: Limit = 50) -> RatesAnswer:
    """Rates by key, with what may start now; those of lanes are named lane:<name>."""
    found = await desk.limits.rates(prefix=prefix, after=after, limit=limit)
    return RatesAnswer(items=[RateAnswer.of(rate) for rate in found])


@routes.post("/limits/rates/{key:path}/pause", needs=Permission.WORKERS_MANAGE)
async def pause_rate(desk: Asked, key: Key, pause: Pause) -> RateAnswer:
    """Start nothing of the key for so long, or until then; what runs goes on."""
    return RateAnswer.of(await desk.limits.pause(key, pause.lasting_s, until=pause.until))


@routes.post("/limits/rates/{key:path}/resume", needs=Permission.WORKERS_MANAGE)
async def resume_rate(desk: Asked, key: Key) -> RateAnswer:
    """End a pause; those that waited for its end get turns from now on."""
    return RateAnswer.of(await desk.limits.resume(key))


@routes.post("/limits/rates/{key:path}/reset", needs=Permission.WORKERS_MANAGE)
async def reset_rate(desk: Asked, key: Key) -> RateAnswer:
    """As if nothing of the rate had been used yet."""
    return RateAnswer.of(await desk.limits.reset(key))


@routes.get("/limits/rates/{key:path}", needs=Permission.WORKERS_VIEW)
async def get_rate(desk: Asked, key: Key) -> RateAnswer:
    """One rate."""
    return RateAnswer.of(await desk.limits.rate(key))


@routes.patch("/limits/rates/{key:path}", needs=Permission.WORKERS_MANAGE)
async def set_rate(desk: Asked, key: Key, rate: RateShape) -> RateAnswer:
    """Another rate for the key; those that wait get new turns. A lane's is set with the lane."""
    return RateAnswer.of(await desk.limits.set_rate(key, rate.rate()))


@routes.delete("/limits/rates/{key:path}", needs=Permission.WORKERS_MANAGE)
async def delete_rate(desk: Asked, key: Key) -> RateAnswer:
    """Forget a rate that nothing used for an hour; answers with it as it was."""
    return RateAnswer.of(await desk.limits.delete_rate(key))
