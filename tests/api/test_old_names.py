"""Old names of fields and parameters are accepted; durations are numbers or texts; ids are public ids or numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rowlock.api.schemas import access, job_actions, jobs, lanes, limits, schedules
from rowlock.api.schemas.base import RENAMED, Body
from rowlock.model import ids

if TYPE_CHECKING:
    from tests.api.conftest import Rest

BODIES: dict[type[Body], dict[str, Any]] = {
    jobs.Submission: {"kind": "k", "run_in_s": 1, "expires_in_s": 2, "max_age_s": 3, "max_wait_s": 4},
    jobs.JobChange: {"run_in_s": 1},
    lanes.NewLane: {"name": "a", "poll_s": 1, "stale_s": 2, "stall_s": 5, "age_s": 4, "ordering": "fair"},
    lanes.LaneChange: {"poll": 1, "stale_after": 2, "stall": 5, "age_every": 4},
    limits.RateLimitBody: {"amount": 1, "per_s": 2},
    limits.RatePause: {"lasting_s": 2},
    schedules.NewSchedule: {"name": "a", "kind": "k", "every_s": 60},
    schedules.ScheduleChange: {"every_s": 60},
    access.NewToken: {"name": "a", "expires_in_s": 60},
}


@pytest.mark.parametrize("body", BODIES)
def test_a_body_is_read_under_old_and_new_names(body: type[Body]) -> None:
    old = BODIES[body]
    new = {RENAMED.get(name, name): value for name, value in old.items()}
    assert body.model_validate(old) == body.model_validate(new)


def test_an_old_name_that_is_a_field_of_another_body_is_left_alone() -> None:
    with pytest.raises(ValueError, match="poll_s"):
        job_actions.Order.model_validate({"poll_s": 1})


@pytest.mark.parametrize("text", ["90", "90s", "1m30s", "PT1M30S", 90, 90.0])
def test_a_duration_is_a_number_or_a_text(text: str | float) -> None:
    assert jobs.Submission(kind="k", run_in=text).run_in == 90  # type: ignore[arg-type]  # as JSON has it


async def test_a_duration_that_cannot_be_read_is_pointed_at(rest: Rest) -> None:
    async with rest.client() as client:
        for wrong in ("soon", "", True, -1, "11 years", [1]):
            answer = await client.post("/jobs", json={"kind": "greet", "args": {"name": "x"}, "run_in": wrong})
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request"), wrong
            (error,) = answer.json()["errors"]
            assert error["pointer"] == "#/run_in"
        answer = await client.post("/jobs", json={"kind": "greet", "args": {"name": "x"}, "run_in": "soon"})
        assert "'soon' is not a duration" in answer.json()["detail"]


async def test_one_setting_under_two_names_is_refused(rest: Rest) -> None:
    async with rest.client() as client:
        twice = await client.post("/admin/workers/lanes", json={"name": "a", "poll_s": 1, "poll_interval": 1})
        assert (twice.status_code, twice.json()["code"]) == (422, "invalid-option")
        assert "poll_interval" in twice.json()["detail"]
        both = await client.get("/stats/overview", params={"window": 60, "window_s": 60})
        assert (both.status_code, both.json()["code"]) == (422, "invalid-request")


async def test_parameters_are_read_under_old_and_new_names(rest: Rest) -> None:
    async with rest.client() as client:
        for name, value in (("window", "60"), ("window", "1m"), ("window_s", "60"), ("window_s", "PT1M")):
            answer = await client.get("/stats/overview", params={name: value})
            assert (answer.status_code, answer.json()["window"]) == (200, 60)
        assert (await client.get("/stats/slow", params={"longer_than_s": 1})).status_code == 200
        elsewhere = await client.get("/jobs", params={"window_s": 60})
        assert elsewhere.status_code == 422


async def test_a_job_is_named_by_its_public_id_or_its_number(rest: Rest) -> None:
    job = await rest.submit()
    async with rest.client() as client:
        for name in (job["id"], job["id"].lower().replace("-", ""), str(ids.decode(job["id"]))):
            answer = await client.get(f"/jobs/{name}")
            assert (answer.status_code, answer.json()["id"]) == (200, job["id"])
        order = {"action": "cancel", "ids": [str(ids.decode(job["id"]))], "dry_run": True}
        preview = await client.post("/jobs/bulk", json=order)
        assert [each["id"] for each in preview.json()["samples"]] == [job["id"]]
        assert (await client.get("/jobs/0")).json()["code"] == "invalid-id"
