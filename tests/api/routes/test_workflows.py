from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock import Context, Retry, Workflow
from rowlock.model import ids

if TYPE_CHECKING:
    from tests.api.conftest import Rest

    from rowlock import Rowlock, Started


async def orders(app: Rowlock) -> Started[object]:
    @app.job
    async def pick(ctx: Context, n: int) -> int:
        return n + int(await ctx.wait_for("shelf/open"))

    @app.job(retry=Retry(attempts=1))
    async def pack(n: int) -> int:
        raise ValueError(n)

    @app.job
    async def ship(n: int) -> int:
        return n

    flow = Workflow("orders")
    picked = flow.add(pick.step(1))
    flow.add(ship.step(flow.add(pack.step(picked.output)).output))
    return await flow.enqueue()


async def test_a_workflow_is_read_signalled_retried_and_cancelled(rest: Rest) -> None:
    started = await orders(rest.app)
    public, picking = started.public_id, ids.encode(started.jobs["pick"])
    async with rest.client() as client, rest.app.worker():
        (listed,) = (await client.get("/workflows", params={"name": "orders"})).json()["items"]
        assert (listed["id"], listed["state"], listed["total"]) == (public, "running", 3)
        early = await client.post(f"/workflows/{public}/retry", json={"from_step": "pick"})
        assert (early.status_code, early.json()["code"]) == (409, "conflict")
        assert "it has not ended" in early.json()["detail"]
        sent = await client.post(f"/jobs/{picking}/signals/shelf/open", json={"payload": 2})
        assert (sent.status_code, sent.json()["sent"]) == (200, True)
        view = await rest.app.workflows.wait(started.id, timeout=20)
        graph = (await client.get(f"/workflows/{public}")).json()
        assert [(node["name"], node["state"]) for node in graph["nodes"]] == [
            ("pick", "completed"),
            ("pack", "failed"),
            ("ship", "cancelled"),
        ]
        assert (graph["state"], len(graph["edges"])) == (view.state, 2)
        late = await client.post(f"/jobs/{picking}/signals/shelf/open", json={"payload": 3})
        assert (late.status_code, "it has ended" in late.json()["detail"]) == (409, True)
        over = await client.post(f"/workflows/{public}/cancel")
        assert (over.status_code, "it is failed" in over.json()["detail"]) == (409, True)
        unknown = await client.post(f"/workflows/{public}/retry", json={"from_step": "wrap"})
        assert "there are pick, pack, ship" in unknown.json()["detail"]
    again = await rest.client().post(f"/workflows/{public}/retry", json={"note": "the tape is back"})
    assert (again.status_code, again.json()["state"]) == (200, "running")
    async with rest.client() as client:
        behind = await client.post(f"/workflows/{public}/retry", json={"from_step": "pick"})
        assert "behind it, 'pack' has not ended" in behind.json()["detail"]
        cancelled = await client.post(f"/workflows/{public}/cancel", json={"note": "enough"})
        assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
        mistyped = await client.get(f"/workflows/{public[:-1]}*")
        assert (mistyped.status_code, "is not a workflow id" in mistyped.json()["detail"]) == (404, True)
        missing = await client.get(f"/workflows/{ids.encode_workflow(99)}")
        assert (missing.status_code, missing.json()["code"]) == (404, "workflow-not-found")
