"""Who asks: a user id in a signed token (JWT), as a bearer token or in a cookie."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import Depends, HTTPException, Request
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from examples.adventures.settings import settings

COOKIE: Final = "langlearn"
_SHORTEST: Final = 16


def token_of(user_id: UUID) -> str:
    """A token that says who asks."""
    return jwt.encode({"alg": "HS256"}, {"sub": str(user_id)}, _key())


def known_user(request: Request) -> UUID | None:
    """The user of a request; None for a stranger."""
    given = request.headers.get("Authorization", "").removeprefix("Bearer ") or request.cookies.get(COOKIE, "")
    try:
        return UUID(jwt.decode(given, _key(), algorithms=["HS256"]).claims["sub"])
    except (JoseError, ValueError, KeyError):
        return None


def current_user(request: Request) -> UUID:
    """The user of a request; 401 for a stranger, 403 for a change that a page of another site sends."""
    user_id = known_user(request)
    if user_id is None:
        raise HTTPException(HTTPStatus.UNAUTHORIZED, "Send a bearer token; POST /session makes one.")
    if request.method == "POST" and request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(HTTPStatus.FORBIDDEN, "A page of another site sent this.")
    return user_id


CurrentUser = Annotated[UUID, Depends(current_user)]


def _key() -> OctKey:
    if len(settings.jwt_secret) < _SHORTEST:
        message = f"JWT_SECRET has at least {_SHORTEST} characters: openssl rand -hex 32 makes one."
        raise ValueError(message)
    return OctKey.import_key(settings.jwt_secret)
