"""Every message that processes send each other over LISTEN/NOTIFY: one class each, encode() and decode().

A message only makes its receivers look sooner. All that it says is in the tables, too, and is found there without it.
The database functions and statements send some of them as JSON; tests/store/test_notify.py holds those to this file.

On the wire a message is a JSON object with one known key. Code of the release before shares the database, so keys stay
and their values only grow. decode() answers None to a message that this release does not know; receivers ignore it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rowlock.model.queue_pair import Pair

_LONGEST: Final = 7500
"""Bytes; PostgreSQL refuses payloads of 8000."""


@dataclass(frozen=True, slots=True)
class WakeUp:
    """Jobs are queued: for workers that serve their kinds. starts: the lowest run_after per pair; empty: any pair."""

    starts: Mapping[Pair, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Running jobs are to be cancelled. For the workers that run them."""

    job_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class ClaimsRevoked:
    """Running jobs are no longer their workers' (stopped, too old, stalled). For the workers that run them."""

    job_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class AwaitedEnds:
    """Awaited jobs have ended; a negative number: the workflow of that id. For the waiters."""

    keys: frozenset[int]


@dataclass(frozen=True, slots=True)
class LanesEdited:
    """A lane was created, changed or deleted. For every worker: any lane may take a kind from another."""


@dataclass(frozen=True, slots=True)
class SchedulesEdited:
    """A schedule was created, changed or deleted. For every worker that fires schedules."""


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """Workers are to drain. worker_ids None: the sender named none, so every worker asks whether it is meant."""

    worker_ids: frozenset[int] | None


@dataclass(frozen=True, slots=True)
class LockReleased:
    """A lock of the application is free: for those who wait for it. next_session: whose turn it is.

    next_n: the number of the session's waiter; None: sent by a schema that does not name it.
    """

    key: int
    next_session: int
    next_n: int | None = None


Message: TypeAlias = (
    WakeUp
    | CancelRequested
    | ClaimsRevoked
    | AwaitedEnds
    | LanesEdited
    | SchedulesEdited
    | DrainRequested
    | LockReleased
)


def encode(message: Message) -> str:
    """The payload of a NOTIFY. A message that is too long for one payload names nothing, so that all receivers look.

    Messages about jobs are written by the database function notify_ids(), which splits them.
    """
    text = json.dumps(_content(message), separators=(",", ":"))
    if len(text.encode()) < _LONGEST:
        return text
    match message:
        case WakeUp():
            return LOOK_EVERYWHERE
        case DrainRequested():
            return encode(DrainRequested(None))
        case _:
            longest = f"A message has less than {_LONGEST} bytes; this {type(message).__name__} has {len(text)}."
            raise ValueError(longest)


def encode_wake_up(starts: Mapping[Pair, datetime]) -> str:
    """The payload of a wake-up. With too many pairs for one message it names none: receivers look at all of theirs."""
    return encode(WakeUp(starts))


def _content(message: Message) -> dict[str, object]:  # noqa: PLR0911 - one return per message
    match message:
        case WakeUp(starts):
            return {"wake": [[*pair, start.timestamp()] for pair, start in starts.items()]}
        case CancelRequested(job_ids):
            return {"cancel": sorted(job_ids)}
        case ClaimsRevoked(job_ids):
            return {"lost": sorted(job_ids)}
        case AwaitedEnds(keys):
            return {"done": sorted(keys)}
        case LanesEdited():
            return {"lanes": 1}
        case SchedulesEdited():
            return {"schedules": 1}
        case DrainRequested(worker_ids):
            return {"drain": 1 if worker_ids is None else sorted(worker_ids)}
        case LockReleased(key, next_session, next_n):
            return {"key": str(key), "next": str(next_session)} | ({} if next_n is None else {"n": next_n})
        case _:
            assert_never(message)


LOOK_EVERYWHERE: Final = encode(WakeUp())
"""The payload of a wake-up that names no pair."""


def decode(payload: str) -> Message | None:
    """Read a payload; None: this release does not know such a message."""
    try:
        content = json.loads(payload)
        key = next((key for key in content if key in _READERS), None) if isinstance(content, dict) else None
        return None if key is None else _READERS[key](content)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _ids(values: list[Any]) -> frozenset[int]:
    return frozenset(map(int, values))


def _starts(lines: list[Any]) -> dict[Pair, datetime]:
    return {
        (str(kind), int(priority), int(share)): datetime.fromtimestamp(float(start), UTC)
        for kind, priority, share, start in lines
    }


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Message]]] = {
    "wake": lambda content: WakeUp(_starts(content["wake"])),
    "cancel": lambda content: CancelRequested(_ids(content["cancel"])),
    "lost": lambda content: ClaimsRevoked(_ids(content["lost"])),
    "done": lambda content: AwaitedEnds(_ids(content["done"])),
    "lanes": lambda _: LanesEdited(),
    "schedules": lambda _: SchedulesEdited(),
    "drain": lambda content: DrainRequested(_ids(content["drain"]) if isinstance(content["drain"], list) else None),
    "key": lambda content: LockReleased(
        int(content["key"]), int(content["next"]), int(content["n"]) if "n" in content else None
    ),
}
