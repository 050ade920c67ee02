"""`python -m examples.emissions`: two pods, a stand-in for the registry of factors, Rowlock's API and dashboard."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
from typing import Final

from examples.launch import ExampleFailed, Program, run_together
from rowlock import Rowlock, RowlockError

PODS: Final = 2


def main() -> None:
    """Start everything on the embedded PostgreSQL, or on ROWLOCK_DATABASE_URL, and stop it at Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m examples.emissions", description="Emissions, calculated in pods.")
    parser.add_argument("--port", type=int, default=8000, help="The dashboard's; the pods and the registry follow it.")
    parser.add_argument("--calculate-in", choices=("process", "thread", "loop"), default="process")
    options = parser.parse_args()
    try:
        asyncio.run(run(options.port, options.calculate_in))
    except (ExampleFailed, RowlockError) as failed:
        sys.exit(str(failed))


async def run(port: int, calculate_in: str) -> None:
    """Hold the database open, and run the programs on it."""
    async with Rowlock() as database:
        await database.upgrade()
        token = secrets.token_hex(16)
        pods = range(port + 1, port + 1 + PODS)
        greeting = f"""
  The application   http://127.0.0.1:{pods[0]}/organisations/acme  (two pods: {pods[0]} and {pods[-1]})
  The dashboard     http://127.0.0.1:{port}/api/v1/auth/local?token={token}

  Ctrl-C ends it."""
        await run_together(programs(port, pods, database.database_url, token, calculate_in), greeting)


def programs(port: int, pods: range, database_url: str, token: str, calculate_in: str) -> list[Program]:
    """The registry, the API with its dashboard, and the pods."""
    registry = pods[-1] + 1
    shared = {
        "ROWLOCK_DATABASE_URL": database_url,
        "REGISTRY_URL": f"http://127.0.0.1:{registry}/",
        "ROWLOCK_API": f"http://127.0.0.1:{port}/api/v1",
        "CALCULATE_IN": calculate_in,
    }
    origins = ",".join(f"http://127.0.0.1:{each}" for each in pods)
    serving = {**shared, "ROWLOCK_SERVE_TOKEN": token, "ROWLOCK_ALLOW_ORIGINS": origins}
    serve = ("-m", "rowlock", "serve", "--app", "examples.emissions.tasks:tasks", "--port", str(port))
    return [
        Program("registry", ("-m", "examples.emissions.registry", "--port", str(registry)), registry),
        Program("api", serve, port, serving),
        *(
            Program(f"pod-{number}", uvicorn(each), each, {**shared, "POD_NAME": f"pod-{number}"}, restart=True)
            for number, each in enumerate(pods, 1)
        ),
    ]


def uvicorn(port: int) -> tuple[str, ...]:
    """A pod: one process, whose event loop answers requests and runs the worker."""
    factory = "examples.emissions.web:create_app"
    return ("-m", "uvicorn", "--factory", "--host", "127.0.0.1", "--port", str(port), "--no-access-log", factory)


if __name__ == "__main__":
    main()
