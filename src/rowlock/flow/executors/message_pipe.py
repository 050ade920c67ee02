"""How messages travel between a worker and its child process: through a pipe, each after its length.

A child trusts its worker and gets pickled dataclasses. A worker does not trust what a handler may have made its child
write, and reads data alone (message_data).
"""

from __future__ import annotations

import pickle
import struct
from typing import TYPE_CHECKING, Final

from rowlock.flow.executors import message_data
from rowlock.flow.executors.child_messages import ToWorker

if TYPE_CHECKING:
    import asyncio

    from rowlock.flow.executors.child_messages import ToChild

_LENGTH: Final = struct.Struct("!I")


def pack_for_child(message: ToChild) -> bytes:
    """The bytes of a message to the child, its length first."""
    return _framed(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))


def pack_for_worker(message: ToWorker) -> bytes:
    """The bytes of a message to the worker, its length first."""
    return _framed(message_data.dumps(message))


async def receive_from_worker(reader: asyncio.StreamReader) -> ToChild:
    """The next message; IncompleteReadError when the worker is gone."""
    message: ToChild = pickle.loads(await _next(reader))  # noqa: S301 - from the process that started this one
    return message


async def receive_from_child(reader: asyncio.StreamReader) -> ToWorker:
    """The next message; IncompleteReadError when the child is gone, UnreadableMessage when it wrote something else."""
    message = message_data.loads(await _next(reader))
    if not isinstance(message, ToWorker):
        raise message_data.UnreadableMessage("A child process sent a value that is no message.")
    return message


def _framed(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


async def _next(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return await reader.readexactly(length)
