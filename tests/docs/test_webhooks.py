"""docs/howto/webhooks.md, executed: its receivers accept real messages, and refuse forged ones."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import httpx
from tests.docs.page import HOWTO, Page
from tests.webhook_receiver import LOOPBACK, receiving

from rowlock.model.webhook import INCLUDES, STATES
from rowlock.settings import Settings
from rowlock.webhooks.message import FIELDS

if TYPE_CHECKING:
    from rowlock import Rowlock


async def test_the_receivers_of_the_page_accept_what_is_sent_and_refuse_the_rest(database_url: str) -> None:
    page = Page("webhooks.md", database_url)
    await page.run()
    app: Rowlock = page.names["app"]
    restore = app.repoint(Settings(database_url=database_url, webhook_networks=LOOPBACK, webhook_http=True))
    try:
        async with receiving() as endpoint:
            await app.webhooks.change(page.names["made"].webhook.id, url=endpoint.url)
            async with app.worker():
                await page.names["build_report"].enqueue("2026-03")
                (message,) = await endpoint.received()
        transport = httpx.ASGITransport(page.names["receiver"])
        async with httpx.AsyncClient(transport=transport, base_url="http://receiver") as client:
            for body, status in ((message.body, 204), (message.body, 204), (message.body + b" ", 401)):
                answer = await client.post("/hooks/rowlock", content=body, headers=message.headers)
                assert answer.status_code == status
        assert await asyncio.to_thread(flask_statuses, page.names["flask_receiver"], message) == [204, 401]
        assert page.printed == page.promised
    finally:
        await app.close()
        restore()
        del page.names["flask"]
        await page.close()


def flask_statuses(receiver: Any, message: Any) -> list[int]:  # noqa: ANN401 - Flask's, and a message
    client = receiver.test_client()
    given = {"headers": message.headers}
    bodies = (message.body, message.body + b" ")
    return [client.post("/hooks/rowlock", data=body, **given).status_code for body in bodies]


def test_the_page_names_every_field_state_and_part() -> None:
    page = (HOWTO / "webhooks.md").read_text(encoding="utf-8")
    for name in (*FIELDS, *INCLUDES, "id", *(f"job.{state}" for state in STATES)):
        assert f"`{name}`" in page, name
    assert re.search(r"eight attempts", page)
