"""Pipe: what a worker and its child process say to each other, and how it travels.

Both ends are this very code in processes of one user, so the messages are pickled dataclasses, each after its length.
"""

from __future__ import annotations

import logging
import pickle
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, Sequence

    from rowlock.flow.enqueue.workflow_growth import Growing
    from rowlock.flow.kinds.import_origin import Origin
    from rowlock.flow.locks.lock import Wish
    from rowlock.flow.progress.report import News
    from rowlock.flow.run.attempt import Reason
    from rowlock.model.outcome import Outcome
    from rowlock.settings import Settings

_LENGTH: Final = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class Hello:
    """To the child, first: what it needs before it can run anything."""

    origin: Origin
    path: Sequence[str]
    settings: Settings
    """The worker's: a command line or a test may have changed what the code says."""
    levels: Mapping[str, int]
    """Log levels of the worker: the root logger's ('') and Rowlock's own."""


@dataclass(frozen=True, slots=True)
class Run:
    """To the child: run this claimed job. module: where its handler is defined; memory: bytes, None: no limit."""

    row: Mapping[str, Any]
    module: str
    memory: int | None


@dataclass(frozen=True, slots=True)
class Stop:
    """To the child: stop the attempt under way."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Answer:
    """To the child: what came of question `number`."""

    number: int
    value: object = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """To the worker: the application is imported."""


@dataclass(frozen=True, slots=True)
class Broken:
    """To the worker: the child cannot work; it ends."""

    why: str


@dataclass(frozen=True, slots=True)
class Reported:
    """To the worker: what the attempt reported since the last time."""

    news: News


@dataclass(frozen=True, slots=True)
class Asked:
    """To the worker: a question, answered in JSON under the same number. Saving is one, too: the answer says it is.

    phase: of the items asked for; the name of a signal.
    """

    number: int
    what: Literal["save", "load", "cursors", "keep_items", "signal", "step_name"]
    checkpoint: str | None = None
    phase: str = ""
    resume: bool = False


@dataclass(frozen=True, slots=True)
class Grows:
    """To the worker: add these steps to the job's workflow; the answer says what became of them."""

    number: int
    growing: Growing


@dataclass(frozen=True, slots=True)
class Locking:
    """To the worker: get this lock for the attempt; the answer under the same number says that it has it."""

    number: int
    wish: Wish


@dataclass(frozen=True, slots=True)
class Unlocking:
    """To the worker: give back the lock of that number, or wait for it no longer."""

    number: int
    held: int


@dataclass(frozen=True, slots=True)
class LockGone:
    """To the child: the lock of that number is lost."""

    held: int
    why: str


@dataclass(frozen=True, slots=True)
class Logged:
    """To the worker: a log record, formatted."""

    record: Mapping[str, Any] = field(default_factory=dict)

    def emit(self) -> None:
        """Hand it to the logger of the same name in this process."""
        record = logging.makeLogRecord(dict(self.record))
        target = logging.getLogger(record.name)
        if target.isEnabledFor(record.levelno):
            target.handle(record)


@dataclass(frozen=True, slots=True)
class Ended:
    """To the worker: how the attempt ended."""

    outcome: Outcome


ToChild = Hello | Run | Stop | Answer | LockGone
ToWorker = Ready | Broken | Reported | Asked | Grows | Locking | Unlocking | Logged | Ended
Message = ToChild | ToWorker


def packed(message: Message) -> bytes:
    """A message as it travels."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


async def receive(reader: asyncio.StreamReader) -> Message:
    """The next message; IncompleteReadError when the other side is gone."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    message: Message = pickle.loads(await reader.readexactly(length))  # noqa: S301 - from our own child or parent
    return message
