"""`python -m examples.docverse`: Redis, two arq workers, the web application, Rowlock's API and dashboard."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import sys
from typing import Final

from cryptography.fernet import Fernet

from examples.launch import ExampleFailed, Program, run_together
from rowlock import Rowlock, RowlockError

ORGANIZATIONS: Final = "rubin,kipac"
WORKERS: Final = 2


def main() -> None:
    """Start everything on the embedded PostgreSQL, or on ROWLOCK_DATABASE_URL, and stop it at Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m examples.docverse", description="Documentation of organisations.")
    parser.add_argument("--port", type=int, default=8000, help="The dashboard's; the others follow it.")
    parser.add_argument("--seconds", type=float, default=1.0, help="How long the CDN takes for each edition.")
    parser.add_argument("--without-redis", action="store_true", help="PostgreSQL carries the jobs, as by default.")
    options = parser.parse_args()
    if not options.without_redis and shutil.which("redis-server") is None:
        sys.exit("There is no redis-server on this machine. Install it, or add --without-redis.")
    try:
        asyncio.run(run(options.port, options.seconds, redis=not options.without_redis))
    except (ExampleFailed, RowlockError) as failed:
        sys.exit(str(failed))


async def run(port: int, seconds: float, *, redis: bool) -> None:
    """Hold the database open, and run the programs on it."""
    async with Rowlock() as database:
        await database.upgrade()
        token = secrets.token_hex(16)
        greeting = f"""
  The application   http://127.0.0.1:{port + 1}/orgs/rubin  (and /docs for its API)
  The dashboard     http://127.0.0.1:{port}/api/v1/auth/local?token={token}

  Ctrl-C ends it."""
        await run_together(programs(port, database.database_url, token, seconds, redis=redis), greeting)


def programs(port: int, database_url: str, token: str, seconds: float, *, redis: bool) -> list[Program]:
    """Stand-ins, Redis, the API with its dashboard, the web application, and the workers."""
    shared = {
        "ROWLOCK_DATABASE_URL": database_url,
        "SERVICES_URL": f"http://127.0.0.1:{port + 2}",
        "ROWLOCK_API": f"http://127.0.0.1:{port}/api/v1",
        "LOCAL_ORGANIZATIONS": ORGANIZATIONS,
        "QUEUE_BACKEND": "arq" if redis else "postgres",
        "REDIS_URL": f"redis://127.0.0.1:{port + 3}",
        "CREDENTIAL_KEYS": Fernet.generate_key().decode(),
    }
    serving = {**shared, "ROWLOCK_SERVE_TOKEN": token, "ROWLOCK_ALLOW_ORIGINS": f"http://127.0.0.1:{port + 1}"}
    app = ("--app", "examples.docverse.tasks:tasks")
    work = ("-m", "arq", "examples.docverse.tasks.WorkerSettings") if redis else ("-m", "rowlock", "worker", *app)
    stand_in = ("-m", "examples.docverse.stand_in", "--port", str(port + 2), "--seconds", str(seconds))
    carrier = Program("redis", ("-m", "examples.docverse.redis_server", "--port", str(port + 3)), port + 3)
    return [
        Program("services", stand_in, port + 2),
        *([carrier] if redis else []),
        Program("api", ("-m", "rowlock", "serve", *app, "--port", str(port)), port, serving),
        Program("web", ("-m", "uvicorn", "examples.docverse.web:host", "--port", str(port + 1)), port + 1, shared),
        *(Program(f"worker-{number + 1}", work, None, shared) for number in range(WORKERS)),
    ]


if __name__ == "__main__":
    main()
