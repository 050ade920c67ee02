"""The REST API: `RowlockAPI(app)` is served by `rowlock serve`, mounted in another application, or its router included.

Start with door.py (RowlockAPI) and routes/, one module per subject; schemas/ has the bodies of requests and answers,
auth/ the authenticators, problems.py every error. openapi.py generates the document that docs/openapi.json holds. The
API calls the desk, which checks permissions; it imports the store only for outages and the health checks. Nothing but
`rowlock.cli`, `rowlock.contrib` and hosts may import it.
"""

from __future__ import annotations

from rowlock.errors import MissingExtra

try:
    from rowlock.api.door import RowlockAPI
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in {"fastapi", "starlette"}:
        raise
    raise MissingExtra("fastapi", "server") from error

__all__ = ["RowlockAPI"]
