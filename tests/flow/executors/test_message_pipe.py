"""Messages between a worker and its child arrive as they were sent, one by one."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import is_dataclass
from datetime import UTC, datetime
from typing import get_args

import pytest

from rowlock.errors import ClaimLost
from rowlock.flow.executors import child_messages
from rowlock.flow.executors.child_messages import (
    ChannelRequest,
    ForwardedLog,
    KeepItems,
    ProgressSnapshot,
    Reply,
    SaveReport,
    StopJob,
    ToChild,
    ToWorker,
)
from rowlock.flow.executors.message_pipe import (
    pack_for_child,
    pack_for_worker,
    receive_from_child,
    receive_from_worker,
)
from rowlock.flow.progress.report import ItemUpdate, ReportSnapshot
from rowlock.model.job import Claim
from rowlock.model.progress import ItemState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SNAPSHOT = ReportSnapshot("build", 3, items={(Claim(1, 1), "build", "a"): ItemUpdate(ItemState.FAILED, NOW, NOW)})


async def test_messages_arrive_as_they_were_sent() -> None:
    to_worker: list[ToWorker] = [
        KeepItems(1, "build", resume=True),
        SaveReport(2, '{"page": 7}'),
        ProgressSnapshot(SNAPSHOT),
    ]
    reader = asyncio.StreamReader()
    reader.feed_data(b"".join(map(pack_for_worker, to_worker)))
    reader.feed_eof()
    assert [await receive_from_child(reader) for _ in to_worker] == to_worker
    with pytest.raises(asyncio.IncompleteReadError):
        await receive_from_child(reader)
    to_child: list[ToChild] = [StopJob("timeout"), Reply(1, ["a", "b"])]
    reader = asyncio.StreamReader()
    reader.feed_data(b"".join(map(pack_for_child, to_child)))
    assert [await receive_from_worker(reader) for _ in to_child] == to_child


async def test_an_error_travels_with_its_reply() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(pack_for_child(Reply(1, None, ClaimLost("gone"))))
    reply = await receive_from_worker(reader)
    assert isinstance(reply, Reply)
    assert isinstance(reply.error, ClaimLost)
    assert str(reply.error) == "gone"


def test_every_message_class_is_sent_in_one_direction() -> None:
    classes = {
        one
        for one in vars(child_messages).values()
        if isinstance(one, type) and is_dataclass(one) and one.__module__ == child_messages.__name__
    }
    to_child, to_worker = set(get_args(child_messages.ToChild)), set(get_args(child_messages.ToWorker))
    assert to_child | to_worker == classes
    assert not to_child & to_worker
    assert set(get_args(ChannelRequest)) < to_worker


def test_a_forwarded_record_reaches_the_logger_of_its_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="app.orders"):
        ForwardedLog({"name": "app.orders", "levelno": 20, "levelname": "INFO", "msg": "here"}).emit()
        ForwardedLog({"name": "app.orders", "levelno": 10, "levelname": "DEBUG", "msg": "not here"}).emit()
    assert [(record.name, record.getMessage()) for record in caplog.records] == [("app.orders", "here")]
