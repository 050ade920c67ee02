"""Not a peer: a short hand-written asyncpg worker with a job's whole life, as the practical ceiling of a design.

Fenced claim, one asyncio task per job, JSON arguments, fenced completion, LISTEN with a poll behind it. Whatever
finished during the previous flush is sent by the next, on a connection of its own, so claims and completions overlap.
No retries, heartbeats, cancellation, events, logs, lanes or rescue.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, Final

import asyncpg

from bench import probe
from bench.driver import Driver, terminated

TABLE: Final = """
CREATE TABLE jobs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL DEFAULT 'default',
  task text NOT NULL DEFAULT 'noop', args jsonb NOT NULL DEFAULT '{}', priority smallint NOT NULL DEFAULT 0,
  state smallint NOT NULL DEFAULT 0, attempt integer NOT NULL DEFAULT 0, run_after timestamptz NOT NULL DEFAULT now(),
  claimed_by uuid, claimed_at timestamptz, finished_at timestamptz, created_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX jobs_ready ON jobs (queue, priority DESC, id) WHERE state = 0;
"""
CLAIM: Final = """
UPDATE jobs j SET state = 1, attempt = attempt + 1, claimed_by = $1::uuid, claimed_at = now()
FROM (SELECT id FROM jobs WHERE queue = 'default' AND state = 0 AND run_after <= now()
      ORDER BY priority DESC, id LIMIT $2 FOR UPDATE SKIP LOCKED) s
WHERE j.id = s.id RETURNING j.id, j.task, j.args, j.attempt
"""
FINISH: Final = """
UPDATE jobs j SET state = 2, finished_at = now() FROM unnest($1::bigint[], $2::integer[]) d(id, attempt)
WHERE j.id = d.id AND j.attempt = d.attempt AND j.state = 1
"""
_ONE: Final = """
WITH made AS (INSERT INTO jobs (args) VALUES ($1::jsonb) RETURNING id)
SELECT id, pg_notify('jobs', 'default') FROM made
"""
_MANY: Final = "INSERT INTO jobs (args) SELECT unnest($1::jsonb[]) RETURNING id"
_POLL: Final = 5.0
_BATCH: Final = 1000


def worker_id() -> str:
    """A claimant of its own per process."""
    return f"00000000-0000-0000-0000-{os.getpid():012d}"


class Minimal(Driver):
    """The hand-written worker."""

    async def install(self) -> None:
        """Make the table."""
        connection = await asyncpg.connect(self.url)
        await connection.execute(TABLE)
        await connection.close()

    async def open(self) -> None:
        """One connection, one statement at a time."""
        self._connection = await asyncpg.connect(self.url)
        self._turn = asyncio.Lock()

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()

    async def enqueue(self, number: int) -> None:
        """Insert and notify in one statement."""
        async with self._turn:
            await self._connection.fetch(_ONE, json.dumps({"number": number}))

    async def enqueue_many(self, jobs: int) -> None:
        """An array per statement."""
        text = json.dumps({"number": probe.UNNUMBERED})
        for done in range(0, jobs, _BATCH):
            await self._connection.fetch(_MANY, [text] * min(_BATCH, jobs - done))
        await self._connection.execute("SELECT pg_notify('jobs', 'default')")

    async def work(self) -> None:
        """Claim, run, finish, until SIGTERM."""
        await Loop(self.slots).run(*[await asyncpg.connect(self.url) for _ in range(3)])


class Loop:
    """The worker's state: how many run, what has finished and waits for its flush."""

    def __init__(self, slots: int) -> None:
        self._slots, self._running = slots, 0
        self._finished: list[tuple[int, int]] = []
        self._wake, self._room, self._dirty = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, claims: Any, finishes: Any, listens: Any) -> None:  # noqa: ANN401 - asyncpg connections
        """Until SIGTERM, then until everything claimed is finished."""
        stop = terminated()
        claim = await claims.prepare(CLAIM)
        flusher = asyncio.create_task(self._flush(await finishes.prepare(FINISH)))
        await listens.add_listener("jobs", lambda *_: self._wake.set())
        while not stop.is_set():
            free = self._slots - self._running
            if free < max(1, self._slots // 2):
                self._room.clear()
                await self._room.wait()
                continue
            self._wake.clear()
            rows = await claim.fetch(worker_id(), free)
            for row in rows:
                self._start(*row)
            await (asyncio.sleep(0) if len(rows) == free else self._look_again(stop))
        while self._running or self._finished:  # noqa: ASYNC110 - at the end, unmeasured
            await asyncio.sleep(0.01)
        flusher.cancel()

    async def _look_again(self, stop: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (stop, self._wake)]
        await asyncio.wait(waits, timeout=_POLL, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    def _start(self, number: int, _task: str, args: str, attempt: int) -> None:
        self._running += 1
        task = asyncio.create_task(self._one(number, args, attempt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _one(self, number: int, args: str, attempt: int) -> None:
        await noop(**json.loads(args))
        self._running -= 1
        self._finished.append((number, attempt))
        self._dirty.set()
        self._room.set()

    async def _flush(self, finish: Any) -> None:  # noqa: ANN401 - a prepared statement
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            batch, self._finished = self._finished, []
            if batch:
                await finish.fetch([number for number, _ in batch], [attempt for _, attempt in batch])


async def noop(number: int) -> None:
    """The measured job."""
    probe.hit(number)


def make() -> Driver:
    """The driver."""
    return Minimal()
