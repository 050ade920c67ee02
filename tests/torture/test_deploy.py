"""Rolling deploys in their shortest form, and where the code of another release comes from."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, ClassVar

import pytest
from torture.deploy import code as codes
from torture.deploy.rolling import NewCode, over_the_rate
from torture.deploy.upgrade import RELEASED, Upgrade
from torture.deploy.watch import stalls
from torture.ledger import Asked, Ledger, Line
from torture.run import run

from rowlock.store.schema import migrate
from torture import server as servers
from torture.stage import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torture.server import Server

PATIENCE = 3.0


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    choice = os.environ.get("ROWLOCK_TEST_PG", "")
    name = f"test-deploy-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with servers.postgres("auto" if choice == "15" else "embedded", name) as server:
        yield server


class ShortNewCode(NewCode):
    seconds: ClassVar = (1.5, 1.5)
    whole: ClassVar = False
    rate: ClassVar = 12.0


@pytest.mark.timeout(240)
async def test_newer_code_comes_and_goes_under_load(own_server: Server) -> None:
    result = await run(ShortNewCode(), own_server, ShortNewCode.seconds[0], warm=15, after=0.5)
    assert result.violations == []
    assert result.recovery <= PATIENCE * result.bound
    newest = migrate.newest()
    assert result.notes[f"runs by code {newest}"] > 15
    assert result.notes[f"runs by code {newest + 1}"] > 15


def test_the_release_before_can_run_the_application_of_the_torture(tmp_path: Path) -> None:
    try:
        old = codes.earlier(RELEASED, tmp_path)
    except codes.NoHistory as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [sys.executable, "-c", "from torture.deploy import app; print(app.jobs.CODE)"],
        env=os.environ | old.environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == (str(RELEASED), "")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose third step came later than the second."""
    steps = tmp_path / "src/rowlock/store/migrations"
    steps.mkdir(parents=True)
    monkeypatch.setattr(codes, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return steps


def commit(steps: Path, *names: str) -> str:
    for name in names:
        (steps / f"{name}.up.sql").write_text("SELECT 1;\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "more")):
        subprocess.run([codes.GIT, *words], cwd=steps.parents[3], check=True)
    return codes._git("rev-parse", "HEAD").strip()


def test_the_last_code_of_a_version_is_found_in_the_history(checkout: Path, tmp_path: Path) -> None:
    commit(checkout, "0001_one")
    last = commit(checkout, "0002_two")
    commit(checkout, "0003_three", "0004_four")
    assert codes.last_of(2) == last
    found = codes.earlier(2, tmp_path / "old")
    assert sorted(path.name for path in found.path.rglob("*.up.sql")) == ["0001_one.up.sql", "0002_two.up.sql"]
    with pytest.raises(codes.NoHistory, match="before those after 3 came is 2"):
        codes.last_of(3)


def test_a_checkout_without_that_history_says_why_nothing_is_run(checkout: Path) -> None:
    assert "git" in Upgrade().lacks()
    commit(checkout, "0001_one", "0002_two", f"{RELEASED + 1:04}_three")
    assert "shallow clone" in Upgrade().lacks()


def test_starts_beyond_their_rate_are_noticed() -> None:
    assert over_the_rate([n * 0.1 for n in range(50)]) == []
    assert over_the_rate([10.0] * 13) == ["13 rated jobs started within 0.00 s"]


def test_the_longest_call_and_the_longest_wait_for_a_start_count(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for at, took, job in ((5.0, 3.0, 1), (11.0, 0.5, 2), (12.0, 0.1, 3), (30.0, 9.0, 4)):
        ledger.note(Asked(str(job), "plain", "acknowledged", at, job, took=took))
        ledger.note(Line("start", job, 1, str(job), at + 0.25 * job, 1))
    assert stalls(tmp_path, 10.0, 20.0) == (0.5, 0.75)
