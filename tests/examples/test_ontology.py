"""examples/ontology in separate processes: pods of gunicorn that are killed, paused, stopped and restarted."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from playwright.async_api import expect
from tests.examples.held_model import HeldModel, held_model
from tests.examples.one_command import one_command
from tests.host_processes import Host, free_port, free_ports, started
from tests.waiting import PATIENCE, eventually, until

from rowlock import Rowlock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from playwright.async_api import Browser

    Proved = Callable[[str], None]

pytestmark = pytest.mark.timeout(400)  # pods that start, work, die and are rescued
ROOT: Final = Path(__file__).parents[2]
LANE: Final = "generator:kinds=ontology.generate|ontology.harness,slots=1,order=strict,poll_interval=500ms"
SILENT: Final = f"{LANE},heartbeat_timeout=2s"
"""Pods that are silent for two seconds are lost, instead of thirty."""
LINK: Final = re.compile(r"http://127\.0\.0\.1:\d+/(?:jobs|api/v1/auth/local\S+)")
IN_TIME: Final = PATIENCE * 1000
"""Milliseconds that a page may take on a busy machine."""


@dataclass
class Deployment:
    """Pods on one database, and the model that they ask."""

    folder: Path
    database_url: str
    model: HeldModel
    model_url: str
    rowlock: Rowlock
    stack: contextlib.AsyncExitStack
    pods: dict[str, Host] = field(default_factory=dict)

    async def start(self, *names: str, lane: str = f"{LANE},heartbeat_timeout=60s", **environ: str) -> list[Host]:
        """Start pods side by side, each a gunicorn with one process."""
        found = await asyncio.gather(*(self._start(name, lane, environ) for name in names))
        self.pods.update(zip(names, found, strict=True))
        return found

    async def _start(self, name: str, lane: str, environ: dict[str, str]) -> Host:
        port = free_port()
        words = ("gunicorn", "--bind", f"127.0.0.1:{port}", "--threads", "4", "--no-control-socket")
        own = {
            "ROWLOCK_DATABASE_URL": self.database_url,
            "LANGUAGE_MODEL_URL": self.model_url,
            "ROWLOCK_LANES": lane,
            "POD_NAME": name,
        }
        pod = started(
            (*words, "examples.ontology.web:create_app()"),
            port=port,
            cwd=ROOT,
            log=self.folder / f"{name}.log",
            environ=own | environ,
            alive="/jobs.json",
        )
        return await self.stack.enter_async_context(pod)

    async def submit(self, pod: Host, *texts: str) -> str:
        """The id of a new job, one source per text."""
        sources = [{"name": f"source {n}", "text": text} for n, text in enumerate(texts)]
        async with pod.client() as client:
            answer = await client.post("/ontology/submit", json={"name": texts[0], "sources": sources})
        assert answer.status_code == 202, (answer.text, pod.told())
        return str(answer.json()["job_id"])

    async def status(self, pod: Host, job: str) -> dict[str, Any]:
        async with pod.client() as client:
            found: dict[str, Any] = (await client.get(f"/jobs/{job}/status")).json()
            return found

    async def becomes(self, pod: Host, job: str, state: str) -> dict[str, Any]:
        """What the pod says of the job once it is in that state."""

        async def there() -> dict[str, Any] | None:
            now = await self.status(pod, job)
            return now if now["status"] == state else None

        found = await eventually(there, within=2 * PATIENCE)
        assert found is not None
        return found

    async def asked(self, word: str, times: int = 1) -> None:
        """Wait until so many questions with that word wait for an answer."""
        await until(lambda: len(self.model.waiting(word)) == times)

    async def published(self, job: str) -> list[tuple[str, list[str]]]:
        """Run and concepts of what was committed for a job."""
        async with await psycopg.AsyncConnection.connect(self.database_url) as connection:
            rows = await connection.execute("SELECT run_id, concepts FROM ontology WHERE job_id = %s", [job])
            return [(row[0], row[1]) for row in await rows.fetchall()]


@pytest.fixture
async def deployment(tmp_path: Path, database_url: str) -> AsyncIterator[Deployment]:
    with held_model() as (model, url):
        async with contextlib.AsyncExitStack() as stack, Rowlock(database_url) as rowlock:
            yield Deployment(tmp_path, database_url, model, url, rowlock, stack)
            model.release()


async def test_a_submission_is_answered_at_once_and_its_pages_follow_the_job(
    deployment: Deployment, proved: Proved
) -> None:
    model = deployment.model
    model.hold("Keeper")
    (pod,) = await deployment.start("pod-1")
    begun = time.monotonic()
    job = await deployment.submit(pod, "A Driver needs a Licence.", "A Vehicle has a Keeper.")
    seconds = time.monotonic() - begun
    await deployment.asked("Keeper")
    async with pod.client() as client:
        running = await deployment.becomes(pod, job, "running")
        assert (running["claimed_by"], running["attempt_count"]) == ("pod-1", 1)
        assert running["claimed_at"] < running["last_progress_at"]  # the first source was a checkpoint
        assert job in (await client.get("/jobs")).text
        assert "No ontology yet" in (await client.get("/review")).text
        model.release()
        completed = await deployment.becomes(pod, job, "completed")
        assert completed["result"] == {"run_id": f"{job}/1", "concepts": 4, "relations": 2}
        assert "4 concepts: Driver, Keeper, Licence, Vehicle" in (await client.get("/review")).text
        await client.post(f"/review/{job}", data={"verdict": "accepted"}, headers={"X-Auth-Request-User": "ada"})
        assert "Accepted by ada" in (await client.get("/review")).text
        page = (await client.get(f"/jobs/{job}")).text
        assert f'<rowlock-progress job="{job}" token="rle_' in page
        expected = {"ontology": job, "expected": ["Driver", "Bicycle"]}
        harness = (await client.post("/harness/submit", json=expected)).json()["job_id"]
        report = await deployment.becomes(pod, harness, "completed")
        assert report["result"] == {"found": 1, "missing": ["Bicycle"]}
    proved(f"a submission was answered with its job id after {seconds * 1000:.0f} ms, while the Generator ran on")


async def test_bad_requests_are_refused_with_a_reason(deployment: Deployment) -> None:
    (pod,) = await deployment.start("web", DISABLE_TASK_MANAGER="true")
    async with pod.client() as client:
        refused = await client.post("/ontology/submit", json={"name": "", "sources": []})
        assert (refused.status_code, len(refused.json()["details"])) == (422, 2)
        assert (await client.get("/jobs/nonsense/status")).status_code == 404
        assert (await client.get("/jobs/0000-0000-0001-X/status")).status_code == 404
        assert (await client.post("/review/0000", data={"verdict": "accepted"})).status_code == 404
        assert (await client.post("/review/0000", data={"verdict": "maybe"})).status_code == 422
        foreign = {"Sec-Fetch-Site": "cross-site"}
        assert (await client.post("/ontology/submit", json={}, headers=foreign)).status_code == 403
        assert "No job yet" in (await client.get("/jobs")).text
        job = await deployment.submit(pod, "A Driver.")
        assert (await client.post(f"/jobs/{job}/stop")).status_code == 303
        again = await client.post(f"/jobs/{job}/stop")
        assert (again.status_code, "already ended" in again.json()["error"]) == (409, True)


async def test_three_pods_share_one_queue_oldest_first_with_one_job_each(
    deployment: Deployment, proved: Proved
) -> None:
    deployment.model.hold("Slow")
    pods = await deployment.start("pod-1", "pod-2", "pod-3")
    jobs = [await deployment.submit(pods[n % 3], f"Slow Thing{n}.") for n in range(5)]
    async with pods[0].client() as client:
        wanted = {"ontology": jobs[0], "expected": ["Slow"]}
        jobs.insert(5, (await client.post("/harness/submit", json=wanted)).json()["job_id"])
        jobs.append(await deployment.submit(pods[0], "Slow Thing6."))
        await deployment.asked("Slow", 3)
        now = {each["job_id"]: each for each in (await client.get("/jobs.json")).json()}
    assert [now[job]["status"] for job in jobs] == ["running"] * 3 + ["queued"] * 4
    assert {now[job]["claimed_by"] for job in jobs[:3]} == {"pod-1", "pod-2", "pod-3"}
    deployment.model.release()
    done = [await deployment.becomes(pods[0], job, "completed") for job in jobs]
    claimed = [each["claimed_at"] for each in done]
    assert claimed == sorted(claimed)  # in the order of their submission, whatever their kind
    assert [each["attempt_count"] for each in done] == [1] * 7
    runs = [question.run for question in deployment.model.asked if question.task == "relations"]
    assert sorted(runs) == sorted(f"{job}/1" for job in jobs if job != jobs[5])
    proved("seven jobs of two kinds ran once each over three pods with one slot each, in the order of their submission")


async def test_a_pod_without_task_manager_answers_and_runs_nothing(deployment: Deployment, proved: Proved) -> None:
    (web,) = await deployment.start("web", DISABLE_TASK_MANAGER="true")
    job = await deployment.submit(web, "A Driver.")
    assert await deployment.rowlock.workers.list() == []
    assert (await deployment.status(web, job))["status"] == "queued"
    # Its web server is gone; the job is not, and a pod that never heard of it runs it.
    web.stop()
    (pod,) = await deployment.start("pod-1")
    assert (await deployment.becomes(pod, job, "completed"))["claimed_by"] == "pod-1"
    proved("a job outlived the pod that accepted it, whose task manager was off, and ran in another pod")


async def test_the_job_of_a_killed_pod_goes_on_from_its_checkpoint(deployment: Deployment, proved: Proved) -> None:
    deployment.model.hold("Keeper")
    (first,) = await deployment.start("pod-1", lane=SILENT)
    job = await deployment.submit(first, "A Driver.", "A Keeper.", "A Licence.")
    await deployment.asked("Keeper")
    (second,) = await deployment.start("pod-2", lane=SILENT)
    first.signal_all(signal.SIGKILL)
    killed = time.monotonic()
    await deployment.asked("Keeper", 2)  # one question of each run
    seconds = time.monotonic() - killed
    deployment.model.release()
    done = await deployment.becomes(second, job, "completed")
    assert (done["claimed_by"], done["attempt_count"]) == ("pod-2", 2)
    assert await deployment.published(job) == [(f"{job}/2", ["Driver", "Keeper", "Licence"])]
    runs_about = {
        word: [question.run for question in deployment.model.asked if question.text == f"A {word}."]
        for word in ("Driver", "Keeper", "Licence")
    }
    assert runs_about == {"Driver": [f"{job}/1"], "Keeper": [f"{job}/1", f"{job}/2"], "Licence": [f"{job}/2"]}
    proved(f"the job of a pod killed with kill -9 went on from its checkpoint in another pod, {seconds:.1f} s later")


async def test_a_restarted_pod_returns_its_job(deployment: Deployment, proved: Proved) -> None:
    deployment.model.hold("Keeper")
    (first,) = await deployment.start("pod-1", ROWLOCK_SHUTDOWN_AFTER="1s")
    job = await deployment.submit(first, "A Driver.", "A Keeper.")
    await deployment.asked("Keeper")
    (second,) = await deployment.start("pod-2")
    await asyncio.to_thread(first.stop)
    await deployment.asked("Keeper", 2)
    deployment.model.release()
    done = await deployment.becomes(second, job, "completed")
    ended_job = await deployment.rowlock.jobs.get(job)
    assert (done["claimed_by"], ended_job.losses, ended_job.attempt) == ("pod-2", 0, 1)
    proved("a pod that was restarted with SIGTERM gave its job back; no attempt was used up")


async def test_the_late_write_of_a_paused_pod_is_refused(deployment: Deployment, proved: Proved) -> None:
    deployment.model.hold("relations")
    (paused,) = await deployment.start("pod-1", lane=SILENT)
    job = await deployment.submit(paused, "Driver and Keeper.")
    await deployment.asked("relations")  # the last question: then the pod has only to publish
    paused.signal_all(signal.SIGSTOP)
    (other,) = await deployment.start("pod-2", lane=SILENT)
    await deployment.asked("relations", 2)
    deployment.model.release()
    done = await deployment.becomes(other, job, "completed")
    published = await deployment.published(job)
    paused.signal_all(signal.SIGCONT)
    await until(lambda: "its claim is gone" in paused.told())
    # The pod is well again: it takes the next job, after it has let go of the one that it lost.
    other.stop()
    following = await deployment.submit(paused, "A Licence.")
    assert (await deployment.becomes(paused, following, "completed"))["claimed_by"] == "pod-1"
    assert (done["claimed_by"], done["attempt_count"]) == ("pod-2", 2)
    assert await deployment.published(job) == published == [(f"{job}/2", ["Driver", "Keeper"])]
    assert await deployment.status(paused, job) == done
    assert [each.outcome for each in (await deployment.rowlock.jobs.history(job)).attempts] == ["lost"]
    proved("a pod paused with SIGSTOP woke up after another had completed its job: all that it still wrote was refused")


async def test_a_stopped_job_ends_at_once_and_publishes_nothing(deployment: Deployment, proved: Proved) -> None:
    deployment.model.hold("Keeper")
    (pod,) = await deployment.start("pod-1")
    running = await deployment.submit(pod, "A Driver.", "A Keeper.")
    waiting = await deployment.submit(pod, "A Licence.")
    await deployment.asked("Keeper")
    async with pod.client() as client:
        for job in (waiting, running):
            stopped = await client.post(f"/jobs/{job}/stop", headers={"Accept": "application/json"})
            assert stopped.json()["status"] == "cancelled"
    # The Generator still waits for the model. Then it comes to its next checkpoint, and the pod is free.
    deployment.model.release()
    following = await deployment.submit(pod, "A Vehicle.")
    await deployment.becomes(pod, following, "completed")
    assert [(await deployment.status(pod, job))["status"] for job in (running, waiting)] == ["cancelled"] * 2
    assert await deployment.published(running) == []
    runs = {question.run for question in deployment.model.asked}
    assert runs == {f"{running}/1", f"{following}/1"}
    proved("a running and a waiting job, stopped by a person, ended at once; the running one published nothing")


async def test_a_job_without_progress_is_requeued_until_it_has_been_tried_three_times(
    deployment: Deployment, proved: Proved
) -> None:
    deployment.model.hold("Keeper")
    lane = f"{LANE},heartbeat_timeout=60s,progress_timeout=5s"
    pods = await deployment.start("pod-1", "pod-2", lane=lane, ROWLOCK_STOP_PATIENCE="1s")
    job = await deployment.submit(pods[0], "A Keeper.")
    failed = await deployment.becomes(pods[0], job, "failed")
    assert failed["attempt_count"] == 3
    outcomes = [each.outcome for each in (await deployment.rowlock.jobs.history(job)).attempts]
    assert "no progress" in str(failed["error"])
    assert len(outcomes) >= 2
    deployment.model.release()
    following = await deployment.submit(pods[0], "A Licence.")
    await deployment.becomes(pods[0], following, "completed")
    proved("a job that made no progress was requeued twice and failed at the third time; the pods went on")


async def test_a_failing_generator_is_tried_again_up_to_the_limit(deployment: Deployment, proved: Proved) -> None:
    deployment.model.broken = True
    (pod,) = await deployment.start("pod-1")
    job = await deployment.submit(pod, "A Keeper.")
    failed = await deployment.becomes(pod, job, "failed")
    assert (failed["attempt_count"], len(deployment.model.asked)) == (3, 3)
    proved("a generation whose model always fails was tried three times, then failed")


async def test_waiting_and_running_jobs_end_after_a_day(deployment: Deployment, proved: Proved) -> None:
    deployment.model.hold("Keeper")
    (pod,) = await deployment.start("pod-1")
    running, waiting = [await deployment.submit(pod, text) for text in ("A Keeper.", "A Licence.")]
    await deployment.asked("Keeper")
    for job in (running, waiting):
        found = await deployment.rowlock.jobs.get(job)
        assert found.too_old_at is not None
        assert abs(found.too_old_at - found.created_at - timedelta(hours=24)) < timedelta(seconds=PATIENCE)
    async with await psycopg.AsyncConnection.connect(deployment.database_url, autocommit=True) as connection:
        day = "interval '24 hours'"  # passes
        await connection.execute(
            f"UPDATE rowlock.jobs SET created_at = created_at - {day}, too_old_at = too_old_at - {day}"
        )
    failed = await deployment.becomes(pod, running, "failed")
    unstarted = await deployment.becomes(pod, waiting, "failed")
    assert ("too old" in str(failed["error"]), "too old" in str(unstarted["error"])) == (True, True)
    assert (failed["attempt_count"], unstarted["attempt_count"]) == (1, 0)
    deployment.model.release()
    following = await deployment.submit(pod, "A Vehicle.")
    await deployment.becomes(pod, following, "completed")
    assert await deployment.published(running) == []
    proved("a running and a waiting job were failed when they were 24 hours old")


async def test_one_command_runs_it_and_a_person_sees_it_work(
    tmp_path: Path, database_url: str, browser: Browser, proved: Proved
) -> None:
    port = free_ports(5)
    async with one_command(
        "ontology", "--port", str(port), "--seconds", "0.2", database_url=database_url, home=tmp_path
    ) as running:
        application, dashboard = LINK.findall(running.greeting)[-2:]
        page = await browser.new_page()
        await page.goto(application)
        await page.get_by_role("button", name="Submit").click()
        job = page.url.rpartition("/")[2]
        await expect(page.locator("rowlock-progress")).to_have_attribute("state", "completed", timeout=IN_TIME)
        await page.get_by_role("link", name="Review ontologies").click()
        await expect(page.get_by_text(f"Run {job}/1 of")).to_be_visible(timeout=IN_TIME)
        await page.get_by_role("button", name="Accept").click()
        await expect(page.get_by_text("Accepted by local")).to_be_visible(timeout=IN_TIME)
        await page.goto(dashboard)
        asked = await page.request.get(f"http://127.0.0.1:{port}/api/v1/jobs/{job}")
        assert (asked.status, (await asked.json())["state"]) == (200, "completed")
        await running.stop()
        assert "Shutting down: Master" in running.rest
    proved("one command started three pods, a person submitted, watched and accepted an ontology in a browser")
