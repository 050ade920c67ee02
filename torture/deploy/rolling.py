"""Rolling deploys: workers and producers of two codes side by side, and the tables upgraded under both."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from rowlock.store.schema import migrate
from torture.deploy import AMOUNT, BURST
from torture.deploy import code as codes
from torture.deploy.watch import Watch
from torture.ledger import Line, read
from torture.scenario import Scenario
from torture.stage import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from torture.deploy.code import Code
    from torture.stage import Process, Stage

APP: Final = "torture.deploy.app:app"
PRODUCER: Final = "torture.deploy.producer"
HELD: Final = 1.0
"""Seconds that a transaction stays open once an upgrade waits for it."""
LONGEST_LOCK: Final = 1.0
"""Seconds that an upgrade may keep writers away from a table; a step's own statements take milliseconds."""
LONGEST_WAIT: Final = 0.6
"""Seconds that it may stand in line for that: 0.2, and what a busy machine adds."""
LONGEST_CALL: Final = 3.0
HEARD: Final = 4.0
"""Seconds in which a worker has heard that the tables are for newer code: two beats."""
_EXIT_DATABASE: Final = 3


_FAILED_JOB: Final = re.compile("(?:! failed|↻ retry) ")
"""How a line about a failed attempt begins; its traceback follows."""


class Rolling(Scenario):
    """What deploys have in common."""

    dropped = frozenset({"dropped"})
    seconds = (6.0, 60.0)

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._folders: list[Path] = []

    def folder(self) -> Path:
        """A new one for a code, gone afterwards."""
        self._folders.append(Path(tempfile.mkdtemp(prefix="rowlock-code-")))
        return self._folders[-1]

    @override
    async def tear_down(self, stage: Stage) -> None:
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)

    # --- who comes and goes ------------------------------------------------------------------------------------------

    async def worker(self, stage: Stage, code: Code) -> Process:
        """One that is up."""
        process = stage.worker(app=APP, **code.environment)
        await self.joined(stage, process)
        return process

    async def joined(self, stage: Stage, process: Process) -> None:
        """Wait until a worker is up."""
        up = "SELECT count(*) > 0 FROM workers WHERE state = 'up' AND pid = $1"
        await eventually(lambda: stage.ask(up, process.popen.pid), f"{process.name} to be up", 60)

    def producer(self, stage: Stage, code: Code) -> Process:
        """One that asks."""
        return stage.producer(self.rate, module=PRODUCER, **code.environment)

    async def leave(self, process: Process) -> None:
        """As a deploy ends it."""
        process.expendable = True
        process.signal(signal.SIGTERM)
        if (ended := await process.end(20)) != 0:
            self.problems.append(f"{process.name} ended with {ended} when told to stop: {process.said[-500:]}")

    async def kill(self, stage: Stage, process: Process) -> None:
        """As a machine ends it, in the middle of a job."""
        await stage.busy(process)
        process.expendable = True
        process.signal(signal.SIGKILL)

    async def says(self, stage: Stage, code: Code, *words: str, ends: int = 0, word: str = "") -> str:
        """Run a command of that code to its end, and see how it ends."""
        process = stage.command(*words, **code.environment)
        return await self.ends(process, ends=ends, word=word)

    async def ends(self, process: Process, *, ends: int = 0, word: str = "") -> str:
        """See how a process ends, what it says, and that it says so without a traceback but those of failed jobs."""
        came = await process.end(100)
        said = process.said
        if came != ends or word not in said or said.count("Traceback") > len(_FAILED_JOB.findall(said)):
            self.problems.append(
                f"{process.name} was to end with {ends} and {word!r}; it ended with {came}: {said[-700:]}"
            )
        return said

    # --- the tables --------------------------------------------------------------------------------------------------

    async def upgrade(self, stage: Stage, code: Code, *, down_to: int | None = None) -> None:
        """Move the tables while everybody works, and while somebody's transaction has written to them."""
        way = ("upgrade",) if down_to is None else ("downgrade", "--to", str(down_to))
        async with Watch(stage) as watch:
            async with written(stage):
                process = stage.command("schema", *way, **code.environment)
                await self.waiting(stage)
                await asyncio.sleep(HELD)
            await self.ends(process, word="is at version")
        self.tell(stage, watch)

    async def waiting(self, stage: Stage) -> None:
        """Wait until an upgrade waits for somebody's lock."""
        working = (
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'rowlock:schema'"
            " AND wait_event_type = 'Lock' AND datname = current_database()"
        )
        await eventually(lambda: stage.ask(working), "an upgrade that waits for a lock", 60)

    def tell(self, stage: Stage, watch: Watch) -> None:
        """Judge what it cost; the worst of several upgrades is reported."""
        for name, value in watch.notes(stage.ledger).items():
            stage.notes[name] = max(value, stage.notes.get(name, 0.0))
        for what, found, most in (
            ("held a lock that lets nobody write", watch.held, LONGEST_LOCK),
            ("waited for such a lock", watch.awaited, LONGEST_WAIT),
        ):
            self.problems += [
                f"an upgrade {what} for {value:.2f} s on {table}" for table, value in found.items() if value > most
            ]
        if stage.notes["longest call"] > LONGEST_CALL:
            self.problems.append(f"a call took {stage.notes['longest call']} s during an upgrade")

    # --- the verdict -------------------------------------------------------------------------------------------------

    @override
    async def judge(self, stage: Stage) -> list[str]:
        lines = [entry for entry in read(stage.ledger) if isinstance(entry, Line)]
        runs = [line for line in lines if line.what == "start"]
        for name in sorted({line.code for line in runs}, key=int):
            stage.notes[f"runs by code {name}"] = float(sum(line.code == name for line in runs))
        rated = set(await stage.ask("SELECT coalesce(array_agg(id), '{}') FROM jobs WHERE kind = 'rated'"))
        self.problems += [
            f"{process.name} complained: {line[:300]}"
            for process in stage.processes
            for line in process.said.splitlines()
            if process.name.startswith("worker") and " error: " in line and "claims nothing more" not in line
        ]
        return self.problems + over_the_rate(sorted(line.at for line in runs if line.job in rated))


@contextlib.asynccontextmanager
async def written(stage: Stage) -> AsyncIterator[None]:
    """A transaction that has written to the busiest table and stays open, as a forgotten one does."""
    connection = await stage.server.connect(stage.database)
    try:
        async with connection.transaction():
            await connection.execute("INSERT INTO rowlock.jobs (kind, args) VALUES ('nobody', '{}')")
            yield
            await connection.execute("DELETE FROM rowlock.jobs WHERE kind = 'nobody'")
    finally:
        connection.terminate()


def over_the_rate(starts: list[float]) -> list[str]:
    """Starts of rated jobs: in any span as many as the bucket gives. A start comes up to a second after its claim."""
    slack = 1.0
    for first, at in enumerate(starts):
        for n, later in enumerate(starts[first:], 1):
            if n > BURST + AMOUNT * (later - at + slack):
                return [f"{n} rated jobs started within {later - at:.2f} s"]
    return []


class NewCode(Rolling):
    """This code is the old one: the next comes, is taken back, and comes with tables that are not for the old one."""

    name = "new-code"
    does = (
        "rolling deploy of newer code: tables upgraded under load beside an open transaction, old and new workers and"
        " producers, SIGTERM and `kill -9`; then the code back, the tables back, and tables that take newer code"
    )
    bound = 30.0
    why = "one old worker is killed: heartbeat timeout, a round of rescue, suspects one by one"

    whole: ClassVar[bool] = True
    """False: only forward, one worker of each code and one producer; for those in a hurry."""

    @override
    async def set_up(self, stage: Stage) -> None:
        version = migrate.newest()
        self.old = codes.present(version)
        self.new = codes.with_step(self.folder(), version + 1, codes.FITS)
        # Where the tables went back, the next step is this one.
        self.newest = codes.with_step(self.folder(), version + (1 if self.whole else 2), codes.BREAKS)
        self.olds = [await self.worker(stage, self.old) for _ in range(1 + self.whole)]
        self.asking = self.producer(stage, self.old)

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        await self.upgrade(stage, self.new)
        self.news = [await self.worker(stage, self.new) for _ in range(1 + self.whole)]
        if self.whole:
            await self._forward(stage, seconds / 3)
            await self._back(stage, seconds / 3)
        else:
            await asyncio.sleep(seconds)
            self.olds += self.news
        await self._beyond(stage)
        await asyncio.sleep(seconds / 3)

    async def _forward(self, stage: Stage, seconds: float) -> None:
        """New ones beside old ones, then the old ones leave: one as told, one killed."""
        both = self.producer(stage, self.new)
        await asyncio.sleep(seconds)
        await self.leave(self.olds[0])
        await self.kill(stage, self.olds[1])
        await self.leave(self.asking)
        self.asking = both

    async def _back(self, stage: Stage, seconds: float) -> None:
        """The code of before starts on the tables of after; the tables follow once the new code is gone."""
        self.olds = [await self.worker(stage, self.old) for _ in range(2)]
        before = self.producer(stage, self.old)
        for process in [*self.news, self.asking]:
            await self.leave(process)
        self.asking = before
        await asyncio.sleep(seconds)
        await self.upgrade(stage, self.new, down_to=self.old.version)
        await self.says(stage, self.old, "schema", "verify", word="as it should be")

    async def _beyond(self, stage: Stage) -> None:
        """Tables that are not for the old code: it stops by itself and says why, and nothing of it starts again."""
        await self.upgrade(stage, self.newest)
        at = time.monotonic()
        for process in self.olds:
            process.expendable = True
            await self.ends(process, ends=_EXIT_DATABASE, word="Install a newer rowlock")
        last = max(
            (
                e.at
                for e in read(stage.ledger)
                if isinstance(e, Line) and e.what == "start" and e.code == str(self.old.version)
            ),
            default=at,
        )
        stage.notes["old code heard after"] = round(max(0.0, last - at), 1)
        if last - at > HEARD:
            self.problems.append(f"old code claimed {last - at:.1f} s after the tables said that it must not")
        if self.whole:
            again = stage.worker(app=APP, **self.old.environment)
            again.expendable = True
            await self.ends(again, ends=_EXIT_DATABASE, word="Install a newer rowlock")
            for words in (("schema", "status"), ("doctor",)):
                await self.says(stage, self.old, *words, ends=_EXIT_DATABASE, word="newer rowlock")
        for _ in range(1 + self.whole):
            await self.worker(stage, self.newest)
