"""The pages about the desk: executed, and complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.page import Page
from tests.factories import opened

from rowlock import Rowlock
from rowlock.contrib.prometheus import RowlockCollector
from rowlock.desk.explain import approval, dependencies, locks, rates, reasons, set_aside, silent_worker

DOCS = Path(__file__).parents[2] / "docs"
CODES = re.compile(r'(?:Reason|_gate|_paused)\((?:facts, )?"(\w+)"(?: if \w+ else "(\w+)")?')


@pytest.mark.parametrize("name", ["../reference/desk.md", "../operate/explain.md", "../operate/metrics.md"])
async def test_the_page_does_what_it_says(database_url: str, name: str) -> None:
    page = Page(name, database_url)
    await page.run()
    try:
        assert page.printed == page.promised
        assert page.printed
    finally:
        await page.close()


@pytest.mark.parametrize("name", ["jobs", "lanes", "workers", "stats", "operations", "approvals", "workflows"])
def test_every_method_is_documented(name: str) -> None:
    text = (DOCS / "reference" / "desk.md").read_text(encoding="utf-8")
    section = text.partition(f"## app.{name}\n")[2].partition("\n## ")[0]
    desk = getattr(Rowlock("postgresql://localhost/none"), name)
    public = {key for key in vars(type(desk)) if not key.startswith("_")} - {"defined", "result"}
    assert public == {key for key in public if f"`{key}(" in section}


def test_every_code_is_documented_and_no_other() -> None:
    files = [
        module.__file__
        for module in (reasons, approval, dependencies, locks, rates, set_aside, silent_worker)
        if module.__file__
    ]
    source = "".join(Path(file).read_text(encoding="utf-8") for file in files)
    codes = {code for found in CODES.findall(source) for code in found if code} | {"retrying", "scheduled", "snoozed"}
    page = (DOCS / "operate" / "explain.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert codes == {code for row in rows for code in re.findall(r"`(\w+)`", row)}


async def test_every_view_and_metric_is_documented_with_its_columns(database_url: str) -> None:
    page = (DOCS / "operate" / "metrics.md").read_text(encoding="utf-8")
    lines = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `stats_")}
    async with opened(database_url) as store:
        views = await store.connection.fetch(
            "SELECT table_name, array_agg(column_name::text) AS columns FROM information_schema.columns "
            "WHERE table_schema = 'rowlock' AND table_name LIKE 'stats%' GROUP BY 1"
        )
    assert set(lines) == {row["table_name"] for row in views}
    for row in views:
        missing = {column for column in row["columns"] if f"`{column}`" not in lines[row["table_name"]]}
        assert not missing or row["table_name"] == "stats_slow", row["table_name"]
    async with Rowlock(database_url) as app:
        families = {family.name for family in RowlockCollector(app).collect()}
    told = {name for line in page.splitlines() if line.startswith("| `rowlock_") for name in metrics(line)}
    assert {name.removesuffix("_total") for name in told} == families


def metrics(line: str) -> list[str]:
    """`rowlock_kind_due`, `_failed`: the later ones have the first one's beginning."""
    first, *others = re.findall(r"`(\w+)`", line.split("|")[1])
    return [first, *(name if name.startswith("rowlock") else first.rpartition("_")[0] + name for name in others)]
