"""examples/knowledge_graph in separate processes: its web, and workers that are killed, drained and tuned."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import signal
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
from examples.knowledge_graph.web import ROUTES
from playwright.async_api import expect
from tests.examples.knowledge_graph_deployment import LANES, Deployment, Worker, deployed, migrated
from tests.examples.one_command import one_command
from tests.host_processes import free_ports
from tests.os_processes import children_of
from tests.os_processes import ended as has_ended
from tests.waiting import PATIENCE, eventually, until

from rowlock import Rowlock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from playwright.async_api import Browser

    Proved = Callable[[str], None]

pytestmark = pytest.mark.timeout(400)  # processes that start, work, die and are rescued
LONG: Final = 1_000_000
"""Iterations of a projection that only a cancel ends."""
SEEDED: Final = {
    "interactive": (["ingestion", "ingest_image", "polarity"], 2, 2000, 30),
    "maintenance": (
        ["projection", "vocab_refresh", "epistemic_remeasurement", "ontology_annealing", "proposal_execution"],
        1,
        15_000,
        30,
    ),
    "system": (["restore", "vocab_consolidate", "artifact_cleanup", "source_embedding"], 1, 30_000, 30),
}
COLUMNS: Final = ("job_types", "max_slots", "poll_interval_ms", "stale_timeout_minutes")
OWN_CONNECTIONS: Final = 4
"""Of a worker process: claim, finish, beat and listen; docs/operate/workers.md."""
POOLED_CONNECTIONS: Final = 4
"""Of any process, opened on demand."""
IN_TIME: Final = PATIENCE * 1000
"""Milliseconds that a page may take on a busy machine."""


@pytest.fixture
async def deployment(tmp_path: Path, empty_database_url: str) -> AsyncIterator[Deployment]:
    async with deployed(tmp_path, empty_database_url) as found:
        yield found


def seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


async def test_the_migration_seeds_lanes_and_roles_and_the_environment_overrides_a_lane(
    empty_database_url: str, proved: Proved
) -> None:
    await migrated(empty_database_url, ROWLOCK_LANES="system:kinds=restore|artifact_cleanup,slots=3,poll_interval=5s")
    async with Rowlock(empty_database_url) as rowlock:
        found = {lane.name: lane for lane in await rowlock.lanes.list()}
        assert (found["system"].slots, found["system"].kinds) == (3, ("restore", "artifact_cleanup"))
        assert (found["interactive"].slots, len(found["maintenance"].kinds)) == (2, 5)
    await migrated(empty_database_url, "base")
    await migrated(empty_database_url)
    async with Rowlock(empty_database_url) as rowlock:
        lanes = {
            lane.name: (
                list(lane.kinds),
                lane.slots,
                lane.poll_interval.total_seconds() * 1000,
                lane.heartbeat_timeout.total_seconds() / 60,
            )
            for lane in await rowlock.lanes.list()
        }
        assert lanes == SEEDED
        roles = {role.name: {*map(str, role.permissions)} for role in await rowlock.roles.list()}
        assert {"workers:view", "workers:manage"} <= roles["platform_admin"]
        assert roles["worker_monitor"] == {"workers:view"}
        assert roles["worker_operator"] == {"workers:manage"}
        # A second run of the migration, and a worker's start, leave what an operator has changed.
        await rowlock.lanes.set("interactive", slots=5)
        await migrated(empty_database_url, ROWLOCK_LANES="interactive:slots=9")
        assert (await rowlock.lanes.get("interactive")).slots == 5
    proved("one migration seeded three lanes with 12 kinds and the roles; the environment overrode a lane before that")


async def test_an_ingestion_waits_for_approval_and_is_followed_to_its_end(
    deployment: Deployment, proved: Proved
) -> None:
    web = await deployment.start_web()
    await deployment.start_worker()
    job = await deployment.add("A Driver needs a Licence.", "A Vehicle has a Keeper.", approve=False)
    probe = await deployment.start("polarity", negative="Tax", positive="Driver")
    await deployment.becomes(probe, "completed")  # the lane works, and passes over what is pending
    waiting = await deployment.job(job)
    assert (waiting["state"], waiting["priority"], waiting["submitted_by"]) == ("pending", 10, "ada")
    assert (await deployment.ask("bob", "GET", f"/jobs/{job}")).status_code == 404
    assert (await deployment.ask("bob", "POST", f"/jobs/{job}/approve")).status_code == 404
    approved = await deployment.ask("ada", "POST", f"/jobs/{job}/approve")
    assert (approved.status_code, approved.json()["state"]) == (200, "queued")
    events = await followed(deployment, job)
    done = await deployment.becomes(job, "completed")
    assert done["result"] == {"chunks": 2, "concepts": 4, "resumed_at": 0}
    assert {"job.approved", "job.completed", "end"} <= {name for name, _ in events}, events
    assert [each["id"] for each in (await deployment.ask("bob", "GET", "/jobs")).json()["items"]] == []
    assert [each["id"] for each in (await deployment.ask("ada", "GET", "/jobs")).json()["items"]] == [job]
    deleted = await deployment.ask("ada", "DELETE", f"/jobs/{job}")
    assert deleted.status_code in (200, 204)
    assert (await deployment.ask("ada", "GET", f"/jobs/{job}")).status_code == 404
    queued = await deployment.add("A Tester.", approve=False)
    assert (await deployment.ask("ada", "DELETE", f"/jobs/{queued}")).json()["state"] == "cancelled"
    document = (await deployment.ask(None, "GET", "/openapi.json")).json()
    there = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    ten = {route.replace("/jobs/{id}", "/jobs/{job_id}") for route in ROUTES}
    assert {route for route in there if route.split()[1].startswith(("/jobs", "/admin"))} == ten
    claimed = seconds_between(done["run_after"], done["claimed_at"])
    assert "Traceback" not in web.told()
    proved(f"an ingestion ran {claimed * 1000:.0f} ms after its approval; ten routes, no more, stand at the root")


async def followed(deployment: Deployment, job: str) -> list[tuple[str, Any]]:
    """Every event of the job's stream, to its end."""
    found: list[tuple[str, Any]] = []
    async with deployment.client() as client, client.stream("GET", f"/jobs/{job}/stream?last_event_id=0") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        name = ""
        async for line in stream.aiter_lines():
            key, _, value = line.partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                found.append((name, json.loads(value)))
                if name == "end":
                    break
    return found


async def test_projections_never_starve_ingestion(deployment: Deployment, proved: Proved) -> None:
    await deployment.start_web()
    await deployment.start_worker()
    projections = [await deployment.start("projection", iterations=LONG) for _ in range(4)]
    await deployment.reaches(projections[0], 1)
    waited = []
    for number in range(8):
        job = await deployment.add(f"A Driver{number} needs a Licence.")
        done = await deployment.becomes(job, "completed")
        waited.append(seconds_between(done["run_after"], done["claimed_at"]))
    states = [(await deployment.job(job))["state"] for job in projections]
    assert states == ["running", "queued", "queued", "queued"]
    lanes = await deployment.lanes()
    assert [(lanes[name]["used"], lanes[name]["total_slots"]) for name in ("interactive", "maintenance")] == [
        (0, 2),
        (1, 1),
    ]
    assert lanes["maintenance"]["due"]["value"] == 3
    assert max(waited) < 2.0  # the poll interval, though three projections wait and one computes
    proved(
        f"beside one computing and three waiting projections, 8 ingestions were claimed {max(waited) * 1000:.0f} ms "
        "after their approval at most"
    )


async def test_lanes_are_tuned_while_workers_run(deployment: Deployment, proved: Proved) -> None:
    await deployment.start_web()
    await deployment.start_worker()
    running, waiting = [await deployment.start("projection", iterations=LONG) for _ in range(2)]
    await deployment.reaches(running, 1)
    assert (await deployment.job(waiting))["state"] == "queued"
    begun = time.monotonic()
    change = {"max_slots": 2, "poll_interval_ms": 500, "stale_timeout_minutes": 5, "enabled": True}
    changed = await deployment.set_lane("maintenance", **change)
    assert {name: changed[name] for name in change} == change
    await deployment.becomes(waiting, "running")
    seconds = time.monotonic() - begun
    assert seconds < 15  # the poll interval before the change
    listed = (await deployment.lanes())["maintenance"]
    assert (listed["used"], listed["total_slots"], listed["max_slots"]) == (2, 2, 2)
    async with deployment.client("grace") as client:
        path, old = f"{LANES}/maintenance", {"If-Match": '"1"'}
        assert (await client.patch(path, json={"max_slots": 9}, headers=old)).status_code == 412
        assert (await client.patch(path, json={"max_slots": "many"})).status_code == 422
        assert (await client.patch(path, json={"max_slot": 1})).status_code == 422
        assert (await client.patch(f"{LANES}/none", json={"max_slots": 1})).status_code == 404
    await deployment.set_lane("system", enabled=False)
    held = await deployment.start("source_embedding")
    await deployment.becomes(await deployment.start("polarity", negative="a", positive="b"), "completed")
    drained = (await deployment.lanes())["system"]
    assert (drained["enabled"], drained["running"], drained["due"]["value"]) == (False, 0, 1)
    assert [(await deployment.job(job))["state"] for job in (held, running)] == ["queued", "running"]
    await deployment.set_lane("system", enabled=True)
    await deployment.becomes(held, "completed")
    proved(f"a lane with one slot more started the next projection {seconds:.1f} s after a plain PATCH")


async def test_a_drained_lane_finishes_what_runs(deployment: Deployment, proved: Proved) -> None:
    deployment.models.hold("Slow")
    await deployment.start_web()
    await deployment.start_worker()
    running = await deployment.add("A Slow Driver.  A Slow Driver needs a Licence.")
    await until(lambda: deployment.models.waiting)
    await deployment.set_lane("interactive", enabled=False)
    following = await deployment.add("A Keeper has a Vehicle.")
    deployment.models.release()
    await deployment.becomes(running, "completed")
    await deployment.becomes(await deployment.start("source_embedding"), "completed")  # another lane goes on
    assert (await deployment.job(following))["state"] == "queued"
    await deployment.set_lane("interactive", enabled=True)
    await deployment.becomes(following, "completed")
    proved("a drained lane finished its running job, left the next one waiting, and took it when it was resumed")


async def test_a_running_job_is_cancelled_and_goes_on_later_from_its_checkpoint(
    deployment: Deployment, proved: Proved
) -> None:
    await deployment.start_web()
    await deployment.start_worker()
    projection = await deployment.start("projection", iterations=1500)
    await deployment.reaches(projection, 60)
    refused = await deployment.ask("grace", "DELETE", f"/jobs/{projection}")
    assert (refused.status_code, refused.json()["current_state"]) == (409, "running")
    begun = time.monotonic()
    asked = await deployment.ask("otto", "POST", f"/admin/workers/jobs/{projection}/cancel")
    assert asked.status_code == 200, asked.text
    assert asked.json()["args"] in (None, {})  # an operator who may not read jobs sees no more than the slot
    ended = await deployment.becomes(projection, "cancelled")
    seconds = time.monotonic() - begun
    assert ended["attempt"] == 1
    assert await deployment.rows("SELECT 1 FROM kg.artifacts") == []
    await deployment.rowlock.jobs.retry(projection)
    done = await deployment.becomes(projection, "completed")
    assert (done["runs"], done["result"]["iterations"]) == (2, 1500)
    assert done["result"]["resumed_at"] >= 50
    assert len(await deployment.rows("SELECT 1 FROM kg.artifacts")) == 1
    resumed = done["result"]["resumed_at"]
    proved(
        f"a computing projection was cancelled {seconds:.1f} s after the order, and went on later from its iteration "
        f"{resumed}"
    )


async def test_an_ingestion_is_cancelled_between_two_chunks_and_keeps_what_it_has_read(
    deployment: Deployment, proved: Proved
) -> None:
    deployment.models.hold("Keeper")
    await deployment.start_web()
    await deployment.start_worker()
    job = await deployment.add("A Driver needs a Licence.", "A Vehicle has a Keeper.", "A Police checks Insurance.")
    await until(lambda: deployment.models.waiting)
    asked = await deployment.ask("grace", "POST", f"/admin/workers/jobs/{job}/cancel")
    assert (asked.json()["state"], asked.json()["cancel_requested"]) == ("running", True)
    deployment.models.release()
    await deployment.becomes(job, "cancelled")
    found = {row[0] for row in await deployment.rows("SELECT label FROM kg.concepts")}
    assert {"Driver", "Licence"} <= found
    assert not {"Police", "Insurance"} & found
    deployment.models.asked.clear()
    await deployment.rowlock.jobs.retry(job)
    done = await deployment.becomes(job, "completed")
    assert done["result"]["resumed_at"] >= 1
    assert "Driver" not in deployment.models.asked
    assert await deployment.rows("SELECT DISTINCT mentions FROM kg.concepts") == [(1,)]
    proved(
        "a cancelled ingestion stopped between two chunks, kept those that it had read, and later read only the rest"
    )


async def test_one_slot_keeps_the_order_of_priority_then_age(deployment: Deployment, proved: Proved) -> None:
    deployment.models.hold("First")
    await deployment.start_web()
    await deployment.start_worker()
    await deployment.set_lane("interactive", max_slots=1)
    await eventually(lambda: slots_are(deployment, "interactive", 1))
    first = await deployment.add("The First Driver needs a Licence.")
    await until(lambda: deployment.models.waiting)
    others = [await deployment.add(f"A Driver{number} needs a Licence.") for number in range(5)]
    async with deployment.client("otto") as client:
        path = f"/admin/workers/jobs/{others[4]}/priority"
        assert (await client.patch(path, json={"priority": 50})).status_code == 200
        lower = await client.patch(f"/admin/workers/jobs/{others[0]}/priority", json={"priority": 0})
        assert lower.json()["priority"] == 0
        too_late = await client.patch(f"/admin/workers/jobs/{first}/priority", json={"priority": 50})
        assert (too_late.status_code, too_late.json()["current_state"]) == (409, "running")
        assert (await client.patch(path, json={"priority": 1000})).status_code == 422
    deployment.models.release()
    done = [await deployment.becomes(job, "completed") for job in [first, *others]]
    claimed = sorted(done, key=lambda each: each["claimed_at"])
    assert [each["id"] for each in claimed] == [first, others[4], *others[1:4], others[0]]
    ends = [each["finished_at"] for each in claimed]
    assert all(end <= later["claimed_at"] for end, later in zip(ends, claimed[1:], strict=False))
    proved("with one slot, six ingestions ran one by one: the raised one first, the lowered one last, the rest by age")


async def slots_are(deployment: Deployment, lane: str, slots: int) -> bool:
    found: bool = (await deployment.lanes())[lane]["total_slots"] == slots
    return found


async def test_two_permissions_hold_independently_and_are_audited(deployment: Deployment, proved: Proved) -> None:
    await deployment.start_web()
    await deployment.start_worker()
    running = await deployment.start("projection", iterations=LONG)
    await deployment.becomes(running, "running")
    queued = await deployment.start("projection", iterations=1)
    orders = {
        ("GET", LANES): None,
        ("GET", "/admin/workers/status"): None,
        ("PATCH", f"{LANES}/system"): {"max_slots": 1},
        ("PATCH", f"/admin/workers/jobs/{queued}/priority"): {"priority": 1},
        ("POST", f"/admin/workers/jobs/{queued}/cancel"): {},
    }
    answers = {
        who: [(await deployment.ask(who, *order, body)).status_code for order, body in orders.items()]
        for who in (None, "ada", "mona", "otto", "grace")
    }
    assert answers == {
        None: [401] * 5,
        "ada": [403] * 5,
        "mona": [200, 200, 403, 403, 403],
        "otto": [403, 403, 200, 200, 200],
        "grace": [200, 200, 200, 409, 200],  # the job is cancelled by now
    }
    status = (await deployment.ask("mona", "GET", "/admin/workers/status")).json()
    (slot,) = [job for worker in status["workers"] for job in worker["jobs"]]
    assert (slot["id"], slot["kind"], slot["lane"]) == (running, "projection", "maintenance")
    assert slot["since"] == (await deployment.job(running))["claimed_at"]
    assert [(await deployment.ask("mona", "GET", path)).status_code for path in ("/jobs", f"/jobs/{running}")] == [
        403
    ] * 2
    # A custom role of the host's own user takes effect with the next request.
    await deployment.rowlock.roles.set("night_watch", ["workers:view", "jobs:read", "jobs:cancel"])
    await deployment.rows("UPDATE kg.people SET roles = '{night_watch}' WHERE name = 'bob' RETURNING 1")
    assert (await deployment.ask("bob", "GET", LANES)).status_code == 200
    async with deployment.client(None, Cookie="knowledge_graph=key-of-grace") as client:
        assert (await client.get(LANES)).status_code == 200
        foreign = {"Sec-Fetch-Site": "cross-site"}
        assert (await client.patch(f"{LANES}/system", json={"max_slots": 9}, headers=foreign)).status_code == 401
    done = {(line.subject, line.action) for line in await deployment.rowlock.audit.list(limit=200)}
    assert {("otto", "job.cancel"), ("otto", "job.priority"), ("ada", "access.refused")} <= done
    proved("workers:view and workers:manage each opened exactly their routes, to custom roles of the host's own users")


async def test_jobs_of_a_killed_worker_resume_in_another_one(deployment: Deployment, proved: Proved) -> None:
    deployment.models.hold("Keeper")
    await deployment.start_web()
    first = await deployment.start_worker("worker-1")
    ingestion = await deployment.add("A Driver needs a Licence.", "A Vehicle has a Keeper.", "A Tester.")
    projection = await deployment.start("projection", iterations=400)
    await until(lambda: deployment.models.waiting)
    await deployment.reaches(projection, 60)
    children = children_of(first.process.pid)
    assert children
    first.signal_all(signal.SIGKILL)
    killed = time.monotonic()
    await deployment.start_worker("worker-2")
    assert (await deployment.job(ingestion))["worker"] == "worker-1"  # stale after 30 minutes
    for lane in ("interactive", "maintenance"):
        assert (await deployment.set_lane(lane, stale_timeout_minutes=0.1))["heartbeat_timeout"] == 6.0
    await deployment.models_wait(2)
    seconds = time.monotonic() - killed
    for lane in ("interactive", "maintenance"):
        await deployment.set_lane(lane, stale_timeout_minutes=30)
    deployment.models.release()
    read, computed = [await deployment.becomes(job, "completed") for job in (ingestion, projection)]
    assert (read["worker"], read["runs"], read["result"]["resumed_at"]) == ("worker-2", 2, 1)
    assert (computed["worker"], computed["losses"]) == ("worker-2", 1)
    assert computed["result"]["resumed_at"] >= 50
    assert await deployment.rows("SELECT DISTINCT mentions FROM kg.concepts") == [(1,)]
    assert deployment.models.asked.count("Driver") == 1
    for child in children:
        await eventually(functools.partial(has_ended, child))
    proved(
        f"after kill -9 of their worker an ingestion went on {seconds:.1f} s later at its second chunk, and a "
        f"projection at iteration {computed['result']['resumed_at']}"
    )


async def test_a_supervised_worker_needs_no_timeout(deployment: Deployment, proved: Proved) -> None:
    deployment.models.hold("Keeper")
    await deployment.start_web()
    supervisor = await deployment.start_worker("worker-1", "--processes", "1")
    job = await deployment.add("A Driver needs a Licence.", "A Vehicle has a Keeper.")
    await until(lambda: deployment.models.waiting)
    (worker,) = [each for each in await deployment.rowlock.workers.list() if each.state == "up"]
    assert worker.pid != supervisor.process.pid
    os.kill(worker.pid, signal.SIGKILL)
    killed = time.monotonic()
    await deployment.models_wait(2)
    seconds = time.monotonic() - killed
    deployment.models.release()
    done = await deployment.becomes(job, "completed")
    assert (done["runs"], done["result"]["resumed_at"]) == (2, 1)
    proved(f"under its supervisor a killed worker's job went on {seconds:.1f} s later, with a stale timeout of 30 min")


async def test_a_stuck_job_is_requeued_a_bounded_number_of_times(deployment: Deployment, proved: Proved) -> None:
    deployment.models.hold("Keeper")
    await deployment.start_web()
    await deployment.start_worker(ROWLOCK_STOP_PATIENCE="1s", ROWLOCK_MAX_STUCK="off")
    await deployment.set_lane("interactive", progress_timeout=5, max_slots=8)
    job = await deployment.add("A Vehicle has a Keeper.")
    failed = await deployment.becomes(job, "failed")
    assert (failed["runs"], failed["losses"]) == (3, 3)
    assert "no progress" in str(failed["errors"])
    proved("a job that hung was requeued twice and failed at its third time, its worker alive all the while")


async def test_a_restart_of_every_program_loses_nothing(deployment: Deployment, proved: Proved) -> None:
    deployment.models.hold("Driver2")
    web = await deployment.start_web()
    await ended(await deployment.start_worker("worker-1"))
    jobs = [await deployment.add(f"A Driver{number} needs a Licence.") for number in range(5)]
    pending = await deployment.add("A Keeper.", approve=False)
    await asyncio.to_thread(web.stop, signal.SIGKILL)
    await deployment.start_web("web-2")
    second = await deployment.start_worker("worker-2", ROWLOCK_SHUTDOWN_AFTER="1s", ROWLOCK_STOP_PATIENCE="1s")
    await until(lambda: deployment.models.waiting)
    await ended(second)
    assert (await deployment.job(jobs[2]))["state"] == "queued"
    await deployment.start_worker("worker-3")
    deployment.models.release()
    done = [await deployment.becomes(job, "completed") for job in jobs]
    assert [(each["losses"], each["attempt"]) for each in done] == [(0, 1)] * 5
    assert done[2]["worker"] == "worker-3"
    assert await deployment.rows("SELECT mentions FROM kg.concepts WHERE label = 'Licence'") == [(5,)]
    assert (await deployment.job(pending))["state"] == "pending"
    proved("five queued and one pending job outlived a killed web and two restarted workers; each chunk counted once")


async def ended(worker: Worker) -> None:
    """Ask a worker to end, and wait until it has."""
    worker.process.terminate()
    assert await asyncio.to_thread(worker.process.wait, PATIENCE) == 0, worker.log.read_text()


async def test_connections_stay_within_their_budget_whatever_the_slots(deployment: Deployment, proved: Proved) -> None:
    deployment.models.hold("Slow", "Source")
    await deployment.start_web()
    await deployment.start_worker()
    await deployment.start("projection", iterations=LONG)
    jobs = [await deployment.add(f"A Slow{n} Driver.  A Slow{n} needs a Licence. A Source.") for n in range(2)]
    await deployment.start("source_embedding")
    await deployment.models_wait(3)
    four = await busiest(deployment, jobs[0])
    assert sum(lane["running"] for lane in (await deployment.lanes()).values()) == 4
    await deployment.set_lane("interactive", max_slots=10)
    jobs += [await deployment.add(f"A Slow{n} Driver.  A Slow{n} needs a Licence.") for n in range(2, 10)]
    await deployment.models_wait(11)
    twelve = await busiest(deployment, jobs[0])
    for own, application in (four, twelve):
        assert own <= OWN_CONNECTIONS + 3 * POOLED_CONNECTIONS + 1, (
            own
        )  # a worker, the web, this test; LISTEN of the web
        assert application <= 2 * 4 + 1, application  # two pools of four, and the child's, which ends with its query
    deployment.models.release()
    for job in jobs:
        await deployment.becomes(job, "completed")
    proved(
        f"web, worker and test together held {sum(four)} connections with 4 running jobs, {sum(twelve)} with 12: "
        f"{four[0]} and {twelve[0]} of Rowlock, {four[1]} and {twelve[1]} of the application"
    )


async def busiest(deployment: Deployment, job: str) -> tuple[int, int]:
    """The most connections, of Rowlock and of the application, seen while clients list, follow and poll."""
    query = (
        "SELECT count(*) FILTER (WHERE application_name LIKE 'rowlock:%'), "
        "count(*) FILTER (WHERE application_name = 'knowledge_graph') "
        "FROM pg_stat_activity WHERE datname = current_database()"
    )
    seen: list[tuple[int, int]] = []
    async with deployment.client() as client, client.stream("GET", f"/jobs/{job}/stream"):
        for _ in range(20):
            paths = ("/jobs", LANES, "/admin/workers/status") * 3
            polls = asyncio.gather(*(deployment.ask("grace", "GET", path) for path in paths))
            seen.extend(await deployment.rows(query))
            await polls
    return max(own for own, _ in seen), max(application for _, application in seen)


async def test_every_kind_does_its_work(deployment: Deployment, proved: Proved) -> None:
    await deployment.start_web()
    await deployment.start_worker()
    for lane in SEEDED:
        await deployment.set_lane(lane, poll_interval_ms=100)

    async def result(kind: str, **args: object) -> Any:  # noqa: ANN401 - JSON
        return (await deployment.becomes(await deployment.start(kind, **args), "completed"))["result"]

    text = [
        "A Driver needs a Licence.",
        "A Keeper pays Vehicle Tax. A Vehicle has a Keeper.",
        "A Driver needs a Licence.",
    ]
    await deployment.becomes(await deployment.add(*text), "completed")
    image = await deployment.ask("ada", "POST", "/work/ingest_image", {"name": "traffic-light.png"})
    shown = image.json()["job_id"]
    await deployment.ask("ada", "POST", f"/jobs/{shown}/approve")
    assert (await deployment.becomes(shown, "completed"))["result"]["concepts"] == 2
    assert (await deployment.ask("ada", "POST", "/work/vocab_refresh", {})).status_code == 403
    assert (await deployment.ask("grace", "POST", "/work/nonsense", {})).status_code == 404
    assert (await deployment.ask("grace", "POST", "/work/projection", {"iteration": 1})).status_code == 422
    assert -1 <= (await result("polarity", negative="Tax", positive="Driver"))["Driver"] <= 1
    assert await result("vocab_refresh") == 4
    assert (await result("epistemic_remeasurement"))["NEEDS"] == 1.0
    assert (await result("projection", iterations=10))["points"] == 7
    topics = await result("ontology_annealing", groups=2)
    assert topics == len(await deployment.rows("SELECT 1 FROM kg.proposals"))
    executed = await deployment.start("proposal_execution", proposal=1)
    assert (await deployment.ask("grace", "POST", f"/jobs/{executed}/approve")).status_code == 403  # her own
    await deployment.rows("UPDATE kg.people SET roles = '{platform_admin}' WHERE name = 'bob' RETURNING 1")
    assert (await deployment.ask("bob", "POST", f"/jobs/{executed}/approve")).status_code == 200
    await deployment.becomes(executed, "completed")
    assert await deployment.rows("SELECT 1 FROM kg.concepts WHERE topic IS NOT NULL LIMIT 1")
    assert await result("source_embedding") == 1
    assert await result("restore", make_backup=True) == 2
    assert await result("vocab_consolidate", alike=-1.0) != []
    assert await result("restore") == 7
    assert len(await deployment.rows("SELECT 1 FROM kg.edges")) == 4
    assert await result("artifact_cleanup", days=0) == 2
    schedules = {each.kind for each in await deployment.rowlock.schedules.list()}
    scheduled = {
        "vocab_refresh",
        "epistemic_remeasurement",
        "ontology_annealing",
        "artifact_cleanup",
        "source_embedding",
    }
    assert schedules == scheduled
    ran = await deployment.rowlock.schedules.run("vocab_refresh")
    assert (await deployment.job(str(ran.public_id)))["priority"] == 0
    proved("all twelve kinds did their work; a user's ingestion has priority 10, scheduled maintenance 0")


async def test_one_command_runs_it_and_people_see_it_work(
    tmp_path: Path, empty_database_url: str, browser: Browser, proved: Proved
) -> None:
    port = free_ports(2)
    async with one_command(
        "knowledge_graph", "--port", str(port), "--seconds", "0.05", database_url=empty_database_url, home=tmp_path
    ) as running:
        ada, grace = re.findall(r"http\S+/login\S+", running.greeting)
        page = await (await browser.new_context()).new_page()
        await page.goto(ada)
        await page.get_by_role("button", name="Add", exact=True).click()
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator("rowlock-progress")).to_have_attribute("state", "completed", timeout=IN_TIME)
        assert (await page.request.get(f"http://127.0.0.1:{port}/operate")).status == 403
        admin = await (await browser.new_context()).new_page()
        await admin.goto(grace)
        await admin.get_by_role("button", name="Project it").click()
        await expect(admin.locator("rowlock-progress")).to_have_count(2, timeout=IN_TIME)  # it was accepted
        await admin.get_by_role("link", name="Operate").click()
        await admin.get_by_role("row", name="interactive").get_by_role("button", name="Drain").click()
        await expect(admin.get_by_text("interactive (drained)")).to_be_visible(timeout=IN_TIME)
        await admin.get_by_role("row", name="interactive").get_by_role("button", name="Resume").click()
        await expect(admin.get_by_text("interactive (drained)")).to_be_hidden(timeout=IN_TIME)
        await admin.goto(f"http://127.0.0.1:{port}/")
        await expect(admin.get_by_role("img", name="Projection of 11 concepts")).to_be_visible(timeout=IN_TIME)
        await running.stop()
        assert "draining" in running.rest
    proved("one command migrated and started it; a person added and approved a document, another drained a lane")
