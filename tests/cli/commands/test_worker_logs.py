from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

import pytest
from tests.cli.processes import ended, said

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
"""


@pytest.mark.parametrize("as_json", [False, True])
async def test_what_a_handler_logs_is_shown_with_its_job(cli: Cli, as_json: bool) -> None:
    cli.folder.joinpath("tasks.py").write_text(TASKS)
    public_id = await cli.enqueue("loud")
    process = await cli.start("worker", "--app", "tasks:app", *(["--json"] if as_json else []))
    stream = process.stdout if as_json else process.stderr
    lines = await said(stream, "← done")
    process.send_signal(signal.SIGTERM)
    assert (await ended(process))[0] == 0
    found = [line for line in lines if "by a library" in line or "by the context" in line]
    if not as_json:
        assert [line.rstrip()[9:] for line in found] == [
            f"warning: by a library  [loud {public_id}]",
            f"warning: by the context  [loud {public_id}]",
        ]
        return
    for record in map(json.loads, found):
        assert (record["job_id"], record["kind"]) == (public_id, "loud")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["at"])
        assert (record["lane"], record["attempt"]) == ("default", 1)
