"""What each extra of pyproject.toml is for, and what Rowlock says where it is missing. wheel_smoke.py tries both."""

from __future__ import annotations

from typing import Final

_APP: Final = """
from rowlock import Rowlock

app = Rowlock("postgresql://127.0.0.1:1/none")

@app.job
async def work() -> None: ...

"""

USES: Final = {
    "alembic": """
import io
from alembic.migration import MigrationContext
from alembic.operations import Operations
from rowlock.contrib.alembic import upgrade

printed = io.StringIO()
context = MigrationContext.configure(
    dialect_name="postgresql", opts={"as_sql": True, "output_buffer": printed}
)
with Operations.context(context):
    upgrade()
assert "CREATE TABLE" in printed.getvalue()
""",
    "arq": _APP
    + """
from arq.connections import RedisSettings
from rowlock.delivery.arq import ArqDelivery

Rowlock(app.settings.database_url, delivery=ArqDelivery(RedisSettings(port=1)))
""",
    "celery": _APP
    + """
from celery import Celery
from rowlock.delivery.celery import CeleryDelivery

broker = Celery(broker="redis://127.0.0.1:1/0")
Rowlock(app.settings.database_url, delivery=CeleryDelivery(broker))
broker.connection_for_write()  # imports the transport
import redis
""",
    "dev": _APP
    + """
from pathlib import Path
from rowlock.api import RowlockAPI
from rowlock.cli.process.file_changes import FileChanges
from rowlock.store.embedded.binaries import locate

RowlockAPI(app)
FileChanges([Path()], print)
assert locate(18).exists()
""",
    "django": """
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["rowlock.contrib.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "none"}},
)
import django
from rowlock.contrib.django import app

@app.job
def work() -> None: ...

assert app.tasks["work"]
""",
    "fast": """
import asyncio
import uvloop
from rowlock.cli.process.worker_main import loop_factory

with asyncio.Runner(loop_factory=loop_factory()) as runner:
    assert isinstance(runner.get_loop(), uvloop.Loop)
""",
    "mcp": _APP
    + """
from rowlock.cli.mcp_server import McpTools
""",
    "oidc": _APP
    + """
from rowlock.api import RowlockAPI
from rowlock.api.auth import SessionAuth, TokenAuth
from rowlock.api.auth.oidc import OIDCLogin

login = OIDCLogin(issuer="https://login.example.org", client_id="rowlock")
RowlockAPI(app, auth=[TokenAuth(app), SessionAuth(app)], oidc=login)
""",
    "otel": _APP
    + """
from rowlock.contrib.opentelemetry import instrument

instrument(app)
""",
    "prometheus": _APP
    + """
from prometheus_client import CollectorRegistry
from rowlock.contrib.prometheus import RowlockCollector

CollectorRegistry().register(RowlockCollector(app))
""",
    "psycopg": """
import psycopg
from rowlock.store.callers import psycopg as caller

assert psycopg.pq.version()
""",
    "reload": """
from pathlib import Path
from rowlock.cli.process.file_changes import FileChanges

FileChanges([Path()], print)
""",
    "sentry": _APP
    + """
import sentry_sdk
from rowlock.contrib.sentry import report_failures

sentry_sdk.init()
report_failures(app)
""",
    "server": _APP
    + """
from rowlock.api import RowlockAPI
from rowlock.api.auth import JWTAuth
from rowlock.api.server import Server

jwt = JWTAuth(app, issuer="https://i.example.org", audience="rowlock", jwks_url="https://i.example.org/jwks")
assert RowlockAPI(app, auth=jwt).asgi
""",
    "sqlalchemy": """
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from rowlock import Rowlock
from rowlock.store.callers import sqlalchemy as caller

engine = create_async_engine("postgresql+asyncpg://127.0.0.1:1/none")
Rowlock(engine=engine)
AsyncSession(engine)
""",
    "structlog": """
import structlog
from rowlock.contrib.structlog import add_job, processors

structlog.configure(processors=[add_job, structlog.processors.JSONRenderer()])
structlog.get_logger().info("ready", processors=len(processors()))
""",
}
"""By extra: a program that runs where the wheel is installed with that extra alone. `embedded` runs a job instead."""

MISSING: Final = {
    "alembic": ["import rowlock.contrib.alembic"],
    "arq": ["import rowlock.delivery.arq", "import rowlock.delivery.safir"],
    "celery": ["import rowlock.delivery.celery"],
    "django": [
        "from rowlock.contrib.django import app",
        "import rowlock.contrib.django.tasks",
        "import rowlock.contrib.django.asgi",
    ],
    "embedded": [_APP.replace("postgresql://127.0.0.1:1/none", "") + "work.enqueue_sync()"],
    "fast": ["import sys; from rowlock.cli import main; sys.argv = ['rowlock', 'doctor']; main()"],
    "mcp": ["import rowlock.cli.mcp_server"],
    "otel": ["import rowlock.contrib.opentelemetry"],
    "prometheus": ["import rowlock.contrib.prometheus"],
    "reload": ["from rowlock.cli.process.file_changes import FileChanges; FileChanges([], print)"],
    "sentry": ["import rowlock.contrib.sentry"],
    "server": ["import rowlock.api", "from rowlock.api.auth import JWTAuth", "import rowlock.api.server"],
    "structlog": ["import rowlock.contrib.structlog"],
}
"""By extra: programs that name it, with the line that installs it, where the wheel is installed without any."""

MISSING_BESIDE: Final = {"oidc": ("server", "import rowlock.api.auth.oidc")}
"""By extra: another one that is there, and a program that needs both."""

NOT_MISSED: Final = {
    "dev": "a set of other extras",
    "psycopg": "a connection of psycopg comes from psycopg",
    "sqlalchemy": "a session or an engine of SQLAlchemy comes from SQLAlchemy",
}
"""Extras that nothing asks for, and why."""
