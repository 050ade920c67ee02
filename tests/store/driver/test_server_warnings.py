"""Warnings of the server about rows that a function of the schema has passed over."""

from __future__ import annotations

import logging

import pytest
from tests.factories import opened
from tests.waiting import until

from rowlock.model import ids
from rowlock.set_aside import SetAside


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rowlock")


async def test_a_refused_row_is_noted_with_its_step_and_error(database_url: str) -> None:
    noted = SetAside(logging.getLogger("rowlock.test"))
    async with opened(database_url) as store:
        store.database.warnings.note_in(noted)
        await store.database.fetch("doctor_server")
        async with store.database.connection() as connection:
            await connection.execute("SELECT rowlock.warn_refused(7, NULL, 'release', 'not this one')")
            await connection.execute("SELECT rowlock.warn_refused(NULL, 'gate printer', 'repair', 'nor this')")
        await until(lambda: len(noted) == 2)
        assert (7, "release") in noted
        assert ("gate printer", "repair") in noted


async def test_without_a_worker_in_the_process_it_is_logged(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(database_url) as store, store.database.connection() as connection:
        await connection.execute("SELECT rowlock.warn_refused(7, NULL, 'release', 'not this one')")
        await until(lambda: "passed over" in caplog.text)
    assert f"job {ids.encode(7)} is passed over, its release fails: not this one" in caplog.messages


@pytest.mark.parametrize(
    "warning",
    [
        "RAISE WARNING 'rowlock: a warning without a detail'",
        "RAISE WARNING 'rowlock: another one' USING DETAIL = 'no JSON'",
        "RAISE WARNING 'rowlock: another one' USING DETAIL = '[1]'",
        'RAISE WARNING \'something else\' USING DETAIL = \'{"job": 7, "step": "release", "error": "x"}\'',
    ],
)
async def test_other_warnings_are_left_alone(database_url: str, caplog: pytest.LogCaptureFixture, warning: str) -> None:
    async with opened(database_url) as store, store.database.connection() as connection:
        await connection.execute(f"DO $do$ BEGIN {warning}; END $do$")
        await connection.execute("SELECT rowlock.warn_refused(NULL, 'the last one', 'release', 'x')")
        await until(lambda: "the last one" in caplog.text)
    assert [line for line in caplog.messages if "passed over" in line] == [
        "the last one is passed over, its release fails: x"
    ]
