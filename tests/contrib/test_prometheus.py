from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from tests.factories import Store, opened

from rowlock import Rowlock
from rowlock.contrib.prometheus import NO_TENANT, OTHER, RowlockCollector, capped
from rowlock.desk.sync import SyncStats

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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
