"""Late commits, rollbacks, dead workers, zombies and retries at once; when traffic stops, everything becomes final."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tests.factories import Store, opened
from tests.waiting import busy_for, eventually

from rowlock.flow.claim.claimer import Claimer
from rowlock.flow.claim.cursors import Cursors
from rowlock.model.job import Claim
from rowlock.model.lane import Lane
from rowlock.store.connections.worker_connection import WorkerConnection
from rowlock.store.database import Database

KINDS = ["a", "b", "nobody registered me"]
TRANSACTIONS = 40


@dataclass
class Ledger:
    """What the clients saw, kept outside the database under test."""

    committed: set[int] = field(default_factory=set)
    accepted: Counter[int] = field(default_factory=Counter)
    owners: Counter[Claim] = field(default_factory=Counter)
    zombies: list[Claim] = field(default_factory=list)
    deaths: int = 0


async def produce(url: str, dice: Random, ledger: Ledger) -> None:
    """Transactions of one to five jobs; some commit only after others have, some roll back."""
    async with opened(url) as store:
        for _ in range(TRANSACTIONS):
            transaction = store.connection.transaction()
            await transaction.start()
            n = dice.randint(1, 5)
            jobs = [await store.enqueue(dice.choice(KINDS), priority=dice.choice([0, 5])) for _ in range(n)]
            if dice.random() < 0.2:
                await busy_for(dice.random() / 2)  # a request that takes its time
            if dice.random() < 0.1:
                await transaction.rollback()
                continue
            await transaction.commit()
            ledger.committed.update(jobs)


async def work(url: str, dice: Random, ledger: Ledger, ended: asyncio.Event) -> None:
    """Claims through its own cursors; sometimes dies, sometimes comes back from the dead, sometimes retries."""
    database = Database(url)
    link, cursors = WorkerConnection(database, "claim"), Cursors(time.monotonic)
    lane = Lane("all", kinds=("*",), slots=40)
    async with opened(database) as store:
        worker = await store.worker()
        claimer = Claimer(link, worker, cursors, KINDS)
        claimer.serve({"all": lane}, [lane])
        while not ended.is_set():
            await store.execute("UPDATE {s}.workers SET seen_at = clock_timestamp() WHERE id = $1", worker)
            rows = await store.fetch("pairs", kinds=KINDS)
            cursors.publish(((row["kind"], row["priority"], row["share"]), row["low_water"]) for row in rows)
            claims = [Claim(row["id"], row["fence"]) for row in await claimer.claim({"all": 20})]
            ledger.owners.update(claims)
            fate = dice.random()
            if claims and (fate < 0.1 or not ledger.deaths):
                await store.silence(worker)  # dies; another process takes its place
                if fate < 0.05 or not ledger.deaths:
                    ledger.zombies += claims
                ledger.deaths += 1
                worker = claimer._worker_id = await store.worker()
            elif claims and fate < 0.2:
                await store.give_back(*sorted(claims), delay=0.05)
            elif claims:
                ledger.accepted.update(await store.complete(*sorted(claims)))
            else:
                await busy_for(0.02)
    await link.close()


async def upkeep(store: Store, ledger: Ledger, ended: asyncio.Event) -> int:
    """Sweeps and rescues; then the zombies of the rescued come back. Returns how many of them were refused."""
    refused = 0
    while not ended.is_set():
        late, ledger.zombies = ledger.zombies, []
        await store.fetch("sweep")
        await store.rescue(max_losses=1000)
        await store.execute("UPDATE {s}.jobs SET run_after = clock_timestamp() WHERE losses > 0 AND state = 'queued'")
        if late:
            done = await store.complete(*sorted(late))
            ledger.accepted.update(done)
            refused += len(late) - len(done)
        await busy_for(0.1)
    return refused


async def test_nothing_is_lost_nothing_is_done_twice_and_everything_ends(database_url: str) -> None:
    ledger, ended, dice = Ledger(), asyncio.Event(), Random(7)  # noqa: S311 - a test's dice
    async with opened(database_url) as store, opened(database_url) as watcher:
        keeping = asyncio.create_task(upkeep(store, ledger, ended))
        working = [asyncio.create_task(work(database_url, Random(n), ledger, ended)) for n in range(3)]  # noqa: S311 - as above
        await asyncio.gather(*(produce(database_url, Random(dice.random()), ledger) for _ in range(3)))  # noqa: S311 - as above
        live = "SELECT NOT EXISTS (SELECT 1 FROM {s}.jobs WHERE finished_at IS NULL)"
        await eventually(lambda: watcher.value(live), within=30)
        ended.set()
        await asyncio.gather(*working)
        refused = await keeping
        rows = await watcher.connection.fetch("SELECT id, state FROM rowlock.jobs")
    assert {row["id"] for row in rows} == ledger.committed  # none lost, none rolled back yet present
    assert {row["state"] for row in rows} == {"completed"}
    assert set(ledger.accepted.values()) == {1}
    assert set(ledger.accepted) == ledger.committed
    assert set(ledger.owners.values()) == {1}  # never two owners of one fence
    assert refused > 0
