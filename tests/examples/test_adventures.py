"""examples/adventures in separate processes: an API, and workers that are killed, paused, restarted and edited."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
import time
import tomllib
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from examples.adventures.outbound.bunny.bunny_client import BunnyClient
from examples.adventures.outbound.s3.s3_client import signed_headers
from playwright.async_api import expect
from tests.examples.adventures_compose import compose_file, demanded
from tests.examples.adventures_deployment import EXAMPLE, LANE, ROOT, SILENT, deployed, run_to_end, says
from tests.examples.one_command import one_command
from tests.host_processes import free_ports
from tests.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from playwright.async_api import Browser
    from tests.examples.adventures_deployment import Deployment, Reader

    Proved = Callable[[str], None]

pytestmark = pytest.mark.timeout(400)  # processes that start, work, die and are rescued
REAL: Final = {"STUB_GENERATION": ""}
"""The clients of the real services, which ask the stand-ins."""
SELDOM: Final = f"{LANE},poll_interval=60s"
"""A worker that would find a job by itself after up to a minute."""
LINK: Final = re.compile(r"http://127\.0\.0\.1:\d+/(?:read|ops/api/v1/auth/local\S+)")
IN_TIME: Final = PATIENCE * 1000
"""Milliseconds that a page may take on a busy machine."""


@pytest.fixture
async def deployment(tmp_path: Path, empty_database_url: str) -> AsyncIterator[Deployment]:
    async with deployed(tmp_path, empty_database_url) as found:
        yield found


# --- the design's own integration test --------------------------------------------------------------------------------


async def wait_for_adventure_status(reader: Reader, adventure_id: str, status: str, timeout: float) -> dict[str, Any]:
    """As the design's test does: poll until the adventure has that status."""

    async def there() -> dict[str, Any] | None:
        now = await reader.read(adventure_id)
        return now if now["status"] == status else None

    found = await eventually(there, within=timeout)
    assert found is not None
    return found


async def test_the_integration_test_of_the_design_passes_though_the_worker_comes_late(
    deployment: Deployment, proved: Proved
) -> None:
    early = deployment.start("worker", as_="early")  # before there is any table
    api = await deployment.api()
    reader = await deployment.reader(api)
    made = await reader.begin()
    assert (made["status"], made["entries"][0]["status"]) == ("awaiting_first_entry", "pending")
    active = await wait_for_adventure_status(reader, made["id"], "active", timeout=30)
    assert [entry["status"] for entry in active["entries"]] == ["complete"]
    assert active["entries"][0]["translation"].startswith("Lena arrives")
    decided = await reader.decide(active)
    assert (decided.status_code, decided.json()["entries"][1]["status"]) == (201, "pending")
    whole = await reader.entry_becomes(made["id"], "complete")
    assert [entry["number"] for entry in whole["entries"]] == [1, 2]
    assert [choice["taken"] for choice in whole["entries"][0]["choices"]] == [True, False]
    sound = await reader.client.get(f"/adventures/{made['id']}/entries/{whole['entries'][1]['id']}/audio")
    assert (sound.content[:4], sound.headers["content-type"]) == (b"RIFF", "audio/wav")
    assert deployment.services.asked_of("anthropic") == []  # stubs, as in the design's tests
    took = await deployment.sql("SELECT max(extract(epoch FROM finished_at - claimed_at)) FROM rowlock.jobs")
    assert early.process.poll() is None
    proved(
        "the design's integration test passed with a worker that had been started before the tables were there; with "
        f"stubs an entry took {float(took[0][0]) * 1000:.0f} ms at most"
    )


# --- one transaction --------------------------------------------------------------------------------------------------

CURSE: Final = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'cursed'; END $$;
CREATE CONSTRAINT TRIGGER cursed AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW {condition} EXECUTE FUNCTION refuse();
"""
"""The commit fails, after everything in the request has succeeded."""


async def jobs_and_entries(deployment: Deployment) -> tuple[int, int]:
    ((jobs, entries),) = await deployment.sql(
        "SELECT (SELECT count(*) FROM rowlock.jobs), (SELECT count(*) FROM adventure_entry)"
    )
    return jobs, entries


async def test_a_request_that_is_rolled_back_takes_its_job_with_it_on_both_routes(
    deployment: Deployment, proved: Proved
) -> None:
    api = await deployment.api()
    await deployment.worker()
    reader = await deployment.reader(api)
    made = await reader.begin()
    whole = await reader.entry_becomes(made["id"], "complete")
    assert await jobs_and_entries(deployment) == (1, 1)
    assert await deployment.rowlock.workers.list() != []
    await deployment.sql(CURSE.format(table="adventure", condition="WHEN (NEW.title = 'cursed')"))
    refused = await reader.client.post("/adventures", json={"title": "cursed"})
    assert refused.status_code == 500
    await says(api, "Error) cursed")
    assert await jobs_and_entries(deployment) == (1, 1)
    await deployment.sql("DROP TRIGGER cursed ON adventure; DROP FUNCTION refuse")
    await deployment.sql(CURSE.format(table="adventure_entry_decision", condition=""))
    assert (await reader.decide(whole)).status_code == 500
    assert await jobs_and_entries(deployment) == (1, 1)
    assert (await reader.read(made["id"]))["entries"][0]["choices"][0]["taken"] is False
    await deployment.sql("DROP TRIGGER cursed ON adventure_entry_decision")
    assert (await reader.decide(whole)).status_code == 201
    await reader.entry_becomes(made["id"], "complete")
    assert await jobs_and_entries(deployment) == (2, 2)
    proved("on both routes a request whose commit failed left neither rows nor a job; the next one left both")


async def test_a_commit_wakes_the_worker_and_the_request_waits_for_nothing(
    deployment: Deployment, proved: Proved
) -> None:
    api = await deployment.api()
    worker = await deployment.worker(ROWLOCK_LANES=SELDOM)
    reader = await deployment.reader(api)
    waits: list[float] = []
    for _ in range(10):
        whole = await reader.entry_becomes((await reader.begin())["id"], "complete")
        ((waited,),) = await deployment.sql(
            "SELECT extract(epoch FROM claimed_at - created_at) FROM rowlock.jobs ORDER BY id DESC LIMIT 1"
        )
        waits.append(float(waited))
    assert (await reader.decide(whole)).status_code == 201
    await reader.entry_becomes(whole["id"], "complete")
    assert max(waits) < 30, waits  # polling alone would need a minute now and then
    worker.signal_all(signal.SIGSTOP)
    begun = time.monotonic()
    made = await reader.begin()
    seconds = time.monotonic() - begun
    worker.signal_all(signal.SIGCONT)
    await reader.entry_becomes(made["id"], "complete")
    proved(
        f"with a poll interval of 60 s, jobs were claimed {sorted(waits)[5] * 1000:.0f} ms after their enqueue (median "
        f"of 10, commit included); a request took {seconds * 1000:.0f} ms while the worker was paused"
    )


async def test_two_decisions_at_once_make_one_entry_and_bad_requests_are_refused(deployment: Deployment) -> None:
    api = await deployment.api()
    await deployment.worker()
    reader, stranger = await deployment.reader(api), await deployment.reader(api)
    whole = await reader.entry_becomes((await reader.begin())["id"], "complete")
    where = f"/adventures/{whole['id']}"
    answers = await asyncio.gather(reader.decide(whole, 0), reader.decide(whole, 1), reader.decide(whole, 1))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409]
    assert len((await reader.entry_becomes(whole["id"], "complete"))["entries"]) == 2
    assert await jobs_and_entries(deployment) == (2, 2)
    refused = await reader.client.post("/adventures", json={"title": "La carta", "reads": "xx"})
    assert (refused.status_code, "'xx'" in refused.json()["detail"]) == (422, True)
    assert (await reader.client.post("/adventures", json={"title": ""})).status_code == 422
    nowhere = "00000000-0000-0000-0000-000000000000"
    assert (await reader.client.post(f"{where}/decisions", json={"choice_id": nowhere})).status_code == 404
    for path in (where, f"{where}/entries/{whole['entries'][0]['id']}/token", f"/read/{whole['id']}"):
        assert (await stranger.client.get(path)).status_code == 404
        assert (await reader.client.get(path)).status_code == 200
        assert (await reader.client.get(path, headers={"Authorization": "Bearer x.y.z"})).status_code == 401
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert (await reader.client.post("/adventures", json={"title": "x"}, headers=foreign)).status_code == 403
    assert (await reader.client.get("/ops/api/v1/jobs")).status_code == 401  # operators have tokens of their own


# --- failures ---------------------------------------------------------------------------------------------------------


async def fails(deployment: Deployment, job: str, attempt: int) -> None:
    """Wait until so many attempts have failed."""

    async def failed() -> bool:
        return len((await deployment.rowlock.jobs.history(job)).attempts) == attempt

    await eventually(failed, within=2 * PATIENCE)


async def test_retries_wait_as_designed_and_after_the_last_one_the_entry_is_in_error(
    deployment: Deployment, proved: Proved
) -> None:
    api = await deployment.api(**REAL)
    await deployment.worker(**REAL)
    reader = await deployment.reader(api)
    deployment.services.broken.add("gemini")
    made = await reader.begin()
    job, waits = made["entries"][0]["job_id"], []
    for attempt in (1, 2):
        await fails(deployment, job, attempt)
        waiting = await deployment.rowlock.jobs.get(job)
        ended = (await deployment.rowlock.jobs.history(job)).attempts[-1].ended_at
        waits.append((waiting.run_after - ended).total_seconds())
        assert (await reader.read(made["id"]))["entries"][0]["status"] == "pending"
        await deployment.rowlock.jobs.edit(job, run_in="0s")  # the wait is over
    assert (30 <= waits[0] <= 60, 60 <= waits[1] <= 90) == (True, True), waits
    spoiled = await reader.entry_becomes(made["id"], "error")
    assert "gemini answered 503: out of order" in spoiled["entries"][0]["error"]
    ended_job = await deployment.rowlock.jobs.get(job)
    assert (ended_job.state, ended_job.attempt) == ("failed", 3)
    asked = {name: len(deployment.services.asked_of(name)) for name in ("anthropic", "deepl", "gemini")}
    assert asked == {"anthropic": 1, "deepl": 1, "gemini": 3}  # later attempts went on after the finished steps
    assert "This part could not be made" in (await reader.client.get(f"/read/{made['id']}")).text
    # A failure that passes is not the end.
    second = (await reader.begin())["entries"][0]["job_id"]
    await fails(deployment, second, 1)
    deployment.services.broken.clear()
    await deployment.rowlock.jobs.edit(second, run_in="0s")
    assert (await deployment.rowlock.jobs.wait(second, timeout=PATIENCE)).attempt == 2
    proved(
        f"an entry whose speech failed was tried again after {waits[0]:.0f} s and {waits[1]:.0f} s (30 to 60, 60 to "
        "90); after the third failure the hook wrote error; the model was asked once"
    )


async def test_jobs_are_not_lost_when_workers_are_killed_stopped_or_not_there(
    deployment: Deployment, proved: Proved
) -> None:
    api = await deployment.api(**REAL)
    reader = await deployment.reader(api)
    made = await reader.begin()
    assert await deployment.rowlock.workers.list() == []  # the API runs no job
    deployment.services.hold("gemini")
    first = await deployment.worker("first", ROWLOCK_LANES=SILENT, ROWLOCK_SHUTDOWN_AFTER="1s", **REAL)
    await deployment.asked("gemini")
    second = await deployment.worker("second", ROWLOCK_SHUTDOWN_AFTER="1s", **REAL)
    first.signal_all(signal.SIGKILL)
    killed = time.monotonic()
    await deployment.asked("gemini", 2)  # one request of each run
    seconds = time.monotonic() - killed
    await asyncio.to_thread(second.stop)
    job = await deployment.rowlock.jobs.get(made["entries"][0]["job_id"])
    assert (job.state, job.attempt, job.losses) == ("queued", 0, 1)  # neither the loss nor the restart used one up
    deployment.services.release()
    stored = {"STORAGE_PROVIDER": "s3", "STORAGE_BUCKET": "langlearn-test"}
    await deployment.worker("third", file="docker-compose-prod.yml", **stored, **REAL)
    await reader.entry_becomes(made["id"], "complete")
    assert len(deployment.services.asked_of("anthropic")) == 1
    assert await deployment.sql("SELECT count(*) FROM adventure_entry_choice") == [(2,)]
    proved(
        f"an entry begun without a worker outlived a worker killed with kill -9 (taken over {seconds:.1f} s later) and "
        "one stopped with SIGTERM; the third completed it after the last finished step"
    )


async def test_a_worker_makes_four_entries_at_once_and_the_api_answers_meanwhile(
    deployment: Deployment, proved: Proved
) -> None:
    api = await deployment.api(**REAL)
    await deployment.worker(**REAL)
    reader = await deployment.reader(api)
    deployment.services.hold("anthropic")
    made = [(await reader.begin(f"Story {number}"))["id"] for number in range(5)]
    await deployment.asked("anthropic", 4)
    ((running, queued),) = await deployment.sql(
        "SELECT count(*) FILTER (WHERE state = 'running'), count(*) FILTER (WHERE state = 'queued') FROM rowlock.jobs"
    )
    assert (running, queued) == (4, 1)
    times = []
    for _ in range(50):
        begun = time.monotonic()
        await reader.read(made[0])
        times.append(time.monotonic() - begun)
    deployment.services.release()
    for adventure in made:
        await reader.entry_becomes(adventure, "complete")
    proved(
        f"four entries were made at once and a fifth waited; meanwhile the API answered in "
        f"{sorted(times)[25] * 1000:.0f} ms (median of 50)"
    )


# --- the nightly digest -----------------------------------------------------------------------------------------------


async def test_a_missed_night_is_made_up_for_once_at_the_start(deployment: Deployment, proved: Proved) -> None:
    await deployment.api()
    first = await deployment.worker("first")
    schedule = await deployment.rowlock.schedules.get("news.digest")
    assert (schedule.when, schedule.tz, schedule.missed) == ("0 2 * * *", "UTC", "latest")
    assert (await digests(deployment), await deployment.sql("SELECT count(*) FROM rowlock.jobs")) == ([], [(0,)])
    await asyncio.to_thread(first.stop)
    # The worker is away for three nights.
    await deployment.sql("UPDATE rowlock.schedules SET next_at = next_at - interval '3 days'")
    begun = time.monotonic()
    second = await deployment.worker("second")

    async def made() -> Sequence[date]:
        return await digests(deployment)

    days = await eventually(made)
    seconds = time.monotonic() - begun
    now = datetime.now(UTC)
    latest = now.replace(hour=2, minute=0, second=0, microsecond=0)
    latest -= timedelta(days=0 if latest <= now else 1)
    assert days == [latest.date()]
    (job,) = await deployment.rowlock.jobs.list(kind="news.digest")
    assert (job.meta["schedule"], datetime.fromisoformat(str(job.meta["slot"]))) == ("news.digest", latest)
    assert (await deployment.rowlock.schedules.get("news.digest")).next_at == latest + timedelta(days=1)
    await asyncio.to_thread(second.stop)
    await deployment.worker("third")  # missed nothing
    by_hand = await deployment.rowlock.schedules.run("news.digest")
    await deployment.rowlock.jobs.wait(by_hand.id, timeout=PATIENCE)
    ended = await deployment.rowlock.jobs.list(kind="news.digest")
    assert [each.id for each in ended] == [by_hand.id, job.id]
    proved(f"after three missed nights a starting worker made one digest, for the latest night, within {seconds:.1f} s")


async def digests(deployment: Deployment) -> list[date]:
    return [day for (day,) in await deployment.sql("SELECT day FROM news_digest ORDER BY day")]


# --- traces -----------------------------------------------------------------------------------------------------------


async def test_a_trace_leads_from_the_request_over_the_worker_to_the_services(
    deployment: Deployment, proved: Proved
) -> None:
    api = await deployment.api(**REAL)
    worker = await deployment.worker(**REAL)
    reader = await deployment.reader(api)
    trace = "0af7651916cd43dd8448eb211c80319c"
    deployment.services.broken.add("gemini")
    caller = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    made = (await reader.client.post("/adventures", json={"title": "La carta"}, headers=caller)).json()
    job = made["entries"][0]["job_id"]
    for attempt in (1, 2):
        await fails(deployment, job, attempt)
        await deployment.rowlock.jobs.edit(job, run_in="0s")
    await reader.entry_becomes(made["id"], "error")

    async def spans() -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for span in deployment.spans():
            if span["context"]["trace_id"] == f"0x{trace}":
                found.setdefault(span["name"], []).append(span)
        return found if "run adventures.entry/on_exhausted" in found else {}

    found = await eventually(spans)
    (request,), (enqueue,) = found["POST /adventures"], found["enqueue adventures.entry"]
    assert request["parent_id"] == "0xb7ad6b7169203331"
    (endpoint,) = found["fastapi.endpoint"]
    assert (enqueue["parent_id"], endpoint["parent_id"]) == (
        endpoint["context"]["span_id"],
        request["context"]["span_id"],
    )
    runs = found["run adventures.entry"]
    assert [run["attributes"]["rowlock.outcome"] for run in runs] == ["retried", "retried", "failed"]
    assert {run["parent_id"] for run in [*runs, *found["run adventures.entry/on_exhausted"]]} == {
        enqueue["context"]["span_id"]
    }
    assert {run["attributes"]["rowlock.job.id"] for run in runs} == {job}
    assert found["POST anthropic"][0]["parent_id"] == runs[0]["context"]["span_id"]
    names = {name: {span["resource"]["attributes"]["service.name"] for span in each} for name, each in found.items()}
    assert (names["POST /adventures"], names["run adventures.entry"]) == ({"api"}, {"worker"})
    for service in ("anthropic", "deepl", "gemini"):
        headers = {name.lower(): value for name, value in deployment.services.asked_of(service)[0].headers.items()}
        assert headers["traceparent"].split("-")[1] == trace
    lines = [json.loads(line) for line in worker.told().splitlines() if line.startswith("{")]
    assert {line["trace_id"] for line in lines if line.get("job_id") == job} == {trace}
    proved(
        f"{sum(map(len, found.values()))} spans of two processes are one trace: request, enqueue, three attempts, "
        "calls of services and the hook; the services and every log line of the job were told its id"
    )


# --- Alembic ----------------------------------------------------------------------------------------------------------


async def test_the_revisions_install_and_remove_all_tables_together(deployment: Deployment, proved: Proved) -> None:
    async def alembic(*words: str) -> str:
        where = ("-c", str(EXAMPLE / "alembic.ini"))
        return await run_to_end("alembic", *where, *words, cwd=ROOT, **deployment.environ)

    async def tables() -> dict[str, int]:
        rows = await deployment.sql(
            "SELECT schemaname, count(*) FROM pg_tables WHERE schemaname IN ('public', 'rowlock') GROUP BY 1"
        )
        return dict(rows)

    begun = time.monotonic()
    await alembic("upgrade", "head")
    seconds = time.monotonic() - begun
    installed = await tables()
    assert installed["public"] == 8  # seven of the application, and Alembic's own
    assert installed["rowlock"] > 20
    assert "No new upgrade operations detected" in await alembic("check")  # Rowlock's are left alone
    where = ("--database-url", deployment.database_url)
    await run_to_end("rowlock", "schema", "verify", *where, cwd=ROOT)  # as `rowlock schema upgrade` makes them
    await alembic("downgrade", "0018")
    assert await tables() == {"public": 7}
    await alembic("upgrade", "head")
    api = await deployment.api()
    await deployment.worker()
    reader = await deployment.reader(api)
    await reader.entry_becomes((await reader.begin())["id"], "complete")
    for host in deployment.hosts.values():
        await asyncio.to_thread(host.stop)
    await alembic("downgrade", "base")
    assert await tables() == {"public": 1}
    assert await deployment.sql("SELECT 1 FROM pg_namespace WHERE nspname = 'rowlock'") == []
    script = await alembic("upgrade", "head", "--sql")
    assert ("CREATE TABLE adventure " in script, "CREATE TABLE rowlock.jobs" in script.replace('"', "")) == (True, True)
    proved(
        f"alembic upgrade head made 7 tables of the application and {installed['rowlock']} of Rowlock in "
        f"{seconds:.1f} s; downgrade removed all of them, with jobs in them"
    )


# --- hot reload -------------------------------------------------------------------------------------------------------


async def test_the_worker_of_the_dev_file_starts_again_when_a_file_is_edited(
    deployment: Deployment, tmp_path: Path, proved: Proved
) -> None:
    sources = tmp_path / "sources"
    shutil.copytree(ROOT / "examples", sources / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    api = await deployment.api()
    reader = await deployment.reader(api)
    stubs = {"STUB_GENERATION": "true", "STORAGE_PROVIDER": "memory"}
    worker = deployment.start("worker", file="docker-compose-dev.yml", cwd=sources, environ=stubs)
    serving = "lane adventure_pipeline (4 slots)"
    await says(worker, serving)
    before = await reader.entry_becomes((await reader.begin())["id"], "complete")
    assert before["entries"][0]["text"].startswith("Lena llega")
    stub = sources / "examples" / "adventures" / "outbound" / "anthropic" / "stub_anthropic_client.py"
    begun = time.monotonic()
    stub.write_text(stub.read_text().replace("Written(told.text,", 'Written("Editado: " + told.text,'))
    await says(worker, serving, 2)
    seconds = time.monotonic() - begun
    assert "stub_anthropic_client.py changed" in worker.told()
    after = await reader.entry_becomes((await reader.begin())["id"], "complete")
    assert after["entries"][0]["text"].startswith("Editado: Lena llega")
    proved(f"{seconds:.1f} s after a file was edited, the worker of docker-compose-dev.yml ran the new code")


# --- compose files ----------------------------------------------------------------------------------------------------

SHARED: Final = {"STORAGE_ENDPOINT_URL", "STORAGE_ACCESS_KEY", "STORAGE_SECRET_KEY", "STORAGE_BUCKET"}
FILES: Final = {
    "docker-compose.yml": {"api", "worker", "db", "storage"},
    "docker-compose-dev.yml": {"api", "worker", "db", "storage"},
    "docker-compose-prod.yml": {"api", "worker", "db"},
    "docker-compose.test.yml": {"api", "worker", "db", "storage"},
}


@pytest.mark.parametrize("name", FILES)
def test_a_compose_file_fits_the_specification_and_what_it_names_exists(name: str) -> None:
    found = compose_file(EXAMPLE / name)
    assert set(found.services) == FILES[name]
    for service in found.services.values():
        assert (service.image is None) != (service.build is None)
        if service.build is not None:
            context = (EXAMPLE / service.build.context).resolve()
            assert (context, context / service.build.dockerfile) == (ROOT, EXAMPLE / "Dockerfile")
        for needed, how in service.depends_on.items():
            assert how.condition == "service_healthy"
            assert found.services[needed].healthcheck is not None
        for volume in service.volumes:
            source = volume.partition(":")[0]
            assert source in found.volumes or (EXAMPLE / source).resolve().is_dir()
    own = (EXAMPLE / "settings.py").read_text() + (EXAMPLE / "observability.py").read_text()
    read = {each for role in ("api", "worker") for each in found.services[role].environment}
    # The design passes DEEPGRAM_API_KEY on, though nothing of these routes asks that service; OTEL_… is the SDK's.
    assert {each for each in read if f'"{each}"' not in own} <= {"DEEPGRAM_API_KEY", "OTEL_SERVICE_NAME"}
    example = dict(
        line.split("=", 1) for line in (EXAMPLE / ".env.example").read_text().splitlines() if "=" in line[:30]
    )
    assert demanded((EXAMPLE / name).read_text()) <= set(example)
    if docker_compose():
        words = ("docker", "compose", "--env-file", ".env.example", "-f", name, "config", "--quiet")
        subprocess.run(words, cwd=EXAMPLE, check=True)


def docker_compose() -> bool:
    """Whether this machine has the command line of compose; it needs no daemon to check a file."""
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run((docker, "compose", "version"), capture_output=True, check=False).returncode == 0


def test_the_compose_files_differ_as_designed() -> None:
    base, dev, prod, test = (compose_file(EXAMPLE / name).services for name in FILES)
    command = "rowlock worker --app examples.adventures.tasks:tasks --json"
    assert [str(each["worker"].command) for each in (base, dev, prod, test)] == [
        command,
        f"{command} --reload --reload-dir examples/adventures",
        f"{command} --processes 1",
        command,
    ]
    for services in (base, dev, prod, test):
        api, worker = services["api"], services["worker"]
        assert api.build == worker.build  # one image
        assert str(api.command).startswith(
            'sh -c "alembic -c examples/adventures/alembic.ini upgrade head && exec uvicorn'
        )
        assert "alembic" not in str(worker.command)
        assert (worker.ports, worker.healthcheck) == ([], None)
        own = ("OTEL_SERVICE_NAME",)
        assert {key: value for key, value in api.environment.items() if key not in own} == {
            key: value for key, value in worker.environment.items() if key not in own
        }
    assert [each["worker"].restart for each in (base, dev, prod, test)] == ["unless-stopped"] * 3 + [None]
    assert [bool(each["worker"].volumes) for each in (base, dev, prod, test)] == [True, True, False, False]
    assert "--reload" in str(dev["api"].command)
    limits = prod["worker"].deploy
    assert limits is not None
    assert (limits.resources.limits.cpus, limits.resources.limits.memory) == ("1", "1G")
    assert (set(prod["worker"].depends_on), set(base["worker"].depends_on)) == ({"db"}, {"db", "storage"})
    assert (prod["worker"].environment["STORAGE_PROVIDER"], SHARED & set(prod["worker"].environment)) == (
        "bunny",
        set(),
    )
    assert set(base["worker"].environment) >= SHARED
    assert test["worker"].environment["STUB_GENERATION"] == "true"
    assert base["worker"].environment["OTEL_SERVICE_NAME"].endswith("-worker}")


def test_the_image_is_made_of_what_is_there() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", (EXAMPLE / "Dockerfile").read_text(), re.MULTILINE)
    sources = [word for words in copied for word in words.split()]
    assert sources
    assert [word for word in sources if not (ROOT / word).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", (EXAMPLE / "Dockerfile").read_text())
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


# --- storage ----------------------------------------------------------------------------------------------------------


def test_requests_to_the_storage_are_signed_as_its_documentation_shows() -> None:
    # The example "PUT Object" of the signature's documentation.
    headers = signed_headers(
        "PUT",
        "https://examplebucket.s3.amazonaws.com/test%24file.text",
        b"Welcome to Amazon S3.",
        keys=("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        now=datetime(2013, 5, 24, tzinfo=UTC),
        more={"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
    )
    assert headers["Authorization"].endswith("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")
    bunny = BunnyClient(None, "", "zone", "key", "https://cdn.example", "secret")  # type: ignore[arg-type]  # no request
    assert bunny.signed_url("a.wav", 7) == (
        "https://cdn.example/a.wav?token=T69R3xhd8uzUd4WAdKT86_ZssnZD0JUFssvOOvT21j8&expires=7"
    )


# --- the one command --------------------------------------------------------------------------------------------------


async def test_one_command_runs_it_and_a_person_makes_an_adventure(
    tmp_path: Path, empty_database_url: str, browser: Browser, proved: Proved
) -> None:
    port = free_ports(2)
    async with one_command(
        "adventures",
        "--port",
        str(port),
        "--seconds",
        "0.3",
        database_url=empty_database_url,
        home=tmp_path,
        environ={"PATH": "/usr/bin:/bin"},
    ) as running:
        application, dashboard = LINK.findall(running.greeting)[-2:]
        page = await browser.new_page()
        await page.goto(application)
        await page.get_by_label("I read").select_option("xx")
        await page.get_by_role("button", name="Begin").click()
        await expect(page.get_by_text("Nothing can be translated into 'xx'.")).to_be_visible(timeout=IN_TIME)
        await page.get_by_label("I read").select_option("en")
        await page.get_by_role("button", name="Begin").click()
        progress = page.locator("rowlock-progress")
        await expect(progress).to_have_attribute("state", re.compile("queued|running"), timeout=IN_TIME)
        await expect(progress.get_by_text("Part 1 is being made")).to_be_visible(timeout=IN_TIME)
        await page.screenshot(path=tmp_path / "making.png")
        await page.get_by_role("button", name="Abrir la carta").click(timeout=IN_TIME)
        await expect(page.get_by_text("La carta huele a mar.")).to_be_visible(timeout=IN_TIME)
        await expect(page.get_by_role("button", name="Abrir la carta")).to_be_disabled(timeout=IN_TIME)
        await page.screenshot(path=tmp_path / "made.png", full_page=True)
        await page.goto(dashboard)
        asked = await page.request.get(f"http://127.0.0.1:{port}/ops/api/v1/jobs?q=kind:adventures.entry")
        states = [job["state"] for job in (await asked.json())["items"]]
        assert (asked.status, states) == (200, ["completed", "completed"])
        await running.stop()
        assert "stopped" in running.rest
    proved("one command started services, API and worker; a person began an adventure, saw it made, and decided")
