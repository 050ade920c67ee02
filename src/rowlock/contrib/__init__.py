"""Integrations with other libraries, one file or folder each: telemetry, Prometheus, Alembic, ASGI hosts, Django.

Nothing in Rowlock imports this package except the command line, which uses it on request. It may import everything
below it, the application included. Start with sentry.py, which shows what an integration is made of. Enqueueing in a
transaction of SQLAlchemy, psycopg or asyncpg needs no integration; the adapters are in `store/callers`.
"""

from __future__ import annotations
