"""Authenticators: each says who asks, or that it cannot tell; RowlockAPI(auth=[…]) asks them in turn."""

from __future__ import annotations

from rowlock.api.auth.bearer import TokenAuth
from rowlock.api.auth.bind import LOOPBACK, bind_allowed, require_bind
from rowlock.api.auth.jwt import JWTAuth
from rowlock.api.auth.sessions import SessionAuth, close_session, open_session, refuse_cross_site
from rowlock.api.auth.trusted import TrustedAuth

__all__ = [
    "LOOPBACK",
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
