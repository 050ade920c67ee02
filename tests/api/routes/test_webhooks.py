"""Webhooks over REST: what is answered, and that a message shows a job as GET /jobs/{id} does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.webhook_receiver import LOOPBACK, receiving

from rowlock.settings import Settings
from rowlock.webhooks.message import FIELDS

if TYPE_CHECKING:
    from tests.api.conftest import Rest


async def test_a_webhook_lives_from_post_to_delete(rest: Rest) -> None:
    async with rest.client() as client:
        made = await client.post("/webhooks", json={"url": "https://example.com/", "states": ["failed"]})
        assert made.status_code == 201
        body = made.json()
        assert (body["health"], body["kinds"], body["secret"][:6]) == ("new", ["*"], "whsec_")
        path = f"/webhooks/{body['id']}"
        shown = (await client.get(path)).json()
        assert shown == {name: value for name, value in body.items() if name != "secret"}
        assert (await client.get("/webhooks")).json()["items"] == [shown]
        changed = await client.patch(path, json={"enabled": False, "include": ["result"]})
        assert (changed.json()["health"], changed.json()["include"]) == ("disabled", ["result"])
        rotated = await client.post(f"{path}/rotate", json={"overlap": "1h"})
        assert rotated.json()["secret"] != body["secret"]
        sent = await client.post(f"{path}/test")
        assert (sent.status_code, sent.json()["event"], sent.json()["state"]) == (202, "webhook.test", "queued")
        listed = (await client.get(f"{path}/deliveries", params={"state": "queued"})).json()["items"]
        assert listed == [sent.json()]
        assert (await client.get(f"/jobs/{sent.json()['id']}")).json()["kind"] == "rowlock.webhook"
        assert (await client.delete(path)).json()["id"] == body["id"]
        missing = await client.get(path)
        assert (missing.status_code, missing.json()["code"]) == (404, "webhook-not-found")


async def test_what_is_refused_says_why(rest: Rest) -> None:
    async with rest.client() as client:
        for url, code in (("http://example.com/", "webhook-refused"), ("https://user@example.com/", "invalid-option")):
            answer = await client.post("/webhooks", json={"url": url})
            assert (answer.status_code, answer.json()["code"]) == (422, code)
        cases: list[dict[str, object]] = [{"states": ["running"]}, {"kinds": []}, {"secret": "x" * 300}]
        cases.append({"include": ["password"]})
        for wrong in cases:
            answer = await client.post("/webhooks", json={"url": "https://example.com/", **wrong})
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request"), wrong


async def test_a_message_shows_the_job_as_get_does(rest: Rest) -> None:
    url = rest.app.settings.database_url
    rest.app.repoint(Settings(url, webhook_networks=LOOPBACK, webhook_http=True))
    async with receiving() as receiver, rest.client() as client:
        await client.post("/webhooks", json={"url": receiver.url, "include": ["args", "result", "errors", "meta"]})
        async with rest.app.worker():
            job = await rest.submit(kind="greet", args={"name": "Ada"}, tags=["a"], meta={"b": 1})
            (message,) = await receiver.received()
        shown = (await client.get(f"/jobs/{job['id']}")).json()
    names = ("id", *FIELDS, "args", "result", "errors", "meta")
    assert message.data == {**{name: shown[name] for name in names}, "omitted": []}
