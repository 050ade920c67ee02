"""examples/docverse in separate processes: racing builds, a Redis that forgets, workers that are killed."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import importlib
import json
import logging
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from cryptography.fernet import Fernet
from playwright.async_api import expect
from tests.delivery.brokers import Redis, running
from tests.examples.docverse_deployment import ROOT, SECRET, SILENT, Deployment, deployed
from tests.examples.one_command import one_command
from tests.host_processes import free_ports
from tests.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from playwright.async_api import Browser

    Proved = Callable[[str], None]

logger = logging.getLogger(__name__)
ROUNDS: Final = int(os.environ.get("EXAMPLES_ROUNDS", "200"))
pytestmark = pytest.mark.timeout(400 + 2 * ROUNDS)  # processes that start, work, die and are rescued
yaml: Any = importlib.import_module("yaml")  # without types
SIDE_BY_SIDE: Final = 20
"""Racing projects at once."""
LINK: Final = re.compile(r"http://127\.0\.0\.1:\d+/(?:orgs/\w+|api/v1/auth/local\S+)")
IN_TIME: Final = PATIENCE * 1000
"""Milliseconds that a page may take on a busy machine."""
ID: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{2})?")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    with running(Redis(tmp_path / "redis")) as broker:
        yield broker  # type: ignore[misc]  # the very same


@pytest.fixture
async def deployment(tmp_path: Path, database_url: str, redis: Redis) -> AsyncIterator[Deployment]:
    async with deployed(tmp_path, database_url, redis) as made:
        yield made


# --- builds and their progress ----------------------------------------------------------------------------------------


async def test_a_build_shows_the_progress_of_the_design_while_editions_are_updated_side_by_side(
    deployment: Deployment, proved: Proved
) -> None:
    services = deployment.services
    await deployment.start(workers=1)
    await deployment.project("pipelines")
    for slug in ("v2.x", "DM-12345"):
        await deployment.edition("pipelines", slug, "main")
    first = await deployment.processed("pipelines")
    older = await deployment.build("pipelines")
    newer = await deployment.build("pipelines")
    await deployment.becomes(await _reassign(deployment, "pipelines", "v2.x", newer), "completed")
    services.hold("GET /objects")
    url = await deployment.uploaded("pipelines", older)
    await deployment.held("GET /objects")
    assert ID.fullmatch(url.rpartition("/")[2])
    assert (await deployment.job(url))["status"] == "in_progress"
    services.hold("/kv/")
    services.broken.add("v/DM-12345")
    services.let("GET /objects")
    await deployment.held("/kv/", 2)  # both at once; v2.x is skipped without a request
    skipped = [{"slug": "v2.x", "reason": f"superseded by build {newer}"}]

    async def editions() -> dict[str, Any] | None:
        now = await deployment.job(url)
        return now if (now["progress"] or {}).get("editions_skipped") == skipped else None

    now = await eventually(editions)
    assert now is not None
    assert (now["phase"], now["progress"]["editions_in_progress"]) == ("editions", ["DM-12345", "__main"])
    services.release()
    ended = await deployment.becomes(url, "completed_with_errors")
    assert ended["progress"] == {
        "editions_total": 3,
        "editions_completed": ["__main"],
        "editions_skipped": skipped,
        "editions_failed": [{"slug": "DM-12345", "error": "KV 503 after 3 retries"}],
        "editions_in_progress": [],
    }
    assert (ended["phase"], ended["attempt"]) == ("dashboard", 1)
    assert ended["errors"]["errors"][0].endswith("ServiceFailed: KV 503 after 3 retries")
    assert await _statuses(deployment, "pipelines") == {
        first: "completed",
        older: "completed_with_errors",
        newer: "pending",
    }
    shown = {"__main": older, "v2.x": newer, "DM-12345": first}
    assert await _editions(deployment, "pipelines") == shown
    assert {
        each["slug"]: each["build"] for each in json.loads(services.text("rubin/pipelines/__switcher.json"))
    } == shown
    services.broken.clear()
    async with deployment.client() as client:
        assert (await client.post(f"{url}/retry")).status_code == 202
    again = await deployment.becomes(url, "completed")
    assert again["progress"]["editions_failed"] == []
    assert (await _editions(deployment, "pipelines"))["DM-12345"] == older
    proved(
        "3 editions side by side: 1 completed, 1 skipped, 1 failed, in the design's JSON; a retry did the failed one"
    )


async def test_every_phase_is_told_and_the_inventory_is_in_the_database(deployment: Deployment, proved: Proved) -> None:
    await deployment.start(workers=1)
    await deployment.project("pipelines")
    build = await deployment.build("pipelines", "v2.1.0", objects=3)
    deployment.services.hold("GET /objects")
    url = await deployment.uploaded("pipelines", build)
    await deployment.held("GET /objects")

    async def phase(name: str) -> bool:
        return bool((await deployment.job(url))["phase"] == name)

    await eventually(lambda: phase("inventory"))
    deployment.services.hold("__dashboard.html")
    deployment.services.let("GET /objects")
    await deployment.held("__dashboard.html")
    await eventually(lambda: phase("dashboard"))
    deployment.services.release()
    done = await deployment.becomes(url, "completed")
    assert done["date_created"] < done["date_started"] < done["date_completed"]
    assert sorted(done["progress"]["editions_completed"]) == ["v2.1.0", "v2.1.x", "v2.x"]
    objects = await deployment.sql("SELECT key, content_type, size, content_hash FROM build_object ORDER BY key")
    assert [each["key"] for each in objects] == ["page-0.html", "page-1.html", "page-2.html"]
    content = f"0 of {build}".encode()
    assert objects[0]["content_hash"] == hashlib.sha256(content).hexdigest()
    assert (objects[0]["content_type"], objects[0]["size"]) == ("text/html", len(content))
    (row,) = await deployment.sql("SELECT phases FROM rowlock.job_progress p JOIN queue_job q ON q.id = p.job_id")
    assert [each["name"] for each in row["phases"]] == ["inventory", "tracking", "editions", "dashboard"]
    proved("a release went through 4 phases, was cataloged with 3 objects, and made its 3 editions")


async def test_in_process_without_redis_and_without_a_worker(tmp_path: Path, database_url: str, proved: Proved) -> None:
    async with deployed(tmp_path, database_url, None) as deployment:
        await deployment.start(workers=0)
        await deployment.project("pipelines")
        build = await deployment.build("pipelines")
        url = await deployment.uploaded("pipelines", build)
        done = await deployment.becomes(url, "completed")
        assert done["backend_job_id"] is not None
        async with deployment.client() as client:
            asked = (await client.get(f"{url}/backend")).json()
        assert asked["metadata"] == {"status": "complete"}
        assert asked["result"]["updated"] == ["__main"]
        assert await _editions(deployment, "pipelines") == {"__main": build}
    proved("in process: a build was processed by the web application itself, without Redis and without a worker")


async def test_a_copied_edition_has_the_objects_of_its_build_and_nothing_else(
    deployment: Deployment, proved: Proved
) -> None:
    services = deployment.services
    await deployment.start(workers=1)
    await deployment.project("manual", copy_mode=True)
    await deployment.processed("manual", objects=3)
    build = await deployment.build("manual", objects=2)
    copies = sum(line == "POST /copy" for line in services.asked)
    await deployment.becomes(await deployment.uploaded("manual", build), "completed")
    place = "rubin/manual/v/__main/"
    there = {key.removeprefix(place): services.text(key) for key in services.objects if key.startswith(place)}
    assert there == {"page-0.html": f"0 of {build}", "page-1.html": f"1 of {build}"}
    async with deployment.client() as client:
        repeated = await client.patch(f"/orgs/rubin/projects/manual/builds/{build}", json={"status": "uploaded"})
        assert repeated.status_code == 202
    assert len(await deployment.sql("SELECT id FROM queue_job")) == 2  # the second signal is the same job
    again = await deployment.becomes(await _reassign(deployment, "manual", "__main", build), "completed")
    assert again["progress"]["editions_completed"] == ["__main"]
    assert sum(line == "POST /copy" for line in services.asked) == copies + 2
    proved("a copied edition got 2 changed objects and lost 1; a run over the same build copied nothing")


# --- races ------------------------------------------------------------------------------------------------------------


async def test_two_racing_builds_never_leave_an_edition_on_the_older_one(
    deployment: Deployment, proved: Proved
) -> None:
    deployment.services.cdn_seconds = 0.003
    await deployment.start(workers=2)
    projects = [f"race-{number}" for number in range(min(SIDE_BY_SIDE, ROUNDS))]
    for project in projects:
        await deployment.project(project)
    chance, done = random.Random(4), 0  # noqa: S311 - the order of two requests
    begun = time.monotonic()
    while done < ROUNDS:
        batch = projects[: ROUNDS - done]
        newest = await _race(deployment, batch, chance)
        assert await _current_builds(deployment) | newest == await _current_builds(deployment)
        for project, build in newest.items():
            shown = json.loads(deployment.services.text(f"rubin/{project}/__switcher.json"))
            about = json.loads(deployment.services.text(f"rubin/{project}/__editions/__main.json"))
            assert deployment.services.kv[f"rubin/{project}/v/__main"].endswith(f"{build}/")
            assert (shown, about["build"]) == ([{"slug": "__main", "build": build}], build)
        done += len(batch)
        logger.info("%d rounds", done)
    skipped = await deployment.sql("SELECT count(*) FROM queue_job WHERE progress->'editions_skipped' <> '[]'")
    assert skipped[0]["count"] > ROUNDS / 10, "the older build was never second: nothing was raced"
    assert await deployment.sql("SELECT id FROM queue_job WHERE status <> 'completed'") == []
    assert deployment.services.overlaps == []
    (rows,) = await deployment.sql(
        "SELECT count(*), count(DISTINCT (edition_id, job_id)) AS jobs FROM edition_build_history"
    )
    assert rows["count"] == rows["jobs"] == 2 * ROUNDS - skipped[0]["count"]
    proved(
        f"{ROUNDS:,} rounds of two racing builds: 0 editions on the older one, {skipped[0]['count']:,} older builds "
        f"skipped, 0 overlapping writes to an edition or a dashboard, {time.monotonic() - begun:.0f} s"
    )


async def _race(deployment: Deployment, projects: list[str], chance: random.Random) -> dict[str, str]:
    """Process two builds of each project at the same time, in any order; returns the newer ones."""
    older, newer = [
        {
            row["slug"]: row["public_id"]
            for row in await deployment.sql(
                "INSERT INTO build (public_id, project_id, git_ref, status, prefix) "
                "SELECT n.id, p.id, 'main', 'pending', 'rubin/' || p.slug || '/__builds/' || n.id || '/' "
                "FROM project p, LATERAL (SELECT upper(substr(md5(random()::text || p.slug), 1, 12)) AS id) n "
                "WHERE p.slug = ANY(%s) RETURNING public_id, (SELECT slug FROM project WHERE id = project_id)",
                projects,
            )
        }
        for _ in range(2)
    ]
    pairs = [(project, build) for each in (older, newer) for project, build in each.items()]
    async with deployment.client() as client:
        answers = await asyncio.gather(
            *(
                client.patch(f"/orgs/rubin/projects/{project}/builds/{build}", json={"status": "uploaded"})
                for project, build in chance.sample(pairs, len(pairs))
            )
        )
    assert [answer.status_code for answer in answers] == [202] * len(pairs)

    async def ended() -> bool:
        live = "SELECT 1 FROM queue_job WHERE status IN ('queued', 'in_progress') LIMIT 1"
        return not await deployment.sql(live)

    await eventually(ended, within=3 * PATIENCE)
    return newer


async def _current_builds(deployment: Deployment) -> dict[str, str]:
    """The build of each project's edition."""
    rows = await deployment.sql(
        "SELECT p.slug, b.public_id FROM edition e "
        "JOIN project p ON p.id = e.project_id JOIN build b ON b.id = e.build_id"
    )
    return {row["slug"]: row["public_id"] for row in rows}


async def test_a_rollback_stands_against_the_builds_before_it_and_gives_way_to_those_after(
    deployment: Deployment, proved: Proved
) -> None:
    await deployment.start(workers=1)
    await deployment.project("pipelines")
    first, second = [await deployment.processed("pipelines") for _ in range(2)]
    late = await deployment.build("pipelines")
    done = await deployment.becomes(await _reassign(deployment, "pipelines", "__main", first), "completed")
    assert (done["kind"], done["progress"]["editions_completed"]) == ("edition_update", ["__main"])
    assert await _editions(deployment, "pipelines") == {"__main": first}
    assert first in deployment.services.text("rubin/pipelines/__dashboard.html")
    skipped = await deployment.becomes(await deployment.uploaded("pipelines", late), "completed")
    assert [each["slug"] for each in skipped["progress"]["editions_skipped"]] == ["__main"]
    after = await deployment.processed("pipelines")
    assert await _editions(deployment, "pipelines") == {"__main": after}
    history = await deployment.sql(
        "SELECT b.public_id FROM edition_build_history h JOIN build b ON b.id = h.build_id ORDER BY h.id"
    )
    assert [each["public_id"] for each in history] == [first, second, first, after]
    proved("a rollback was logged, kept against a build from before it, and replaced by one from after it")


# --- Redis and workers that die ---------------------------------------------------------------------------------------


async def test_a_redis_that_forgets_and_dies_loses_no_job(deployment: Deployment, redis: Redis, proved: Proved) -> None:
    services = deployment.services
    deployment.environ["ROWLOCK_LANES"] = SILENT
    await deployment.start(workers=0)
    for number in range(30):
        await deployment.project(f"project-{number}")
        build = await deployment.build(f"project-{number}", objects=0)
        await deployment.uploaded(f"project-{number}", build)
    before = (await deployment.sql("SELECT count(*) FROM queue_job WHERE status = 'queued'"))[0]["count"]
    sent = await eventually(lambda: deployment.sql("SELECT 1 FROM queue_job HAVING count(backend_job_id) = 30"))
    assert (before, len(sent)) == (30, 1)
    redis.flush()
    services.cdn_seconds = 0.3
    deployment.start_worker()
    begun = time.monotonic()
    await _completed(deployment, 5)
    after_flush = time.monotonic() - begun
    redis.kill()
    deployment.kill()
    redis.start()
    services.cdn_seconds = 0
    for _ in range(2):
        deployment.start_worker()
    await _completed(deployment, 30)
    runs = await deployment.sql("SELECT job_id, attempt FROM edition_build_history")
    lost = await deployment.sql("SELECT outcome FROM rowlock.job_attempts")
    assert Counter(each["job_id"] for each in runs) == Counter({each["job_id"]: 1 for each in runs})
    assert len(runs) == 30
    assert {each["outcome"] for each in lost} <= {"lost"}
    assert (await deployment.sql("SELECT count(*) FROM queue_job WHERE status <> 'completed'"))[0]["count"] == 0
    proved(
        f"30 jobs waited at a FLUSHALL, then a kill -9 of Redis and worker: 30 completed, 0 accepted twice; the first "
        f"5 were done {after_flush:.1f} s after the flush, worker's start included; {len(lost)} attempts were lost"
    )


async def _completed(deployment: Deployment, number: int) -> None:
    """Wait until so many jobs have completed."""

    async def enough() -> bool:
        (row,) = await deployment.sql("SELECT count(*) FROM queue_job WHERE status = 'completed'")
        return int(row["count"]) >= number

    try:
        await eventually(enough, within=2 * PATIENCE)
    except AssertionError as error:
        rows = await deployment.sql("SELECT status, phase, attempt, count(*) FROM queue_job GROUP BY 1, 2, 3")
        raise AssertionError(error, rows, deployment.told()) from None


async def test_a_build_goes_on_elsewhere_when_its_worker_is_killed(deployment: Deployment, proved: Proved) -> None:
    deployment.environ["ROWLOCK_LANES"] = SILENT
    await deployment.start(workers=1)
    await deployment.project("pipelines")
    await deployment.edition("pipelines", "stable", "main")
    deployment.services.hold("v/stable")
    build = await deployment.build("pipelines")
    url = await deployment.uploaded("pipelines", build)
    await deployment.held("v/stable")

    async def one_done() -> bool:
        return ((await deployment.job(url))["progress"] or {}).get("editions_completed") == ["__main"]

    await eventually(one_done)
    deployment.kill()
    killed = time.monotonic()
    deployment.services.release()
    deployment.start_worker()
    done = await deployment.becomes(url, "completed")
    seconds = time.monotonic() - killed
    assert sorted(done["progress"]["editions_completed"]) == ["__main", "stable"]
    assert done["progress"]["editions_total"] == 2
    assert [row["outcome"] for row in await deployment.sql("SELECT outcome FROM rowlock.job_attempts")] == ["lost"]
    logged = await deployment.sql(
        "SELECT e.slug, h.attempt FROM edition_build_history h JOIN edition e ON e.id = h.edition_id ORDER BY e.slug"
    )
    # The first attempt had committed __main: the second found it done, and logged nothing again.
    assert {each["slug"]: each["attempt"] for each in logged} == {"__main": 1, "stable": 2}
    assert len(logged) == 2
    proved(f"kill -9 of an arq worker mid-build: another finished it {seconds:.1f} s later, each edition logged once")


# --- kinds, retries, schedules ----------------------------------------------------------------------------------------


async def test_retries_follow_the_policy_of_each_kind(deployment: Deployment, proved: Proved) -> None:
    await deployment.start(workers=1)
    await deployment.project("pipelines")
    build = await deployment.processed("pipelines")
    deployment.services.broken |= {"/github/", "/objects", "/kv/"}
    failing = await deployment.build("pipelines", objects=0)
    failed = await deployment.becomes(await deployment.uploaded("pipelines", failing), "failed")
    update = await deployment.becomes(await _reassign(deployment, "pipelines", "__main", build), "failed")
    periodic = {
        kind: await deployment.ends(await deployment.enqueue(kind)) for kind in ("git_ref_audit", "purgatory_cleanup")
    }
    await eventually(lambda: _has_status(deployment, failing, "failed"))
    assert (failed["attempt"], update["attempt"]) == (3, 3)
    assert {kind: (row["status"], row["attempt"]) for kind, row in periodic.items()} == dict.fromkeys(
        periodic, ("failed", 2)
    )
    assert "R2 503 after 3 retries" in str(failed["errors"])
    proved(
        "a build and an edition update were tried 3 times, periodic jobs twice; the build's own status became failed"
    )


async def _has_status(deployment: Deployment, build: str, status: str) -> bool:
    return (await _statuses(deployment, "pipelines"))[build] == status


async def test_a_push_to_a_template_renders_every_dashboard_made_of_it(deployment: Deployment, proved: Proved) -> None:
    await deployment.start(workers=1)
    await deployment.sql("UPDATE organization SET template_repository = 'rubin/templates' WHERE slug = 'rubin'")
    for slug in ("one", "two"):
        await deployment.project(slug)
    await deployment.project("own", template_repository="rubin/own-template")
    for slug in ("one", "two", "own"):
        await deployment.processed(slug)
    deployment.services.templates["rubin/templates"] = {"dashboard.html": "<h1>New: {project}</h1>{editions}"}
    body = json.dumps({"repository": {"full_name": "rubin/templates"}}).encode()
    signature = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    async with deployment.client() as client:
        refused = await client.post("/github/webhook", content=body, headers={"X-Hub-Signature-256": "sha256=0"})
        accepted = await client.post("/github/webhook", content=body, headers={"X-Hub-Signature-256": signature})
    assert (refused.status_code, accepted.status_code, accepted.json()) == (401, 202, {"jobs": 1})
    (job,) = await deployment.sql("SELECT id FROM queue_job WHERE kind = 'dashboard_sync'")
    assert (await deployment.ends(job["id"]))["status"] == "completed"
    pages = {slug: deployment.services.text(f"rubin/{slug}/__dashboard.html") for slug in ("one", "two", "own")}
    assert [page.startswith("<h1>New") for page in pages.values()] == [True, True, False]
    proved("a signed push to a template repository rendered the 2 dashboards made of it, and not the third")


async def test_periodic_jobs_do_what_the_rules_of_organizations_say(deployment: Deployment, proved: Proved) -> None:
    services = deployment.services
    await deployment.start(workers=1)
    await deployment.project("pipelines")
    services.refs["rubin/pipelines"] = ["main"]
    drafted = await deployment.processed("pipelines", "tickets/DM-1")
    kept = await deployment.processed("pipelines")
    gone = await deployment.processed("pipelines", "tickets/DM-2")
    await deployment.sql("UPDATE edition SET chosen_at = chosen_at - interval '100 days' WHERE slug = 'DM-1'")
    await deployment.sql(
        "UPDATE build SET date_created = date_created - interval '100 days' WHERE public_id = %s", drafted
    )
    assert (await deployment.ends(await deployment.enqueue("lifecycle_eval")))["status"] == "completed"
    assert await _editions(deployment, "pipelines") == {"__main": kept, "DM-2": gone}
    purged = f"__purgatory/rubin/pipelines/__builds/{drafted}/page-0.html"
    assert services.text(purged) == f"0 of {drafted}"
    assert f"rubin/pipelines/__builds/{drafted}/page-0.html" not in services.objects
    assert (await deployment.ends(await deployment.enqueue("git_ref_audit")))["status"] == "completed"
    assert await _editions(deployment, "pipelines") == {"__main": kept}
    assert (await deployment.ends(await deployment.enqueue("purgatory_cleanup")))["status"] == "completed"
    assert purged in services.objects  # thirty days have not passed
    await deployment.sql("UPDATE organization SET purgatory_days = 0")
    assert (await deployment.ends(await deployment.enqueue("purgatory_cleanup")))["status"] == "completed"
    assert not [key for key in services.objects if key.startswith("__purgatory/")]
    proved(
        "lifecycle, ref audit and purgatory: 1 stale draft, its build's 2 objects and 1 lost ref were found and removed"
    )


async def test_credentials_are_encrypted_under_the_newest_key(deployment: Deployment, proved: Proved) -> None:
    old = Fernet(deployment.keys[0])
    new = Fernet.generate_key().decode()
    deployment.keys.insert(0, new)
    await deployment.start(workers=1)
    for number in range(4):
        await deployment.sql(
            "INSERT INTO organization_credentials (org_id, label, encrypted_credential) "
            "SELECT id, %s, %s FROM organization WHERE slug = 'rubin'",
            f"credential {number}",
            old.encrypt(f"secret {number}".encode()).decode(),
        )
    assert (await deployment.ends(await deployment.enqueue("credential_reencrypt")))["status"] == "completed"
    rows = await deployment.sql("SELECT encrypted_credential AS text FROM organization_credentials ORDER BY label")
    read = [Fernet(new).decrypt(row["text"].encode()).decode() for row in rows]
    assert read == ["secret 0", "secret 1", "secret 2", "secret 3"]
    proved("4 credentials of an old key were readable with the new key alone after credential_reencrypt")


def manifests() -> list[dict[str, Any]]:
    text = (ROOT / "examples" / "docverse" / "cronjobs.yaml").read_text()
    return [found for found in yaml.safe_load_all(text) if found]


async def test_the_cron_jobs_of_kubernetes_enqueue_each_kind_once(deployment: Deployment, proved: Proved) -> None:
    await deployment.start(workers=1)
    spec = {each["metadata"]["name"]: each["spec"] for each in manifests()}
    times = {name: (each["schedule"], each["timeZone"]) for name, each in spec.items()}
    assert times == {
        "docverse-lifecycle-eval": ("0 3 * * *", "Etc/UTC"),
        "docverse-git-ref-audit": ("0 4 * * *", "Etc/UTC"),
        "docverse-purgatory-cleanup": ("0 5 * * *", "Etc/UTC"),
        "docverse-credential-reencrypt": ("0 2 * * 0", "Etc/UTC"),
    }
    for each in spec.values():
        (container,) = each["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        values = {pair["name"]: pair["value"] for pair in container["env"]}
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"  # noqa: PTH120 - not resolved: of the environment
        environ = {**os.environ, **deployment.environment(), **values, "PATH": path, "PYTHONPATH": str(ROOT)}
        for _ in range(2):  # a pod that is started again
            ran = await asyncio.to_thread(
                subprocess.run, [*container["command"], *container["args"]], env=environ, cwd=deployment.folder,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert ran.returncode == 0, ran.stderr
    await _completed(deployment, 4)
    kinds = await deployment.sql(
        "SELECT kind, count(*), bool_and(backend_job_id IS NOT NULL) AS sent FROM queue_job GROUP BY kind"
    )
    assert {row["kind"]: (row["count"], row["sent"]) for row in kinds} == dict.fromkeys(
        ("lifecycle_eval", "git_ref_audit", "purgatory_cleanup", "credential_reencrypt"), (1, True)
    )
    proved("4 CronJob manifests, each command line run twice: 4 jobs, delivered by Redis and completed")


async def test_built_in_schedules_are_the_same_table_and_operators_edit_it(
    deployment: Deployment, proved: Proved
) -> None:
    deployment.environ["SCHEDULES"] = "built-in"
    await deployment.start(workers=1)

    async def listed() -> dict[str, dict[str, Any]]:
        found = json.loads(await deployment.rowlock("schedules", "ls", "--json"))
        return {row["name"]: row for row in found}

    await eventually(listed)
    rows = await listed()
    assert {name: (row["cron"], row["tz"]) for name, row in rows.items()} == {
        "lifecycle_eval": ("0 3 * * *", "UTC"),
        "git_ref_audit": ("0 4 * * *", "UTC"),
        "purgatory_cleanup": ("0 5 * * *", "UTC"),
        "credential_reencrypt": ("0 2 * * SUN", "UTC"),
    }
    await deployment.rowlock("schedules", "edit", "lifecycle_eval", "--cron", "0 1 * * *")
    await deployment.rowlock("schedules", "edit", "git_ref_audit", "--window", "22:00-06:00 sat,sun skip")
    await deployment.rowlock("schedules", "pause", "purgatory_cleanup")
    await deployment.rowlock("schedules", "run", "credential_reencrypt")
    await _completed(deployment, 1)
    edited = await listed()
    assert edited["lifecycle_eval"]["cron"] == "0 1 * * *"
    assert "22:00" in json.dumps(edited["git_ref_audit"]["windows"])
    assert edited["purgatory_cleanup"]["enabled"] is False
    proved("4 built-in schedules as in the design's table: changed, given a window, paused and run without code")


# --- operators, retention, organisations ------------------------------------------------------------------------------


def queries() -> dict[str, str]:
    text = (ROOT / "examples" / "docverse" / "operator_queries.sql").read_text()
    parts = re.split(r"-- name: (\w+)\n", text)[1:]
    return {parts[at]: parts[at + 1].strip().rstrip(";") for at in range(0, len(parts), 2)}


async def test_the_queries_of_operators_answer_from_one_table(deployment: Deployment, proved: Proved) -> None:
    services = deployment.services
    await deployment.start(workers=1)
    for slug in ("busy", "calm"):
        await deployment.project(slug)
    await deployment.edition("calm", "other", "main")
    services.broken.add("calm/v/other")
    await deployment.becomes(await deployment.uploaded("calm", await deployment.build("calm")), "completed_with_errors")
    await deployment.processed("busy")
    services.hold("busy/v/")
    url = await deployment.uploaded("busy", await deployment.build("busy"))
    await deployment.held("busy/v/")
    ids = {row["slug"]: row["id"] for row in await deployment.sql("SELECT slug, id FROM project")}
    (org,) = await deployment.sql("SELECT id FROM organization WHERE slug = 'rubin'")

    async def ask(name: str, project: str = "busy") -> list[dict[str, Any]]:
        return await deployment.sql(queries()[name].replace(":pid", str(ids[project])))

    async def in_editions() -> list[dict[str, Any]]:
        return await ask("edition_update_activity")

    (active,) = await eventually(in_editions)
    deployment.kill()
    await deployment.enqueue("lifecycle_eval")  # no worker is left that runs it
    assert active["progress"]["editions_in_progress"] == ["__main"]
    assert await ask("edition_update_activity", "calm") == []
    assert [(row["kind"], row["phase"]) for row in await ask("active_work")] == [("build_processing", "editions")]
    assert await ask("backlog_depth") == [{"count": 1, "kind": "lifecycle_eval"}]
    assert await ask("error_rates") == [{"count": 1}]
    assert await ask("throughput_by_org") == [{"org_id": org["id"], "count": 1}]
    assert await ask("slow_jobs") == []
    await deployment.sql(
        "UPDATE rowlock.jobs SET claimed_at = claimed_at - interval '11 minutes' WHERE state = 'running'"
    )
    assert [row["id"] for row in await ask("slow_jobs")] == [active["id"]]
    async with deployment.client() as client:
        found = await client.get("/orgs/rubin/queue", params={"search": f"phase:editions ref.project:{ids['busy']}"})
    assert [each["id"] for each in found.json() if each["status"] == "in_progress"] == [url.rpartition("/")[2]]
    proved(f"{len(queries())} queries of the design, word for word, on the view queue_job; by project and phase too")


async def test_a_job_is_gone_after_seven_days(deployment: Deployment, proved: Proved) -> None:
    await deployment.start(workers=1)
    await deployment.project("pipelines")
    urls = [await deployment.uploaded("pipelines", await deployment.build("pipelines")) for _ in range(2)]
    for url in urls:
        await deployment.becomes(url, "completed")
    (ids,) = await deployment.sql("SELECT min(id) AS first, max(id) AS second FROM queue_job")
    for number, age in ((ids["first"], "7 days 1 minute"), (ids["second"], "6 days 23 hours")):
        await deployment.sql(
            "UPDATE rowlock.jobs SET finished_at = finished_at - %s::interval WHERE id = %s", age, number
        )
    async with deployment.client() as client:

        async def gone() -> bool:
            return (await client.get(urls[0])).status_code == 404

        await eventually(gone, within=2 * PATIENCE)
        assert (await client.get(urls[1])).status_code == 200
    proved("a job that ended 7 days and a minute ago is 404 in the queue API; one of 6 days and 23 hours is there")


async def test_organizations_see_their_own_jobs_alone(deployment: Deployment, proved: Proved) -> None:
    await deployment.start(workers=1)
    urls = {}
    for org in ("rubin", "kipac"):
        await deployment.project("pipelines", org=org)
        build = await deployment.build("pipelines", org=org)
        urls[org] = await deployment.uploaded("pipelines", build, org=org)
        await deployment.becomes(urls[org], "completed")
    foreign = urls["rubin"].rpartition("/")[2]
    async with deployment.client("kipac") as kipac:
        assert [each["id"] for each in (await kipac.get("/orgs/kipac/queue")).json()] == [
            urls["kipac"].rpartition("/")[2]
        ]
        asked = [
            await kipac.get(urls["rubin"]),
            await kipac.get(f"/orgs/kipac/queue/{foreign}"),
            await kipac.get(f"/orgs/kipac/queue/{foreign}/token"),
            await kipac.get(f"/orgs/kipac/queue/{foreign}/backend"),
            await kipac.post(f"/orgs/kipac/queue/{foreign}/retry"),
            await kipac.post(f"/orgs/kipac/queue/{foreign}/cancel"),
            await kipac.get("/orgs/rubin/queue"),
            await kipac.get("/orgs/rubin"),
            await kipac.get("/orgs/kipac/queue/not-an-id"),
        ]
        assert [answer.status_code for answer in asked] == [404] * len(asked)
        sneaked = await kipac.get("/orgs/kipac/queue", params={"search": "tenant:rubin"})
        assert sneaked.json() == []
    proved(
        f"a member of one organisation got 404 for a job of another in {len(asked)} ways, and no line of it in lists"
    )


async def test_bad_requests_are_refused_with_a_reason(deployment: Deployment, proved: Proved) -> None:
    await deployment.start(workers=0)
    await deployment.project("pipelines")
    build = await deployment.build("pipelines", objects=0)
    at = "/orgs/rubin/projects"
    async with deployment.client() as client:
        refused = [
            (await client.post(at, json={"slug": "Not A Slug", "repository": "a/b"})).status_code,
            (await client.post(at, json={"slug": "pipelines", "repository": "a/b"})).status_code,
            (await client.post(f"{at}/pipelines/builds", json={"git_ref": "../../etc"})).status_code,
            (await client.post(f"{at}/missing/builds", json={"git_ref": "main"})).status_code,
            (await client.patch(f"{at}/pipelines/builds/{build}", json={"status": "done"})).status_code,
            (await client.patch(f"{at}/pipelines/editions/none", json={"build": build})).status_code,
            (await client.get("/orgs/rubin/queue", params={"search": "nonsense:1"})).status_code,
            (await client.post(at, json={}, headers={"Sec-Fetch-Site": "cross-site"})).status_code,
        ]
    assert refused == [422, 409, 422, 404, 422, 404, 422, 403]
    assert await deployment.sql("SELECT id FROM queue_job") == []
    proved(f"{len(refused)} bad requests were refused, and none of them left a job")


async def _reassign(deployment: Deployment, project: str, edition: str, build: str) -> str:
    """Give an edition another build; the address of the job."""
    async with deployment.client() as client:
        path = f"/orgs/rubin/projects/{project}/editions/{edition}"
        answer = await client.patch(path, json={"build": build})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["queue_url"])


async def _editions(deployment: Deployment, project: str) -> dict[str, str | None]:
    async with deployment.client() as client:
        found = (await client.get(f"/orgs/rubin/projects/{project}/editions")).json()
    return {each["slug"]: each["build"] for each in found}


async def _statuses(deployment: Deployment, project: str) -> dict[str, str]:
    async with deployment.client() as client:
        found = (await client.get(f"/orgs/rubin/projects/{project}/builds")).json()
    return {each["id"]: each["status"] for each in found}


# --- as a person uses it ----------------------------------------------------------------------------------------------


async def test_one_command_runs_it_and_a_person_sees_it_work(
    tmp_path: Path, database_url: str, browser: Browser, proved: Proved
) -> None:
    port = free_ports(4)
    async with one_command(
        "docverse", "--port", str(port), "--seconds", "0.5", database_url=database_url, home=tmp_path
    ) as running:
        application, dashboard = LINK.findall(running.greeting)[-2:]
        page = await browser.new_page()
        await page.goto(application)
        await page.get_by_label("Project").fill("pipelines")
        await page.get_by_role("button", name="Create a project").click()
        await page.get_by_role("button", name="Upload a build").click()
        await expect(page.locator("rowlock-progress")).to_have_attribute("state", "completed", timeout=IN_TIME)
        row = page.get_by_role("row", name="__main")
        await expect(row.locator("code")).to_have_text(ID, timeout=IN_TIME)
        await expect(page.get_by_role("cell", name="completed")).to_be_visible(timeout=IN_TIME)
        job = await page.locator("rowlock-progress").get_attribute("job")
        await page.goto(dashboard)
        asked = await page.request.get(f"http://127.0.0.1:{port}/api/v1/jobs/{job}")
        assert (asked.status, (await asked.json())["tenant"]) == (200, "rubin")
        await running.stop()
        assert "rowlock.run_job" in running.rest
    proved("one command started Redis, 2 arq workers and the web; a person created a project and saw its build arrive")
