"""The audit over REST: exported and checked a piece at a time."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.api.conftest import Rest


async def test_an_export_comes_in_pages_that_can_be_checked_without_a_database(rest: Rest) -> None:
    for _ in range(3):
        await rest.submit()
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    async with rest.client() as client:
        while cursor is not None or not items:
            answer = await client.get("/audit/export", params={"limit": 2, **({"cursor": cursor} if cursor else {})})
            assert answer.status_code == 200, answer.text
            assert len(answer.json()["items"]) <= 2
            items, cursor = items + answer.json()["items"], answer.json()["next_cursor"]
    assert [item["n"] for item in items] == list(range(1, len(items) + 1))
    assert [item["entry"]["action"] for item in items] == ["job.submit"] * 3
    previous = ""
    for item in items:
        assert item["previous"] == previous
        assert hashlib.sha256((previous + item["sealed_text"]).encode()).hexdigest() == item["hash"]
        previous = item["hash"]


async def test_a_check_goes_on_where_the_one_before_stopped_and_finds_what_was_changed(rest: Rest) -> None:
    for _ in range(5):
        await rest.submit()
    heads: list[str] = []
    async with rest.client() as client:

        async def check(after: str | None) -> dict[str, Any]:
            answer = await client.get("/audit/verify", params={"limit": 2, **({"after": after} if after else {})})
            assert answer.status_code == 200, answer.text
            return dict(answer.json())

        said = await check(None)
        assert (said["lines"], said["more"], said["broken"]) == (2, True, None)
        while said["more"]:
            heads.append(said["head"])
            said = await check(said["head"])
        assert (said["head"].split(":")[0], said["broken"]) == ("5", None)
        last = said["head"]
        await rest.store.connection.execute(
            "UPDATE rowlock.audit SET subject = 'eve' WHERE id = (SELECT max(audit_id) FROM rowlock.audit_seals)"
        )
        assert (await check(heads[1]))["broken"]["n"] == 5
        await rest.store.connection.execute("DELETE FROM rowlock.audit_seals WHERE n = 5")
        assert "longer chain" in (await check(last))["broken"]["reason"]
        wrong = await client.get("/audit/verify", params={"after": "x"})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid-option")
