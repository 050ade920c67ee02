"""rowlock demo --serve: the dashboard on the demo's database, with a worker and traffic, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
from typing import TYPE_CHECKING, Final

from rowlock.app import Rowlock
from rowlock.cli.process.demo.sample_jobs import LANE, samples
from rowlock.cli.process.demo.traffic import FRONT, SLOW, DemoTraffic
from rowlock.cli.process.metrics import metrics_of
from rowlock.model.lane import Lane
from rowlock.settings import Settings

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_SEED: Final = 17


async def serve_demo(url: str, schema: str, listening: socket.socket, announce: Callable[[str], None]) -> None:
    """Serve until cancelled. announce: is told the link that opens the dashboard."""
    from rowlock.api.server import BackgroundServer

    said = Settings.from_env(os.environ)
    chosen = said.serve_token
    lanes = (Lane(LANE, slots=8), FRONT, SLOW)
    settings = Settings(
        database_url=url,
        schema=schema,
        lanes=lanes,
        app_version=said.app_version,
        instance="demo",
        instance_colour="purple",
    )
    token = chosen or secrets.token_urlsafe(32)
    async with Rowlock(settings=settings) as app:
        samples(app)
        traffic = DemoTraffic.declare(app, random.Random(_SEED))  # noqa: S311 - which sample comes next
        server = BackgroundServer(app, listening, metrics_of(app), token)
        async with server.serving() as address, app.worker():
            shown = "$ROWLOCK_SERVE_TOKEN" if chosen else token
            announce(f"{address}/auth/local?token={shown}")
            flowing = asyncio.create_task(traffic.flow(app))
            try:
                await flowing
            finally:
                flowing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await flowing
                logging.getLogger("rowlock").setLevel(logging.CRITICAL)
