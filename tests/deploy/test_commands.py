"""The commands of deploy/ run as they stand there, on a real database; queries that scale workers give a number."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import httpx
import pytest
import yaml
from tests.deploy.deploy_files import KEDA, UNITS, named, pod_templates, unit
from tests.host_processes import free_port
from tests.waiting import PATIENCE, eventually, in_time

from rowlock import Rowlock

pytestmark = pytest.mark.timeout(240)

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS: Final = Path(sys.executable).parent
TASKS: Final = """
from rowlock import Rowlock

app = Rowlock()


@app.job("digest")
async def digest() -> str:
    return "sent"
"""


def container(name: str) -> dict[str, Any]:
    (pod,) = [template["spec"] for manifest, template in pod_templates() if named(manifest) == name]
    found: dict[str, Any] = pod["containers"][0]
    return found


class Pod:
    """Runs commands of containers in a folder with an application, on this machine alone."""

    def __init__(self, folder: Path, database_url: str) -> None:
        (folder / "tasks.py").write_text(TASKS)
        self.folder, self.port = folder, free_port()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ROWLOCK_")}
        self.environment = environment | {
            "PATH": f"{PROGRAMS}:{environment['PATH']}",
            "POD_NAME": "pod-1",
            "ROWLOCK_APP": "tasks:app",
            "ROWLOCK_DATABASE_URL": database_url,
        }

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *words,
            cwd=self.folder,
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def run(self, *words: str) -> str:
        process = await self.start(*words)
        out, _ = await in_time(process.communicate())
        assert process.returncode == 0, out.decode()
        return out.decode()

    def here(self, words: Sequence[str]) -> list[str]:
        """The words with this machine's address and a free port, and with variables as Kubernetes puts them in."""
        found = [re.sub(r"^0\.0\.0\.0", "127.0.0.1", word) for word in words]
        found = [re.sub(r"^(127.0.0.1:)?(8000|8081)$", rf"\g<1>{self.port}", word) for word in found]
        return [re.sub(r"\$\((\w+)\)", lambda each: self.environment[each[1]], word) for word in found]

    async def answers(self, path: str, status: int = 200) -> None:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE) as client:

            async def asked() -> bool:
                try:
                    return (await client.get(path)).status_code == status
                except httpx.TransportError:
                    return False

            await eventually(asked, within=60)


@pytest.fixture
def pod(tmp_path: Path, database_url: str) -> Pod:
    return Pod(tmp_path, database_url)


async def test_the_migration_makes_the_tables_and_may_run_again(tmp_path: Path, empty_database_url: str) -> None:
    pod = Pod(tmp_path, empty_database_url)
    for _ in range(2):
        await pod.run("rowlock", *container("Job/rowlock-migrate")["args"])
    assert "initial" in await pod.run("rowlock", "schema", "status")


async def test_the_worker_answers_its_probes_and_drains_at_sigterm(pod: Pod) -> None:
    worker = container("Deployment/worker-default")
    assert worker["ports"] == [{"name": "health", "containerPort": 8081}]
    process = await pod.start("rowlock", *pod.here(worker["args"]))
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        await pod.answers(worker[probe]["httpGet"]["path"])
    async with Rowlock(pod.environment["ROWLOCK_DATABASE_URL"]) as app:
        (row,) = await app.workers.list()
        assert (row.name, row.lanes) == ("pod-1", ["default"])
    process.send_signal(signal.SIGTERM)
    await in_time(process.communicate())
    assert process.returncode == 0


async def test_the_api_answers_its_probes_and_ends_at_sigterm(pod: Pod) -> None:
    api = container("Deployment/api")
    process = await pod.start("rowlock", *pod.here(api["args"]))
    for probe in ("livenessProbe", "readinessProbe"):
        await pod.answers(api[probe]["httpGet"]["path"])
    await pod.answers("/api/v1/jobs", 401)
    process.send_signal(signal.SIGTERM)
    await in_time(process.communicate())
    assert process.returncode == 0


async def test_the_cron_job_enqueues_once_a_day_however_often_it_runs(pod: Pod) -> None:
    command = container("CronJob/digest")["command"]
    first, second = await pod.run(*command), await pod.run(*command)
    assert ("created" in first, "kept" in second) == (True, True)
    async with Rowlock(pod.environment["ROWLOCK_DATABASE_URL"]) as app:
        assert [job.kind for job in (await app.jobs.search("kind:digest")).items] == ["digest"]


async def test_the_queries_of_keda_give_numbers_that_grow_with_the_queue(pod: Pod) -> None:
    triggers = yaml.safe_load((KEDA / "scaledobject.yaml").read_text())["spec"]["triggers"]
    connection = await asyncpg.connect(pod.environment["ROWLOCK_DATABASE_URL"])

    async def numbers() -> list[float]:
        return [float(await connection.fetchval(trigger["metadata"]["query"])) for trigger in triggers]

    assert await numbers() == [0, 0]
    async with Rowlock(pod.environment["ROWLOCK_DATABASE_URL"]) as app:
        await app.lanes.create("default", kinds=["*"])

        @app.job("digest")
        async def digest() -> None: ...

        for _ in range(3):
            await digest.enqueue()
        await connection.execute("UPDATE rowlock.jobs SET run_after = run_after - interval '90 s'")
        due, oldest = await numbers()
        assert due == 3
        assert oldest >= 90
        await app.lanes.drain("default")
        assert await numbers() == [0, 0]  # no worker could take them
    await connection.close()


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
async def test_the_command_of_each_unit_is_one_that_rowlock_has(pod: Pod, file: Path) -> None:
    _, *words = shlex.split(unit(file)["Service"]["ExecStart"].replace("%i", "default"))
    command = words[: 1 + (words[0] == "schema")]
    known = await pod.run("rowlock", *command, "--help")
    assert [word for word in words if word.startswith("--") and word not in known] == []
