"""An application whose jobs are limited in every way, and write down when they start and end."""

from __future__ import annotations

import os

from tests.torture.jobs import Ledger
from tests.waiting import busy_for

import rowlock
from rowlock import Gate, Rate, Rowlock
from rowlock.settings import Settings

BUCKET = Rate(25, "1s", burst=5)
WINDOW = Rate(20, "1s", window=True)
PLACES = 2
app = Rowlock(settings=Settings.from_env(os.environ))
ledger = Ledger(os.environ.get("ROWLOCK_DATABASE_URL", ""))


async def _noted(ctx: rowlock.Context, key: str) -> None:
    await ledger.note(ctx, f"start {key}")
    await busy_for(0.01)
    await ledger.note(ctx, f"end {key}")


@app.job(gate=lambda key: Gate(key, limit=PLACES))
async def gated(ctx: rowlock.Context, key: str) -> None:
    await _noted(ctx, key)


@app.job(gate=lambda key: Gate(key, limit=1, fifo=True))
async def in_order(ctx: rowlock.Context, key: str) -> None:
    await _noted(ctx, key)


@app.job(rate=lambda key: (WINDOW if key.startswith("window") else BUCKET).for_key(key))
async def paced(ctx: rowlock.Context, key: str) -> None:
    await _noted(ctx, key)


@app.job(gate=lambda key: Gate(f"place {key}", limit=PLACES), rate=BUCKET.for_key)
async def both(ctx: rowlock.Context, key: str) -> None:
    await _noted(ctx, key)
