"""The demo's jobs: one of each way a job's life can go, and the state each must end in."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowlock.flow.progress.context import Context
from rowlock.model.outcome import Partial
from rowlock.model.retry import Retry
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowlock.app import Rowlock
    from rowlock.tasks import BoundTask, Enqueued

LANE: Final = "demo"
_GREETED: Final = (
    "Ada",
    "Barbara",
    "Dorothy",
    "Edsger",
    "Grace",
    "Hedy",
    "Joan",
    "Katherine",
    "Lynn",
    "Mary",
    "Radia",
    "Tim",
)
_QUICKLY: Final = Retry(attempts=3, minimum="600ms", jitter="0s")


@dataclass(frozen=True, slots=True)
class DemoJob:
    """One job of the demo: how to enqueue it, how it must end, what it is there to show."""

    enqueue: Callable[[], Awaitable[Enqueued[object]]]
    ends: State
    shows: str
    order: str | None = None
    """What a person does to it: cancel (once it runs) or approve (once it is pending)."""


async def greet(name: str, seconds: float) -> str:
    """A quick job."""
    await asyncio.sleep(seconds)
    return f"Hello, {name}!"


async def render_report(ctx: Context, pages: int) -> dict[str, int]:
    """A long job in three phases, about four seconds."""
    for phase, seconds in (("collect", 1.2), ("render", 2.0), ("upload", 0.8)):
        async with ctx.phase(phase, total=pages) as now:
            for _ in range(pages):
                await asyncio.sleep(seconds / pages)
                await now.advance()
    return {"pages": pages}


async def call_neighbour(ctx: Context) -> str:
    """Fails once, as neighbours do; the retry succeeds."""
    await asyncio.sleep(0.2)
    if ctx.job.attempt == 1:
        raise ConnectionError("the neighbour did not answer")
    return f"answered at attempt {ctx.job.attempt}"


async def parse_upload(name: str) -> None:
    """Fails every time, and so for good."""
    await asyncio.sleep(0.2)
    raise ValueError(f"{name} is not a spreadsheet")


async def export_everything(ctx: Context) -> None:
    """Would take minutes; it is cancelled."""
    for step in range(600):
        await ctx.progress(step, 600, message="a very long export")
        await asyncio.sleep(0.1)


async def send_digest() -> str:
    """Scheduled ahead."""
    return "sent"


async def charge_account(account: int) -> str:
    """Two of these share a gate: one at a time."""
    await asyncio.sleep(1.2)
    return f"account {account} charged"


async def refresh_cache(key: str) -> str:
    """Enqueued twice under one unique key; the second is the first."""
    await asyncio.sleep(0.2)
    return key


async def import_rows(ctx: Context) -> Partial:
    """Most rows are good."""
    async with ctx.phase("import", total=5) as rows:
        for _ in range(5):
            await asyncio.sleep(0.2)
            await rows.advance()
    return Partial({"imported": 3}, ["row 2: no date", "row 4: amount is not a number"])


async def pay_out(amount: int) -> str:
    """Waits for a person's approval."""
    await asyncio.sleep(0.3)
    return f"{amount} paid"


def samples(app: Rowlock) -> list[DemoJob]:
    """The demo's jobs, whose kinds are declared with the application."""
    greeting = app.job("demo.greet", lane=LANE)(greet)
    report = app.job("demo.render_report", lane=LANE, priority=10, timeout="1m")(render_report)
    neighbour = app.job("demo.call_neighbour", lane=LANE, retry=_QUICKLY)(call_neighbour)
    upload = app.job("demo.parse_upload", lane=LANE, retry=Retry(attempts=2, minimum="400ms", jitter="0s"))(
        parse_upload
    )
    export = app.job("demo.export_everything", lane=LANE, priority=5)(export_everything)
    digest = app.job("demo.send_digest", lane=LANE)(send_digest)
    charge = app.job("demo.charge_account", lane=LANE, gate=lambda account: f"demo-account:{account}")(charge_account)
    cache = app.job("demo.refresh_cache", lane=LANE)(refresh_cache)
    rows = app.job("demo.import_rows", lane=LANE)(import_rows)
    payment = app.job("demo.pay_out", lane=LANE, approval=True)(pay_out)
    key = cache.options(unique_key="prices", on_conflict="keep", run_in="700ms")
    done = State.COMPLETED
    return [
        DemoJob(lambda: report.enqueue(pages=20), done, "a long job with phases"),
        DemoJob(export.enqueue, State.CANCELLED, "cancelled while it runs", "cancel"),
        DemoJob(lambda: charge.enqueue(account=7), done, "holds the only place at its gate"),
        DemoJob(lambda: charge.enqueue(account=7), done, "waits for that place"),
        DemoJob(neighbour.enqueue, done, "fails once, is retried"),
        DemoJob(lambda: upload.enqueue(name="cat.jpg"), State.FAILED, "fails for good"),
        DemoJob(rows.enqueue, State.COMPLETED_WITH_ERRORS, "a partial success"),
        DemoJob(lambda: digest.options(run_in="2s").enqueue(), done, "scheduled 2 s ahead"),
        DemoJob(lambda: key.enqueue(key="prices"), done, "has a unique key"),
        DemoJob(lambda: key.enqueue(key="prices"), done, "its duplicate is not added"),
        DemoJob(lambda: payment.enqueue(amount=250), done, "runs once approved", "approve"),
        DemoJob(lambda: payment.options(expires_in="1s").enqueue(amount=9), State.EXPIRED, "not approved in time"),
        *(_quick(greeting, n, name) for n, name in enumerate(_GREETED)),
    ]


def _quick(greeting: BoundTask[[str, float], str], n: int, name: str) -> DemoJob:
    return DemoJob(lambda: greeting.enqueue(name, 0.25 + 0.1 * (n % 4)), State.COMPLETED, "a quick job")
