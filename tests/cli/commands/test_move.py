from __future__ import annotations

from typing import TYPE_CHECKING

import procrastinate
import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cli.conftest import Cli

    from rowlock import Rowlock

MOVE = ("move", "procrastinate", "--app", "tasks:app")


@pytest.fixture
async def old(database_url: str) -> AsyncIterator[procrastinate.App]:
    """Procrastinate beside Rowlock, in one database."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=database_url))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        yield app


async def test_waiting_jobs_are_moved_and_the_rest_is_named(cli: Cli, app: Rowlock, old: procrastinate.App) -> None:
    await old.configure_task("greet", priority=500).defer_async(name="Ada")
    await old.configure_task("greet").defer_async(nam="Bob")
    dry = await cli(*MOVE, "--dry-run")
    assert (dry.code, dry.out.split()) == (0, ["KIND", "WOULD", "MOVE", "greet", "1"])
    assert await app.jobs.list() == []
    moved = await cli(*MOVE)
    assert (moved.code, moved.out.split()) == (0, ["KIND", "MOVED", "greet", "1"])
    assert "1 had a priority beyond -100 to 100" in moved.err
    assert "Left: job 2 (greet): greet: " in moved.err
    again = (await cli(*MOVE, "--json")).json
    assert {key: again[key] for key in ("moved", "moved_before", "running", "kinds", "dry_run")} == {
        "moved": 0,
        "moved_before": 0,
        "running": 0,
        "kinds": [],
        "dry_run": False,
    }
    assert [(left["id"], left["task"]) for left in again["left"]] == [(2, "greet")]


async def test_unknown_tasks_are_refused_unless_they_may_be_left(cli: Cli, old: procrastinate.App) -> None:
    await old.configure_task("shop.gone").defer_async()
    refused = await cli(*MOVE)
    assert (refused.code, refused.out) == (1, "")
    assert "shop.gone (1)" in refused.err
    assert "--leave-unknown" in refused.err
    left = await cli(*MOVE, "--leave-unknown")
    assert (left.code, left.out) == (0, "No job was moved.\n")
    assert "no kind 'shop.gone'" in left.err


async def test_a_database_without_the_table_is_named(cli: Cli) -> None:
    answer = await cli(*MOVE)
    assert answer.code == 2
    assert "no table procrastinate_jobs on the search path" in answer.err
    there = await cli(*MOVE, "--source", "postgresql://nobody@127.0.0.1:9/nothing")
    assert there.code != 0
    assert "cannot be reached" in there.err
    assert (await cli("move", "procrastinate")).code == 2
