"""kill -9 of a worker between the end of a job and the delivery, and in the middle of a delivery: nothing is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.factories import opened
from tests.waiting import eventually, until_cancelled
from tests.webhook_receiver import LOOPBACK, receiving

from rowlock import Rowlock
from rowlock.model import webhook as model
from rowlock.settings import Settings

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator


@contextlib.contextmanager
def doomed(database_url: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of the command line in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rowlock", "worker", "--app", "tests.webhooks.killed_app:app", *options],
        env={
            **os.environ,
            "ROWLOCK_DATABASE_URL": database_url,
            "ROWLOCK_WEBHOOK_HTTP": "on",
            "ROWLOCK_WEBHOOK_NETWORKS": ",".join(LOOPBACK),
        },
        cwd=Path(__file__).parents[2],
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def kill(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def app(database_url: str) -> Rowlock:
    return Rowlock(settings=Settings(database_url, webhook_networks=LOOPBACK, webhook_http=True))


async def test_a_worker_that_dies_between_the_end_and_the_delivery_loses_no_message(
    app: Rowlock, database_url: str
) -> None:
    async with receiving() as receiver, app, opened(database_url) as store:
        made = await app.webhooks.add(receiver.url)
        await app.lanes.create("default", kinds=["*"])
        with doomed(
            database_url, "--lanes", "default"
        ) as process:  # serves no deliveries: dies before it could send one
            jobs = [await store.enqueue("build") for _ in range(20)]
            ended = "SELECT count(*) = 20 FROM {s}.jobs WHERE kind = 'build' AND state = 'completed'"
            await eventually(lambda: store.value(ended))
            kill(process)
        assert not receiver.messages
        assert len(await app.webhooks.deliveries(made.webhook.id)) == 20
        async with app.worker():
            messages = await receiver.received(20)
    assert {message.data["id"] for message in messages} == {job.public_id for job in await app.jobs.many(jobs)}
    await app.close()


async def test_a_worker_that_dies_while_it_sends_has_its_message_sent_again(app: Rowlock, database_url: str) -> None:
    async def silent(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await until_cancelled()

    async with receiving() as receiver, app, opened(database_url) as store:
        receiver.answers = [silent, "204 No Content"]
        made = await app.webhooks.add(receiver.url)
        await app.lanes.set(model.LANE, heartbeat_timeout="1s")
        await app.lanes.create("default", kinds=["*"], heartbeat_timeout="1s")
        with doomed(database_url) as process:
            await store.enqueue("build")
            await receiver.received()
            kill(process)
        async with app.worker():
            first, second = await receiver.received(2)
            (sent,) = await eventually(lambda: app.webhooks.deliveries(made.webhook.id, state="completed"))
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
    assert (sent.job.losses, sent.job.public_id) == (1, first.headers["webhook-id"])
