"""The dashboard for Grafana: each query names metrics and labels that a real scrape has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from rowlock import Retry, Rowlock, Settings
from rowlock.contrib.prometheus import RowlockCollector

DASHBOARD = Path(__file__).parents[2] / "docs" / "operate" / "grafana.json"
METRIC = re.compile(r"\browlock_\w+")
SELECTED = re.compile(r"(rowlock_\w+)\{([^}]*)\}")
GROUPED = re.compile(r"by \(([^)]*)\) \([^r]*rate\((rowlock_\w+)")


async def scraped(url: str) -> dict[str, set[str]]:
    """The samples of a database in which jobs have run, failed and wait, with their labels."""
    async with Rowlock(url, settings=Settings()) as app:

        @app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
        async def work(ok: bool) -> None:
            if not ok:
                raise OSError("no paper")

        await work.options(run_in="1h").enqueue(ok=True)
        jobs = [await work.enqueue(ok=ok) for ok in (True, False)]
        async with app.worker():
            await jobs[0].wait(timeout=30)
            await app.jobs.wait(jobs[1].id, timeout=30)
            text = (await RowlockCollector(app, every=1.0).text()).decode()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions(board: dict[str, Any]) -> list[str]:
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [*asked, *(each["definition"] for each in board["templating"]["list"] if "definition" in each)]


async def test_every_query_names_metrics_and_labels_of_a_real_scrape(database_url: str) -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked, found = expressions(board), await scraped(database_url)
    named = {name for text in asked for name in METRIC.findall(text)}
    assert len(named) > 12
    assert named <= set(found), named - set(found)
    for text in asked:
        for name, selectors in SELECTED.findall(text):
            assert set(re.findall(r"(\w+)=", selectors)) <= found[name], text
        for labels, name in GROUPED.findall(text):
            assert {label.strip() for label in labels.split(",")} <= found[name], text
        for name, label in re.findall(r"label_values\((\w+), (\w+)\)", text):
            assert label in found[name], text


def test_panels_do_not_overlap_and_each_says_what_it_shows() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["description"].endswith(".") for panel in panels)
