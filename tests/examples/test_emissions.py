"""examples/emissions in separate processes: pods that race, compute, and are killed; at last under Celery."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.async_api import expect
from tests.delivery.brokers import Redis, running
from tests.examples.emissions_pods import ROOT, STEPS, Deployment, deployed, percentile, rows
from tests.examples.one_command import one_command
from tests.host_processes import Host, free_ports
from tests.waiting import PATIENCE, eventually, nothing_happens_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from playwright.async_api import Browser

    Proved = Callable[[str], None]

pytestmark = pytest.mark.timeout(600)  # pods that start, compute, die and are rescued
LINK: Final = re.compile(r"http://127\.0\.0\.1:\d+/(?:organisations/acme|api/v1/auth/local\S+)")
IN_TIME: Final = PATIENCE * 1000
"""Milliseconds that a page may take on a busy machine."""
GOOD: Final = rows("2024-12-31,London,electricity,120,MWh", "2025-03-31,London,electricity,118000,kWh")
NO_WORKER: Final = {"ROWLOCK_WORKER": "off"}
MOST: Final = 30.0
"""Seconds within which a safety net of ten has caught a job, on a machine that does other things, too."""


@pytest.fixture
async def deployment(tmp_path: Path, database_url: str) -> AsyncIterator[Deployment]:
    async with deployed(tmp_path, database_url) as made:
        yield made


# --- the pipeline -----------------------------------------------------------------------------------------------------


async def test_an_upload_passes_four_steps_and_the_totals_change(deployment: Deployment, proved: Proved) -> None:
    (pod,) = await deployment.start("pod-1", CALCULATE_IN="process")
    assert await deployment.tonnes(pod) == {}
    begun = time.monotonic()
    run = await deployment.upload(pod, GOOD)
    answered = time.monotonic() - begun
    ended = await deployment.ended(pod, run)
    assert (ended["state"], ended["problems"]) == ("completed", [])
    assert [(step["kind"], step["state"], step["runs"]) for step in ended["steps"]] == [
        (kind, "completed", 1) for kind in STEPS
    ]
    assert await deployment.tonnes(pod) == {(2024, 2): 24.846, (2025, 2): 20.886}
    # A corrected file under the same name replaces the first one; another one is added to it.
    await deployment.ended(pod, await deployment.upload(pod, rows("2025-03-31,London,electricity,1,GJ")))
    await deployment.ended(pod, await deployment.upload(pod, rows("2025-01-01,Fleet,petrol,100,gal"), file="fleet.csv"))
    assert await deployment.tonnes(pod) == {
        (2025, 1): pytest.approx(454.609 * 2.06916 / 1000),
        (2025, 2): pytest.approx(277.7777778 * 0.177 / 1000),
    }
    proved(f"an upload was answered after {1000 * answered:.0f} ms, and passed four steps; totals were exact")


async def test_new_factors_change_the_totals_of_old_files(deployment: Deployment, proved: Proved) -> None:
    (pod,) = await deployment.start("pod-1")
    first = await deployment.ended(pod, await deployment.upload(pod, GOOD))
    assert [step["result"]["is_new"] for step in first["steps"][1:3]] == [True, True]
    for factor in deployment.registry.factors:
        if (factor["activity"], factor["valid_from"]) == ("electricity", "2025-01-01"):
            factor["kg_co2e"] = "0.2"
    async with pod.client() as client:
        started = (await client.post("/organisations/acme/recalculations")).json()
    second = await deployment.ended(pod, started["run"])
    assert [step["kind"] for step in second["steps"]] == list(STEPS[1:])
    assert [step["result"]["is_new"] for step in second["steps"][:2]] == [True, False]
    assert await deployment.tonnes(pod) == {(2024, 2): 24.846, (2025, 2): 23.6}
    # The same version again writes nothing.
    async with pod.client() as client:
        again = (await client.post("/organisations/acme/recalculations")).json()
    third = await deployment.ended(pod, again["run"])
    assert [step["result"]["is_new"] for step in third["steps"][:2]] == [False, False]
    proved("factors that the registry changed reached the totals with the next run, within their validity alone")


async def test_bad_lines_are_named_with_their_number_and_the_rest_counts(
    deployment: Deployment, proved: Proved
) -> None:
    (pod,) = await deployment.start("pod-1")
    content = rows(
        "2025-01-01,A,electricity,1000,kWh",
        "2025-01-01,A,electricity,many,kWh",
        "01.02.2025,A,electricity,1,kWh",
        "2025-01-01,,electricity,1,",
        "2025-01-01,A,electricity,1,000,kWh",
        "2025-01-01,A,electricity,-1,kWh",
        "2025-01-01,A,electricity,NaN,kWh",
        "2025-01-01,A,electricty,1,kWh",
        "2025-01-01,A,water,1,kg",
        "2025-01-01,A,diesel,1,litre",
        "2019-01-01,A,diesel,1,L",
        '2025-01-01,"A, B",diesel,100,L',
    )
    ended = await deployment.ended(pod, await deployment.upload(pod, content))
    assert ended["state"] == "completed_with_errors"
    assert [step["state"] for step in ended["steps"]] == [
        "completed_with_errors",
        "completed",
        "completed",
        "completed_with_errors",
    ]
    assert ended["problems"] == [
        "data.csv, line 3: 'many' is not a number such as 1234.5",
        "data.csv, line 4: '01.02.2025' is not a date such as 2025-03-31",
        "data.csv, line 5: no value for site, unit",
        "data.csv, line 6: it has more values than there are columns; write 1234.5, without a comma",
        "data.csv, line 7: the quantity -1 is not between 0 and 1,000,000,000,000",
        "data.csv, line 8: the quantity NaN is not between 0 and 1,000,000,000,000",
        "data.csv, line 9: there is no factor for 'electricty'; did you mean 'electricity'?",
        "data.csv, line 10: kg measures mass, but m3 measures volume",
        "data.csv, line 11: the unit 'litre' is not known",
        "data.csv, line 12: no factor for 'diesel' holds on 2019-01-01; they begin on 2024-01-01",
    ]
    assert await deployment.tonnes(pod) == {(2025, 1): 0.257082, (2025, 2): 0.177}
    proved("ten of twelve lines of a file were bad and named with number and reason; the other two were calculated")


async def test_bad_uploads_are_refused_with_a_reason(deployment: Deployment) -> None:
    (pod,) = await deployment.start("pod-1", **NO_WORKER)
    async with pod.client() as client:

        async def refused(content: bytes, to: str = "acme", **headers: str) -> tuple[int, str]:
            files = {"file": ("data.csv", content)}
            answer = await client.post(f"/organisations/{to}/uploads", files=files, headers=headers)
            return answer.status_code, str(answer.json()["detail"])

        status, why = await refused(b"date;site\n")
        assert (status, "Missing: date, site, activity" in why) == (422, True)
        status, why = await refused(b"date,quantity,unit,site\n")
        assert (status, why.endswith("Missing: activity.")) == (422, True)
        status, why = await refused(GOOD.encode("utf-16"))
        assert (status, "not UTF-8 text: byte 1" in why) == (422, True)
        assert (await refused(GOOD.encode() + b"\0"))[0] == 422
        assert (await refused(b""))[0] == 422
        assert (await refused(b"x" * 20_000_001))[0] == 413
        assert (await refused(GOOD.encode(), to="A B"))[0] == 422
        assert (await refused(GOOD.encode(), **{"Sec-Fetch-Site": "cross-site"}))[0] == 403
        naive = await client.post("/organisations/acme/recalculations/later", json={"at": "2026-01-01T00:00:00"})
        assert naive.status_code == 422
        assert (await client.get("/runs/nonsense")).status_code == 404
        assert (await client.post("/jobs/0000-0000-0001-X/run")).status_code == 404
    assert await deployment.sql("SELECT 1 FROM rowlock.jobs UNION ALL SELECT 1 FROM upload") == []


# --- the fast path ----------------------------------------------------------------------------------------------------


async def test_hundreds_of_chains_go_from_step_to_step_in_milliseconds(deployment: Deployment, proved: Proved) -> None:
    pods = await deployment.start("pod-1", "pod-2")
    chains, begun = 300, time.monotonic()
    turns = iter(range(chains))

    async def one_after_the_other(pod: Host) -> None:
        for turn in turns:
            run = await deployment.upload(pod, GOOD, to=f"org-{turn}")
            assert (await deployment.ended(pod, run))["state"] == "completed"

    await asyncio.gather(*map(one_after_the_other, pods))
    minutes = (time.monotonic() - begun) / 60
    gaps = await deployment.gaps()
    assert len(gaps) == 3 * chains
    p50, p99 = percentile(gaps, 0.5), percentile(gaps, 0.99)
    # Through the poller it would be seconds: the hand-over within the process carried them.
    assert p99 < 1000
    per_chain = await deployment.sql(
        "SELECT count(DISTINCT j.claimed_by) AS pods, count(*) AS steps, max(j.attempt) AS attempts FROM rowlock.jobs j"
        " JOIN rowlock.workflow_steps s ON s.job_id = j.id GROUP BY s.workflow_id"
    )
    assert {(row["steps"], row["attempts"]) for row in per_chain} == {(4, 1)}
    in_one_pod = sum(row["pods"] == 1 for row in per_chain)
    assert in_one_pod > chains / 2
    proved(
        f"from step to step of {chains} chains in two pods it took p50 {p50:.1f} ms, p99 {p99:.1f} ms by the database's"
        f" clock; {in_one_pod} chains stayed in one pod; {4 * chains / minutes:.0f} jobs a minute"
    )


# --- the safety net ---------------------------------------------------------------------------------------------------


async def test_the_poller_finds_the_step_that_a_killed_pod_did_not_hand_over(
    deployment: Deployment, proved: Proved
) -> None:
    (crashing,) = await deployment.start(
        "pod-1", factory="tests.examples.emissions_crashing:create_app", CRASH_AFTER=STEPS[1]
    )
    (web,) = await deployment.start("web", **NO_WORKER)
    run = await deployment.upload(web, GOOD)
    crashing.process.wait(timeout=PATIENCE)
    assert crashing.process.returncode == -signal.SIGKILL
    orphan = (await deployment.ask(web, f"/runs/{run}"))["steps"]
    assert [step["state"] for step in orphan] == ["completed", "completed", "queued", "blocked"]
    assert orphan[2]["pod"] is None
    await deployment.start("pod-2")
    ended = await deployment.ended(web, run)
    assert [(step["pod"], step["runs"]) for step in ended["steps"]] == [("pod-1", 1)] * 2 + [("pod-2", 1)] * 2
    assert await deployment.tonnes(web) == {(2024, 2): 24.846, (2025, 2): 20.886}
    proved("a pod was killed at the commit of a step; the next step was queued, and a pod started later went on")


async def test_a_pod_that_idles_meanwhile_finds_it_within_its_poll_interval(
    deployment: Deployment, proved: Proved
) -> None:
    (other,) = await deployment.start("pod-2")
    deployment.registry.hold("factors")
    (crashing,) = await deployment.start(
        "pod-1", factory="tests.examples.emissions_crashing:create_app", CRASH_AFTER=STEPS[1]
    )
    paused = other.process.pid
    os.kill(paused, signal.SIGSTOP)  # the first step goes to the pod that will crash
    run = await deployment.upload(crashing, GOOD)
    await deployment.registry.asked("factors")
    os.kill(paused, signal.SIGCONT)
    await nothing_happens_for(15)  # as in a quiet minute: the pause between two looks grows to the poll interval
    deployment.registry.release()
    crashing.process.wait(timeout=PATIENCE)
    ended = await deployment.ended(other, run)
    steps = ended["steps"]
    assert [step["pod"] for step in steps] == ["pod-1"] * 2 + ["pod-2"] * 2
    seconds = (parsed(steps[2]["claimed_at"]) - parsed(steps[1]["finished_at"])).total_seconds()
    assert seconds < MOST
    proved(
        f"the idle pod's poller found a step that the killed pod had not handed over {seconds:.1f} s after its commit"
    )


async def test_a_step_whose_pod_is_killed_runs_again_elsewhere(deployment: Deployment, proved: Proved) -> None:
    first, second = await deployment.start("pod-1", "pod-2")
    deployment.registry.hold("units")
    run = await deployment.upload(first, GOOD)
    await deployment.registry.asked("units")
    holder = (await deployment.ask(first, f"/runs/{run}"))["steps"][2]
    dies, lives = (first, second) if holder["pod"] == "pod-1" else (second, first)
    assert holder["state"] == "running"
    dies.signal_all(signal.SIGKILL)
    killed = datetime.now(UTC)
    await deployment.registry.asked("units", 2)  # one request of each run
    deployment.registry.release()
    ended = await deployment.ended(lives, run)
    step = ended["steps"][2]
    assert (step["runs"], step["pod"] != holder["pod"], ended["state"]) == (2, True, "completed")
    assert await deployment.sql("SELECT 1 FROM rowlock.jobs WHERE state = 'running'") == []
    seconds = (parsed(step["claimed_at"]) - killed).total_seconds()
    assert seconds < MOST
    proved(f"the running step of a pod killed with kill -9 was running in another pod {seconds:.1f} s later")


async def test_an_idle_pod_looks_once_in_ten_seconds(deployment: Deployment, proved: Proved) -> None:
    await deployment.start("pod-1")
    query = (
        "SELECT query_start FROM pg_stat_activity"
        " WHERE application_name = 'rowlock:claim' AND datname = current_database()"
    )
    await nothing_happens_for(15)  # the pause between two looks grows to the poll interval
    seen: set[datetime] = set()
    until = time.monotonic() + 45
    while time.monotonic() < until:
        seen.update(row["query_start"] for row in await deployment.sql(query))
        await nothing_happens_for(0.2)
    looks = sorted(seen)
    pauses = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(looks)]
    assert 2 <= len(looks) <= 7
    assert max(pauses) > 9
    proved(f"an idle pod looked for jobs {len(looks)} times in 45 s, at most {max(pauses):.1f} s apart")


async def test_a_job_waits_for_its_run_after(deployment: Deployment, proved: Proved) -> None:
    (pod,) = await deployment.start("pod-1")
    await deployment.ended(pod, await deployment.upload(pod, GOOD))
    for factor in deployment.registry.factors:
        factor["kg_co2e"] = "1"
    at = datetime.now(UTC) + timedelta(seconds=4)
    async with pod.client() as client:
        answer = await client.post("/organisations/acme/recalculations/later", json={"at": at.isoformat()})
        job = answer.json()["job"]
        waiting = (await client.get(f"/jobs/{job}/status")).json()
        assert (waiting["state"], parsed(waiting["run_after"])) == ("queued", at)
        too_early = await client.post(f"/jobs/{job}/run")
        assert (too_early.status_code, "not due yet" in too_early.json()["detail"]) == (409, True)

        async def completed() -> dict[str, Any] | None:
            now: dict[str, Any] = (await client.get(f"/jobs/{job}/status")).json()
            return now if now["state"] == "completed" else None

        done = await eventually(completed)
    assert done is not None
    late = (parsed(done["claimed_at"]) - at).total_seconds()
    assert late >= 0
    assert (await deployment.ended(pod, done["result"]))["state"] == "completed"
    assert await deployment.tonnes(pod) == {(2024, 2): 120.0, (2025, 2): 118.0}
    proved(f"a recalculation with a run_after began {1000 * late:.0f} ms after that moment, and not before")


def parsed(text: str) -> datetime:
    return datetime.fromisoformat(text)


# --- races ------------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def racing(deployment: Deployment, count: int) -> AsyncIterator[Callable[[str], Any]]:
    """Processes that all do what a line says at the same moment; the answers of all of them."""
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.examples.emissions_racer"),
            cwd=ROOT,
            env={**os.environ, **deployment.environ},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(count)
    ]

    turns = itertools.cycle(range(count))

    async def answers() -> list[str]:
        lines = [process.stdout.readline() for process in processes if process.stdout is not None]
        return [line.decode().strip() for line in await asyncio.wait_for(asyncio.gather(*lines), 2 * PATIENCE)]

    async def race(line: str) -> list[str]:
        first = next(turns)
        for process in processes[first:] + processes[:first]:
            if process.stdin is not None:
                process.stdin.write(f"{line}\n".encode())
        return await answers()

    try:
        assert await answers() == ["ready"] * count
        yield race
    finally:
        for process in processes:
            process.kill()
        await asyncio.gather(*(process.wait() for process in processes))


async def test_processes_that_race_for_a_job_by_its_id_run_it_once(deployment: Deployment, proved: Proved) -> None:
    (web,) = await deployment.start("web", **NO_WORKER)
    runs = [await deployment.upload(web, GOOD, to=f"org-{n}") for n in range(5)]
    won = []
    async with racing(deployment, 4) as race:
        for run in runs:
            for number in range(4):
                job = (await deployment.ask(web, f"/runs/{run}"))["steps"][number]["job"]
                answers = await race(f"run {job}")
                assert sorted(answers) == ["completed", "taken", "taken", "taken"]
                won.append(answers.index("completed"))
            assert (await deployment.ended(web, run))["state"] == "completed"
    assert await deployment.sql("SELECT count(*) AS n, max(attempt) AS most FROM rowlock.jobs") == [
        {"n": 20, "most": 1}
    ]
    assert len(set(won)) > 1  # it was a race
    proved(
        f"four processes raced for each of 20 jobs by its id: each ran once, won by {len(set(won))} of the processes"
    )


async def test_racing_requests_of_several_processes_start_one_run_per_organisation(
    deployment: Deployment, proved: Proved
) -> None:
    (web,) = await deployment.start("web", **NO_WORKER)
    rounds, created = 10, []
    async with racing(deployment, 4) as race:
        for turn in range(rounds):
            async with web.client() as client:
                await client.get(f"/organisations/org-{turn}/totals")
            answers = await race(f"recalculate org-{turn}")
            assert sorted(answer.split()[0] for answer in answers) == ["created", "kept", "kept", "kept"]
            assert len({answer.split()[1] for answer in answers}) == 1
            created.append(next(n for n, answer in enumerate(answers) if answer.startswith("created")))
    assert len(await deployment.sql("SELECT 1 FROM rowlock.workflows")) == rounds
    # Over HTTP: an upload beside a current run is refused as a whole, a recalculation joins it.
    run = await deployment.upload(web, GOOD)
    async with web.client() as client:
        files = {"file": ("more.csv", GOOD)}
        refused = await client.post("/organisations/acme/uploads", files=files)
        assert (refused.status_code, run in refused.json()["detail"]) == (409, True)
        joined = await client.post("/organisations/acme/recalculations")
        assert (joined.status_code, joined.json()) == (202, {"run": run, "what": "kept"})
    assert await deployment.sql("SELECT organisation, file FROM upload") == [
        {"organisation": "acme", "file": "data.csv"}
    ]
    # When the run is over, the key is free.
    await deployment.start("pod-1")
    await deployment.ended(web, run)
    assert await deployment.upload(web, GOOD, file="more.csv") != run
    assert len(set(created)) > 1
    proved(
        f"four processes requested a run {rounds} times at the same moment: one was created each time, three kept it"
    )


# --- where the calculation computes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Milliseconds that requests took, sorted: before a recalculation, and from its request to its end."""

    before: list[float]
    during: list[float]
    inside: int
    """Requests that began and were answered while the calculation was running."""
    seconds: float
    """How long it computed."""
    log: str

    @property
    def told(self) -> str:
        return (
            f"p95 {percentile(self.before, 0.95):.0f} ms before, {percentile(self.during, 0.95):.0f} ms (at most"
            f" {self.during[-1]:.0f} ms) during {self.seconds:.1f} s of computing"
        )


BULK: Final = """INSERT INTO activity
SELECT %s, 'bulk.csv', n, '2025-01-01', 'London', 'electricity', n, 'MWh' FROM generate_series(2, %s) n"""
RECALCULATION: Final = """SELECT state, (result ->> 'seconds')::float8 AS seconds FROM rowlock.jobs
WHERE kind LIKE 'emissions.recalculate%%' ORDER BY id DESC LIMIT 1"""


async def measured(deployment: Deployment, where: str, lines: int) -> Measured:
    """Requests to a pod, one after the other, while it recalculates."""
    (pod,) = await deployment.start(f"pod-{where}", CALCULATE_IN=where, ROWLOCK_LAG_LIMIT="200ms")
    # The first calculation would include the start of a child process.
    await deployment.ended(pod, await deployment.upload(pod, GOOD, to=where))
    await deployment.sql(BULK, where, lines + 1)
    seen: list[tuple[str, float]] = []
    async with pod.client() as client:

        async def took() -> float:
            begun = time.monotonic()
            answer = await client.get(f"/organisations/{where}/totals")
            assert answer.status_code == 200
            return 1000 * (time.monotonic() - begun)

        before = sorted([await took() for _ in range(50)])
        run = (await client.post(f"/organisations/{where}/recalculations")).json()["run"]
        while (now := (await deployment.sql(RECALCULATION))[0])["state"] in ("blocked", "queued", "running"):
            seen.append((now["state"], await took()))
    assert (await deployment.ended(pod, run))["state"] == "completed"
    inside = sum(one == other == "running" for (one, _), (other, _) in itertools.pairwise(seen))
    pod.stop()
    return Measured(before, sorted(took for _, took in seen), inside, now["seconds"], pod.told())


async def test_web_latency_while_a_pod_recalculates_in_three_deployments(
    deployment: Deployment, proved: Proved
) -> None:
    lines = 150_000
    process = await measured(deployment, "process", lines)
    assert process.inside > 0
    assert "inventory.py" not in process.log
    thread = await measured(deployment, "thread", lines)
    assert thread.inside > 0
    loop = await measured(deployment, "loop", lines)
    # One request waited for the whole calculation, and the log names what blocked the loop.
    assert loop.during[-1] > 500 * loop.seconds
    assert re.search(r"event loop has been blocked.*emissions/(inventory|ledger)\.py", loop.log, re.DOTALL), loop.log
    sums = await deployment.sql("SELECT DISTINCT sum(kg_co2e) AS kg FROM total GROUP BY organisation")
    assert len(sums) == 1  # the same, wherever it was computed
    proved(f"{lines:,} lines beside requests: process {process.told}, {process.inside} answers meanwhile")
    proved(f"… in a thread {thread.told}, {thread.inside} answers meanwhile")
    proved(f"… on the event loop {loop.told}; the log names the line that blocks")


# --- the same handlers under Celery -----------------------------------------------------------------------------------


@contextlib.contextmanager
def celery_worker(deployment: Deployment, name: str, broker: str) -> Any:  # noqa: ANN401 - a generator
    """A Celery worker with two child processes."""
    words = ("-m", "celery", "-A", "examples.emissions.tasks:celery_app", "worker", "--pool", "prefork")
    more = ("--concurrency", "2", "--without-gossip", "--without-mingle", "--hostname", f"{name}@test")
    log = deployment.folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *words, *more],
            cwd=ROOT,
            env={**os.environ, **deployment.environ, "CELERY_BROKER_URL": broker, "CALCULATE_IN": "process"},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=PATIENCE)
        print(log.read_text(errors="replace")[-4000:])  # noqa: T201 - shown on failure


async def test_celery_hosts_the_same_handlers_and_a_killed_worker_loses_nothing(
    deployment: Deployment, tmp_path: Path, proved: Proved
) -> None:
    with running(Redis(tmp_path / "redis")) as redis, contextlib.ExitStack() as workers:
        first = workers.enter_context(celery_worker(deployment, "celery-1", redis.url))
        (web,) = await deployment.start("web", **NO_WORKER, CELERY_BROKER_URL=redis.url)
        chains = 20
        for n in range(chains):
            ended = await deployment.ended(web, await deployment.upload(web, GOOD, to=f"org-{n}"))
            assert [(step["kind"], step["state"], step["runs"]) for step in ended["steps"]] == [
                (kind, "completed", 1) for kind in STEPS
            ]
        gaps = await deployment.gaps()
        deployment.registry.hold("units")
        run = await deployment.upload(web, GOOD)
        await deployment.registry.asked("units")
        os.killpg(first.pid, signal.SIGKILL)
        killed = time.monotonic()
        workers.enter_context(celery_worker(deployment, "celery-2", redis.url))
        await deployment.registry.asked("units", 2)
        seconds = time.monotonic() - killed
        deployment.registry.release()
        ended = await deployment.ended(web, run)
        assert [step["runs"] for step in ended["steps"]] == [1, 1, 2, 1]
        assert await deployment.tonnes(web) == {(2024, 2): 24.846, (2025, 2): 20.886}
    proved(
        f"under Celery and Redis the same handlers ran {chains} chains, from step to step"
        f" p50 {percentile(gaps, 0.5):.0f} ms, p99 {percentile(gaps, 0.99):.0f} ms; the step of a worker killed with"
        f" kill -9 ran again after {seconds:.1f} s in another one"
    )


# --- as a person sees it ----------------------------------------------------------------------------------------------


async def test_one_command_runs_it_and_a_person_sees_the_totals_change(
    tmp_path: Path, database_url: str, browser: Browser, proved: Proved
) -> None:
    port = free_ports(4)
    async with one_command("emissions", "--port", str(port), database_url=database_url, home=tmp_path) as running:
        application, dashboard = LINK.findall(running.greeting)[-2:]
        page = await browser.new_page()
        await page.goto(application)
        await expect(page.get_by_text("Nothing calculated yet")).to_be_visible(timeout=IN_TIME)
        await page.get_by_role("button", name="Upload these lines").click()
        await expect(page.locator("#state")).to_have_text("completed with errors", timeout=IN_TIME)
        bars = page.locator("rowlock-progress")
        await expect(bars).to_have_count(4)
        await expect(bars.last).to_have_attribute("state", "completed_with_errors", timeout=IN_TIME)
        await expect(page.get_by_text("typed.csv, line 6: 'many' is not a number")).to_be_visible()
        await expect(page.locator("#totals tbody tr").first).to_contain_text("24.846")
        await page.get_by_label("A CSV file").set_input_files(
            {"name": "more.csv", "mimeType": "text/csv", "buffer": GOOD.replace("120,MWh", "1,MWh").encode()}
        )
        await page.get_by_role("button", name="Upload", exact=True).click()
        await expect(page.locator("#totals tbody tr").first).to_contain_text("25.053", timeout=IN_TIME)
        await page.get_by_label("A CSV file").set_input_files(
            {"name": "bad.csv", "mimeType": "text/csv", "buffer": b"nothing\n"}
        )
        await page.get_by_role("button", name="Upload", exact=True).click()
        await expect(page.locator(".said")).to_contain_text("Missing: date", timeout=IN_TIME)
        await page.goto(dashboard)
        jobs = await page.request.get(f"http://127.0.0.1:{port}/api/v1/jobs")
        assert len((await jobs.json())["items"]) == 8
        await running.stop()
        assert "Application shutdown complete" in running.rest
    proved("one command started two pods; in a browser a person uploaded a file twice and saw totals and errors change")
