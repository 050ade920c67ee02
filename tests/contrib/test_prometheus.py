from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from tests.factories import Store, opened

from rowlock import Rowlock
from rowlock.contrib.prometheus import NO_TENANT, RowlockCollector, capped
from rowlock.desk.sync import SyncStats
from rowlock.model.job_counts import BOUNDS, OTHER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from prometheus_client.core import Metric

Samples = dict[tuple[str, str], float]


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url) as one:
        yield one


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with opened(database_url) as one:
        yield one


async def scraped(collector: RowlockCollector) -> Samples:
    """(name without its prefix, the label's value) to value."""
    families = text_string_to_metric_families((await collector.text()).decode())
    return {
        (sample.name.removeprefix("rowlock_"), "".join(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


async def some(store: Store) -> None:
    await store.lane("default", kinds=["*"], slots=3)
    worker = await store.worker()
    for state, tenant in (("failed", "acme"), ("completed", "acme"), ("completed", None)):
        await store.complete(*await store.claim(worker, await store.enqueue(tenant=tenant)), state=state)
    await store.claim(worker, await store.enqueue("other"))
    for _ in range(2):
        await store.enqueue()


async def test_a_scrape_tells_what_the_desk_says(app: Rowlock, store: Store) -> None:
    await some(store)
    found, panel = await scraped(RowlockCollector(app, window="1h")), await app.stats.panel()
    assert found["up", ""] == 1
    overview, (lane,) = panel.overview, panel.overview.lanes
    for state, count in overview.states.items():
        assert found["jobs", state] == count.value
    for state, count in overview.ended.items():
        assert found["ended", state] == count.value
    for name in ("running", "slots", "workers"):
        assert found[f"lane_{name}", "default"] == getattr(lane, name)
    assert found["lane_open", "default"] == 1
    assert (found["lane_due", "default"], found["kind_due", "k"]) == (2, 2)
    assert 0 < found["kind_oldest_wait_seconds", "k"] < 60
    assert 0 < found["lane_oldest_wait_seconds", "default"] < 60
    (failures,) = panel.failures
    assert (
        (found["kind_ended", "k"], found["kind_failed", "k"]) == (failures.ended.value, failures.failed.value) == (3, 1)
    )
    assert found["throughput", ""] > 0
    assert {key[1] for key in found if key[0] == "tenant_throughput"} == {
        tenant.tenant or NO_TENANT for tenant in panel.tenants
    }
    assert found["workers", "up"] == 1


async def families(collector: RowlockCollector) -> dict[str, Metric]:
    text = (await collector.text()).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


async def test_counters_and_histograms_have_the_types_and_names_that_prometheus_expects(
    app: Rowlock, store: Store
) -> None:
    await some(store)
    found = await families(RowlockCollector(app))
    ended = found["rowlock_jobs_ended"]
    assert ended.type == "counter"
    assert {
        (sample.name, sample.labels["kind"], sample.labels["lane"], sample.labels["state"]): sample.value
        for sample in ended.samples
    } == {
        ("rowlock_jobs_ended_total", "k", "default", "failed"): 1,
        ("rowlock_jobs_ended_total", "k", "default", "completed"): 2,
    }
    started = {(s.labels["kind"], s.labels["lane"]): s.value for s in found["rowlock_attempts_started"].samples}
    assert started == {("k", "default"): 3, ("other", "default"): 1}
    tenants = {(s.labels["tenant"], s.labels["state"]): s.value for s in found["rowlock_tenant_jobs_ended"].samples}
    assert tenants == {("acme", "failed"): 1, ("acme", "completed"): 1, (NO_TENANT, "completed"): 1}
    for name in ("rowlock_job_run_seconds", "rowlock_job_wait_seconds"):
        assert found[name].type == "histogram"
        buckets = [s for s in found[name].samples if s.name.endswith("_bucket")]
        assert [float(s.labels["le"]) for s in buckets] == [*BOUNDS, float("inf")]
        assert [s.value for s in buckets] == sorted(s.value for s in buckets)
        (count,) = (s.value for s in found[name].samples if s.name.endswith("_count"))
        assert count == buckets[-1].value == 3
        (total,) = (s.value for s in found[name].samples if s.name.endswith("_sum"))
        assert total > 0


async def test_counters_survive_folds_and_restarts(app: Rowlock, store: Store, database_url: str) -> None:
    await some(store)
    before = await families(RowlockCollector(app))
    await store.one("fold_counts", only=None, batch=100, series=100)
    async with Rowlock(database_url) as another:
        after = await families(RowlockCollector(another))
    for name, family in before.items():
        if family.type == "counter":
            assert family.samples == after[name].samples


async def test_a_number_that_was_not_counted_to_its_end_says_so(app: Rowlock, store: Store) -> None:
    await store.execute(
        "INSERT INTO {s}.jobs (kind, state, finished_at) SELECT 'k', 'failed', now() FROM generate_series(1, 1001)"
    )
    await store.enqueue()
    found = await scraped(RowlockCollector(app))
    assert (found["jobs", "failed"], found["jobs_exact", "failed"]) == (1_000, 0)
    assert (found["jobs", "queued"], found["jobs_exact", "queued"]) == (1, 1)
    assert found["kind_due_exact", "k"] == 1


async def test_an_answer_serves_everybody_for_a_while(app: Rowlock, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, panel = [], SyncStats.panel

    def counted(self: SyncStats, **options: Any) -> object:  # noqa: ANN401 - panel's own
        asked.append(threading.get_ident())
        return panel(self, **options)

    monkeypatch.setattr(SyncStats, "panel", counted)
    collector = RowlockCollector(app, every=0)  # 1 second at least
    await asyncio.gather(*(collector.text() for _ in range(5)))
    assert len(asked) == 1
    collector._read_at -= 1
    await collector.text()
    assert len(asked) == 2


async def test_labels_are_capped(app: Rowlock, store: Store) -> None:
    await store.execute("INSERT INTO {s}.jobs (kind) SELECT 'k' || n % 10 FROM generate_series(1, 95) n")
    found = await scraped(RowlockCollector(app, labels=3))
    due = {label: value for (name, label), value in found.items() if name == "kind_due"}
    assert due == {"k1": 10, "k2": 10, "k3": 10, OTHER: 65}


def test_what_is_beyond_the_cap_is_summed_or_the_longest() -> None:
    rows = {"a": 1.0, "b": 5.0, "c": 2.0}
    assert capped(rows, 1) == {"b": 5.0, OTHER: 3.0}
    assert capped(rows, 1, max) == {"b": 5.0, OTHER: 2.0}
    assert capped(rows, 3) == rows


async def test_without_a_database_it_is_down_and_nothing_raises() -> None:
    async with Rowlock("postgresql://nobody@127.0.0.1:1/none") as app:
        assert await scraped(RowlockCollector(app)) == {("up", ""): 0}


def test_registering_asks_nothing() -> None:
    CollectorRegistry().register(RowlockCollector(Rowlock("postgresql://nobody@127.0.0.1:1/none")))
