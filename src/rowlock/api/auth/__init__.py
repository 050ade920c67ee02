"""Authenticators: each finds the principal of a request, or passes it on. `RowlockAPI(auth=[…])` tries them in turn.

bearer.py (API tokens), sessions.py (cookies of the dashboard), jwt.py and oidc.py (an identity provider), trusted.py
(the host application) and loopback.py (no authentication: this machine only); bind.py refuses to listen wider without
one. hosts.py and proxies.py read the headers that say which server was meant, and for whom a proxy asks. Start with
bearer.py. The rest of the API, `rowlock serve` and the ASGI host of Django import this package; it uses the
application's `identity` and imports nothing of the routes.
"""

from __future__ import annotations

from rowlock.api.auth.bearer import TokenAuth
from rowlock.api.auth.bind import LOOPBACK, WITHHELD, bind_allowed, require_bind
from rowlock.api.auth.jwt import JWTAuth
from rowlock.api.auth.sessions import SessionAuth, close_session, open_session, refuse_cross_site
from rowlock.api.auth.trusted import TrustedAuth

__all__ = [
    "LOOPBACK",
    "WITHHELD",
    "JWTAuth",
    "SessionAuth",
    "TokenAuth",
    "TrustedAuth",
    "bind_allowed",
    "close_session",
    "open_session",
    "refuse_cross_site",
    "require_bind",
]
