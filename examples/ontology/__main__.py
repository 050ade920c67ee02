"""`python -m examples.ontology`: three pods, a stand-in for the language model, Rowlock's API and dashboard."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
from typing import Final

from examples.launch import ExampleFailed, Program, run_together
from rowlock import Rowlock, RowlockError

PODS: Final = 3


def main() -> None:
    """Start everything on the embedded PostgreSQL, or on ROWLOCK_DATABASE_URL, and stop it at Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m examples.ontology", description="Ontology generation in pods.")
    parser.add_argument("--port", type=int, default=8000, help="The dashboard's; the pods and the model follow it.")
    parser.add_argument("--seconds", type=float, default=2.0, help="How long the model thinks about each question.")
    options = parser.parse_args()
    try:
        asyncio.run(run(options.port, options.seconds))
    except (ExampleFailed, RowlockError) as failed:
        sys.exit(str(failed))


async def run(port: int, seconds: float) -> None:
    """Hold the database open, and run the programs on it."""
    async with Rowlock() as database:
        await database.upgrade()
        token = secrets.token_hex(16)
        pods = range(port + 1, port + 1 + PODS)
        greeting = f"""
  The application   http://127.0.0.1:{pods[0]}/jobs  (three pods, one queue: {pods[0]} to {pods[-1]})
  The dashboard     http://127.0.0.1:{port}/api/v1/auth/local?token={token}

  Ctrl-C ends it."""
        await run_together(programs(port, pods, database.database_url, token, seconds), greeting)


def programs(port: int, pods: range, database_url: str, token: str, seconds: float) -> list[Program]:
    """The model, the API with its dashboard, and the pods."""
    model = pods[-1] + 1
    shared = {
        "ROWLOCK_DATABASE_URL": database_url,
        "LANGUAGE_MODEL_URL": f"http://127.0.0.1:{model}/",
        "ROWLOCK_API": f"http://127.0.0.1:{port}/api/v1",
    }
    origins = ",".join(f"http://127.0.0.1:{each}" for each in pods)
    serving = {**shared, "ROWLOCK_SERVE_TOKEN": token, "ROWLOCK_ALLOW_ORIGINS": origins}
    serve = ("-m", "rowlock", "serve", "--app", "examples.ontology.tasks:tasks", "--port", str(port))
    return [
        Program(
            "model", ("-m", "examples.ontology.language_model", "--port", str(model), "--seconds", str(seconds)), model
        ),
        Program("api", serve, port, serving),
        *(
            Program(f"pod-{number}", gunicorn(each), each, {**shared, "POD_NAME": f"pod-{number}"})
            for number, each in enumerate(pods, 1)
        ),
    ]


def gunicorn(port: int) -> tuple[str, ...]:
    """A pod: one process, in which requests are answered in threads and one job runs."""
    bind, factory = f"127.0.0.1:{port}", "examples.ontology.web:create_app()"
    options = ("--threads", "8", "--graceful-timeout", "35", "--no-control-socket")
    return ("-m", "gunicorn", "--bind", bind, *options, factory)


if __name__ == "__main__":
    main()
