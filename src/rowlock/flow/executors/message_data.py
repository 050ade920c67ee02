"""The messages of a child process as data: a worker that reads them runs no code that a child chose.

Handlers run code that nobody has vetted in their children, so what a child writes is parsed as JSON and becomes nothing
but plain values and the value classes listed here; pickle would let it call any function in the worker.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

from rowlock.errors import RowlockError
from rowlock.flow.executors import child_messages
from rowlock.flow.executors.child_messages import ToWorker

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable


class UnreadableMessage(RowlockError):
    """A child process has written something that is no message."""


def pack_for_worker(message: ToWorker) -> bytes:
    """The bytes of a message to the worker, its length first."""
    return child_messages.framed(dumps(message))


async def receive_from_child(reader: asyncio.StreamReader) -> ToWorker:
    """The next message; IncompleteReadError when the child is gone, UnreadableMessage when it wrote something else."""
    message = loads(await child_messages.next_frame(reader))
    if not isinstance(message, ToWorker):
        raise UnreadableMessage("A child process sent a value that is no message.")
    return message


def dumps(message: object) -> bytes:
    """A message as bytes; TypeError if it holds a class that is not listed."""
    return json.dumps(_Encoder().encode(message), separators=(",", ":")).encode()


def loads(data: bytes) -> Any:  # noqa: ANN401 - one of the listed classes
    """The message that dumps() wrote; UnreadableMessage if it did not."""
    try:
        return _Decoder().decode(json.loads(data))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        message = f"A child process sent a message that cannot be read: {type(error).__name__}."
        raise UnreadableMessage(message) from None


class _Encoder:
    """Lists stand for everything but plain values: their first element says what for."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        """Objects that were written, by identity: the steps of a workflow share most of their values."""
        self._kept: list[object] = []

    def encode(self, value: Any) -> Any:  # noqa: ANN401, PLR0911 - one return per sort of value
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, Enum):
            return ["enum", _name(type(value)), value.value]
        match value:
            case datetime():
                return ["instant", value.isoformat()]
            case timedelta():
                return ["span", value.days, value.seconds, value.microseconds]
            case str():
                return str(value)
            case dict():
                return ["map", [[self.encode(key), self.encode(item)] for key, item in value.items()]]
            case list():
                return ["list", [self.encode(item) for item in value]]
            case _ if type(value) is tuple:
                return ["tuple", [self.encode(item) for item in value]]
            case _:
                return self._object(value)

    def _object(self, value: Any) -> list[object]:  # noqa: ANN401 - an object of a listed class
        if (known := self._known.get(id(value))) is not None:
            return ["again", known]
        parts: Iterable[object] = value
        if is_dataclass(value):
            parts = [getattr(value, field.name) for field in fields(value)]
        written: list[object] = ["object", _name(type(value)), [self.encode(part) for part in parts]]
        self._known[id(value)] = len(self._kept)
        self._kept.append(value)
        return written


class _Decoder:
    """The other direction."""

    def __init__(self) -> None:
        self._made: list[object] = []

    def decode(self, value: Any) -> Any:  # noqa: ANN401, PLR0911 - one return per sort of value
        if not isinstance(value, list):
            return value
        match value:
            case ["map", pairs]:
                return {self.decode(key): self.decode(item) for key, item in pairs}
            case ["list", items]:
                return [self.decode(item) for item in items]
            case ["tuple", items]:
                return tuple(self.decode(item) for item in items)
            case ["instant", str() as text]:
                return datetime.fromisoformat(text)
            case ["span", int() as days, int() as seconds, int() as microseconds]:
                return timedelta(days, seconds, microseconds)
            case ["enum", str() as name, plain]:
                return _classes()[name](plain)
            case ["again", int() as known]:
                return self._made[known]
            case ["object", str() as name, list() as parts]:
                made = _made(_classes()[name], [self.decode(part) for part in parts])
                self._made.append(made)
                return made
            case _:
                raise ValueError(value)


def _made(cls: type, parts: list[object]) -> object:
    if not is_dataclass(cls):
        return cls(*parts)
    names = [field.name for field in fields(cls)]
    if len(names) != len(parts):
        raise ValueError(cls)
    # As it was in the child: its values were checked there, and a class may take other arguments than its fields.
    made = object.__new__(cls)
    for name, part in zip(names, parts, strict=True):
        object.__setattr__(made, name, part)
    return made


def _name(cls: type) -> str:
    name: str = cls.__name__
    if _classes().get(name) is not cls:
        raise TypeError(cls)
    return name


@cache
def _classes() -> dict[str, Any]:
    """Every class that a child may send, by name. Values only: making one does nothing else."""
    from rowlock.flow.enqueue import prepare, workflow_growth  # noqa: PLC0415 - few children add steps to a workflow
    from rowlock.flow.locks import lock  # noqa: PLC0415 - as above
    from rowlock.flow.progress import report  # noqa: PLC0415 - as above
    from rowlock.model import job, kind, outcome, progress, rate, workflow  # noqa: PLC0415 - as above

    listed: list[type] = [
        child_messages.ChildReady, child_messages.ChildFailed, child_messages.ProgressSnapshot,
        child_messages.ForwardedLog, child_messages.AttemptEnded, child_messages.SaveReport,
        child_messages.LoadCheckpoint, child_messages.LoadCursors, child_messages.KeepItems, child_messages.ReadSignal,
        child_messages.ReadStepName, child_messages.AddSteps, child_messages.AcquireLock, child_messages.ReleaseLock,
        report.ReportSnapshot, report.ItemUpdate, progress.Phase, progress.LogLine, progress.ItemState, job.Claim,
        outcome.Completed, outcome.CompletedWithErrors, outcome.Retried, outcome.Failed, outcome.Snoozed,
        outcome.Limited, outcome.Cancelled, outcome.Interrupted, outcome.Waiting, outcome.Unreadable, outcome.Died,
        outcome.Lost, lock.LockRequest, lock.LockOwner, workflow_growth.Growing, workflow_growth.NewStep,
        workflow.Edge, prepare.PreparedJob, job.NewJob, kind.Gate, rate.Rate,
    ]  # fmt: skip
    return {cls.__name__: cls for cls in listed}
