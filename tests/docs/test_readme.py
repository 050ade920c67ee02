"""Every Python block of the README is a file that runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


class Project:
    """A folder with the README's files in it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("ROWLOCK_")}
        self.environment |= {"ROWLOCK_DATABASE_URL": url, "PYTHONPATH": str(folder)}
        for block in BLOCKS:
            name = re.match(r"# (\w+\.py)\n", block)
            assert name is not None, f"a block without a file name:\n{block}"
            folder.joinpath(name[1]).write_text(block)

    def run(self, *arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=50, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def project(tmp_path: Path, database_url: str) -> Project:
    return Project(tmp_path, database_url)


def test_the_first_application_runs(project: Project) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "rowlock", "worker", "--app", "tasks:app"],
        cwd=project.folder,
        env=project.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert "report of organisation 7" in project.run("submit.py")
    finally:
        worker.terminate()
        _, log = worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert "← done    build_report" in log


def test_the_transactional_enqueue_runs(project: Project, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE TABLE closings (org_id int)")
    url = database_url.replace("postgresql://", "postgresql+psycopg://")
    use = f"""
import billing
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
with Session(create_engine({url!r})) as session:
    print(billing.close_month(session, 7))
"""
    public_id = project.run("-c", use).strip()
    shown = project.run("-m", "rowlock", "jobs", "show", public_id)
    assert "build_report" in shown
    assert '{"org_id": 7}' in shown
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT org_id FROM closings").fetchall() == [(7,)]


def test_lanes_and_orders_run(project: Project) -> None:
    project.run("operate.py")
    assert "20" in project.run("-m", "rowlock", "lanes", "ls")


def test_no_block_is_left_out_and_the_readme_stays_short() -> None:
    files = ["tasks.py", "submit.py", "billing.py", "heavy.py", "test_reports.py", "operate.py", "nightly.py"]
    assert [block.splitlines()[0] for block in BLOCKS] == [f"# {file}" for file in files]
    assert len(TEXT.splitlines()) < 250


@pytest.mark.parametrize(
    "page", [str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    file = ROOT / page
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", file.read_text())
    assert [link for link in links if not (file.parent / link).exists()] == []


def test_heavy_work_runs_in_a_process(project: Project) -> None:
    use = """
import asyncio, heavy
async def main():
    async with heavy.app, heavy.app.worker():
        print(await (await heavy.project.enqueue(7)).wait(timeout=40))
asyncio.run(main())
"""
    assert project.run("-c", use).strip() == "7"


def test_the_chain_runs(project: Project) -> None:
    use = """
import asyncio, nightly
async def main():
    async with nightly.app, nightly.app.worker():
        print(await (await nightly.refresh.enqueue("crm")).wait(timeout=40))
        print((await nightly.app.schedules.get("fetch")).when)
asyncio.run(main())
"""
    assert project.run("-c", use).strip() == "4.0\n0 2 * * *"


@pytest.mark.timeout(120)
def test_the_test_runs(project: Project, server_url: str) -> None:
    project.environment["ROWLOCK_TEST_DATABASE_URL"] = server_url
    options = ["-o", "rowlock_app=tasks:app", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider", "-q"]
    assert "1 passed" in project.run("-m", "pytest", *options, "test_reports.py")
