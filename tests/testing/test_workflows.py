"""Chains and workflows in the test kit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock import Context, Retry, Workflow, WorkflowFailed, chain, group
from rowlock.testing import stub_context

if TYPE_CHECKING:
    from tests.testing.shop import Shop

    from rowlock import Task
    from rowlock.testing import Kit


@pytest.fixture
def numbers(shop: Shop) -> tuple[Task[[int], int], Task[[list[int]], int]]:
    @shop.app.job(retry=Retry(attempts=1))
    async def double(n: int) -> int:
        if n < 0:
            raise ValueError(n)
        shop.said.append(f"double {n}")
        return 2 * n

    @shop.app.job
    async def add(ns: list[int]) -> int:
        shop.said.append(f"add {ns}")
        return sum(ns)

    return double, add


async def test_drain_runs_a_chain_to_its_end(
    kit: Kit, numbers: tuple[Task[[int], int], Task[[list[int]], int]]
) -> None:
    double, add = numbers
    started = await chain(double, double).enqueue(3)
    flow = Workflow("sum")
    parts = [flow.add(double.step(n)) for n in (1, 2)]
    flow.add(add.step([part.output for part in parts]))
    both = await flow.enqueue()
    kit.assert_enqueued(double, n=3, options={"workflow_id": started.id, "step": "double"})
    kit.assert_enqueued(double, count=4)
    kit.assert_enqueued(add, options={"state": "blocked", "step": "add"})
    drained = await kit.drain()
    assert drained.kinds == {"double": 4, "add": 1}
    assert (await started.wait(1), await both.wait(1)) == (12, 6)


async def test_inline_runs_a_workflow_before_enqueue_returns(
    kit: Kit, shop: Shop, numbers: tuple[Task[[int], int], Task[[list[int]], int]]
) -> None:
    double, add = numbers
    with kit.inline():
        made = await group([double.step(1), double.step(2)], on_success=add).enqueue()
        assert shop.said == ["double 1", "double 2", "add [2, 4]"]
        assert await made.wait(1) == [2, 4]
        failed = await chain(double, double).enqueue(-1)
    with pytest.raises(WorkflowFailed, match="step 'double'"):
        await failed.wait(1)


def test_blocking_tests_too(kit: Kit, shop: Shop, numbers: tuple[Task[[int], int], Task[[list[int]], int]]) -> None:
    double, _ = numbers
    with kit.inline():
        assert chain(double, double).enqueue_sync(1).wait_sync(5) == 4
    assert shop.said == ["double 1", "double 2"]


async def test_a_stub_context_notes_what_is_added(
    numbers: tuple[Task[[int], int], Task[[list[int]], int]],
) -> None:
    double, add = numbers

    async def split(ctx: Context) -> None:
        await ctx.spawn([double.step(1), double.step(2)])
        await ctx.workflow.add(add.step([1]), name="total")

    ctx = stub_context()
    await split(ctx)
    assert [(name.rpartition("/")[2], kind, call) for name, kind, call in ctx.record.added] == [
        ("double-1", "double", {"n": 1}),
        ("double-2", "double", {"n": 2}),
        ("total", "add", {"ns": [1]}),
    ]
