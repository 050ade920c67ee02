"""Jobs whose arguments nobody should have been able to store: lists show them, and people can remove them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from tests.api.conftest import AsNamed

from rowlock import Rowlock
from rowlock.api import RowlockAPI
from rowlock.model import ids
from rowlock.model.stored_json import UNREADABLE
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.api.conftest import Rest

DEEP: Final = "[" * 900 + "]" * 900
HUGE: Final = "9" * 5000
ROWS: Final = (
    {"args": f'{{"x": {DEEP}}}'},
    {"args": DEEP},
    {"args": "[1, 2]"},
    {"args": '"text"'},
    {"args": "null"},
    {"args": f'{{"x": {HUGE}}}'},
    {"args": '{"x": {"$bytes": 5}, "$version": "two"}'},
    {"args": "{}", "meta": DEEP, "refs": "[1]"},
    {"args": "{}", "meta": "3", "refs": '"x"'},
)


@pytest.fixture
async def bare(rest: Rest, database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server without the code of any kind; workers have registered theirs."""
    async with rest.app.worker():
        pass
    async with Rowlock(database_url, settings=Settings()) as app:
        api = RowlockAPI(app, auth=AsNamed())
        transport = httpx.ASGITransport(api.asgi, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=rest.base, headers={"X-Who": "root"}) as client:
            yield client


async def written(rest: Rest, columns: dict[str, str], kind: str = "greet") -> str:
    """The public id of a job that somebody wrote by hand."""
    names = ", ".join(columns)
    values = ", ".join(f"${n}::text::jsonb" for n in range(2, len(columns) + 2))
    number = await rest.store.connection.fetchval(
        f"INSERT INTO rowlock.jobs (kind, {names}) VALUES ($1, {values}) RETURNING id",
        kind,
        *columns.values(),
    )
    return ids.encode(number)


@pytest.mark.parametrize(
    "value",
    [{"$secret": 1_000_000}, {"$bytes": "AA=="}, {"$output": "x"}, [{"a": {"$secret": 1}}], json.loads(DEEP)],
    ids=["secret", "bytes", "output", "nested", "deep"],
)
async def test_no_door_takes_what_an_approver_could_not_see(rest: Rest, bare: httpx.AsyncClient, value: Any) -> None:  # noqa: ANN401 - JSON
    there = (await bare.post("/jobs", json={"kind": "pay", "args": {"amount": 1}})).json()["id"]
    async with rest.client() as knowing:
        for client in (bare, knowing):
            body = {"kind": "pay", "args": {"amount": value}}
            answers = [
                await client.post("/jobs", json=body),
                await client.post("/jobs", json=body, headers={"Idempotency-Key": "k"}),
                await client.patch(f"/jobs/{there}", json={"args": {"amount": value}}, headers={"If-Match": "*"}),
                await client.post("/schedules", json={"name": "s", "cron": "0 2 * * *", **body}),
            ]
            for answer in answers:
                assert answer.status_code in (400, 413, 422), answer.text
        assert (await knowing.get("/jobs")).json()["count"]["value"] == 1
        assert (await knowing.get(f"/jobs/{there}")).json()["args"] == {"amount": 1}


@pytest.mark.parametrize("columns", ROWS, ids=[str(n) for n in range(len(ROWS))])
async def test_a_row_that_cannot_be_read_is_shown_and_can_be_removed(rest: Rest, columns: dict[str, str]) -> None:
    good = await rest.submit()
    bad = await written(rest, columns)
    async with rest.client() as client:
        page = await client.get("/jobs")
        assert page.status_code == 200, page.text
        assert [job["id"] for job in page.json()["items"]] == [bad, good["id"]]
        shown = await client.get(f"/jobs/{bad}")
        if columns["args"] not in ("{}", ROWS[6]["args"]):
            assert "arguments cannot be read: " in shown.json()["args"][UNREADABLE]
        if "meta" in columns:
            assert "cannot be read: " in shown.json()["meta"][UNREADABLE]
        for path in (
            f"/jobs/{bad}/explain",
            f"/jobs/{bad}/attempts",
            f"/jobs/{bad}/logs",
            "/stats/failures",
            "/workflows",
        ):
            assert (await client.get(path)).status_code == 200, path
        dry = await client.post("/jobs/bulk", json={"action": "cancel", "search": "kind:greet", "dry_run": True})
        assert (dry.status_code, dry.json()["count"]["value"]) == (200, 2), dry.text
        for _ in ("cancelled", "removed"):
            assert (await client.delete(f"/jobs/{bad}")).status_code < 300
        assert (await client.get(f"/jobs/{bad}")).status_code == 404


@pytest.mark.parametrize("columns", ROWS[:7], ids=[str(n) for n in range(7)])
async def test_a_worker_fails_a_row_that_cannot_be_read_and_goes_on(rest: Rest, columns: dict[str, str]) -> None:
    bad = await written(rest, columns)
    good = await rest.submit()
    async with rest.app.worker():
        assert (await rest.app.jobs.wait(good["id"], timeout=30)).state == "completed"
        ended = await rest.app.jobs.wait(bad, timeout=30)
    assert (ended.state, (ended.errors or {})["reason"]) == ("failed", "undecodable")
    assert "cannot be read" in str((ended.errors or {})["message"])
    assert ended.attempt == 1


async def test_results_errors_and_progress_written_by_hand_do_not_fail_a_page(rest: Rest) -> None:
    good = await rest.submit()
    async with rest.app.worker():
        await rest.app.jobs.wait(good["id"], timeout=30)
    number = ids.parse(good["id"])
    await rest.store.connection.execute(
        "UPDATE rowlock.jobs SET result = $1::text::jsonb, errors = '[1]', tags = '{NULL}'", DEEP
    )
    await rest.store.connection.execute(
        "INSERT INTO rowlock.job_progress (job_id, fence, progress, phases) VALUES ($1, 1, '{\"done\": \"x\"}', '3')",
        number,
    )
    async with rest.client() as client:
        assert (await client.get("/jobs")).status_code == 200
        shown = (await client.get(f"/jobs/{good['id']}")).json()
    assert "the result cannot be read" in shown["result"][UNREADABLE]
    assert "expected an object" in shown["errors"][UNREADABLE]
    assert "the progress cannot be read" in shown["progress"]["message"]
