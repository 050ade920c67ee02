"""The store driven by hand: one connection per Store, one method per statement a test needs."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from tests.waiting import eventually

from rowlock.desk.guard import TRUSTED
from rowlock.flow.claim.claimer import arguments, one_by_one
from rowlock.model.job import Claim, NewJob
from rowlock.store.database import Database
from rowlock.store.jobs.enqueue import values_of
from rowlock.store.queries import quoted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence

    from rowlock.model.rate import Rate
    from rowlock.store.database import Connection, Record

LONG_AGO = "timestamptz '2001-01-01'"
TOLD = (
    "INSERT INTO {s}.job_items (job_id, phase, name, fence, state) VALUES ($1, '', 'a', 0, 'failed')",
    "INSERT INTO {s}.job_logs (job_id, n, at, level, logger, message) VALUES ($1, 1, now(), 20, 'l', 'm')",
    "INSERT INTO {s}.job_checkpoints (job_id, checkpoint) VALUES ($1, '1')",
)
"""What a job may have told while it ran."""
ORDER = TRUSTED.signed("test", None, None)
OWNED = frozenset(
    {"complete", "complete_plain", "complete_hooked", "give_back", "give_back_hooked", "suspend"}
    | {"report_progress", "guard", "save_checkpoint"}
)
"""Statements of whoever holds the claims: tests that do not say who, mean the worker that got them."""
_OWNERS: dict[tuple[str, int, int], int] = {}


def beating(worker: int, *held: Claim, look: bool = True) -> dict[str, Any]:
    """What a worker that is well says with its beat."""
    claims = {"ids": [claim.job_id for claim in held], "fences": [claim.fence for claim in held]}
    return {
        "worker": worker,
        "hungry": True,
        "state": "up",
        "stuck": 0,
        "set_aside": None,
        "held": None,
        "memory": None,
        "look": look,
        **claims,
    }


class Store:
    """Statements of one database on a connection of its own."""

    def __init__(self, database: Database, connection: Connection[Record]) -> None:
        self.database, self.connection = database, connection
        self.pid = connection.get_server_pid()

    # --- plain access ------------------------------------------------------------------------------------------------

    async def fetch(self, name: str, /, **values: Any) -> list[Record]:  # noqa: ANN401 - the statement's
        statement = self.database.statements[name]
        if name in OWNED and "worker" not in values:
            claims = (values["ids"], values["fences"]) if "ids" in values else ([values["id"]], [values["fence"]])
            values["worker"] = await self._owner(*claims)
        if "only" in statement.parameters:
            values.setdefault("only", None)
        rows = await self.connection.fetch(statement.dollar, *statement.bind(values))
        if name.startswith("claim"):
            _OWNERS.update({(self.database.url, row["id"], row["fence"]): values["worker"] for row in rows})
        return rows

    async def _owner(self, ids: list[int], fences: list[int]) -> int:
        """Who got these claims: a flush is of one worker."""
        for claim in zip(ids, fences, strict=True):
            if (found := _OWNERS.get((self.database.url, *claim))) is not None:
                return found
        return int(await self.value("SELECT coalesce(max(claimed_by), 0) FROM {s}.jobs WHERE id = ANY ($1)", ids))

    async def one(self, name: str, /, **values: Any) -> Record:  # noqa: ANN401 - the statement's
        (row,) = await self.fetch(name, **values)
        return row

    async def execute(self, sql: str, *values: object) -> str:
        return await self.connection.execute(sql.replace("{s}", quoted(self.database.schema)), *values)

    async def value(self, sql: str, *values: object) -> Any:  # noqa: ANN401 - whatever the query says
        return await self.connection.fetchval(sql.replace("{s}", quoted(self.database.schema)), *values)

    async def row(self, job_id: int) -> Record:
        row = await self.connection.fetchrow(f"SELECT * FROM {quoted(self.database.schema)}.jobs WHERE id = $1", job_id)
        assert row is not None
        return row

    async def states(self, *job_ids: int) -> list[str]:
        return [(await self.row(job_id))["state"] for job_id in job_ids]

    async def clock(self) -> Any:  # noqa: ANN401 - a datetime
        return await self.value("SELECT clock_timestamp()")

    # --- making things -----------------------------------------------------------------------------------------------

    async def worker(self, name: str = "w") -> int:
        about = {"name": name, "host": "h", "pid": 1, "version": "0", "lanes": None, "kinds": ["k"]}
        row = await self.one("register_worker", **about, slots=None, supervisor=None, carriers=None)
        return int(row["id"])

    async def silence(self, worker: int, seconds: float = 3600) -> None:
        """Let the worker's last beat be that long ago."""
        await self.execute(
            "UPDATE {s}.workers SET seen_at = clock_timestamp() - make_interval(secs => $2) WHERE id = $1",
            worker,
            seconds,
        )

    async def enqueue(self, kind: str = "k", /, *, statement: str = "enqueue", **fields: Any) -> int:  # noqa: ANN401 - NewJob's
        row = await self.one(statement, args="{}", **values_of(NewJob(kind=kind, **fields)))
        return int(row["id"])

    async def kind(
        self, name: str, on_worker_lost: str, *, isolates: bool = False, max_losses: int | None = None
    ) -> None:
        """What a worker tells of a kind."""
        await self.fetch(
            "register_kinds",
            names=[name],
            on_worker_lost=[on_worker_lost],
            max_losses=[max_losses],
            isolates=[isolates],
            hooks=[None],
            defaults=[None],
        )

    async def gate(self, key: str, limit: int = 1, *, fifo: bool = False) -> None:
        await self.fetch("register_gates", keys=[key], limits=[limit], fifos=[fifo])

    async def lane(self, name: str, **fields: object) -> None:
        values = {"kinds": [], "slots": 10, "max_total": None, "ordering": "fast"} | fields
        poll, stale = values.pop("poll", "5 s"), values.pop("stale", "60 s")
        names = ", ".join(values)
        marks = ", ".join(f"${n}" for n in range(2, len(values) + 2))
        await self.execute(
            f"INSERT INTO {{s}}.lanes (name, poll_every, stale_after, {names})"
            f" VALUES ($1, interval '{poll}', interval '{stale}', {marks})",
            name,
            *values.values(),
        )
        await self.fetch("lane_cap", name=name)

    # --- a job's life ------------------------------------------------------------------------------------------------

    async def claim(self, worker: int, *job_ids: int, lane: str = "default") -> list[Claim]:
        rows = await self.fetch("claim_ids", worker=worker, lane=lane, ids=list(job_ids))
        started = [row for row in rows if not row["parked"]]
        return [Claim(row["id"], row["fence"]) for row in sorted(started, key=lambda row: int(row["id"]))]

    async def claim_some(
        self, worker: int, n: int, pairs: Iterable[tuple[str, int]] = (("k", 0),), *, take: int | None = None
    ) -> list[Record]:
        """The claim statement of a worker for one lane, from the beginning of each pair."""
        low = await self.value(f"SELECT {LONG_AGO}")
        probes = [((kind, priority, 0), low) for kind, priority in pairs]
        if take is None and len(probes) == 1:
            return await self.fetch("claim_pairs", **one_by_one(worker, {"default": n}, {"default": probes}))
        values = arguments(worker, {"default": n}, {"default": probes})
        return await self.fetch("claim", **values | {"takes": [n if take is None else take] * len(probes)})

    async def complete(self, *claims: Claim, state: str = "completed", **worker: int) -> list[int]:
        n = len(claims)
        row = await self.one(
            "complete_plain" if state == "completed" else "complete",
            **worker,
            channel=self.database.channel,
            ids=[claim.job_id for claim in claims],
            fences=[claim.fence for claim in claims],
            states=[state] * n,
            results=[None] * n,
            errors=[None] * n,
        )
        return list(row["ids"])

    async def give_back(
        self,
        *claims: Claim,
        delay: float = 0.0,
        refund: int = 0,
        outcome: str = "failed",
        death: int = 0,
        **worker: int,
    ) -> list[int]:
        n = len(claims)
        row = await self.one(
            "give_back",
            **worker,
            channel=self.database.channel,
            ids=[claim.job_id for claim in claims],
            fences=[claim.fence for claim in claims],
            states=["queued"] * n,
            deaths=[death] * n,
            delays=[delay] * n,
            refunds=[refund] * n,
            outcomes=[outcome] * n,
            errors=[None] * n,
        )
        return list(row["ids"])

    async def suspend(self, claim: Claim, signal: str, seconds: float | None = None) -> Record:
        return await self.one(
            "suspend",
            channel=self.database.channel,
            ids=[claim.job_id],
            fences=[claim.fence],
            signals=[signal],
            seconds=[seconds],
        )

    async def settled(self, worker: int, claim: Claim) -> bool:
        row = await self.one("settled", worker=worker, ids=[claim.job_id], fences=[claim.fence])
        return bool(row["applied"])

    async def guard(self, claim: Claim) -> bool:
        return bool(await self.fetch("guard", id=claim.job_id, fence=claim.fence))

    async def report(self, claim: Claim, checkpoint: str | None = None) -> bool:
        rows = await self.fetch(
            "report_progress",
            ids=[claim.job_id],
            fences=[claim.fence],
            phases=["p"],
            progress=["{}"],
            passed=[None],
            checkpoints=[checkpoint],
            cursors=[None],
        )
        return bool(rows)

    # --- orders ------------------------------------------------------------------------------------------------------

    async def _end(self, name: str, ids: Sequence[int], state: str, **more: object) -> list[int]:
        row = await self.one(name, ids=list(ids), state=state, error=None, channel=self.database.channel, **more)
        return list(row["ids"])

    async def cancel_waiting(self, *job_ids: int) -> list[int]:
        return await self._end("cancel_waiting", job_ids, "cancelled", **ORDER)

    async def cancel_running(self, *job_ids: int) -> list[int]:
        row = await self.one("cancel_running", ids=list(job_ids), channel=self.database.channel, **ORDER)
        return list(row["ids"])

    async def stop(self, *job_ids: int) -> list[int]:
        return await self._end("stop", job_ids, "cancelled", **ORDER)

    async def reject(self, *job_ids: int) -> list[int]:
        return await self._end("reject", job_ids, "cancelled", **ORDER)

    async def signal(self, job_id: int, name: str, payload: str = "null", by: str | None = None) -> Record:
        return await self.one("signal_send", id=job_id, name=name, payload=payload, by_whom=by)

    async def approve(self, *job_ids: int) -> list[int]:
        return [row["id"] for row in await self.fetch("approve", ids=list(job_ids), principal=False, **ORDER)]

    async def retry(self, *job_ids: int) -> list[Record]:
        return await self.fetch("retry", ids=list(job_ids), keep_items=False, **ORDER)

    async def edit(self, job_id: int, **change: object) -> Record:
        """Change what is given, of the job as it is now."""
        kept = dict.fromkeys(("args", "refs", "answer_in", "run_at", "run_in", "tags", "priority"))
        seq = (await self.row(job_id))["seq"]
        return await self.one(
            "edit",
            **{**kept, "id": job_id, "seq": seq, "before": "{}", "after": "{}", **ORDER, "verb": "edit", **change},
        )

    async def expire(self) -> list[int]:
        row = await self.one("expire", state="expired", error=None, channel=self.database.channel)
        return list(row["ids"])

    async def too_old(self) -> list[int]:
        row = await self.one("too_old", state="failed", error=None, channel=self.database.channel)
        return list(row["ids"])

    async def rescue(self, *, watched: str = "1 year", max_losses: int = 3) -> list[int]:
        """Judge as if this server and process had been up for long."""
        statement = self.database.statements["rescue"]
        text = statement.dollar.replace("pg_postmaster_start_time()", "'-infinity'::timestamptz")
        span = await self.value("SELECT $1::text::interval", watched)
        rows = await self.connection.fetch(
            text,
            *statement.bind(
                {"watched": span, "max_losses": max_losses, "channel": self.database.channel, "only": None}
            ),
        )
        return [row["id"] for row in rows]

    # --- several connections -----------------------------------------------------------------------------------------

    async def waits(self, pid: int) -> None:
        """Return once that backend waits for a lock."""
        await eventually(
            lambda: self.value("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1", pid)
        )

    async def blocked(self, other: Store, work: Awaitable[Any]) -> asyncio.Future[Any]:
        """Start the other store's work and return once it waits for a lock that somebody holds."""
        return await self.blocked_pid(other.pid, work)

    async def blocked_pid(self, pid: int, work: Awaitable[Any]) -> asyncio.Future[Any]:
        """Start work on the connection of that backend and return once it waits for a lock."""
        task = asyncio.ensure_future(work)
        async with opened(self.database) as watcher:
            await watcher.waits(pid)
        assert not task.done()
        return task


@contextlib.asynccontextmanager
async def opened(where: str | Database, *, guarded: bool = False) -> AsyncIterator[Store]:
    """A Store on a connection of its own."""
    database = Database(where) if isinstance(where, str) else where
    connection = await database.connect("test", guarded=guarded)
    try:
        yield Store(database, connection)
    finally:
        connection.terminate()


@contextlib.asynccontextmanager
async def several(where: str, n: int, *, guarded: bool = False) -> AsyncIterator[list[Store]]:
    """Stores that can wait for each other."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(opened(where, guarded=guarded)) for _ in range(n)]


async def rate(store: Store, key: str, said: Rate) -> None:
    await store.fetch(
        "register_rates",
        keys=[key],
        amounts=[said.amount],
        pers=[said.per],
        bursts=[said.burst],
        slidings=[said.window],
    )


async def rated(store: Store, n: int, *keys: str, **fields: Any) -> list[int]:  # noqa: ANN401 - NewJob's
    return [await store.enqueue(rate_keys=keys, **fields) for _ in range(n)]
