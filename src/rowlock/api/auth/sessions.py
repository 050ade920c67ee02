"""Sessions: a browser shows its token once and a cookie afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from rowlock.api.auth.bearer import address_of
from rowlock.errors import CrossSite
from rowlock.model.access import SESSION_LONGEST

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.responses import Response

    from rowlock.app import Rowlock
    from rowlock.model.access import Principal

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
SECURE: Final = "__Host-rowlock"
"""The browser itself sees to it that no other host, and no page without TLS, sets a cookie of that name."""
PLAIN: Final = "rowlock_session"
"""For development without TLS."""
_SIMPLE: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
"""What a form of any page can send without being asked first."""


class SessionAuth:
    """Knows the cookies of open_session(). Orders are taken from this server's own pages only."""

    def __init__(self, app: Rowlock) -> None:
        self._app = app

    async def authenticate(self, connection: HTTPConnection) -> Principal | None:
        """Whose session it is; None when there is none or it has ended. CrossSite for another page's order."""
        cookie = connection.cookies.get(_name(connection))
        principal = await self._app.identity.by_session(cookie) if cookie else None
        if principal is not None:
            refuse_cross_site(connection)
        return principal


async def open_session(app: Rowlock, connection: HTTPConnection, token: str, response: Response) -> Principal:
    """Log in: the response gets the cookie. NotAuthenticated or TooManyAttempts when the token does not hold."""
    refuse_cross_site(connection)
    cookie, principal = await app.identity.log_in(token, address=address_of(connection))
    response.set_cookie(
        _name(connection),
        cookie,
        max_age=int(SESSION_LONGEST.total_seconds()),
        path="/",
        secure=_is_secure(connection),
        httponly=True,
        samesite="lax",
    )
    return principal


async def close_session(app: Rowlock, connection: HTTPConnection, response: Response) -> bool:
    """Log out: the session ends in the database, and the response takes the cookie away."""
    refuse_cross_site(connection)
    cookie = connection.cookies.get(_name(connection))
    response.delete_cookie(_name(connection), path="/", secure=_is_secure(connection), httponly=True, samesite="lax")
    return cookie is not None and await app.identity.log_out(cookie)


def refuse_cross_site(connection: HTTPConnection) -> None:
    """A browser adds its cookies to the orders of any page; what it says of the page tells them apart."""
    if connection.scope.get("method", "GET") in SAFE:
        return
    site = connection.headers.get("sec-fetch-site")
    same = site == "same-origin" if site is not None else _same_origin(connection)
    sent = connection.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not same or sent in _SIMPLE:
        message = "With a session, changes are taken from this server's own pages only. Programs send a token."
        raise CrossSite(message)


def _same_origin(connection: HTTPConnection) -> bool:
    """For browsers that say nothing of the site: the Origin is this host. A proxy may have taken the TLS off."""
    origin = urlsplit(connection.headers.get("origin", ""))
    own = connection.url.scheme
    return (
        bool(origin.netloc) and origin.netloc == connection.headers.get("host", "") and own in (origin.scheme, "http")
    )


def _is_secure(connection: HTTPConnection) -> bool:
    return connection.url.scheme in ("https", "wss")


def _name(connection: HTTPConnection) -> str:
    return SECURE if _is_secure(connection) else PLAIN
