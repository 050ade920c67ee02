"""A process that uses an embedded server: start it, then answer each line of SQL with a line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import asyncpg

from rowlock.errors import RowlockError
from rowlock.store.embedded import start


async def answer(url: str, sql: str) -> object:
    try:
        connection = await asyncpg.connect(url)
    except (OSError, asyncpg.PostgresError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    try:
        return {"value": await connection.fetchval(sql)}
    finally:
        await connection.close()


def main() -> None:
    try:
        held = start(Path(sys.argv[1]), **json.loads(sys.argv[2]))
    except RowlockError as error:
        print(json.dumps({"error": str(error)}), flush=True)  # noqa: T201 - the answer
        return
    hello = {"url": held.url, "directory": str(held.directory), "started": held.started}
    print(json.dumps(hello), flush=True)  # noqa: T201 - the answer
    for line in sys.stdin:
        print(json.dumps(asyncio.run(answer(held.url, line))), flush=True)  # noqa: T201 - the answer
    held.close()


if __name__ == "__main__":
    main()
