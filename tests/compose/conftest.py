from __future__ import annotations

from tests.flow.conftest import app, make_app, sql

__all__ = ["app", "make_app", "sql"]
