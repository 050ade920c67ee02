"""An application with something of everything: lanes, limits, schedules, a workflow, jobs of two tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from rowlock import chain

if TYPE_CHECKING:
    from tests.fuzz.conftest import Bench


THERE: Final = st.sampled_from(["front", "plain", "platform_admin", "lane:front", "gate", "rate", "daily"])
"""What the stage below has: a name that is found leads further."""


async def stage(bench: Bench) -> None:
    """Something of everything, of two tenants."""
    app = bench.app

    @app.job
    async def plain(n: int = 0) -> int:
        return n

    for tenant in ("acme", "other"):
        await plain.options(tenant=tenant, tags=["a"], meta={"secret": tenant}).enqueue()
    await plain.options(approval=True, tenant="other").enqueue()
    await plain.options(gate="gate").enqueue()
    await chain(plain, plain.step(1)).enqueue()
    await app.lanes.create("front", rate="5/s")
    await app.schedules.create("daily", "plain", "0 2 * * *")
