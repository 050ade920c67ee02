"""Results that steps hand on: a secret among them is as secret in the step that gets it as where it came from."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from rowlock import Context, Retry, Rowlock, WorkflowFailed, chain

if TYPE_CHECKING:
    import asyncpg

    Sql = asyncpg.Connection[asyncpg.Record]

HIDDEN = "hunter2-and-more"


async def found_in(sql: Sql) -> set[str]:
    """The tables and columns in which the secret can be read."""
    columns = await sql.fetch(
        "SELECT c.table_name AS t, c.column_name AS c FROM information_schema.columns c"
        " JOIN information_schema.tables x USING (table_schema, table_name)"
        " WHERE c.table_schema = 'rowlock' AND x.table_type = 'BASE TABLE'"
    )
    return {
        f"{t}.{c}" for t, c in columns if await sql.fetchval(f"SELECT bool_or({c}::text LIKE '%{HIDDEN}%') FROM {t}")
    }


@pytest.mark.parametrize("annotation", [SecretStr, str])
async def test_a_secret_that_is_handed_on_shows_nowhere_else(
    app: Rowlock, sql: Sql, caplog: pytest.LogCaptureFixture, annotation: type
) -> None:
    caplog.set_level(logging.INFO)

    @app.job
    async def unlock(password: SecretStr) -> SecretStr:
        return password

    async def use(ctx: Context, token: object) -> None:
        plain = token.get_secret_value() if isinstance(token, SecretStr) else str(token)
        ctx.log.info("with %s", plain)
        await ctx.progress(1, message=f"at {plain}")
        message = f"refused: {plain}"
        raise ValueError(message)

    use.__annotations__["token"] = annotation
    made = app.job("use", retry=Retry(attempts=2, minimum="0s", jitter="0s"), logs="info")(use)
    started = await chain(unlock.step(SecretStr(HIDDEN)), made).enqueue()
    async with app.worker():
        with pytest.raises(WorkflowFailed) as failed:
            await started.wait(timeout=20)
    assert HIDDEN not in str(failed.value)
    assert "refused: •••" in str(failed.value)
    # Where it was stored to be handed on, and nowhere else: no error, no attempt, no log line, no progress.
    assert await found_in(sql) == {"jobs.args", "jobs.result"}
    assert await sql.fetchval("SELECT count(*) FROM jobs WHERE args::text LIKE $1", f"%{HIDDEN}%") == 1
    for step, number in started.jobs.items():
        job = await app.jobs.get(number)
        assert HIDDEN not in repr(job), step
        assert HIDDEN not in repr(await app.jobs.history(number)), step
    assert HIDDEN not in repr(await started.workflow())
    # What a handler itself says to the process's own log is its own affair.
    others = [record.getMessage() for record in caplog.records if record.name != "rowlock.handler"]
    assert HIDDEN not in "".join(others)
