"""The REST door: RowlockAPI(app) is served by `rowlock serve`, mounted, or included in a router."""

from __future__ import annotations

from rowlock.errors import MissingExtra

try:
    from rowlock.api.door import RowlockAPI
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in {"fastapi", "starlette"}:
        raise
    raise MissingExtra("fastapi", "server") from error

__all__ = ["RowlockAPI"]
