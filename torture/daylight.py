"""Nemeses of time: clocks of workers and of the server that change to summer time and back, and that are set."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from rowlock import Rowlock
from torture.scenario import Scenario
from torture.stage import STALE, TROUBLE, Failed, eventually
from torture.wall import MINUTE, Wall, changes

if TYPE_CHECKING:
    from torture.server import Server
    from torture.stage import Stage

LIBRARY: Final = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
RULES: Final = (
    "* * * * *", "*/15 * * * *", "0 * * * *", "30 2 * * *", "30 1 * * *", "0,30 1 * * *", "*/30 1 * * *", "15 2 * * *",
)  # fmt: skip
_YEAR: Final = 2027
_BEFORE, _AFTER, _HOP = timedelta(minutes=80), timedelta(minutes=100), timedelta(minutes=15)
_SLACK: Final = timedelta(seconds=30)
_DUE: Final = "SELECT NOT EXISTS (SELECT 1 FROM schedules WHERE enabled AND next_at <= clock_timestamp())"


class ServerClock:
    """The clock of a PostgreSQL under libfaketime: a file that every look at it reads says by how much it is off."""

    def __init__(self, server: Server) -> None:
        self._file = server.folder / "faketime"
        self.environment = {
            "LD_PRELOAD": str(LIBRARY[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.set(0)

    def set(self, offset: float) -> None:
        """Seconds ahead of the true time; at once for every process of the server."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{offset:+.3f}\n")
        draft.chmod(0o644)
        os.replace(draft, self._file)  # noqa: PTH105 - the same

    def show(self, moment: datetime) -> None:
        """It is that moment now."""
        self.set(moment.timestamp() - time.time())


class Daylight(Scenario):
    """Workers and a producer whose clocks change, forward and back, while the server's does not."""

    name = "dst"
    does = "clocks of workers and producer changed to summer time and back, in three zones (libfaketime)"
    bound = 3.0
    why = "only the database's clock decides"
    seconds = (10.0, 60.0)
    needs = "faketime"

    @override
    async def set_up(self, stage: Stage) -> None:
        stage.environment |= {"LD_PRELOAD": str(LIBRARY[0]), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        stage.worker(TZ=BERLIN, FAKETIME="@2027-03-28 01:59:55")
        stage.worker(TZ=NEW_YORK, FAKETIME="@2027-11-07 01:59:55")
        await stage.up(2)
        stage.producer(self.rate, TZ=LORD_HOWE, FAKETIME="@2027-04-04 01:59:55")

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        del stage
        await asyncio.sleep(seconds)


class ServerTime(Scenario):
    """Two workers on a server whose clock can be set; no producer, as what it would write down has another clock."""

    true_clock = False
    warm = 1
    needs = "faketime"
    lanes = f"default:kinds=*,slots=10,stale={STALE:.0f}s,poll=1s"

    _clock: ServerClock
    _problems: list[str]

    @override
    async def set_up(self, stage: Stage) -> None:
        self._problems = []
        self._clock = ServerClock(stage.server)
        stage.server.stop(signal.SIGINT)
        stage.server.start(self._clock.environment)
        stage.environment["ROWLOCK_LANES"] = self.lanes
        await self._renew(stage)
        await eventually(
            lambda: stage.ask("UPDATE schedules SET enabled = false WHERE name = 'ticks' RETURNING true"), "ticks", 20
        )
        await stage.ask(
            "INSERT INTO jobs (kind, args) SELECT 'plain', jsonb_build_object('tag', 'warm-' || n)"
            " FROM generate_series(1, 50) n"
        )

    async def _renew(self, stage: Stage, moment: datetime | None = None) -> None:
        """Two new workers, at that moment; those before leave first, so that nobody is silent for months."""
        for worker in stage.workers:
            worker.expendable = True
            worker.signal(signal.SIGTERM)
            if (code := await worker.end(20)) != 0:
                self._problems.append(f"{worker.name} ended with {code} when told to stop: {worker.said[-500:]}")
        if moment is not None:
            self._clock.show(moment)
            await self._shows(stage, moment)
        for _ in range(2):
            stage.worker()
        await stage.up(2)

    async def _shows(self, stage: Stage, moment: datetime) -> None:
        """A clock that does not move would prove nothing."""
        shown = await eventually(lambda: stage.ask("SELECT clock_timestamp()"), "the server's clock", 20)
        if not moment - _SLACK < shown < moment + _SLACK:
            raise Failed(f"the server shows {shown} instead of {moment}: is libfaketime at work in it?")

    @override
    async def judge(self, stage: Stage) -> list[str]:
        del stage
        return self._problems

    @override
    async def tear_down(self, stage: Stage) -> None:
        for process in stage.processes:
            await process.end(0)
        stage.server.stop(signal.SIGINT)
        stage.server.start()


class ServerDaylight(ServerTime):
    """The server's time goes over changes of clocks, with schedules in the zones that change and in others."""

    name = "dst-server"
    does = "the server's time moved over clock changes of three zones, schedules in each (libfaketime)"
    bound = 5.0
    why = "every slot once, as an oracle counts them that looks at every minute"
    seconds = (1.0, 60.0)
    lanes = "default:kinds=*,slots=10,stale=24h,poll=1s"

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        every = sorted((change, tz) for tz in (BERLIN, NEW_YORK, LORD_HOWE) for change in changes(tz, _YEAR))
        short = [pair for n, pair in enumerate(every) if n in (0, 2, 5)]
        fired = 0
        for change, _ in every if seconds >= self.seconds[1] else short:
            fired += await self._journey(stage, change)
        stage.notes["slots"] = float(fired)

    async def _journey(self, stage: Stage, change: datetime) -> int:
        """From before a change to after it, a quarter of an hour at a time."""
        start = change - _BEFORE
        await self._renew(stage, start)
        names = await self._schedules(stage, change)
        moment = start
        while moment < change + _AFTER:
            moment += _HOP
            self._clock.show(moment)
            await eventually(partial(stage.ask, _DUE), "what is due", 30)
        until = await stage.ask("SELECT clock_timestamp()")
        await eventually(partial(stage.ask, _DUE), "what is due", 30)
        await stage.ask(
            "WITH done AS (UPDATE schedules SET enabled = false WHERE enabled RETURNING 1) SELECT count(*) FROM done"
        )
        return sum([await self._compare(stage, name, text, tz, until) for name, (text, tz) in names.items()])

    async def _schedules(self, stage: Stage, change: datetime) -> dict[str, tuple[str, str]]:
        names = {
            f"{change:%m%d} {tz.rpartition('/')[2]} {text.replace('/', ':')}": (text, tz)
            for tz in (BERLIN, NEW_YORK, LORD_HOWE)
            for text in RULES
        }
        async with Rowlock(stage.server.at(stage.database)) as app:
            for name, (text, tz) in names.items():
                await app.schedules.create(
                    name, "plain", text, tz=tz, missed="all", most_missed=10_000, args={"tag": name}
                )
        return names

    async def _compare(self, stage: Stage, name: str, text: str, tz: str, until: datetime) -> int:
        created = await stage.ask("SELECT created_at FROM schedules WHERE name = $1", name)
        stored = await stage.ask(
            "SELECT coalesce(array_agg(meta ->> 'slot'), '{}') FROM jobs WHERE meta ->> 'schedule' = $1", name
        )
        fired = Counter(datetime.fromisoformat(slot) for slot in stored)
        first = created.astimezone(UTC).replace(second=0, microsecond=0) + MINUTE
        expected = Counter(slot for slot in Wall(text, tz).slots(first, until.astimezone(UTC)) if slot <= until)
        fired = Counter({slot: n for slot, n in fired.items() if slot <= until})
        self._problems += [f"{name}: {slot} is due and was not fired" for slot in expected - fired]
        self._problems += [f"{name}: {slot} was fired and is not due, or more than once" for slot in fired - expected]
        return sum(fired.values())


class ServerSteps(ServerTime):
    """Somebody sets the server's clock: an hour ahead, back by five minutes, and right again."""

    name = "clock-set"
    does = "the server's clock set ahead by an hour, back by 5 minutes, back by 55, and ahead again (libfaketime)"
    bound = 30.0
    why = "jobs asked for after the clock was set back are found by the sweep, within some 20 s"
    seconds = (4.0, 20.0)

    @override
    async def set_up(self, stage: Stage) -> None:
        await super().set_up(stage)
        async with Rowlock(stage.server.at(stage.database)) as app:
            await app.schedules.create("seconds", "plain", every="1s", args={"tag": "second"}, overlap="queue")

    @override
    async def torment(self, stage: Stage, seconds: float) -> None:
        async with Rowlock(stage.server.at(stage.database)) as app:
            for number, offset in enumerate((0, 3600, 3300, 0)):
                self._clock.set(offset)
                await self._shows(stage, datetime.now(UTC) + timedelta(seconds=offset))
                tag, until, asked = f"step-{number}", time.monotonic() + seconds, []
                while time.monotonic() < until:
                    try:
                        asked.append((await app.jobs.submit("plain", {"tag": tag, "seconds": 0.5})).job.id)
                    except TROUBLE:
                        stage.notes["errors"] = stage.notes.get("errors", 0.0) + 1
                    await asyncio.sleep(0.1)
                began = time.monotonic()
                await eventually(partial(self._ended, stage, asked), f"the jobs of {tag}", self.bound)
                stage.notes[f"final at step {number}"] = round(time.monotonic() - began, 1)
        # What was put off while the clock was ahead is due when it gets there.
        self._clock.set(3900)

    async def _ended(self, stage: Stage, asked: list[int]) -> bool:
        """Whether all are final but those that went back to the queue at a time that is still to come."""
        return bool(
            await stage.ask(
                "SELECT count(*) = 0 FROM jobs WHERE id = ANY ($1::bigint[]) AND finished_at IS NULL"
                " AND run_after < clock_timestamp() + interval '1 minute'",
                asked,
            )
        )

    @override
    async def judge(self, stage: Stage) -> list[str]:
        """Slots are missed when a clock jumps, as after an outage; that none has two jobs is what the checker sees."""
        await stage.ask("WITH gone AS (DELETE FROM schedules WHERE name = 'seconds') SELECT 1")
        return await super().judge(stage)


SCENARIOS = (Daylight, ServerDaylight, ServerSteps)
