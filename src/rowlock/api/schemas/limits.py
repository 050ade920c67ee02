"""Rates, gates and locks."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import AwareDatetime

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import YEAR, Answer, Body, DurationInput, doc
from rowlock.api.schemas.fields import INSTANT, CountAnswer
from rowlock.model.rate import GateView, Rate, RateView

if TYPE_CHECKING:
    from rowlock.model.lock import LockUser, LockView

_MOST = 1_000_000_000
RATE_EXAMPLE = {"amount": 100, "per": 60.0, "burst": 100, "window": False}
Key = Annotated[str, doc("Key that jobs share.", "org:7")]
UsedAt = Annotated[datetime, doc("When a job last used it.", INSTANT)]
EditedAt = Annotated[datetime | None, doc("When a person last changed it; null: never.", INSTANT)]


class RateLimitAnswer(Answer):
    """How often jobs may start: `amount` per `per` seconds."""

    amount: Annotated[int, doc("How many jobs may start within `per`.", 100)]
    per: Annotated[float, doc("Length of the interval in seconds.", 60.0)]
    burst: Annotated[int | None, doc("Most starts at once after a pause; null for a sliding window.", 100)]
    window: Annotated[bool, doc("True: a sliding window that never exceeds `amount`; false: a token bucket.", False)]

    @classmethod
    def of(cls, rate: Rate) -> RateLimitAnswer:
        """From the value."""
        burst = None if rate.window else rate.burst
        return cls(amount=rate.amount, per=rate.per.total_seconds(), burst=burst, window=rate.window)


class RateLimitBody(Body):
    """A rate to set: `amount` starts per `per`."""

    amount: Annotated[int, doc("How many jobs may start within `per`.", 100, ge=1, le=_MOST)]
    per: Annotated[Annotated[float, DurationInput(0.001, YEAR)], doc("Length of the interval.", "1m")] = 1.0
    burst: Annotated[
        int | None, doc("Most starts at once after a pause; null: as `amount`. A window has none.", 100, ge=1, le=_MOST)
    ] = None
    window: Annotated[
        bool, doc("True: a sliding window that never exceeds `amount`; false: a token bucket.", False)
    ] = False

    def rate(self) -> Rate:
        """The value."""
        return Rate(self.amount, self.per, burst=self.burst, window=self.window)


class HolderAnswer(Answer):
    """A job that holds a place at a gate."""

    job_id: fields.PublicId
    kind: fields.Kind
    worker: Annotated[str | None, doc("Name of the worker that runs it; null: none yet.", "web-1:4711")]
    since: Annotated[datetime | None, doc("When the job started; null: it is about to.", INSTANT)]


class GateAnswer(Answer):
    """A gate: at most `limit` jobs of one key run at once."""

    key: Key
    limit: Annotated[int, doc("Most jobs of the key that run at once.", 3)]
    fifo: Annotated[bool, doc("True: jobs pass in the order in which they came.", False)]
    held: Annotated[int, doc("Places that are taken.", 3)]
    parked: Annotated[CountAnswer, doc("Jobs that wait at the gate.", {"value": 12, "exact": True})]
    used_at: UsedAt
    edited_at: EditedAt
    holders: Annotated[list[HolderAnswer], doc("Jobs that hold a place; empty in a list of gates.")]

    @classmethod
    def of(cls, gate: GateView) -> GateAnswer:
        """From the desk's value."""
        return cls(
            key=gate.key,
            limit=gate.limit,
            fifo=gate.fifo,
            held=gate.held,
            parked=CountAnswer.of(gate.parked),
            used_at=gate.used_at,
            edited_at=gate.edited_at,
            holders=[
                HolderAnswer(job_id=each.public_id, kind=each.kind, worker=each.worker, since=each.since)
                for each in gate.holders
            ],
        )


class GatesAnswer(Answer):
    """A page of gates by key; the next one begins with `after` set to the last key."""

    items: Annotated[list[GateAnswer], doc("Gates of this page.")]


class GateChange(Body):
    """Changes to a gate. Absent and null fields stay as they are."""

    limit: Annotated[int | None, doc("Most jobs of the key that run at once; null: unchanged.", 3, ge=0, lt=2**31)] = (
        None
    )
    fifo: Annotated[bool | None, doc("True: jobs pass in the order in which they came; null: unchanged.", True)] = None


class RateAnswer(Answer):
    """A rate and its use."""

    key: Annotated[str, doc("Key that jobs share; `lane:NAME` for the rate of a lane.", "org:7")]
    rate: Annotated[RateLimitAnswer, doc("How often jobs of the key may start.", RATE_EXAMPLE)]
    available: Annotated[int, doc("How many jobs may start now.", 12)]
    waiting: Annotated[int, doc("About how many jobs wait for their turn.", 4)]
    busy_until: Annotated[datetime | None, doc("When the last waiting job has its turn; null: none waits.", INSTANT)]
    paused_until: Annotated[datetime | None, doc("Nothing of the key starts before; null: not paused.", INSTANT)]
    paused_by: Annotated[str | None, doc("Subject or handler that paused it; null: not paused.", "ada@example.com")]
    used_at: UsedAt
    edited_at: EditedAt

    @classmethod
    def of(cls, view: RateView) -> RateAnswer:
        """From the desk's value."""
        values = {name: getattr(view, name) for name in cls.model_fields if name != "rate"}
        return cls(**values, rate=RateLimitAnswer.of(view.rate))


class RatesAnswer(Answer):
    """A page of rates by key; the next one begins with `after` set to the last key."""

    items: Annotated[list[RateAnswer], doc("Rates of this page.")]


class RatePause(Body):
    """How long nothing of the key starts: `lasting` or `until`, one of them."""

    lasting: Annotated[
        Annotated[float, DurationInput(0.001, YEAR)] | None, doc("Length of the pause; null: give until.", "10m")
    ] = None
    until: Annotated[AwareDatetime | None, doc("End of the pause, with a time zone; null: give lasting.", INSTANT)] = (
        None
    )


class LockUserAnswer(Answer):
    """A process that holds a lock or waits for it."""

    process: Annotated[str, doc("Host and process id.", "web-1:4711")]
    job: Annotated[str | None, doc("Public id of its job; null: none, or one that you may not see.", fields.JOB_ID)]
    kind: Annotated[str | None, doc("Kind of that job; null as above.", "publish_edition")]
    since: Annotated[datetime, doc("Since when it holds or waits.", INSTANT)]

    @classmethod
    def of(cls, user: LockUser) -> LockUserAnswer:
        """From the desk's value."""
        return cls(process=user.process, job=user.public_id, kind=user.kind, since=user.since)


class LockAnswer(Answer):
    """A lock that is held or waited for."""

    namespace: Annotated[str, doc("Namespace of the lock.", "edition")]
    key: Annotated[str, doc("Key within the namespace.", "42")]
    holder: Annotated[LockUserAnswer | None, doc("Who holds it; null: it passes on at this moment.")]
    waiters: Annotated[list[LockUserAnswer], doc("Who waits for it, the longest wait first.")]

    @classmethod
    def of(cls, lock: LockView) -> LockAnswer:
        """From the desk's value."""
        return cls(
            namespace=lock.namespace,
            key=lock.key,
            holder=None if lock.holder is None else LockUserAnswer.of(lock.holder),
            waiters=[LockUserAnswer.of(waiter) for waiter in lock.waiters],
        )


class LocksAnswer(Answer):
    """Every lock that is held or waited for."""

    items: Annotated[list[LockAnswer], doc("Locks by namespace and key.")]
