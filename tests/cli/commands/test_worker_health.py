"""Probes of real worker processes: before the database is there, at work, draining, killed, stopped, supervised."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

from tests.cli.processes import ended, holding, lines_until
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Answer, Cli

    from rowlock import Rowlock


async def becomes(cli: Cli, target: Path, *words: str, code: int = 0) -> Answer:
    async def asked() -> Answer | None:
        answer = await cli("workers", "probe", str(target), *words)
        return answer if answer.code == code else None

    found = await eventually(asked, within=60)
    assert found is not None
    return found


async def test_a_worker_that_waits_for_its_database_lives_and_is_not_ready(cli: Cli) -> None:
    target = cli.folder / "w.sock"
    nowhere = f"postgresql://nobody@127.0.0.1:1/{cli.folder.name}"
    process = await cli.start("worker", "--app", "tasks:app", "--health", str(target), "--database-url", nowhere)
    assert (
        await becomes(cli, target)
    ).out == "starting, live: it has not begun: it waits for the database or for its schema, as its log says\n"
    answer = await cli("workers", "probe", str(target), "--ready")
    assert (answer.code, answer.out.partition(":")[0]) == (1, "starting, not ready")
    process.send_signal(signal.SIGTERM)
    assert (await ended(process))[0] == 0
    assert not target.exists()


async def test_a_worker_is_ready_then_drains_and_leaves_word_that_it_has_drained(cli: Cli, app: Rowlock) -> None:
    target = cli.folder / "health"
    process, _, release = await holding(cli, app, "--health", str(target))
    answer = await becomes(cli, target, "--ready", "--json")
    assert (answer.json["phase"], answer.json["running_jobs"]) == ("running", 1)
    process.send_signal(signal.SIGTERM)
    await lines_until(process.stderr, "SIGTERM: draining")
    draining = await becomes(cli, target, "--ready", code=1)
    assert draining.out == "draining, not ready: it drains\n"
    assert (await cli("workers", "probe", str(target), "--drained")).code == 1
    release.touch()
    assert (await ended(process))[0] == 0
    assert (await becomes(cli, target, "--drained")).out == "drained, drained: it has finished draining\n"


async def test_a_worker_that_is_stopped_or_killed_does_not_count_as_live(cli: Cli, app: Rowlock) -> None:
    target = cli.folder / "w.sock"
    process, _, _ = await holding(cli, app, "--health", str(target))
    await becomes(cli, target, "--ready")
    process.send_signal(signal.SIGSTOP)
    assert "No worker answers" in (await becomes(cli, target, code=1)).err
    process.send_signal(signal.SIGCONT)
    await becomes(cli, target, "--ready")
    process.kill()
    await process.wait()
    assert (await cli("workers", "probe", str(target))).code == 1


async def test_a_supervisor_answers_for_its_processes(cli: Cli, app: Rowlock) -> None:
    target = cli.folder / "w.sock"
    process = await cli.start("worker", "--app", "tasks:app", "--processes", "2", "--health", str(target))
    await becomes(cli, target, "--ready")
    first, _ = await app.workers.list()
    os.kill(first.pid, signal.SIGSTOP)
    answer = await becomes(cli, target, "--ready", code=1)
    assert answer.out == "running, not ready: 1 of 2 processes are not at work\n"
    assert (await cli("workers", "probe", str(target))).code == 0  # the other one goes on
    os.kill(first.pid, signal.SIGKILL)
    await becomes(cli, target, "--ready")  # another has taken its place
    process.send_signal(signal.SIGTERM)
    assert (await ended(process))[0] == 0
    assert not target.exists()


async def test_an_address_that_cannot_be_used_is_said_in_one_line(cli: Cli) -> None:
    answer = await cli("worker", "--app", "tasks:app", "--health", str(cli.folder / "no" / "health"), "--json")
    problem = json.loads(answer.err.splitlines()[-1])
    assert (answer.code, "this file cannot be written: No such file or directory" in problem["detail"]) == (2, True)
    assert "Traceback" not in answer.err
