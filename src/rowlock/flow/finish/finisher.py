"""Finisher: writes outcomes in fenced batches, and keeps each until the database has acknowledged it.

Self-clocked: a flush sends all outcomes that came during the flush before it; no timer adds latency. A slot is free
only after its flush, so there are never more unwritten outcomes than slots.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from rowlock.flow.finish.set_aside_writes import SetAsideWrites
from rowlock.keep_running import keep_running
from rowlock.model import redact
from rowlock.model.outcome import (
    Cancelled,
    Completed,
    CompletedWithErrors,
    Died,
    Failed,
    Interrupted,
    Limited,
    Lost,
    Outcome,
    Retried,
    Snoozed,
    Unreadable,
    Waiting,
)
from rowlock.model.released_jobs import parse_released
from rowlock.model.state import SUCCESS, State
from rowlock.outage_log import OutageLog
from rowlock.set_aside import SetAside
from rowlock.store.batch_halving import in_halves
from rowlock.store.database import RACES, UNSERVED
from rowlock.store.jobs import finish as verbs
from rowlock.telemetry import id_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from rowlock.model.hook import Hook
    from rowlock.model.job import Claim
    from rowlock.model.queue_pair import PairStart
    from rowlock.model.released_jobs import ReleasedJob
    from rowlock.store.connections.worker_connection import WorkerConnection
    from rowlock.store.jobs.finish import Accepted
    from rowlock.telemetry import AttemptEvent

logger = logging.getLogger("rowlock.finish")
LARGEST: Final = 500
"""Outcomes per flush at most."""
_BACKOFF: Final = (0.05, 0.2, 0.5, 1.0, 2.0)
_RACES_LOST: Final = 3
"""So often a batch may lose a race before its rows are tried apart."""
_NOW: Final = timedelta(0)
_FAILED_ATTEMPT: Final = frozenset({"failed", "died"})


@dataclass(frozen=True, slots=True)
class FinalWrite:
    """The last write of an attempt that ends its job: to a final state."""

    state: str
    result: str | None = None
    error: str | None = None


_CLAIM: Final = itemgetter(0)
"""The claim of a PendingWrite: sorts by job, as the job id comes first in a claim."""
PLAIN: Final = FinalWrite(State.COMPLETED)
"""Completed without a result, as most jobs are."""


@dataclass(frozen=True, slots=True)
class RequeueWrite:
    """The last write of an attempt whose job runs again: back to the queue, or blocked until a signal comes."""

    outcome: str
    delay: timedelta
    refund: int
    """1: the attempt does not count."""
    error: str | None = None
    death: int = 0
    """1: counts as a death of the job's process."""
    state: str = State.QUEUED
    signal: str | None = None
    """The signal that the job waits for."""
    seconds: float | None = None
    """How long it waits for the signal at most; None: for ever."""
    rate_key: str | None = None
    """For the outcome "limited": the rate to pause; None: the job's own."""


def write_for(outcome: Outcome) -> FinalWrite | RequeueWrite | None:  # noqa: C901, PLR0911, PLR0912 - one return per outcome
    """The write of an outcome; None: the claim is lost, nothing may be written."""
    match outcome:
        case Completed(None):
            return PLAIN
        case Completed(result):
            return FinalWrite(State.COMPLETED, result)
        case CompletedWithErrors(result, errors):
            return FinalWrite(State.COMPLETED_WITH_ERRORS, result, json.dumps(errors))
        case Failed(error):
            return FinalWrite(State.FAILED, error=json.dumps(error))
        case Cancelled(error):
            return FinalWrite(State.CANCELLED, error=json.dumps(error) if error else None)
        case Retried(delay, error):
            return RequeueWrite("failed", delay, 0, json.dumps(error))
        case Snoozed(delay):
            return RequeueWrite("snoozed", delay, 1)
        case Limited(delay, key):
            return RequeueWrite("limited", delay, 1, json.dumps({"reason": "rate limited"}), rate_key=key)
        case Interrupted(reason):
            return RequeueWrite("interrupted", _NOW, 1, json.dumps({"reason": reason}))
        case Waiting(signal, timeout):
            seconds = None if timeout is None else timeout.total_seconds()
            return RequeueWrite("waiting", _NOW, 1, state=State.BLOCKED, signal=signal, seconds=seconds)
        case Unreadable(delay, error):
            return RequeueWrite("unreadable", delay, 1, json.dumps(error))
        case Died(delay, error, held):
            state = State.PENDING if held else State.QUEUED
            return RequeueWrite("died", delay, 1, json.dumps(error), death=1, state=state)
        case Lost():
            return None
        case _:
            assert_never(outcome)


def in_ascii(write: FinalWrite | RequeueWrite) -> FinalWrite | RequeueWrite | None:
    r"""The write for a database whose encoding lacks a character of it, with escapes such as \u4e2d; None: it is ASCII.

    A result that is changed so completes its job with errors: its work is done, but readers must know.
    """
    error = None if write.error is None else redact.json_in_ascii(write.error)
    if isinstance(write, RequeueWrite):
        return None if error == write.error else replace(write, error=error)
    result = None if write.result is None else redact.json_in_ascii(write.result)
    if result != write.result:
        about = {**json.loads(error or "{}"), "reason": "result changed"}
        about["errors"] = [*about.get("errors", ()), "the database's encoding lacks characters of the result: escaped"]
        return FinalWrite(State.COMPLETED_WITH_ERRORS, result, json.dumps(about))
    return None if error == write.error else replace(write, error=error)


class PendingWrite(NamedTuple):
    """The last write of an attempt, until it is acknowledged. A tuple: there is one for every job."""

    claim: Claim
    write: FinalWrite | RequeueWrite
    lane: str
    hooks: Mapping[str, Hook] | None = None
    event: AttemptEvent | None = None
    """Emitted once the write is acknowledged."""

    @property
    def hook(self) -> Hook | None:
        """The hook job that this write inserts."""
        return self.hooks.get(_hook_event(self.write)) if self.hooks else None


def _hook_event(write: FinalWrite | RequeueWrite) -> str:
    if isinstance(write, RequeueWrite):
        return "on_failure" if write.outcome in _FAILED_ATTEMPT else ""
    if write.state == State.FAILED:
        return "on_exhausted"
    return "on_success" if write.state in SUCCESS else ""


@dataclass(frozen=True, slots=True)
class FlushResult:
    """The answer to one flush."""

    accepted: Sequence[PendingWrite] = ()
    refused: Sequence[PendingWrite] = ()
    """Writes whose claim was gone."""
    promoted: int = 0
    """Places of gates that went to parked jobs."""
    again_at: datetime | None = None
    """When the first job that was given back is due."""
    hooks: Sequence[PairStart] = ()
    """The queues of the hook jobs that were inserted."""
    elsewhere: timedelta | None = None
    """How soon a job is due whose arguments this worker cannot read; another worker may."""
    released: Sequence[ReleasedJob] = ()
    """Workflow steps that waited for these jobs."""
    seconds: float = 0.0
    """How long the database took."""

    def and_also(self, other: FlushResult) -> FlushResult:
        """Both answers as one."""
        moments = [moment for moment in (self.again_at, other.again_at) if moment is not None]
        return FlushResult(
            [*self.accepted, *other.accepted],
            [*self.refused, *other.refused],
            self.promoted + other.promoted,
            min(moments, default=None),
            [*self.hooks, *other.hooks],
            self.elsewhere or other.elsewhere,
            [*self.released, *other.released],
            self.seconds + other.seconds,
        )


class Finisher:
    """Writes outcomes in batches on a connection of its own, so that claims and completions overlap."""

    def __init__(
        self,
        link: WorkerConnection,
        worker_id: int,
        on_flushed: Callable[[FlushResult], None],
        set_aside: SetAside | None = None,
    ) -> None:
        """set_aside: where outcomes are noted that the database does not take now."""
        self._worker_id, self._on_flushed, self._writer = worker_id, on_flushed, OutcomeWriter(link, worker_id)
        self._aside = SetAsideWrites(
            link.database,
            flush=self._flush_aside,
            on_flushed=self._tell,
            on_empty=self._check_idle,
            substitute=cannot_be_stored,
            jobs=SetAside(logger) if set_aside is None else set_aside,
        )
        self._waiting: list[PendingWrite] = []
        self._flushing: list[PendingWrite] = []
        self._void: list[PendingWrite] = []
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._outage = OutageLog(logger, "outcomes wait for the database", "outcomes are written again")

    def start(self) -> None:
        """Begin to write outcomes."""
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(keep_running("finish", self._run, logger), name="rowlock-finish"),
            loop.create_task(keep_running("set-aside", self._aside.run, logger), name="rowlock-set-aside"),
        ]

    def finish(self, write: PendingWrite) -> None:
        """Have an outcome written with the next flush."""
        self._waiting.append(write)
        if not self._work.is_set():
            self._idle.clear()
            self._work.set()

    def forget(self, claim: Claim) -> None:
        """Drop the unwritten outcomes of this claim; they count as refused."""
        self._void += [f for f in self._unwritten() if f.claim == claim]

    def _is_void(self, write: PendingWrite) -> bool:
        # By identity: the claim is held again, and its next outcome may be equal.
        return any(write is void for void in self._void)

    async def drained(self) -> None:
        """Wait until every outcome is acknowledged."""
        await self._idle.wait()

    def _unwritten(self) -> list[PendingWrite]:
        return [*self._flushing, *self._waiting, *self._aside.pending()]

    async def write_over(self, link: WorkerConnection) -> None:
        """Write what waits over another connection; called in the beat's thread while this loop is blocked.

        An outcome that was written before is refused by its fence.
        """
        batch = sorted((f for f in self._unwritten() if not self._is_void(f)), key=_CLAIM)
        writer = OutcomeWriter(link, self._worker_id)
        if batch:
            await in_halves(batch, lambda some: writer.write(some, again=False))

    async def stop(self) -> None:
        """Stop writing. Call it after drained(); the jobs of outcomes that are left are rescued later."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._aside.close()

    async def _run(self) -> None:
        # Left by a run of this loop that failed: they may have been written.
        again, self._waiting, self._flushing = bool(self._flushing), [*self._flushing, *self._waiting], []
        while True:
            await self._work.wait()
            while self._waiting:
                self._flushing, self._waiting = self._waiting[:LARGEST], self._waiting[LARGEST:]
                self._tell(await self._flush_or_set_aside(self._flushing, again=again))
                self._flushing, again = [], False
                if self._void:
                    self._void = [f for f in self._unwritten() if self._is_void(f)]
            self._work.clear()
            self._check_idle()

    def _tell(self, flushed: FlushResult) -> None:
        try:
            self._on_flushed(flushed)
        except Exception:  # the outcomes are written; the next ones must be, too
            logger.exception("the worker could not act on outcomes that were written")

    def _check_idle(self) -> None:
        if not (self._flushing or self._waiting or self._aside.pending()):
            self._idle.set()

    async def _flush_or_set_aside(self, batch: list[PendingWrite], *, again: bool = False) -> FlushResult:
        """Write the outcomes. Those that the database does not take, while it takes others, are set aside."""
        # All writers wait for job rows in id order.
        batch.sort(key=_CLAIM)
        for failures in range(2**31):
            try:
                flushed = await self._flush_valid(self._writer, batch, again=again)
            except Exception as error:  # noqa: BLE001 - an outcome is never dropped
                if not isinstance(error, UNSERVED) and not (isinstance(error, RACES) and failures < _RACES_LOST):
                    self._aside.add(batch, error)
                    return FlushResult()
                # The write may have been applied and only its acknowledgement lost: the next try settles that.
                again = True
                if isinstance(error, UNSERVED):
                    self._outage.failed(error)
                await asyncio.sleep(_BACKOFF[min(failures, len(_BACKOFF) - 1)])
            else:
                if self._outage.ongoing:
                    self._outage.recovered()
                return flushed
        raise AssertionError  # pragma: no cover - 2**31 failures take a century

    async def _flush_aside(self, link: WorkerConnection, batch: list[PendingWrite]) -> FlushResult:
        # The failure may have come after the first of two statements: its writes are settled, not lost.
        return await self._flush_valid(OutcomeWriter(link, self._worker_id), batch, again=True)

    async def _flush_valid(self, writer: OutcomeWriter, batch: list[PendingWrite], *, again: bool) -> FlushResult:
        if not self._void:
            return await writer.write(batch, again=again)
        void = FlushResult(refused=[f for f in batch if self._is_void(f)])
        return void.and_also(await writer.write([f for f in batch if not self._is_void(f)], again=again))


def cannot_be_stored(pending: PendingWrite, error: Exception) -> PendingWrite:
    """The write for a job whose outcome has a value that cannot be stored: in ASCII, or a failure with the reason."""
    if (readable := in_ascii(pending.write)) is not None:
        return pending._replace(write=readable)
    fields = {**id_fields(pending.claim.job_id), "fence": pending.claim.fence, "lane": pending.lane}
    logger.error("the outcome of job %s cannot be stored: %s", fields["job_id"], error, extra=fields)
    text = json.dumps({"reason": "outcome cannot be stored", "message": redact.in_ascii(str(error)[:2000])})
    return pending._replace(write=FinalWrite(State.FAILED, error=text))


class OutcomeWriter:
    """Writes one batch of outcomes over one connection."""

    def __init__(self, link: WorkerConnection, worker_id: int) -> None:
        self._link, self._worker_id = link, worker_id

    async def write(self, batch: list[PendingWrite], *, again: bool) -> FlushResult:
        """Write a batch that is sorted by claim. again: an earlier try may have been applied without an answer."""
        # Sorted by claim: of two claims of one job (rescued and claimed again here) the newer stays. Only that one can
        # be current, and a statement must not get two writes of one job.
        began = time.monotonic()
        newest = {f.claim.job_id: f for f in batch}
        writing = newest.values()
        ended = [f for f in writing if isinstance(f.write, FinalWrite)]
        returned = [f for f in writing if isinstance(f.write, RequeueWrite) and f.write.signal is None]
        waiting = [f for f in writing if isinstance(f.write, RequeueWrite) and f.write.signal is not None]
        answers = [await self._end(ended)] if ended else []
        if returned:
            answers.append(await self._give_back(returned))
        if waiting:
            answers.append(await self._suspend(waiting))
        lost: list[PendingWrite] = []
        if sum(len(answer.ids) for answer in answers) < len(batch):
            accepted = {newest[job_id].claim for answer in answers for job_id in answer.ids}
            lost = [f for f in batch if f.claim not in accepted]
            if again:
                applied = await self._applied_before(lost)
                lost = [f for f in lost if f.claim not in applied]
        refused = {f.claim for f in lost}
        return FlushResult(
            [f for f in batch if f.claim not in refused] if refused else batch,
            lost,
            sum(answer.promoted for answer in answers),
            min((answer.again_at for answer in answers if answer.again_at is not None), default=None),
            [((kind, 0, 0), answer.hooks_at) for answer in answers for kind in answer.hook_kinds if answer.hooks_at],
            min(
                (f.write.delay for f in batch if isinstance(f.write, RequeueWrite) and f.write.outcome == "unreadable"),
                default=None,
            ),
            [step for answer in answers for text in (answer.released, answer.resumed) for step in parse_released(text)],
            time.monotonic() - began,
        )

    async def _end(self, batch: list[PendingWrite]) -> Accepted:
        if all(f.write is PLAIN and not f.hooks for f in batch):
            return await verbs.complete_plain(self._link, self._claims(batch))
        endings: verbs.Endings = {
            "states": [f.write.state for f in batch],
            "results": [f.write.result for f in batch if isinstance(f.write, FinalWrite)],
            "errors": [f.write.error for f in batch],
        }
        return await verbs.complete(self._link, self._claims(batch), endings, _hook_jobs(batch))

    async def _give_back(self, batch: list[PendingWrite]) -> Accepted:
        writes = [f.write for f in batch if isinstance(f.write, RequeueWrite)]
        limited = [n for n, write in enumerate(writes) if write.outcome == "limited"]
        if limited:
            # Before the job goes back, so that its next claim finds the rate paused. Harmless if the next write fails.
            await verbs.pause_rates(
                self._link,
                ids=[batch[n].claim.job_id for n in limited],
                fences=[batch[n].claim.fence for n in limited],
                delays=[writes[n].delay.total_seconds() for n in limited],
                keys=[writes[n].rate_key for n in limited],
            )
        returns: verbs.Returns = {
            "states": [write.state for write in writes],
            "deaths": [write.death for write in writes],
            "delays": [write.delay.total_seconds() for write in writes],
            "refunds": [write.refund for write in writes],
            "outcomes": [write.outcome for write in writes],
            "errors": [write.error for write in writes],
        }
        return await verbs.give_back(self._link, self._claims(batch), returns, _hook_jobs(batch))

    async def _suspend(self, batch: list[PendingWrite]) -> Accepted:
        writes = [f.write for f in batch if isinstance(f.write, RequeueWrite)]
        return await verbs.suspend(
            self._link,
            self._claims(batch),
            signals=[write.signal for write in writes],
            seconds=[write.seconds for write in writes],
        )

    def _claims(self, batch: list[PendingWrite]) -> verbs.Claims:
        return {
            "worker": self._worker_id,
            "channel": self._link.database.channel,
            "ids": [f.claim.job_id for f in batch],
            "fences": [f.claim.fence for f in batch],
        }

    async def _applied_before(self, missing: list[PendingWrite]) -> set[Claim]:
        settled = await verbs.settled(
            self._link,
            worker=self._worker_id,
            ids=[f.claim.job_id for f in missing],
            fences=[f.claim.fence for f in missing],
        )
        return {found.claim for found in settled if found.applied}


def _hook_jobs(batch: list[PendingWrite]) -> verbs.HookJobs | None:
    """The hook jobs that these writes insert; None: no write has one."""
    hooks = [f.hook for f in batch] if any(f.hooks for f in batch) else ()
    if not any(hooks):
        return None
    return {
        "hooks": [None if hook is None else hook.kind for hook in hooks],
        "hook_attempts": [None if hook is None else hook.attempts for hook in hooks],
    }
