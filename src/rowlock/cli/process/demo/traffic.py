"""Jobs that keep coming while `rowlock demo --serve` shows the dashboard: traffic as a small shop would have it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowlock.compose.workflow import Workflow
from rowlock.flow.progress.context import Context
from rowlock.flow.progress.items import ItemContext
from rowlock.model.kind import Gate
from rowlock.model.lane import Lane
from rowlock.model.rate import Rate
from rowlock.model.retry import Retry

if TYPE_CHECKING:
    import random

    from rowlock.app import Rowlock
    from rowlock.tasks import Task

FRONT: Final = Lane("shop", slots=6)
SLOW: Final = Lane("reports", slots=2)
MAIL: Final = Rate(120, per="1m", burst=10).for_key("mail server")
PRINTER: Final = Gate("printer", limit=2)
_PAUSE: Final = 1.2
"""Seconds between two arrivals, on average."""
_MOST_APPROVALS: Final = 6
"""Approvals that wait at most, so that the demo can run for hours."""


async def send_receipt(ctx: Context, order: int, address: str) -> str:
    """Quick, and sometimes the mail server is away."""
    await asyncio.sleep(0.1 + order % 7 / 10)
    if order % 9 == 0 and ctx.job.attempt == 1:
        raise ConnectionError(f"mail server closed the connection after {order % 40} s")
    return f"receipt for order {order} sent to {address}"


async def sync_stock(ctx: Context, warehouse: str) -> dict[str, int]:
    """One at a time for each warehouse; fails for one of them."""
    async with ctx.lock("warehouse", warehouse):
        await asyncio.sleep(0.4)
        if warehouse == "leeds":
            raise TimeoutError(f"warehouse {warehouse} did not answer within 30 s")
    return {"articles": 1200 + len(warehouse)}


async def resize_images(ctx: Context, article: int, sizes: list[int]) -> None:
    """An item for every picture; one of them is broken."""

    async def one(item: ItemContext, size: int) -> None:
        await asyncio.sleep(0.5)
        if article % 5 == 0 and size > 1000:  # noqa: PLR2004 - pixels
            raise ValueError(f"picture {article}-{size}.png is truncated")
        ctx.log.info("article %s resized to %s px", article, size)
        _ = item

    await ctx.items(sizes, one, limit=2)


async def monthly_report(ctx: Context, month: str, pages: int) -> dict[str, object]:
    """Long, in phases, with a log."""
    for phase, seconds in (("collect", 6.0), ("render", 12.0), ("upload", 4.0)):
        ctx.log.info("%s begins", phase)
        async with ctx.phase(phase, total=pages) as now:
            for _ in range(pages):
                await asyncio.sleep(seconds / pages)
                await now.advance()
    return {"month": month, "pages": pages, "file": f"reports/{month}.pdf"}


async def refund(order: int, amount: float, reason: str) -> str:
    """Waits for a person's approval."""
    await asyncio.sleep(0.5)
    return f"{amount:.2f} paid back for order {order}: {reason}"


async def count_sales(region: str) -> int:
    """A step of the workflow."""
    await asyncio.sleep(1.5)
    return len(region) * 100


async def add_up(parts: list[int]) -> int:
    """A step that uses the results of others."""
    await asyncio.sleep(0.8)
    return sum(parts)


async def tidy(days: int) -> int:
    """For schedules."""
    await asyncio.sleep(0.3)
    return days


@dataclass(frozen=True, slots=True)
class DemoTraffic:
    """The kinds of the traffic, declared with an application."""

    receipt: Task[[int, str], str]
    stock: Task[[str], dict[str, int]]
    images: Task[[int, list[int]], None]
    report: Task[[str, int], dict[str, object]]
    refunds: Task[[int, float, str], str]
    sales: Task[[str], int]
    total: Task[[list[int]], int]
    chance: random.Random

    @classmethod
    def declare(cls, app: Rowlock, chance: random.Random) -> DemoTraffic:
        """Declare the kinds and two schedules."""
        cleaning = app.job("shop.tidy", lane=FRONT.name)(tidy)
        app.schedule(every="1m", name="tidy every minute", args={"days": 30})(cleaning)
        app.schedule("30 2 * * MON-FRI", name="tidy at night", tz="Europe/London", args={"days": 90})(cleaning)
        quickly = Retry(attempts=3, minimum="5s", multiplier=2)
        return cls(
            app.job("shop.send_receipt", lane=FRONT.name, retry=quickly, rate=MAIL)(send_receipt),
            app.job("shop.sync_stock", lane=FRONT.name, retry=Retry(attempts=2, minimum="3s"))(sync_stock),
            app.job("shop.resize_images", lane=FRONT.name, retry=Retry(attempts=1))(resize_images),
            app.job("shop.monthly_report", lane=SLOW.name, priority=-5, timeout="10m", gate=PRINTER)(monthly_report),
            app.job("shop.refund", lane=FRONT.name, approval=True, priority=20)(refund),
            app.job("shop.count_sales", lane=SLOW.name)(count_sales),
            app.job("shop.add_up", lane=SLOW.name)(add_up),
            chance,
        )

    async def flow(self, app: Rowlock) -> None:
        """Enqueue jobs until cancelled."""
        number = 1000
        while True:
            number += 1
            await self._arrive(app, number)
            await asyncio.sleep(self.chance.expovariate(1 / _PAUSE))

    async def _arrive(self, app: Rowlock, number: int) -> None:
        chosen = self.chance.random()
        if chosen < 0.6:  # noqa: PLR2004 - shares of the traffic
            await self.receipt.options(submitted_by="checkout").enqueue(number, f"customer{number % 50}@shop.example")
        elif chosen < 0.75:  # noqa: PLR2004
            await self.stock.options(submitted_by="warehouse").enqueue(self.chance.choice(["leeds", "york", "bath"]))
        elif chosen < 0.85:  # noqa: PLR2004
            await self.images.options(submitted_by="web").enqueue(number, [200, 400, 800, 1600])
        elif chosen < 0.92:  # noqa: PLR2004
            waiting = await app.approvals.pending(limit=_MOST_APPROVALS)
            if len(waiting.items) < _MOST_APPROVALS:
                reason = self.chance.choice(["arrived broken", "never arrived", "wrong size"])
                amount = round(self.chance.uniform(5, 200), 2)
                await self.refunds.options(submitted_by="support").enqueue(number, amount, reason)
        elif chosen < 0.96:  # noqa: PLR2004
            await self.report.options(submitted_by="accounts").enqueue(f"2026-{number % 12 + 1:02}", 20)
        else:
            await self._workflow(number)

    async def _workflow(self, number: int) -> None:
        workflow = Workflow(f"sales of day {number}")
        parts = [workflow.add(region, self.sales.step(region)) for region in ("north", "south", "east", "west")]
        workflow.add("total", self.total.step([part.output for part in parts]))
        await workflow.options(submitted_by="accounts").enqueue()
