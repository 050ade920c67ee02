"""A language-learning application: FastAPI, SQLAlchemy and Alembic, with its jobs in a worker process of its own."""

from __future__ import annotations
