"""`python -m examples.knowledge_graph`: a stand-in for the models, a supervised worker, the web with its dashboard."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import subprocess
import sys
from typing import Final

from examples.launch import ExampleFailed, Program, run_together
from rowlock import Rowlock, RowlockError

PEOPLE: Final = {"ada": ["contributor"], "grace": ["platform_admin"]}


def main() -> None:
    """Start everything on the embedded PostgreSQL, or on ROWLOCK_DATABASE_URL, and stop it at Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m examples.knowledge_graph", description="A knowledge graph.")
    parser.add_argument("--port", type=int, default=8000, help="The web's; the models use the next one.")
    parser.add_argument("--seconds", type=float, default=0.2, help="How long a model thinks about each question.")
    options = parser.parse_args()
    try:
        asyncio.run(run(options.port, options.seconds))
    except (ExampleFailed, RowlockError) as failed:
        sys.exit(str(failed))


async def run(port: int, seconds: float) -> None:
    """Hold the database open, migrate it, store the people, and run the programs on it."""
    async with Rowlock() as database:
        await asyncio.to_thread(database.database)
        keys = {name: secrets.token_urlsafe(24) for name in PEOPLE}
        shared = {"ROWLOCK_DATABASE_URL": database.database_url}
        await asyncio.to_thread(prepare, shared, keys)
        links = {name: f"http://127.0.0.1:{port}/login?key={key}" for name, key in keys.items()}
        greeting = f"""
  As ada, contributor            {links["ada"]}
  As grace, platform_admin       {links["grace"]}
  The dashboard, after a login   http://127.0.0.1:{port}/rowlock/

  Ctrl-C ends it."""
        await run_together(programs(port, shared, seconds), greeting)


def prepare(shared: dict[str, str], keys: dict[str, str]) -> None:
    """Run the migration and store the people, in processes of their own, as a deployment does."""
    environ = {**os.environ, **shared}
    subprocess.run([sys.executable, "-m", "examples.knowledge_graph.migrate"], env=environ, check=True)
    for name, roles in PEOPLE.items():
        words = [sys.executable, "-m", "examples.knowledge_graph.people", name, *roles]
        subprocess.run(words, env={**environ, "KEY": keys[name]}, check=True)  # noqa: S603


def programs(port: int, shared: dict[str, str], seconds: float) -> list[Program]:
    """The models, the worker under its supervisor, and the web."""
    environ = {**shared, "MODELS_URL": f"http://127.0.0.1:{port + 1}/"}
    model = ("-m", "examples.knowledge_graph.models", "--port", str(port + 1), "--seconds", str(seconds))
    worker = ("-m", "rowlock", "worker", "--app", "examples.knowledge_graph.kinds:tasks", "--processes", "1")
    web = ("-m", "uvicorn", "examples.knowledge_graph.web:host", "--port", str(port), "--log-level", "warning")
    return [
        Program("models", model, port + 1),
        Program("worker", worker, None, environ),
        Program("web", web, port, environ),
    ]


if __name__ == "__main__":
    main()
