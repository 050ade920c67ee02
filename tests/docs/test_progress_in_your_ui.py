"""docs/howto/progress_in_your_ui.md, executed: its addresses give tokens to the right people, in three frameworks."""

from __future__ import annotations

import asyncio
import json
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from django.http import Http404, HttpRequest
from tests.django_project import set_up
from tests.docs.page import HOWTO, Page

from rowlock.api.routes.embed import elements_module
from rowlock.errors import NotAuthenticated

if TYPE_CHECKING:
    from rowlock import Rowlock


async def test_the_addresses_of_the_page_give_tokens_to_the_right_people(database_url: str) -> None:
    set_up()
    page = Page("progress_in_your_ui.md", database_url)
    await page.run()
    try:
        assert page.printed == page.promised
        app: Rowlock = page.names["app"]
        with pytest.raises(NotAuthenticated):
            await app.identity.by_embed_token(page.names["token"].text)
        job = (await page.names["export_orders"].options(submitted_by="ada").enqueue(2026)).id
        path = f"/jobs/{job}/token"

        transport = httpx.ASGITransport(page.names["shop"])
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            assert (await client.get(path, headers={"X-User": "eve"})).status_code == 404
            given = [(await client.get(path, headers={"X-User": "ada"})).json()["token"]]

        given.append(await asyncio.to_thread(flask_answer, page.names["flask_shop"], path))
        given.append(await asyncio.to_thread(django_answer, page.names["django_token"], job))
        for text in given:
            assert (await app.identity.by_embed_token(text)).grant.job == job
    finally:
        del page.names["request"]  # Flask's, which may be looked at during a request only
        await page.close()


def flask_answer(shop: Any, path: str) -> str:  # noqa: ANN401 - Flask's
    client = shop.test_client()
    assert client.get(path, headers={"X-User": "eve"}).status_code == 404
    return str(client.get(path, headers={"X-User": "ada"}).json["token"])


def django_answer(view: Any, job: int) -> str:  # noqa: ANN401 - a function of the page
    def asked_by(name: str) -> HttpRequest:
        request = HttpRequest()
        request.user = SimpleNamespace(get_username=lambda: name)  # as a middleware does
        return request

    with pytest.raises(Http404):
        view(asked_by("eve"), str(job))
    return str(json.loads(view(asked_by("ada"), str(job)).content)["token"])


def test_the_page_names_every_part_property_and_attribute_of_the_components() -> None:
    page = (HOWTO / "progress_in_your_ui.md").read_text(encoding="utf-8")
    module = elements_module().text.decode()
    parts = set(re.findall(r'made\("\w+", "(\w+)"', module)) - {"announcer"}
    properties = set(re.findall(r"var\((--rowlock-[\w-]+)", module))
    attributes = set(re.findall(r'[gh](?:et|as)Attribute\("([\w-]+)"', module))
    assert len(parts) > 10
    assert [name for name in sorted(parts | attributes) if f"`{name}`" not in page] == []
    assert [name for name in sorted(properties) if name not in page] == []
