"""The pages about traces, logs, Sentry, retention and tables, executed."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import asyncpg
import pytest
import sentry_sdk
import structlog
from sentry_sdk.transport import Transport
from tests.docs.page import HOWTO, Page
from typing_extensions import override

from rowlock.cli.screen.log_lines import _JOB_FIELDS
from rowlock.contrib.opentelemetry import SCHEMA_URL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentry_sdk.envelope import Envelope

SQL = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Quiet(Transport):
    """Sends nothing."""

    @override
    def capture_envelope(self, envelope: Envelope) -> None: ...


@pytest.fixture
def logging_restored() -> Iterator[None]:
    before = {name: list(logging.getLogger(name).handlers) for name in ("rowlock", "shop")}
    yield
    for name, handlers in before.items():
        logging.getLogger(name).handlers[:] = handlers
    structlog.reset_defaults()


async def test_opentelemetry(database_url: str) -> None:
    page = Page("opentelemetry.md", database_url)
    await page.run()
    assert page.printed == page.promised
    assert SCHEMA_URL.rpartition("/")[2] in page.text
    page.names["provider"].shutdown()
    await page.close()


@pytest.mark.usefixtures("logging_restored")
async def test_logging(database_url: str) -> None:
    page = Page("logging.md", database_url)
    await page.run()
    assert page.printed == page.promised
    await page.close()


async def test_sentry(database_url: str) -> None:
    page = Page("sentry.md", database_url)
    page.names["Quiet"] = Quiet
    page.names["DSN"] = "http://key@127.0.0.1:9/1"
    page.text = page.text.replace(
        "traces_sample_rate=1.0)",
        "traces_sample_rate=1.0, default_integrations=False, transport=Quiet)",
    )
    await page.run()
    assert page.printed == page.promised
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.get_global_scope().set_client(None)
    await page.close()


async def test_retention(database_url: str) -> None:
    page = Page("../operate/retention.md", database_url)
    await page.run()
    assert page.printed == page.promised
    await page.close()


async def test_every_query_for_operators_runs(database_url: str) -> None:
    text = (HOWTO.parent / "reference" / "tables.md").read_text(encoding="utf-8")
    queries = [query for block in SQL.findall(text) for query in block.split(";") if query.strip()]
    assert len(queries) == 9
    connection = await asyncpg.connect(database_url)
    for query in queries:
        assert await connection.fetch(query) == []
    await connection.close()


def test_every_field_of_a_record_is_documented_and_no_other() -> None:
    text = (HOWTO.parent / "reference" / "logs.md").read_text(encoding="utf-8")
    section = text.partition("## Fields")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == list(_JOB_FIELDS)
