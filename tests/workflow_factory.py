"""Workflows written straight into the store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.factories import Store

    from rowlock.model.job import Claim


class Flow:
    """A workflow written straight into the store."""

    def __init__(self, store: Store, number: int, worker: int) -> None:
        self.store, self.number, self.worker = store, number, worker
        self.jobs: dict[str, int] = {}

    @classmethod
    async def of(cls, store: Store, edges: list[tuple[str, str, str]], /, **steps: dict[str, Any]) -> Flow:
        number = await store.value("INSERT INTO {s}.workflows (name) VALUES ('f') RETURNING id")
        flow = cls(store, number, await store.worker())
        names = dict.fromkeys([name for up, down, _ in edges for name in (up, down)] + list(steps))
        plan = {
            "steps": [{"name": name, "kind": "k"} | steps.get(name, {}) for name in names],
            "edges": [{"upstream": up, "downstream": down, "needs": needs} for up, down, needs in edges],
        }
        await flow.grow(plan)
        return flow

    async def grow(self, plan: dict[str, Any]) -> None:
        text = "SELECT jsonb_object_agg(name, job_id) FROM {s}.workflow_write($1, $2)"
        self.jobs |= json.loads(await self.store.value(text, self.number, json.dumps(plan)))

    async def claim(self, name: str) -> Claim:
        (claim,) = await self.store.claim(self.worker, self.jobs[name])
        return claim

    async def end(self, name: str, state: str = "completed") -> None:
        assert await self.store.complete(await self.claim(name), state=state)

    async def states(self) -> dict[str, str]:
        rows = await self.store.connection.fetch(
            "SELECT s.name, j.state FROM rowlock.workflow_steps s JOIN rowlock.jobs j ON j.id = s.job_id"
            " WHERE s.workflow_id = $1",
            self.number,
        )
        return {row["name"]: row["state"] for row in rows}

    async def state(self) -> str:
        return str(await self.store.value("SELECT state FROM {s}.workflows WHERE id = $1", self.number))


S, F, X, T = "success", "finish", "failure", "strict"
"""What an edge asks of the step before it: success, any end, failure, success without errors."""


async def started(store: Store, plan: dict[str, Any], **more: Any) -> list[Any]:  # noqa: ANN401 - parameters
    about = {"name": "f", "tenant": "acme", "submitted_by": "ada", "unique_key": None, "meta": None}
    return await store.fetch("workflow_start", **about | more, plan=json.dumps(plan))


def plan_of(*edges: tuple[str, str, str], names: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any
    found = dict.fromkeys([*(name for up, down, _ in edges for name in (up, down)), *names])
    links = [{"upstream": up, "downstream": down, "needs": needs} for up, down, needs in edges]
    return {"steps": [{"name": name, "kind": "k"} for name in found], "edges": links, **more}


async def added(
    store: Store,
    plan: dict[str, Any],
    *,
    claim: Claim | None = None,
    job: int | None = None,
    workflow: int | None = None,
) -> list[Any]:
    return await store.fetch(
        "workflow_add",
        job=claim.job_id if claim else job,
        fence=claim.fence if claim else None,
        workflow=workflow,
        plan=json.dumps(plan),
        channel=store.database.channel,
    )
