"""`python -m examples.adventures`: the API with its dashboard, a worker, and stand-ins for the services outside."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
from pathlib import Path
from typing import Final

from sqlalchemy import make_url

from examples.launch import ExampleFailed, Program, run_together
from rowlock import Rowlock, RowlockError

HERE: Final = Path(__file__).parent


def main() -> None:
    """Start everything on the embedded PostgreSQL, or on ROWLOCK_DATABASE_URL, and stop it at Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.adventures", description="A language-learning application."
    )
    parser.add_argument("--port", type=int, default=8000, help="The API's; the stand-ins follow it.")
    parser.add_argument("--seconds", type=float, default=2.0, help="How long each service outside takes.")
    options = parser.parse_args()
    try:
        asyncio.run(run(options.port, options.seconds))
    except (ExampleFailed, RowlockError) as failed:
        sys.exit(str(failed))


async def run(port: int, seconds: float) -> None:
    """Hold the database open, bring its tables up to date, and run the programs on it."""
    async with Rowlock() as database:
        url = make_url(database.database_url).set(drivername="postgresql+asyncpg")
        token = secrets.token_hex(16)
        outside = f"http://127.0.0.1:{port + 1}"
        environ = {
            "DATABASE_URL": url.render_as_string(hide_password=False),
            "JWT_SECRET": os.environ.get("JWT_SECRET") or "of-this-machine-and-this-example",
            "ROWLOCK_SERVE_TOKEN": token,
            **dict.fromkeys(("ANTHROPIC_URL", "DEEPL_URL", "GEMINI_URL"), outside),
            **dict.fromkeys(("ANTHROPIC_API_KEY", "DEEPL_API_KEY", "GEMINI_API_KEY"), "of-a-stand-in"),
            "STORAGE_ENDPOINT_URL": outside,
        }
        await migrate(environ)
        greeting = f"""
  The application   http://127.0.0.1:{port}/read
  The dashboard     http://127.0.0.1:{port}/ops/api/v1/auth/local?token={token}

  Ctrl-C ends it."""
        await run_together(programs(port, seconds, environ), greeting)


async def migrate(environ: dict[str, str]) -> None:
    """What the API's container does first: `alembic upgrade head`."""
    words = ("-m", "alembic", "-c", str(HERE / "alembic.ini"), "upgrade", "head")
    process = await asyncio.create_subprocess_exec(sys.executable, *words, env={**os.environ, **environ})
    if await process.wait() != 0:
        message = "The tables could not be brought up to date; the reason is above."
        raise ExampleFailed(message)


def programs(port: int, seconds: float, environ: dict[str, str]) -> list[Program]:
    """The services outside, the API, and the worker in a process of its own."""
    outside = ("-m", "examples.adventures.outside", "--port", str(port + 1), "--seconds", str(seconds))
    api = ("-m", "uvicorn", "examples.adventures.api:app", "--port", str(port), "--log-level", "warning")
    worker = ("-m", "rowlock", "worker", "--app", "examples.adventures.tasks:tasks")
    return [
        Program("outside", outside, port + 1),
        Program("api", api, port, {**environ, "OTEL_SERVICE_NAME": "language-learning-api"}),
        Program("worker", worker, None, {**environ, "OTEL_SERVICE_NAME": "language-learning-worker"}),
    ]


if __name__ == "__main__":
    main()
