"""The guides for moving from other queues, executed; and what they say about their tables."""

from __future__ import annotations

import re

import procrastinate
import psycopg
import pytest
from tests.docs.page import HOWTO, Page

from rowlock.contrib.moving import celery
from rowlock.contrib.moving.celery import Celery

SQL = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def run(name: str, url: str) -> Page:
    """Run a page; its blocking code may wait here, as its worker has a thread of its own."""
    page = Page(name, url)
    page.names["__name__"] = "shop"
    await page.run()
    assert page.printed == page.promised
    assert page.printed != []
    return page


async def test_celery(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery, "_SHARED", celery._SharedTasks())
    page = await run("moving_from_celery.md", database_url)
    assert isinstance(page.names["app"], Celery)
    await page.close()


async def test_procrastinate(database_url: str) -> None:
    old = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=database_url))
    async with old.open_async():
        await old.schema_manager.apply_schema_async()
        await old.configure_task("shop.add", queue="sums").defer_async(a=1, b=2)
        page = await run("moving_from_procrastinate.md", database_url)
        (statement,) = SQL.findall(page.text)
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            await connection.execute(statement)
    await page.close()


async def test_arq(database_url: str) -> None:
    page = await run("moving_from_arq.md", database_url)
    await page.close()


async def test_rq(database_url: str) -> None:
    page = await run("moving_from_rq.md", database_url)
    await page.close()


@pytest.mark.parametrize("queue", ["celery", "procrastinate", "arq", "rq"])
def test_every_guide_says_how_to_move_and_how_to_go_back(queue: str) -> None:
    text = (HOWTO / f"moving_from_{queue}.md").read_text(encoding="utf-8")
    for heading in ("## What maps to what", "## What differs", "## Move without losing a job"):
        assert heading in text
    assert "**To go back**" in text
