"""The application of the workers that tests/webhooks/test_worker_killed.py kills."""

from __future__ import annotations

from rowlock import Rowlock

app = Rowlock()


@app.job
async def build() -> None: ...
