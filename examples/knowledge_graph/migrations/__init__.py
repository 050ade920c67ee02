"""Alembic's revisions of the application and of Rowlock's tables."""

from __future__ import annotations
