"""The upgrade from the release before: its own code, out of the history of this checkout, under the newest tables."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from rowlock.store.schema import migrate
from torture.deploy import code as codes
from torture.deploy.rolling import APP, HELD, NewCode, Rolling, written
from torture.deploy.watch import Watch
from torture.ledger import Line, read
from torture.stage import eventually

if TYPE_CHECKING:
    from torture.stage import Process, Stage

RELEASED: Final = 2
"""The newest step of the release before."""
_EXIT_DATABASE: Final = 3
_NOBODY: Final = (
    "SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = 'rowlock:schema'"
    " AND datname = current_database())"
)
_BALLAST: Final = """
INSERT INTO rowlock.jobs (kind, args, state, finished_at, fence, tenant, submitted_by)
SELECT 'ballast', '{}', CASE WHEN n % 20 = 0 THEN 'failed' ELSE 'completed' END, now() - n * interval '0.1 s', 2,
       CASE WHEN n % 2 = 0 THEN 'tenant-' || n % 50 END, 'somebody'
FROM generate_series(1, $1::integer) AS n
"""


class Upgrade(Rolling):
    """Old workers go on under an upgrade that is interrupted again and again, then beside new ones, then leave."""

    name = "upgrade"
    does = (
        "code and tables of the release before (step 2, from this history) under load: upgraded beside an open"
        " transaction, by upgraders that are killed (`kill -9`, `pg_terminate_backend`) and two at once; old and new"
        " side by side, an old worker started again, then the old ones leave, one by `kill -9`"
    )
    bound = 30.0
    why = (
        "a killed worker: heartbeat timeout, rescue, suspects one by one; steps behind one that old code ended wait 5 s"
    )
    rows: ClassVar[int] = 0
    """Finished jobs in the table."""

    @override
    def lacks(self) -> str:
        try:
            codes.last_of(RELEASED)
        except codes.NoHistory as error:
            return str(error)
        return ""

    @override
    async def set_up(self, stage: Stage) -> None:
        self.old = codes.earlier(RELEASED, self.folder())
        self.new = codes.present(migrate.newest())
        await stage.ask("DROP SCHEMA rowlock CASCADE")
        await self.says(stage, self.old, "schema", "upgrade", word=f"is at version {RELEASED}")
        if self.rows:
            connection = await stage.server.connect(stage.database)
            await connection.execute(_BALLAST, self.rows)
            await connection.execute("VACUUM ANALYZE rowlock.jobs")
            await connection.close()
        self.olds = [await self.worker(stage, self.old) for _ in range(2)]
        self.asking = self.producer(stage, self.old)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        waiting = stage.worker(app=APP, **self.new.environment)
        await eventually(lambda: _said(waiting, "this code needs"), "a new worker to wait for the tables", 90)
        await self._move(stage)
        await self.says(stage, self.new, "schema", "verify", word="as it should be")
        await self.joined(stage, waiting)
        await self._beside(stage, seconds)

    async def _move(self, stage: Stage) -> None:
        async with Watch(stage) as watch:
            async with written(stage):
                await self._interrupted(stage)
                both = [stage.command("schema", "upgrade", **self.new.environment) for _ in range(2)]
                await self.waiting(stage)
                await asyncio.sleep(HELD)
            said = [await self.ends(process, word=f"is at version {self.new.version}") for process in both]
        self.tell(stage, watch)
        if sum("nothing to do" in text for text in said) != 1:
            self.problems.append(f"of two upgrades at once one should find nothing to do: {said}")

    async def _interrupted(self, stage: Stage) -> None:
        """Killed while it waits for somebody's transaction; then its connection is ended there."""
        killed = stage.command("schema", "upgrade", **self.new.environment)
        await self.waiting(stage)
        killed.signal(signal.SIGKILL)
        await killed.end(5)
        began = time.monotonic()
        await eventually(lambda: stage.ask(_NOBODY), "the backend of a killed upgrade to notice", 30)
        stage.notes["a killed upgrade is noticed after"] = round(time.monotonic() - began, 1)
        ended = stage.command("schema", "upgrade", **self.new.environment)
        await self.waiting(stage)
        await stage.terminate("rowlock:schema")
        await self.ends(ended, ends=_EXIT_DATABASE)

    async def _beside(self, stage: Stage, seconds: float) -> None:
        """Old and new; an old worker that is started again comes back; then the old ones leave."""
        new_asking = self.producer(stage, self.new)
        await self.worker(stage, self.new)
        restarted = await self.worker(stage, self.old)
        await self.says(stage, self.old, "jobs", "ls", "--limit", "1")
        await asyncio.sleep(seconds)
        await self.leave(restarted)
        await self.leave(self.olds[0])
        await self.kill(stage, self.olds[1])
        await self.leave(self.asking)
        self.asking = new_asking

    @override
    async def judge(self, stage: Stage) -> list[str]:
        if self.rows:
            await stage.ask("DELETE FROM jobs WHERE kind = 'ballast'")
        problems = await super().judge(stage)
        runs = [entry for entry in read(stage.ledger) if isinstance(entry, Line) and entry.what == "start"]
        for kind in ("rated", "fresh"):
            ids = set(await stage.ask("SELECT coalesce(array_agg(id), '{}') FROM jobs WHERE kind = $1", kind))
            wrong = [line.job for line in runs if line.job in ids and line.code == str(RELEASED)]
            if wrong:
                problems.append(f"old code ran {kind} jobs, of which it knows nothing: {wrong[:5]}")
        steps = set(await stage.ask("SELECT coalesce(array_agg(id), '{}') FROM jobs WHERE workflow_id IS NOT NULL"))
        stage.notes["steps run by old code"] = float(
            sum(line.job in steps and line.code == str(RELEASED) for line in runs)
        )
        return problems


class UpgradeMillion(Upgrade):
    """A table with a history: the indexes take their time, and nobody waits for them."""

    name = "upgrade-million"
    does = "the same with a million finished jobs in the table, and an upgrade that nobody interrupts"
    rows = 1_000_000

    @override
    async def _interrupted(self, stage: Stage) -> None:
        await asyncio.sleep(0)


async def _said(process: Process, word: str) -> bool:
    return word in process.said


SCENARIOS = (NewCode, Upgrade, UpgradeMillion)
