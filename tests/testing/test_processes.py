from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.testing.heavy import app, heavy

from rowlock import JobFailed
from rowlock.testing import Kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowlock.testing import Databases


@pytest.fixture
def kit(databases: Databases) -> Iterator[Kit]:
    with Kit(app, databases) as kit:
        yield kit


def test_a_kind_for_a_process_runs_in_one(kit: Kit) -> None:
    heavy.enqueue_sync(n=1)
    (job,) = kit.drain_sync().runs
    assert job.state == "completed"
    assert job.result != os.getpid()


def test_what_a_child_raised_is_told(kit: Kit) -> None:
    heavy.enqueue_sync(n=-1)
    with pytest.raises(JobFailed, match="no -1"):
        kit.drain_sync(raise_errors=True)


def test_a_run_with_a_fault_stays_in_the_tests_process(kit: Kit) -> None:
    kit.fail_next(heavy, OSError("first"))
    kit.lose_worker(heavy)
    heavy.enqueue_sync(n=1)
    assert kit.drain_sync().states == {"queued": 1}
    kit.travel_to_next_sync()
    assert kit.drain_sync().states == {"running": 1}
    kit.travel_sync("5m")
    (job,) = kit.drain_sync().runs
    assert job.state == "completed"
    assert job.result != os.getpid()
