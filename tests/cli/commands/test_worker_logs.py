from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

import pytest
from tests.cli.processes import ended, lines_until

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

TASKS = """
import logging
import rowlock
app = rowlock.Rowlock()

@app.job
def loud(ctx: rowlock.SyncContext) -> None:
    logging.getLogger("some.library").warning("by a library")
    ctx.log.warning("by the context")


@app.job(retry=rowlock.Retry(attempts=2, minimum="0s", jitter="0s"))
async def broken(n: int) -> None:
    raise ValueError("no ink")
"""


@pytest.mark.parametrize("as_json", [False, True])
async def test_what_a_handler_logs_is_shown_with_its_job(cli: Cli, as_json: bool) -> None:
    cli.folder.joinpath("tasks.py").write_text(TASKS)
    public_id = await cli.enqueue("loud")
    process = await cli.start("worker", "--app", "tasks:app", *(["--json"] if as_json else []))
    stream = process.stdout if as_json else process.stderr
    lines = await lines_until(stream, "← done")
    process.send_signal(signal.SIGTERM)
    assert (await ended(process))[0] == 0
    found = [line for line in lines if "by a library" in line or "by the context" in line]
    if not as_json:
        assert [line.rstrip()[13:] for line in found] == [
            f"warning: by a library  [loud {public_id}]",
            f"warning: by the context  [loud {public_id}]",
        ]
        return
    for record in map(json.loads, found):
        assert (record["job_id"], record["kind"]) == (public_id, "loud")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["at"])
        assert (record["lane"], record["attempt"]) == ("default", 1)


async def test_a_failed_attempt_is_a_warning_and_the_last_one_an_error_with_every_field(cli: Cli) -> None:
    cli.folder.joinpath("tasks.py").write_text(TASKS)
    public_id = await cli.enqueue("broken", n=1)
    process = await cli.start("worker", "--app", "tasks:app", "--json", "--log-level", "warning")
    lines = await lines_until(process.stdout, "! failed")
    process.send_signal(signal.SIGTERM)
    assert (await ended(process))[0] == 0
    retried, failed = (json.loads(line) for line in lines)
    assert (retried["level"], failed["level"]) == ("warning", "error")
    assert (retried["outcome"], retried["state"], failed["outcome"], failed["state"]) == (
        *("failed", "queued"),
        *("failed", "failed"),
    )
    for attempt, record in enumerate((retried, failed), 1):
        assert (record["job_id"], record["kind"], record["lane"]) == (public_id, "broken", "default")
        assert (record["logger"], record["attempt"], record["job_number"]) == ("rowlock.job", attempt, 1)
        assert record["error"]["type"] == "ValueError"
        assert record["error"]["message"] == "no ink"
        assert 0 <= record["seconds"] < 60
        assert record["exception"].endswith("ValueError: no ink")
        assert 'raise ValueError("no ink")' in record["exception"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["at"])
    assert failed["error"]["reason"] == "attempts exhausted"


async def test_lines_for_people_have_milliseconds_level_and_traceback(cli: Cli) -> None:
    cli.folder.joinpath("tasks.py").write_text(TASKS)
    public_id = await cli.enqueue("broken", n=1)
    process = await cli.start("worker", "--app", "tasks:app")
    lines = await lines_until(process.stderr, "! failed")
    lines += await lines_until(process.stderr, "ValueError: no ink")
    process.send_signal(signal.SIGTERM)
    assert (await ended(process))[0] == 0
    retry, failed = (line for line in lines if "↻ retry" in line or "! failed" in line)
    assert re.match(r"\d\d:\d\d:\d\d\.\d{3} warning: ↻ retry ", retry)
    assert re.match(rf"\d\d:\d\d:\d\d\.\d{{3}} error: ! failed  broken {public_id}  failed after ", failed)
    assert failed.rstrip().endswith(": ValueError: no ink")
    below = lines[lines.index(failed) + 1 :]
    assert below[0] == "Traceback (most recent call last):\n"
    assert all(line.startswith("    ") for line in below[1:])
