"""Jobs in every state, for tests that count them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.desk.conftest import Desk


async def some_of_each(desk: Desk) -> int:
    """2 pending, 2 parked at one gate and 1 at another, 3 queued (1 scheduled), 4 running, 1 failed, 2 completed."""
    store, worker = desk.store, await desk.worker(kinds=("k", "other"))
    await desk.lane(slots=7)
    await desk.lane("others", kinds=("other",), slots=2)
    for _ in range(2):
        await store.enqueue(approval=True)
    for key, waiting in (("a", 2), ("b", 1)):
        await store.gate(key, 1)
        await store.claim(worker, await store.enqueue(gate_key=key))
        await store.claim(worker, *[await store.enqueue(gate_key=key) for _ in range(waiting)])
    await store.gate("idle", 1)
    await store.claim(worker, await store.enqueue())
    await store.claim(worker, await store.enqueue("other"), lane="others")
    for state in ("failed", "completed", "completed"):
        await store.complete(*await store.claim(worker, await store.enqueue()), state=state)
    await store.enqueue()
    await store.enqueue("other")
    await store.enqueue(run_in=timedelta(hours=1))
    return worker


async def history(desk: Desk, n: int) -> None:
    """Jobs that end now, of two tenants and without one."""
    await desk.store.execute(
        "INSERT INTO {s}.jobs (kind, state, tenant, claimed_at) SELECT 'k', 'running', "
        "CASE n % 4 WHEN 0 THEN 'acme' WHEN 1 THEN 'zeta' END, now() FROM generate_series(1, $1::integer) n",
        n,
    )
    await desk.store.execute(
        "UPDATE {s}.jobs SET state = 'completed', finished_at = now() WHERE state = 'running' AND claimed_by IS NULL"
    )
