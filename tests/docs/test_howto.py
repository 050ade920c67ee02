"""The how-to pages, executed: every Python block of a page in order, in one namespace, on a real database.

A comment behind a print() is what it must print.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.docs.page import HOWTO, Page

from rowlock import Rowlock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def raw(database_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(database_url)
    await connection.execute("CREATE TABLE orders (id integer PRIMARY KEY); CREATE TABLE invoices (order_id integer)")
    yield connection
    await connection.close()


async def test_limits(database_url: str) -> None:
    page = Page("limits.md", database_url)
    page.text = page.text.replace("print(view.key, view.rate, view.available)", "pass")
    await page.run()
    app: Rowlock = page.names["app"]
    try:
        handle = await page.names["call_crm"].enqueue(2)
        async with app.worker():
            await handle.wait(timeout=10)
        assert [view.key for view in await app.limits.rates()] == ["crm", "org:7"]
    finally:
        await page.close()


async def test_transactions(database_url: str, raw: asyncpg.Connection[asyncpg.Record]) -> None:
    page = Page("transactions.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised == ["[]"]
        orders = [row[0] for row in await raw.fetch("SELECT id FROM orders ORDER BY 1")]
        jobs = [row[0] for row in await raw.fetch("SELECT (args->>'order_id')::integer FROM rowlock.jobs ORDER BY 1")]
        assert orders == jobs == [1, 2, 3, 4]
        app: Rowlock = page.names["app"]
        async with app.worker():
            await (await page.names["invoice"].enqueue(order_id=1)).wait(timeout=20)
        assert await raw.fetchval("SELECT count(*) FROM invoices") == 1
    finally:
        await page.close()


async def test_unique_jobs(database_url: str, raw: asyncpg.Connection[asyncpg.Record]) -> None:
    page = Page("keys.md", database_url)
    await page.run()
    try:
        assert page.printed == [text.partition(":")[0] if text.startswith("True:") else text for text in page.promised]
        assert len(page.printed) == 10
        assert page.names["pushed"].what == "replaced"
        rows = await raw.fetch("SELECT (args->>'org_id')::integer FROM rowlock.jobs ORDER BY 1")
        assert [row[0] for row in rows] == [7, 7, 8, 9, 10, 11, 20, 21, 30, 40, 50, 51]
    finally:
        await page.close()


async def test_delivery(database_url: str) -> None:
    page = Page("delivery.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised
        assert len(page.printed) == 4
        assert "rowlock.run_job" in page.names["celery_app"].tasks
        assert page.names["WorkerSettings"].max_jobs == 20
    finally:
        await page.close()


async def test_locks(database_url: str) -> None:
    page = Page("locks.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised
        assert len(page.printed) == 5
    finally:
        await page.close()


async def test_progress(database_url: str) -> None:
    page = Page("progress.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised
        assert len(page.printed) == 11
    finally:
        await page.close()


async def test_changing_jobs(database_url: str) -> None:
    page = Page("changing_jobs.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised
        assert len(page.printed) == 7
    finally:
        await page.close()


async def test_executors(database_url: str) -> None:
    page = Page("executors.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised == ["19", "3"]
    finally:
        await page.close()


async def test_dependencies(database_url: str) -> None:
    page = Page("dependencies.md", database_url)
    await page.run()
    try:
        assert page.printed == [*page.promised, "written: 1"]
        assert len(page.promised) == 6
    finally:
        await page.close()


async def test_hooks(database_url: str) -> None:
    page = Page("hooks.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised
        assert len(page.promised) == 2
    finally:
        await page.close()


async def test_approval(database_url: str) -> None:
    page = Page("approval.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised == ["pending", "not her own", "queued", "queued"]
    finally:
        await page.close()


async def test_schedules(database_url: str) -> None:
    page = Page("schedules.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised
        assert len(page.promised) == 5
    finally:
        await page.close()


@pytest.mark.parametrize(("page_name", "lines"), [("chains.md", 6), ("workflows.md", 9)])
async def test_composition(database_url: str, page_name: str, lines: int) -> None:
    page = Page(page_name, database_url)
    await page.run()
    try:
        assert page.printed == page.promised
        assert len(page.promised) == lines
    finally:
        await page.close()


async def test_search(database_url: str) -> None:
    page = Page("../reference/search.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised == ["3 3", "completed 3 0"]
    finally:
        await page.close()


async def test_typing(database_url: str) -> None:
    page = Page("typing.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised == ["3"]
    finally:
        await page.close()


async def test_access(database_url: str) -> None:
    page = Page("access.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised
        assert len(page.promised) == 9
    finally:
        await page.close()


async def test_the_table_of_permissions_is_what_the_schema_says(database_url: str) -> None:
    rows = re.findall(r"^\| (`.*) \|$", (HOWTO / "access.md").read_text(encoding="utf-8"), re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    told: dict[str, set[str]] = {role: set() for role in ("user", "operator", "platform_admin")}
    for names, _, *marks in (row for row in cells if len(row) == 2 + len(told)):
        for role, mark in zip(told, marks, strict=True):
            told[role] |= set(re.findall(r"`([\w:]+)`", names)) if mark else set()
    async with Rowlock(database_url) as app:
        assert told == {role.name: set(role.permissions) for role in await app.roles.list()}
