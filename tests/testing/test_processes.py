from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.testing.heavy import app, heavy

from rowlock.testing import Kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowlock.testing import Databases


@pytest.fixture
def kit(databases: Databases) -> Iterator[Kit]:
    with Kit(app, databases) as kit:
        yield kit


def test_a_kind_for_a_process_runs_where_the_tests_mocks_are(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.testing.heavy.weigh", lambda n: -n)
    heavy.enqueue_sync(n=1)
    (job,) = kit.drain_sync().runs
    assert job.result == [os.getpid(), -1]


def test_so_does_a_job_that_lost_its_worker(kit: Kit) -> None:
    kit.fail_next(heavy, OSError("first"))
    kit.lose_worker(heavy)
    heavy.enqueue_sync(n=1)
    assert kit.drain_sync().states == {"queued": 1}
    kit.travel_to_next_sync()
    assert kit.drain_sync().states == {"running": 1}
    kit.travel_sync("5m")
    (job,) = kit.drain_sync().runs
    assert job.result == [os.getpid(), 1]


async def test_and_one_that_a_worker_of_the_test_claims(kit: Kit) -> None:
    async with kit.worker():
        assert await (await heavy.enqueue(n=2)).wait(timeout=20) == [os.getpid(), 2]
