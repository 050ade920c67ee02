"""The shipped alerting rules and a real /metrics: workers and server run as processes, jobs fail, the worker leaves."""

from __future__ import annotations

import json
import shutil
import signal
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cli.conftest import cli, forks
from tests.cli.processes import ended, lines_until
from tests.cli.serving import serve_process
from tests.docs.promtool import PROMTOOL, RULES, told
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import httpx
    from tests.cli.conftest import Cli

__all__ = ["cli", "forks"]  # fixtures of the command line's tests

Samples = dict[str, float]
"""Series, as promtool writes them, to values."""
pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: make promtool gets it"),
]
TARGET = {"instance": "rowlock:8000", "job": "rowlock"}
"""Labels that Prometheus adds to whatever it scrapes."""
MINUTES = 60
"""That each scrape is repeated: longer than any rule looks back."""


def samples(text: str) -> Samples:
    return {
        sample.name
        + "{"
        + ", ".join(f"{k}={json.dumps(v)}" for k, v in (sample.labels | TARGET).items())
        + "}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    """The sum of the series with that name and these labels."""
    wanted = [f"{k}={json.dumps(v)}" for k, v in labels.items()]
    return sum(n for series, n in found.items() if series.startswith(name + "{") and all(w in series for w in wanted))


async def scrape(client: httpx.AsyncClient, until: Callable[[Samples], bool]) -> Samples:
    """The first scrape of which that is true; promtool has no fault to find with it."""
    url = client.base_url.copy_with(path="/metrics")

    async def good() -> str | None:
        text = (await client.get(url)).text
        return text if until(samples(text)) else None

    text = await eventually(good)
    assert text is not None
    assert told(["check", "metrics"], text) == ""
    return samples(text)


def series(scrapes: list[Samples]) -> list[dict[str, str]]:
    """Each scrape for an hour, one after the other."""
    names = dict.fromkeys(name for found in scrapes for name in found)
    return [
        {
            "series": name,
            "values": " ".join(
                f"{found[name]!r}x{MINUTES - 1}" if name in found else f"_x{MINUTES}" for found in scrapes
            ),
        }
        for name in names
    ]


def expected(minute: int, alerts: dict[str, tuple[dict[str, str], str]]) -> list[dict[str, Any]]:
    """What fires in that minute: name to labels and summary. No other rule of the file fires."""
    rules = [line.rpartition(" ")[2] for line in RULES.read_text().splitlines() if "- alert: " in line]
    assert set(alerts) <= set(rules)
    fired = {
        name: [{"exp_labels": labels, "exp_annotations": {"summary": summary}}]
        for name, (labels, summary) in alerts.items()
    }
    return [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": fired.get(name, [])} for name in rules]


def spoken(seconds: float) -> str:
    """As Prometheus's humanizeDuration."""
    whole = int(seconds)
    return f"{whole // 3600}h {whole // 60 % 60}m {whole % 60}s"


async def test_the_rules_fire_on_what_a_real_server_tells(cli: Cli, database_url: str, tmp_path: Path) -> None:
    worker = await cli.start("worker", "--app", "tasks:app")
    await lines_until(worker.stderr, "lane front")
    sql = await asyncpg.connect(database_url)
    async with serve_process(cli) as served:
        client = served.client
        enqueue = enqueuer(client)
        await enqueue("greet", 3)
        await enqueue("explode", 1)
        well = await scrape(client, lambda found: value(found, "rowlock_jobs_ended_total") == 4)
        await enqueue("explode", 30)
        await enqueue("greet", 30)
        failing = await scrape(client, lambda found: value(found, "rowlock_jobs_ended_total") == 64)
        worker.send_signal(signal.SIGTERM)
        await ended(worker)
        await enqueue("greet", 2)
        await sql.execute("UPDATE rowlock.jobs SET run_after = now() - interval '1 hour' WHERE state = 'queued'")
        alone = await scrape(client, lambda found: value(found, "rowlock_lane_oldest_wait_seconds", lane="front") > 300)
    await sql.close()
    assert value(failing, "rowlock_jobs_ended_total", kind="explode", state="failed") == 31
    assert (value(well, "rowlock_workers", state="up"), value(alone, "rowlock_workers", state="up")) == (1, 0)
    waited = spoken(value(alone, "rowlock_lane_oldest_wait_seconds", lane="front"))
    failures = {
        "RowlockJobsFail": (
            {"kind": "explode", "severity": "warning"},
            "100% of the jobs of explode failed within 30 minutes.",
        )
    }
    nobody = {
        "RowlockNoWorker": ({"severity": "critical"}, "No worker is up."),
        "RowlockLaneWithoutWorker": (
            {"lane": "front", "severity": "critical"} | TARGET,
            "Jobs wait in lane front, which no worker serves.",
        ),
        "RowlockJobsWait": (
            {"lane": "front", "severity": "warning"},
            f"The oldest due job of lane front has waited for {waited}.",
        ),
    }
    tests = {
        "rule_files": ["alerts.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series([well, failing, alone]),
                "alert_rule_test": [
                    *expected(MINUTES - 1, {}),
                    *expected(MINUTES + 15, failures),
                    *expected(2 * MINUTES - 1, {}),
                    *expected(2 * MINUTES + 15, nobody),
                ],
            }
        ],
    }
    shutil.copy(RULES, tmp_path / "alerts.yml")
    (tmp_path / "scraped.yml").write_text(json.dumps(tests))  # JSON is YAML
    assert told(["test", "rules", str(tmp_path / "scraped.yml")]).strip().endswith("SUCCESS")


def enqueuer(client: httpx.AsyncClient) -> Callable[[str, int], Awaitable[None]]:
    async def enqueue(kind: str, n: int) -> None:
        args = {"name": "Ada"} if kind == "greet" else {}
        for _ in range(n):
            answer = await client.post("/jobs", json={"kind": kind, "args": args})
            assert answer.status_code == 202, answer.text

    return enqueue
