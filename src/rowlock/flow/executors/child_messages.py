"""The messages between a worker and its child process, and how they travel through the pipe.

Each message travels after its length. A child trusts its worker and gets pickled dataclasses; a worker does not trust
what a handler may have made its child write, and reads data alone (message_data). A `Request` has a number; the worker
answers it with a `Reply` of the same number.
"""

from __future__ import annotations

import logging
import pickle
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, Sequence

    from rowlock.flow.enqueue.workflow_growth import Growing
    from rowlock.flow.kinds.import_origin import Origin
    from rowlock.flow.locks.lock import LockRequest
    from rowlock.flow.progress.report import ReportSnapshot
    from rowlock.flow.run.attempt import StopReason
    from rowlock.model.outcome import Outcome
    from rowlock.settings import Settings

_LENGTH: Final = struct.Struct("!I")


# --- to the child ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartChild:
    """The first message: what the child needs before it can run jobs."""

    origin: Origin
    path: Sequence[str]
    """sys.path of the worker."""
    settings: Settings
    """The worker's: a command line or a test may have changed what the code says."""
    levels: Mapping[str, int]
    """Log levels of the worker: the root logger's ('') and Rowlock's own."""


@dataclass(frozen=True, slots=True)
class RunJob:
    """Run this claimed job. module: where its handler is defined. memory: bytes, None: no limit."""

    row: Mapping[str, Any]
    module: str
    memory: int | None


@dataclass(frozen=True, slots=True)
class StopJob:
    """Stop the attempt that runs."""

    reason: StopReason


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the request of that number: a value, or the error to raise."""

    number: int
    value: object = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class LockLostNotice:
    """The lock that the request of that number acquired is lost."""

    held: int
    why: str


# --- to the worker ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChildReady:
    """The application is imported; jobs can come."""


@dataclass(frozen=True, slots=True)
class ChildFailed:
    """The child cannot import the application or the handler, and ends."""

    why: str


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """What the attempt reported since the last snapshot."""

    snapshot: ReportSnapshot


@dataclass(frozen=True, slots=True)
class ForwardedLog:
    """A formatted log record."""

    record: Mapping[str, Any] = field(default_factory=dict)

    def emit(self) -> None:
        """Pass it to the logger of the same name in this process."""
        record = logging.makeLogRecord(dict(self.record))
        target = logging.getLogger(record.name)
        if target.isEnabledFor(record.levelno):
            target.handle(record)


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """The outcome of the attempt."""

    outcome: Outcome


# --- requests to the worker ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SaveReport:
    """Write the report now. checkpoint: JSON text, None: unchanged. The reply comes when it is committed."""

    number: int
    checkpoint: str | None


@dataclass(frozen=True, slots=True)
class LoadCheckpoint:
    """Reply: the checkpoint as JSON text, or None."""

    number: int


@dataclass(frozen=True, slots=True)
class LoadCursors:
    """Reply: a dict of ctx.resume() loops and how many elements of each are done."""

    number: int


@dataclass(frozen=True, slots=True)
class KeepItems:
    """Reply: the names of the items of this phase that earlier attempts finished."""

    number: int
    phase: str
    resume: bool


@dataclass(frozen=True, slots=True)
class ReadSignal:
    """Reply: the signal of that name as JSON text {payload, timed_out}, or None."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class ReadStepName:
    """Reply: the name of the job's workflow step, or None."""

    number: int


@dataclass(frozen=True, slots=True)
class AddSteps:
    """Add steps to the job's workflow. Reply: the rows that were written."""

    number: int
    growing: Growing


@dataclass(frozen=True, slots=True)
class AcquireLock:
    """Acquire this lock for the attempt. The reply comes when it is held."""

    number: int
    request: LockRequest


@dataclass(frozen=True, slots=True)
class ReleaseLock:
    """Release the lock that request `held` acquired, or stop waiting for it."""

    number: int
    held: int


ChannelRequest = SaveReport | LoadCheckpoint | LoadCursors | KeepItems | ReadSignal | ReadStepName | AddSteps
"""Calls of the attempt's channel."""
LockMessage = AcquireLock | ReleaseLock
Request = ChannelRequest | LockMessage
ToChild = StartChild | RunJob | StopJob | Reply | LockLostNotice
ToWorker = ChildReady | ChildFailed | ProgressSnapshot | ForwardedLog | AttemptEnded | Request


def pack_for_child(message: ToChild) -> bytes:
    """The bytes of a message to the child, its length first."""
    return framed(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))


async def receive_from_worker(reader: asyncio.StreamReader) -> ToChild:
    """The next message; IncompleteReadError when the worker is gone."""
    message: ToChild = pickle.loads(await next_frame(reader))  # noqa: S301 - from the process that started this one
    return message


def framed(data: bytes) -> bytes:
    """The bytes with their length first."""
    return _LENGTH.pack(len(data)) + data


async def next_frame(reader: asyncio.StreamReader) -> bytes:
    """The bytes of the next message; IncompleteReadError when the other side is gone."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return await reader.readexactly(length)
