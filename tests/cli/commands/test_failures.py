"""rowlock failures: groups are listed, shown, muted and opened again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock import Retry

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from rowlock import Rowlock


async def test_failures_are_listed_shown_muted_and_opened_again(cli: Cli, app: Rowlock) -> None:
    @app.job("call", retry=Retry(attempts=1))
    async def call(number: int) -> None:
        message = f"number {number} is engaged"
        raise OSError(message)

    assert "No failures." in (await cli("failures", "ls")).out
    async with app.worker():
        for number in (17, 4711):
            job = await call.enqueue(number)
            await app.jobs.wait(job.id, timeout=30)
    assert "OSError: number <n> is engaged" in (await cli("failures", "ls")).out
    (group,) = (await cli("failures", "ls", "--json")).json
    assert (group["failed"], group["within"], group["state"]) == (2, 2, "open")
    assert group["frame"] == "commands/test_failures.py:call"
    shown = await cli("failures", "show", group["fingerprint"])
    assert "Traceback (most recent call last)" in shown.out
    (muted,) = (await cli("failures", "mute", group["fingerprint"], "--note", "known", "--json")).json
    assert (muted["state"], muted["note"]) == ("muted", "known")
    assert "No failures." in (await cli("failures", "ls", "--state", "open")).out
    assert "open" in (await cli("failures", "unmute", group["fingerprint"])).out
    missing = await cli("failures", "show", "none")
    assert (missing.code, "There is no failure group 'none'" in missing.err) == (1, True)
