"""rowlock jobs logs, items and retry --failed-items: what a job told, and what is left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock import Context, ItemContext, Retry, Rowlock, Skip

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


async def test_a_job_is_read_from_the_terminal_and_its_failed_items_run_again(cli: Cli, database_url: str) -> None:
    app = Rowlock(database_url)
    broken = {"b"}

    @app.job(retry=Retry(attempts=1))
    async def work(ctx: Context) -> None:
        async def one(_: ItemContext, name: str) -> None:
            if name in broken:
                raise OSError("away")
            if name == "c":
                raise Skip("old")

        ctx.log.info("attempt with %d broken", len(broken))
        await ctx.items("abc", one)

    async with app.worker():
        handle = await work.enqueue()
        await app.jobs.wait(handle.id, timeout=20)
        logs = await cli("jobs", "logs", handle.public_id, "--follow")
        assert logs.code == 0
        assert logs.out.endswith("INFO      rowlock.handler  attempt with 1 broken\n")
        rows = [line.split() for line in (await cli("jobs", "items", handle.public_id)).out.splitlines()]
        assert [row[:2] for row in rows[1:]] == [["a", "completed"], ["b", "failed"], ["c", "skipped"]]
        (failed,) = (await cli("jobs", "items", handle.public_id, "--state", "failed", "--json")).json
        assert (failed["name"], failed["error"]["message"]) == ("b", "away")
        broken.clear()
        await cli("jobs", "retry", handle.public_id, "--failed-items")
        await app.jobs.wait(handle.id, timeout=20)
        shown = (await cli("jobs", "show", handle.public_id)).out
    await app.close()
    assert "2 of 3 items completed, 1 skipped" in shown
    assert "last progress" in shown
