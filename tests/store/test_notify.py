"""Messages that statements and database functions write themselves are those of rowlock.model.notify_messages."""

from __future__ import annotations

import asyncio
import re
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from tests.factories import Store, opened
from tests.waiting import until

from rowlock.model.notify_messages import AwaitedEnds, CancelRequested, ClaimsRevoked, Message, decode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

SAMPLES = {"wake": "[]", "cancel": "[1]", "lost": "[1]", "done": "[1]", "key": '"1","next":"2"'}


def test_every_message_that_sql_writes_is_known() -> None:
    store = files("rowlock.store")
    texts = [
        path.read_text()
        for folder in ("sql", "migrations")
        for path in store.joinpath(folder).iterdir()
        if path.name.endswith(".sql")
    ]
    keys = {key for text in texts for key in re.findall(r"pg_notify\([^;]*?json_build_object\('(\w+)'", text)}
    keys |= {key for text in texts for key in re.findall(r"notify_ids\([\w:]+, '(\w+)'", text)}
    keys |= {key for text in texts for key in re.findall(r"fragment: one_low\njson_build_object\('(\w+)'", text)}
    assert keys == SAMPLES.keys()
    for key, value in SAMPLES.items():
        assert decode(f'{{"{key}":{value}}}') is not None


MANY = 500
FIRST = 10**15


async def started(store: Store) -> list[int]:
    """Running jobs of one worker, as many as fit a batch, with ids of sixteen digits."""
    await store.execute(f"ALTER SEQUENCE {{s}}.jobs_id_seq RESTART WITH {FIRST}")
    await store.execute(f"INSERT INTO {{s}}.jobs (kind) SELECT 'k' FROM generate_series(1, {MANY})")
    await store.claim_some(await store.worker(), MANY)
    return list(range(FIRST, FIRST + MANY))


async def cancelled(store: Store, jobs: list[int]) -> list[int]:
    return await store.cancel_running(*jobs)


async def stopped(store: Store, jobs: list[int]) -> list[int]:
    return await store.stop(*jobs)


async def too_old(store: Store, _: list[int]) -> list[int]:
    await store.execute("UPDATE {s}.jobs SET too_old_at = '2001-01-01'")
    return await store.too_old()


async def awaited(store: Store, jobs: list[int]) -> list[int]:
    await store.execute(
        "INSERT INTO {s}.job_waiters SELECT id, gen_random_uuid(), now() + interval '1 hour' FROM {s}.jobs"
    )
    return await store.stop(*jobs)


@pytest.mark.parametrize(
    ("act", "sort"),
    [(cancelled, CancelRequested), (stopped, ClaimsRevoked), (too_old, ClaimsRevoked), (awaited, AwaitedEnds)],
    ids=lambda one: one.__name__,
)
async def test_messages_about_many_jobs_with_long_ids_are_split(
    database_url: str, act: Callable[[Store, list[int]], Awaitable[Sequence[object]]], sort: type[Message]
) -> None:
    said: list[Message | None] = []
    async with opened(database_url) as store, opened(database_url) as listener:
        await listener.connection.add_listener(
            store.database.channel, lambda *heard: said.append(decode(str(heard[3])))
        )
        jobs = await started(store)
        assert len(await act(store, jobs)) == MANY
        heard = await asyncio.wait_for(ids_heard(said, sort), 60)
    assert heard == set(jobs)


async def ids_heard(said: list[Message | None], sort: type[Message]) -> set[int]:
    def ids() -> set[int]:
        found = [message for message in said if isinstance(message, sort)]
        names = "keys" if sort is AwaitedEnds else "job_ids"
        return {number for message in found for number in getattr(message, names)}

    await until(lambda: len(ids()) == MANY)
    return ids()
