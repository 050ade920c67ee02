"""The database as operators see it, deploys, and what changed in a span of time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rowlock import Rowlock
from rowlock.model.access import ALL, Permission, Principal
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    import httpx
    from tests.api.conftest import Rest

COLUMNS = "at, outcome, state, kind, lane, tenant, n, run_seconds, wait_seconds"


async def read(client: httpx.AsyncClient, path: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - of the query
    answer = await client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_the_state_of_the_database_is_served(rest: Rest) -> None:
    async with rest.store.connection.transaction(), rest.client() as client:
        await rest.store.value("SELECT 1")
        system = await read(client, "/system")
        newest = migrate.newest()
        assert (system["version"], system["made_for"], system["schema_name"]) == (newest, newest, "rowlock")
        assert [step["version"] for step in system["steps"]][:2] == [1, 2]
        assert system["steps"][-1]["version"] == newest
        assert {"jobs", "failure_groups"} <= {table["name"] for table in system["tables"]}
        assert "jobs_claim" in {index["name"] for index in system["indexes"]}
        assert system["retention"] == [{"kind": "*", "state": "*", "keep": 604_800.0}]
        assert {"rescue", "prune"} <= {duty["name"] for duty in system["duties"]}
        assert system["oldest_transaction"]["pid"] == rest.store.connection.get_server_pid()
        assert system["database_bytes"] > 0
        assert system["notify_queue"] >= 0


async def test_the_doctor_is_asked_over_rest(rest: Rest) -> None:
    async with rest.client() as client:
        doctor = await read(client, "/system/doctor")
        assert doctor["verdict"] in {"ok", "warn"}
        assert {"database", "schema", "vacuum"} <= {finding["check"] for finding in doctor["findings"]}
    async with rest.knows(Principal("ada", "acme", permissions=ALL - {Permission.READ_ALL})) as client:
        refused = await client.get("/system/doctor")
        assert (refused.status_code, refused.json()["permission"]) == (403, "jobs:read_all")


@pytest.mark.parametrize("age", ["2 hours", "3 days"])
async def test_a_deploy_has_the_failures_before_and_after_it(rest: Rest, age: str) -> None:
    store = rest.store
    moment = f"date_trunc('hour', now()) - interval '{age}'"
    await store.execute(f"INSERT INTO {{s}}.deploys VALUES ('7.1', {moment}), ('7.0', {moment} - interval '90 days')")
    await store.execute(
        f"INSERT INTO {{s}}.count_increments ({COLUMNS}) VALUES "
        f"({moment} - interval '59 min', '', 'completed', 'k', '', '', 8, 0, 0), "
        f"({moment} - interval '1 min', '', 'failed', 'k', '', '', 2, 0, 0), "
        f"({moment} + interval '59 min', '', 'failed', 'k', '', '', 3, 0, 0), "
        f"({moment} - interval '61 min', '', 'failed', 'k', '', '', 50, 0, 0), "
        f"({moment} + interval '61 min', '', 'failed', 'k', '', '', 50, 0, 0)"
    )
    async with rest.client() as client:
        (deploy,) = (await read(client, "/deploys"))["items"]
    assert (deploy["version"], deploy["workers"]) == ("7.1", 0)
    assert deploy["before"] == {"ended": 10, "failed": 2, "failure_rate": 0.2}
    assert deploy["after"] == {"ended": 3, "failed": 3, "failure_rate": 1.0}


async def test_the_first_worker_of_a_version_marks_a_deploy(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLOCK_APP_VERSION", "2026.11.3")
    app = Rowlock(rest.store.database.url)
    for _ in range(2):
        async with app.worker():
            pass
    await app.close()
    async with rest.client() as client:
        (deploy,) = (await read(client, "/deploys"))["items"]
    assert deploy["version"] == "2026.11.3"
    assert await rest.store.value("SELECT count(*) FROM {s}.workers WHERE version = '2026.11.3'") == 2


async def test_changes_are_one_list_of_deploys_orders_and_new_failures(rest: Rest) -> None:
    store = rest.store
    await rest.app.lanes.create("front")
    await rest.app.lanes.set("front", slots=3)
    await rest.app.schedules.create("nightly", "greet", every="1h", args={"name": "x"})
    await store.execute("INSERT INTO {s}.deploys (version) VALUES ('7.1')")
    error = json.dumps({"type": "OSError", "message": "host 12 is down"})
    await store.execute(
        "INSERT INTO {s}.failure_groups (fingerprint, tenant, kind, first_seen, last_seen, error) "
        "VALUES ('f00d', 'zeta', 'k', now(), now(), $1)",
        error,
    )
    await rest.submit("greet")
    async with rest.client() as client:
        found = await read(client, "/changes")
        whats = {change["what"] for change in found["items"]}
        assert {"lane.create", "lane.set", "schedule.create", "deploy", "failure.began"} == whats
        assert [change["at"] for change in found["items"]] == sorted(
            (change["at"] for change in found["items"]), reverse=True
        )
        assert found["complete"] is True
        began = next(change for change in found["items"] if change["what"] == "failure.began")
        assert (began["target"], began["after"]) == (
            "failure:f00d",
            {"kind": "k", "type": "OSError", "message": "host <n> is down"},
        )
        assert (await read(client, "/changes", limit=1))["items"] == found["items"][:1]
        none = {"from": "2001-01-01T00:00:00Z", "to": "2001-01-02T00:00:00Z"}
        assert (await read(client, "/changes", **none))["items"] == []
        wrong = await client.get("/changes", params={"from": none["to"], "to": none["from"]})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid-option")
    async with rest.knows(Principal("ada", "acme", permissions=ALL - {Permission.READ_ALL})) as client:
        assert {change["what"] for change in (await read(client, "/changes"))["items"]} == {"deploy"}
    async with rest.knows(Principal("ada", permissions=frozenset({Permission.AUDIT_READ}))) as client:
        assert (await client.get("/changes")).json()["permission"] == "workers:view"


async def test_a_long_audit_is_not_read_to_its_beginning(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowlock.desk.system._WALK", 3)
    for number in range(5):
        await rest.app.lanes.create(f"lane{number}")
    async with rest.client() as client:
        found = await read(client, "/changes")
    assert len([change for change in found["items"] if change["what"] == "lane.create"]) == 3
    assert found["complete"] is False
