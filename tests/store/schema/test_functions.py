"""The bodies of store/functions are those that the migrations leave behind."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import asyncpg
import pytest

from rowlock.store.schema import migrate

FOLDER = Path(migrate.__file__).parents[1] / "functions"
CREATED = re.compile(r"^CREATE FUNCTION \{schema\}\.(\w+)", re.MULTILINE)
DEFINITIONS = """
SELECT p.oid::regprocedure::text AS signature, pg_get_functiondef(p.oid) AS definition
FROM pg_proc p WHERE p.pronamespace = 'rowlock'::regnamespace
"""


def normalised(definition: str) -> str:
    """Without comments, and with one blank wherever there is white space."""
    return " ".join(re.sub(r"--[^\n]*", "", definition).split())


async def definitions(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, str]:
    return {row["signature"]: normalised(row["definition"]) for row in await connection.fetch(DEFINITIONS)}


def files() -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.sql"))}


async def test_the_files_hold_every_function_as_the_migrations_leave_it(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        migrated = await definitions(connection)
        transaction = connection.transaction()
        await transaction.start()
        # Another result type, or other names of parameters, would be refused here; other types make another function.
        for text in files().values():
            await connection.execute(
                text.replace("{schema}", '"rowlock"').replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
            )
        written = await definitions(connection)
        await transaction.rollback()
    finally:
        await connection.close()
    assert written == migrated
    named = {name for text in files().values() for name in CREATED.findall(text)}
    assert named == {re.sub(r"^\w+\.|\(.*", "", signature) for signature in migrated}


@pytest.mark.parametrize(("file", "text"), files().items(), ids=files())
def test_every_function_says_why_it_is_as_it_is(file: str, text: str) -> None:
    lines = text.splitlines()
    for before, line in pairwise(lines):
        assert not line.startswith("CREATE FUNCTION") or before.startswith("-- "), (file, line)
