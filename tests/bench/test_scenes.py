from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from bench.stage import Failed, Stage

from bench import environments, roster, scenes, server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TINY = replace(
    scenes.QUICK, singles=20, bulk=200, backlog=0.01, longest=60.0, pickups=5, steady=0.1, idle=1.0, warm=0.5
)
OWN = (roster.ROWLOCK, roster.MINIMAL)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder: Path = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "DATA", folder / "data")
        with server.postgres("embedded") as running:
            found = {subject.name: environments.prepare(subject, {}) for subject in roster.chosen("own")}
            yield Stage(running, folder, found, patience=0.0, keeps=True)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("subject", OWN, ids=lambda subject: subject.name)
def test_a_drain_counts_every_job_and_what_it_cost(stage: Stage, subject: roster.Subject) -> None:
    values = scenes.drain_one(stage, subject, TINY)
    assert values["rate"] > 0
    assert values["cut"] == 0
    assert 300 < values["wal"] < 100_000
    assert values["dead"] >= 2


@pytest.mark.timeout(240)
def test_enqueueing_is_timed_one_by_one_and_in_bulk(stage: Stage) -> None:
    for scene in (scenes.enqueue_one, scenes.enqueue_bulk):
        values = scene(stage, roster.ROWLOCK, TINY)
        assert values["rate"] > 0
        assert values["client_us"] > 0
        assert values["wal"] > 100


@pytest.mark.timeout(240)
def test_every_job_of_a_paced_producer_is_picked_up(stage: Stage) -> None:
    for scene in (scenes.pickup, scenes.steady):
        values = scene(stage, roster.ROWLOCK, TINY)
        assert values["missing"] == 0
        assert values["call_p50"] >= values["commit_p50"] >= 0
        assert values["call_p99"] >= values["call_p50"]


@pytest.mark.timeout(240)
def test_an_idle_worker_is_weighed(stage: Stage) -> None:
    values = scenes.idle(stage, roster.ROWLOCK, TINY)
    assert values["rss_mb"] > 10
    assert values["connections"] >= 2
    assert "statements" not in values, "the embedded server cannot count them"


def test_what_a_system_cannot_do_is_said(stage: Stage) -> None:
    with pytest.raises(Failed, match="has no bulk call"):
        scenes.enqueue_bulk(stage, replace(roster.MINIMAL, bulk=False), TINY)
    with pytest.raises(Failed, match="has no worker that waits"):
        scenes.pickup(stage, roster.LIMIT, TINY)


@pytest.mark.timeout(240)
def test_a_driver_that_fails_is_reported_with_its_last_words(stage: Stage) -> None:
    with pytest.raises(Failed, match=r"install failed: .*nowhere"):
        scenes.enqueue_one(stage, replace(roster.MINIMAL, name="minimal", module="nowhere", slots=7), TINY)
