"""Lanes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rowlock.api.lane_names import LANE_NAMES
from rowlock.api.schemas import fields
from rowlock.api.schemas.base import DAY, YEAR, Answer, Body, DurationInput, doc, seconds
from rowlock.api.schemas.fields import Text
from rowlock.api.schemas.limits import RATE_EXAMPLE, RateLimitAnswer, RateLimitBody
from rowlock.model.lane import Lane

LaneOrder = Literal["fast", "strict", "fair"]
KindNames = Annotated[list[Text], Field(max_length=1000)]
_KINDS = "Kinds that the lane serves; `*` stands for all that no other lane names"
_SLOTS = "Jobs at once per worker process"
_MAX_TOTAL = "Jobs at once over all workers"
_ORDER = "fast: by priority and age, approximate under load; strict: exact; fair: tenants take turns"
_POLL = "between two looks of an idle lane"
_HEARTBEAT = "A worker silent for this long is lost, and its jobs with it"
_PROGRESS = "A running job that reports nothing for this long is given up"
_AGING = "A waiting job rises by one priority per interval"
_RATE = "How often jobs of the lane may start, over all workers"
_APPROVAL = "Whether every job that is enqueued for the lane waits for approval"
_ENABLED = "Whether the lane starts jobs"
NAME_PATTERN = r"^[\w.*-]+$"
Poll = Annotated[float, DurationInput(0.01, DAY)]
Timeout = Annotated[float, DurationInput(1, YEAR)]
ProgressTimeout = Annotated[float, DurationInput(5, YEAR)]


class LaneAnswer(Answer):
    """A lane: a share of the workers for some kinds."""

    name: Annotated[str, doc("Name of the lane.", "reports")]
    kinds: Annotated[list[str], doc(f"{_KINDS}.", ["render_report"])]
    slots: Annotated[int, doc(f"{_SLOTS}.", 2)]
    max_total: Annotated[int | None, doc(f"{_MAX_TOTAL}; null: no cap.", 8)]
    order: Annotated[LaneOrder, doc(f"{_ORDER}.", "fast")]
    poll_interval: Annotated[float, doc(f"Seconds {_POLL}.", 5.0)]
    heartbeat_timeout: Annotated[float, doc(f"{_HEARTBEAT}; seconds.", 60.0)]
    progress_timeout: Annotated[float | None, doc(f"{_PROGRESS}; seconds; null: never.", 600.0)]
    requires_approval: Annotated[bool, doc(f"{_APPROVAL}.", False)]
    rate: Annotated[RateLimitAnswer | None, doc(f"{_RATE}; null: no limit.", RATE_EXAMPLE)]
    aging_interval: Annotated[float | None, doc(f"{_AGING}; seconds; null: never.", 300.0)]
    enabled: Annotated[bool, doc(f"{_ENABLED}.", True)]
    version: fields.Version
    updated_at: fields.UpdatedAt

    @classmethod
    def of(cls, lane: Lane, **more: Any) -> Any:  # noqa: ANN401 - a subclass of itself
        """From the desk's value. more: fields of a subclass."""
        return cls(
            name=lane.name,
            kinds=list(lane.kinds),
            slots=lane.slots,
            max_total=lane.max_total,
            order=lane.order,
            poll_interval=lane.poll_interval.total_seconds(),
            heartbeat_timeout=lane.heartbeat_timeout.total_seconds(),
            progress_timeout=seconds(lane.progress_timeout),
            requires_approval=lane.requires_approval,
            rate=None if lane.rate is None else RateLimitAnswer.of(lane.rate),
            aging_interval=seconds(lane.aging_interval),
            enabled=lane.enabled,
            version=lane.version,
            updated_at=lane.updated_at,
            **more,
        )


class _LaneBody(Body):
    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: object) -> object:
        return LANE_NAMES.get().read(values) if isinstance(values, dict) else values


class NewLane(_LaneBody):
    """A lane to create. Only `name` is required."""

    name: Annotated[str, doc("Name of the lane.", "reports", min_length=1, max_length=100, pattern=NAME_PATTERN)]
    kinds: Annotated[KindNames, doc(f"{_KINDS}.", ["render_report"])] = Field(default_factory=list)
    slots: Annotated[int, doc(f"{_SLOTS}.", 2, ge=0, le=100_000)] = 10
    max_total: Annotated[int | None, doc(f"{_MAX_TOTAL}; null: no cap.", 8, ge=0, le=2_000_000_000)] = None
    order: Annotated[LaneOrder, doc(f"{_ORDER}.", "fast")] = "fast"
    poll_interval: Annotated[Poll, doc(f"Time {_POLL}.", "5s")] = 5.0
    heartbeat_timeout: Annotated[Timeout, doc(f"{_HEARTBEAT}.", "1m")] = 60.0
    progress_timeout: Annotated[ProgressTimeout | None, doc(f"{_PROGRESS}; null: never.", "10m")] = None
    rate: Annotated[RateLimitBody | None, doc(f"{_RATE}; null: no limit.", {"amount": 100, "per": "1m"})] = None
    aging_interval: Annotated[Timeout | None, doc(f"{_AGING}; null: never.", "5m")] = None


class LaneChange(_LaneBody):
    """Changes to a lane. Absent fields stay as they are; null removes a cap, timeout, rate or aging."""

    kinds: Annotated[KindNames | None, doc(f"{_KINDS}; null: unchanged.", ["render_report"])] = None
    slots: Annotated[int | None, doc(f"{_SLOTS}; null: unchanged.", 2, ge=0, le=100_000)] = None
    max_total: Annotated[int | None, doc(f"{_MAX_TOTAL}; null: no cap.", 8, ge=0, le=2_000_000_000)] = None
    order: Annotated[LaneOrder | None, doc(f"{_ORDER}; null: unchanged.", "fast")] = None
    poll_interval: Annotated[Poll | None, doc(f"Time {_POLL}; null: unchanged.", "5s")] = None
    heartbeat_timeout: Annotated[Timeout | None, doc(f"{_HEARTBEAT}; null: unchanged.", "1m")] = None
    progress_timeout: Annotated[ProgressTimeout | None, doc(f"{_PROGRESS}; null: never.", "10m")] = None
    requires_approval: Annotated[bool | None, doc(f"{_APPROVAL}; null: unchanged.", False)] = None
    rate: Annotated[RateLimitBody | None, doc(f"{_RATE}; null: no limit.", {"amount": 100, "per": "1m"})] = None
    aging_interval: Annotated[Timeout | None, doc(f"{_AGING}; null: never.", "5m")] = None
    enabled: Annotated[bool | None, doc(f"{_ENABLED}; null: unchanged.", True)] = None
