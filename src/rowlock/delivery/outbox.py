"""Outbox: sends messages for jobs that are due, and again for those whose message was lost.

    due job  ->  reservation in job_deliveries  ->  message to the carrier  ->  its id in job_deliveries

There is one mechanism: a job needs a message if it is due and no message stands for its present stay in the queue. The
fast way looks only at the positions that a wake-up names, right after the commit. The slow way, a duty of upkeep, looks
at every waiting job of the carried kinds: it finds what no process announced, and what a broker lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeVar

from rowlock.delivery.backend import Message
from rowlock.errors import RowlockError
from rowlock.model import ids
from rowlock.model.lane import DEFAULT_LANE, EVERY_KIND, Lane, kinds_by_lane
from rowlock.outage_log import OutageLog
from rowlock.store import lanes as lane_rows
from rowlock.store.database import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from rowlock.delivery.backend import Delivery
    from rowlock.delivery.routes import Routes
    from rowlock.flow.kinds.handler import Handler
    from rowlock.model.queue_pair import Pair, PairStart
    from rowlock.store.database import Database, Record

logger = logging.getLogger("rowlock.delivery")
T = TypeVar("T")
EVERY: Final = timedelta(seconds=1)
"""Between two looks for undelivered jobs, by one process of an application."""
_UNSENT: Final = timedelta(seconds=10)
"""After that a reservation counts for nothing whose process has died before it sent the message."""
_SEND_WITHIN: Final = 10.0
"""Seconds for a batch of messages; a broker that takes longer counts as away."""
_BATCH: Final = 200
"""Messages sent at once."""
_MOST: Final = 10_000
"""Undelivered jobs that one look finds at most."""
_ASKED: Final = 1000
"""Messages that a carrier is asked for at once."""
_SETTLED: Final = timedelta(seconds=2)
"""A message that is younger is not asked for: its job may be claimed at this moment."""
_LANES_FOR: Final = 2.0
"""Seconds for which the lanes are known."""
_PAUSES: Final = (0.5, 1.0, 2.0, 5.0)
"""Seconds without a try after the first, second … failure of a carrier in a row."""
_LOOKS_APART: Final = 0.2
_TIMERS: Final = 60.0
"""Seconds; a job that is due later is left to the look."""


class Outbox:
    """The messages of one event loop."""

    def __init__(
        self,
        database: Callable[[], Database],
        routes: Routes,
        handlers: Mapping[str, Handler],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """now: only sets timers; the database decides what is due."""
        self._open, self._routes, self._handlers, self._monotonic, self._now = (
            database,
            routes,
            handlers,
            monotonic,
            now,
        )
        self._starts: dict[Pair, datetime] = {}
        self._look_now = False
        self._task: asyncio.Task[None] | None = None
        self._next_look = self._lanes_until = 0.0
        self._lanes: list[Lane] = []
        self._outages: dict[str, OutageLog] = {}
        self._failures: dict[str, int] = {}
        self._paused: dict[str, float] = {}
        self._trouble = OutageLog(logger, "jobs cannot be delivered now", "jobs are delivered again")

    # --- the fast way ------------------------------------------------------------------------------------------------

    def note(self, starts: Iterable[PairStart]) -> list[PairStart]:
        """Deliver new jobs of these pairs soon; returns the pairs that workers of Rowlock are to be woken for."""
        left = []
        for pair, start in starts:
            if self._routes.may_carry(pair[0]):
                self._starts[pair] = min(start, self._starts.get(pair, start))
            if not self._routes.always_carries(pair[0]):
                left.append((pair, start))
        if self._starts:
            self._begin()
        return left

    def look_soon(self) -> None:
        """Look everywhere soon: jobs became due without being announced by name."""
        if self._routes.active:
            self._look_now = True
            self._begin()

    def look_in(self, seconds: float) -> None:
        """look_soon() after so many seconds; what is due later than in a minute is left to the regular look."""
        if self._routes.active and seconds < _TIMERS:
            asyncio.get_running_loop().call_later(max(0.0, seconds) + 0.01, self.look_soon)

    def may_carry(self, kind: str) -> bool:
        """Whether jobs of this kind may need a message."""
        return self._routes.may_carry(kind)

    async def flush(self, *, within: float | None = None) -> None:
        """Wait until the messages of all noted jobs are sent. within: seconds at most; None: without a limit."""
        if self._starts or self._look_now:
            self._begin()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=within)

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send_noted(), name="rowlock-outbox")

    async def _send_noted(self) -> None:
        while self._starts or self._look_now:
            starts, self._starts = self._starts, {}
            try:
                if starts:
                    await self._deliver(self._due_now(starts))
                if self._look_now:
                    await asyncio.sleep(max(0.0, self._next_look - self._monotonic()))
                    self._look_now, began = False, self._monotonic()
                    await self.look()
                    self._next_look = self._monotonic() + max(_LOOKS_APART, 5 * (self._monotonic() - began))
            except (RowlockError, TimeoutError, *TRANSIENT) as error:
                # The jobs are in the table: the next look finds them.
                self._trouble.failed(error)
            except asyncio.CancelledError:
                self._starts = starts | self._starts
                raise
            else:
                if self._trouble.ongoing:
                    self._trouble.recovered()

    def _due_now(self, starts: Mapping[Pair, datetime]) -> dict[Pair, datetime]:
        """The pairs whose jobs are due; for the others a timer is set."""
        now, due = self._now(), {}
        for pair, start in starts.items():
            wait = (start - now).total_seconds()
            if wait <= 1:
                due[pair] = start
            if 0 < wait < _TIMERS:
                asyncio.get_running_loop().call_later(wait + 0.01, self.note, [(pair, start)])
        return due

    async def _deliver(self, starts: Mapping[Pair, datetime]) -> None:
        lanes = await self._read_lanes()
        places = self._places(lanes)
        plain: dict[Pair, datetime] = {}
        for pair, start in starts.items():
            lane, carrier = places.get(pair[0], (None, None))
            if carrier is None or lane is None or not lane.enabled or not self._is_ready(carrier):
                continue
            if lane.is_careful:
                self._look_now = True
            else:
                plain[pair] = start
        while plain:
            rows = await self._open().fetch(
                "reserve_started",
                kinds=[pair[0] for pair in plain],
                priorities=[pair[1] for pair in plain],
                shares=[pair[2] for pair in plain],
                lows=list(plain.values()),
                carriers=[places[pair[0]][1].name for pair in plain],
                unsent=_UNSENT,
                most=_BATCH,
            )
            if not await self._send(rows, places) or len(rows) < _BATCH:
                return

    # --- the slow way ------------------------------------------------------------------------------------------------

    async def look_if_elected(self) -> int:
        """The duty: look if no other process of this application did within the last second; returns the messages."""
        if not self._routes.active:
            return 0
        name = f"deliver {hashlib.sha256(' '.join(sorted(self._handlers)).encode()).hexdigest()[:12]}"
        if not await self._open().fetch("elect_deliverer", name=name, every=EVERY):
            return 0
        began = self._monotonic()
        sent = await self.look()
        took = round(1000 * (self._monotonic() - began))
        # Time spent on sending is no reason to look more rarely.
        if not sent:
            await self._open().fetch("duty_took", name=name, ms=took)
        return sent

    async def look(self) -> int:
        """Send messages for all due jobs that none stands for; returns how many were sent."""
        lanes = await self._read_lanes(fresh=True)
        places = {kind: place for kind, place in self._places(lanes).items() if self._is_ready(place[1])}
        if not places:
            return 0
        await self._find_lost(places)
        mosts = await self._room(places)
        wanted = [kind for kind in places if mosts[places[kind][0].name] > 0]
        if not wanted:
            return 0
        limits = [min(_MOST, mosts[places[kind][0].name]) for kind in wanted]
        found = await self._open().fetch("undelivered", kinds=wanted, mosts=limits)
        sent = 0
        for part in _parts(_within(found, places, mosts)):
            rows = await self._open().fetch(
                "reserve_ids",
                ids=[row["id"] for row in part],
                carriers=[places[row["kind"]][1].name for row in part],
                unsent=_UNSENT,
            )
            sent += await self._send(rows, places)
        return sent

    async def _find_lost(self, places: Mapping[str, tuple[Lane, Delivery]]) -> None:
        """Ask carriers for the messages that they should still have; those they lack are sent again."""
        kinds: defaultdict[Delivery, list[str]] = defaultdict(list)
        for kind, (_, carrier) in places.items():
            kinds[carrier].append(kind)
        for carrier, its in kinds.items():
            lost = _ASKED
            while lost == _ASKED:
                lost = await self._ask(carrier, its)

    async def _ask(self, carrier: Delivery, kinds: Sequence[str]) -> int:
        out = await self._open().fetch(
            "messages_out", kinds=list(kinds), carrier=carrier.name, settled=_SETTLED, most=_ASKED
        )
        if not out:
            return 0
        try:
            missing = frozenset(await _in_time(carrier.missing([row["backend_job_id"] for row in out])))
        except Exception as error:  # noqa: BLE001 - whatever the carrier's client raises
            self._failed(carrier, error)
            return 0
        lost = [row["id"] for row in out if row["backend_job_id"] in missing]
        if lost:
            logger.warning(
                "%s has lost %d messages, which are sent again: %s", carrier.name, len(lost), ids.listed(lost)
            )
            await self._open().fetch("undeliver", ids=lost, after=timedelta(0), counts=False)
        return len(lost)

    async def _room(self, places: Mapping[str, tuple[Lane, Delivery]]) -> dict[str, int]:
        """How many messages each lane may get now: a lane with a limit no more than can start."""
        room: dict[str, int] = {}
        for lane in {place[0].name: place[0] for place in places.values()}.values():
            room[lane.name] = _MOST if lane.enabled else 0
            if lane.enabled and lane.is_careful:
                kinds = [kind for kind, place in places.items() if place[0] is lane]
                (row,) = await self._open().fetch("delivery_load", kinds=kinds, lane=lane.name)
                room[lane.name] = max(0, lane.room - row["taken"])
        return room

    # --- both --------------------------------------------------------------------------------------------------------

    async def _read_lanes(self, *, fresh: bool = False) -> list[Lane]:
        if fresh or self._monotonic() >= self._lanes_until:
            self._lanes = self._with_hints(await lane_rows.read(self._open()))
            self._lanes_until = self._monotonic() + _LANES_FOR
        return self._lanes

    def _with_hints(self, rows: list[Lane]) -> list[Lane]:
        """The lanes, and those that the first worker would create: before it starts, a job may have to reach it."""
        named = {kind for lane in rows for kind in lane.kinds}
        hinted: defaultdict[str, list[str]] = defaultdict(list)
        for kind, handler in self._handlers.items():
            if handler.kind.lane is not None and kind not in named:
                hinted[handler.kind.lane].append(kind)
        lanes = {lane.name: lane for lane in rows}
        for name, kinds in hinted.items():
            lane = lanes.get(name, Lane(name))
            lanes[name] = replace(lane, kinds=(*lane.kinds, *kinds))
        if EVERY_KIND not in named:
            lanes.setdefault(DEFAULT_LANE.name, DEFAULT_LANE)
        return list(lanes.values())

    def _places(self, lanes: Iterable[Lane]) -> dict[str, tuple[Lane, Delivery]]:
        """Lane and carrier of every kind that has a carrier."""
        by_name = {lane.name: lane for lane in lanes}
        places = {}
        for name, kinds in kinds_by_lane(by_name.values(), self._handlers).items():
            for kind in kinds:
                if (carrier := self._routes.of(kind, name)) is not None:
                    places[kind] = (by_name[name], carrier)
        return places

    async def _send(self, rows: Sequence[Record], places: Mapping[str, tuple[Lane, Delivery]]) -> int:
        """Send messages for reserved jobs and note the carriers' ids; returns how many were sent."""
        by_carrier: defaultdict[Delivery, list[Record]] = defaultdict(list)
        for row in rows:
            by_carrier[places[row["kind"]][1]].append(row)
        return sum([await self._send_by(carrier, its, places) for carrier, its in by_carrier.items()])

    async def _send_by(
        self, carrier: Delivery, rows: Sequence[Record], places: Mapping[str, tuple[Lane, Delivery]]
    ) -> int:
        numbers = [row["id"] for row in rows]
        messages = [Message(ids.encode(row["id"]), row["kind"], places[row["kind"]][0].name) for row in rows]
        try:
            backend_ids = await _in_time(carrier.send(messages))
        except Exception as error:  # noqa: BLE001 - whatever the carrier's client raises; the jobs are in the table
            self._failed(carrier, error)
            await self._open().fetch("undeliver", ids=numbers, after=timedelta(0), counts=False)
            return 0
        self._failures.pop(carrier.name, None)
        if (outage := self._outages.pop(carrier.name, None)) is not None:
            outage.recovered()
        await self._open().fetch(
            "delivered",
            ids=numbers,
            fences=[row["fence"] for row in rows],
            backend_job_ids=list(backend_ids),
            again=carrier.redeliver_after,
        )
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s was told of %d jobs: %s", carrier.name, len(rows), ids.listed(numbers))
        return len(rows)

    def _is_ready(self, carrier: Delivery) -> bool:
        """False for a moment after a failure, so that a broker that is away is not asked at every enqueue."""
        return self._monotonic() >= self._paused.get(carrier.name, 0.0)

    def _failed(self, carrier: Delivery, error: BaseException) -> None:
        name = carrier.name
        fails = f"{name} takes no messages; jobs wait in the table"
        self._outages.setdefault(name, OutageLog(logger, fails, f"{name} takes messages again")).failed(error)
        failures = self._failures[name] = self._failures.get(name, 0) + 1
        self._paused[name] = self._monotonic() + _PAUSES[min(failures, len(_PAUSES)) - 1]


async def _in_time(work: Awaitable[T]) -> T:
    """The answer of a carrier, or a TimeoutError that says so."""
    try:
        return await asyncio.wait_for(work, _SEND_WITHIN)
    except TimeoutError:
        raise TimeoutError(f"its broker did not answer within {_SEND_WITHIN:g} s") from None


def _within(
    found: Iterable[Record], places: Mapping[str, tuple[Lane, Delivery]], room: Mapping[str, int]
) -> list[Record]:
    """The most urgent of these jobs, as many as their lanes have room for."""
    left, chosen = dict(room), []
    for row in found:
        lane = places[row["kind"]][0].name
        if left[lane] > 0:
            left[lane] -= 1
            chosen.append(row)
    return chosen


def _parts(rows: Sequence[Record]) -> list[Sequence[Record]]:
    return [rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH)]
