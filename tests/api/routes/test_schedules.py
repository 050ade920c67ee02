from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from rowlock.model.access import ALL, Permission, Principal

if TYPE_CHECKING:
    from tests.api.conftest import Rest

NEW = {"name": "nightly", "kind": "greet", "args": {"name": "Ada"}, "cron": "0 2 * * *", "tz": "Europe/London"}


async def test_a_schedule_is_created_read_changed_and_removed(rest: Rest) -> None:
    async with rest.client() as client:
        window = {"hours": "03:00-06:00", "days": "sat,sun", "then": "defer"}
        made = await client.post("/schedules", json={**NEW, "windows": [window], "options": {"expires_in": 3600}})
        assert made.status_code == 201, made.text
        body = made.json()
        assert (body["cron"], body["every"], body["windows"], body["declared"]) == (
            "0 2 * * *",
            None,
            [window],
            False,
        )
        assert body["options"] == {"expires_in": 3600}
        assert (await client.post("/schedules", json=NEW)).status_code == 409
        read = await client.get("/schedules/nightly")
        assert read.headers["etag"] == made.headers["etag"] == '"1"'
        same = await client.get("/schedules/nightly", headers={"If-None-Match": read.headers["etag"]})
        assert same.status_code == 304
        blind = await client.patch("/schedules/nightly", json={"every": 900})
        assert blind.status_code == 428
        changed = await client.patch("/schedules/nightly", json={"every": 900}, headers={"If-Match": '"1"'})
        assert (changed.status_code, changed.json()["every"], changed.json()["cron"]) == (200, 900, None)
        late = await client.patch("/schedules/nightly", json={"overlap": "skip"}, headers={"If-Match": '"1"'})
        assert (late.status_code, late.json()["current"]["version"]) == (412, 2)
        runs = (await client.get("/schedules/nightly/next", params={"n": 2})).json()["items"]
        first, second = (datetime.fromisoformat(run) for run in runs)
        assert second - first == timedelta(minutes=15)
        assert (await client.delete("/schedules/nightly")).json()["name"] == "nightly"
        gone = await client.get("/schedules/nightly")
        assert (gone.status_code, gone.json()["code"]) == (404, "schedule-not-found")


async def test_pause_resume_run_and_backfill(rest: Rest) -> None:
    async with rest.client() as client:
        await client.post("/schedules", json={**NEW, "cron": None, "every": 3600})
        assert (await client.post("/schedules/nightly/pause")).json()["enabled"] is False
        assert (await client.post("/schedules/nightly/resume")).json()["enabled"] is True
        assert (await client.post("/schedules/nightly/reset")).status_code == 409
        ran = await client.post("/schedules/nightly/run")
        assert (ran.status_code, ran.json()["kind"]) == (202, "greet")
        assert (await client.get("/schedules/nightly")).json()["last_job"] == ran.json()["id"]
        end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        asked = {"start": (end - timedelta(hours=3)).isoformat(), "end": end.isoformat()}
        told = (await client.post("/schedules/nightly/backfill", json=asked)).json()
        assert (len(told["slots"]), told["jobs"], told["dry_run"]) == (3, [], True)
        done = (await client.post("/schedules/nightly/backfill", json={**asked, "dry_run": False})).json()
        assert len(done["jobs"]) == 3
        (line,) = (await client.get("/schedules")).json()["items"]
        assert line["name"] == "nightly"


@pytest.mark.parametrize(
    ("says", "status", "code", "told"),
    [
        ({"cron": "0 99 * * *"}, 422, "invalid-option", "at character 3"),
        ({"tz": "Europe/Lundon"}, 422, "invalid-option", "Did you mean 'Europe/London'"),
        ({"every": 60}, 422, "invalid-option", "both"),
        ({"kind": "gret"}, 404, "kind-not-found", "greet"),
        ({"args": {"nom": "x"}}, 422, "invalid-arguments", "nom"),
        ({"windows": [{"hours": "0-24"}]}, 422, "invalid-option", "written like"),
        ({"missed": "some"}, 422, "invalid-request", ""),
    ],
)
async def test_what_cannot_be_is_told(rest: Rest, says: dict[str, Any], status: int, code: str, told: str) -> None:
    async with rest.client() as client:
        answer = await client.post("/schedules", json={**NEW, **says})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert told in answer.json()["detail"]


async def test_another_tenants_schedule_is_404(rest: Rest) -> None:
    team = ALL - {Permission.READ_ALL, Permission.SUBMIT_AS}
    async with rest.knows(Principal("ada", tenant="north", permissions=team)) as north:
        assert (await north.post("/schedules", json=NEW)).status_code == 201
    async with rest.knows(Principal("bob", tenant="south", permissions=team)) as south:
        assert (await south.get("/schedules/nightly")).status_code == 404
        assert (await south.post("/schedules/nightly/run")).status_code == 404
        assert (await south.get("/schedules")).json()["items"] == []
