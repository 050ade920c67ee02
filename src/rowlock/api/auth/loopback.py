"""Without authentication: people on this machine who have the token that the server printed when it started."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final

from rowlock.api.auth import LOOPBACK
from rowlock.api.auth.bearer import bearer
from rowlock.api.auth.hosts import host_of, is_loopback, origin_of, own_origin
from rowlock.api.auth.sessions import SAFE
from rowlock.api.problems import Problem
from rowlock.errors import NotAuthenticated

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.responses import Response

    from rowlock.model.access import Principal

LINK: Final = "/auth/local"
"""Path of the link that logs a browser in, below the prefix of the API."""
_PROXY_HEADERS: Final = frozenset(
    {
        "cdn-loop",
        "client-ip",
        "fastly-client-ip",
        "fly-client-ip",
        "forwarded",
        "forwarded-for",
        "proxy-connection",
        "true-client-ip",
        "via",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-forwarded",
        "x-host",
        "x-original-forwarded-for",
        "x-original-host",
        "x-originating-ip",
        "x-proxyuser-ip",
        "x-real-ip",
        "x-remote-addr",
        "x-remote-ip",
    }
)
_PROXY_PREFIXES: Final = ("cf-", "x-amz-cf-", "x-appengine-", "x-azure-", "x-envoy-", "x-forwarded-")
_SAME_SITE: Final = frozenset({"same-origin", "none"})
_HOW: Final = (
    "Open the link that the server printed when it started, or send Authorization: Bearer with the token in that link; "
    "with ROWLOCK_SERVE_TOKEN you choose the token yourself."
)


class Loopback:
    """Accepts direct requests from this machine that carry the token of this start, in a header or as a cookie.

    Programs of other users on this machine, pages of other sites, proxies and rebound names are refused.
    """

    def __init__(self, token: str | None = None, *, any_address: bool = False) -> None:
        """token: None makes one. any_address: accept every client from anywhere, without a token."""
        self._any_address = any_address
        self.is_chosen = token is not None
        """Whether the operator chose the token, so that it need not be shown."""
        self.token = token or secrets.token_urlsafe(32)
        self.announced = any_address
        """Whether people have been told how to get in."""

    async def authenticate(self, connection: HTTPConnection) -> Principal | None:
        """The local principal; a Problem for a request that did not come directly from here, or has no token."""
        self.require_direct(connection)
        refuse_cross_site(connection)
        if not self._any_address:
            self._require_token(connection)
        return LOOPBACK

    def accepts(self, token: str) -> bool:
        """Whether this is the token of this server."""
        return _equal(token, self.token)

    def log_in(self, connection: HTTPConnection, token: str, response: Response) -> None:
        """Set the cookie for a browser that followed the printed link."""
        self.require_direct(connection)
        if not self.accepts(token):
            raise NotAuthenticated(f"This is not the token of this server; every start makes a new one. {_HOW}")
        response.set_cookie(_cookie_name(connection), self._cookie, path="/", httponly=True, samesite="lax")

    def require_direct(self, connection: HTTPConnection) -> None:
        """Refuse a request that another machine sent, that came through a proxy, or that names another host."""
        if not self._any_address:
            _require_direct(connection)

    @property
    def _cookie(self) -> str:
        # Browsers send cookies to every port of this machine, so this is not the token itself.
        return hmac.new(self.token.encode(), b"rowlock local cookie", hashlib.sha256).hexdigest()

    def _require_token(self, connection: HTTPConnection) -> None:
        sent, cookie = bearer(connection), connection.cookies.get(_cookie_name(connection))
        if sent is None and cookie is None:
            raise NotAuthenticated(f"A token is needed, so that other users of this machine are kept out. {_HOW}")
        if not (_equal(sent, self.token) if sent is not None else _equal(cookie or "", self._cookie)):
            raise NotAuthenticated(f"This is not the token of this server; every start makes a new one. {_HOW}")
        # Only cookies are sent without the page's knowing them. Unread answers cost work, and streams have a limit.
        if sent is None and _is_embedded_elsewhere(connection):
            raise Problem(
                "cross-site", "Pages of other sites may link to this server, but not fetch or embed its answers."
            )


def refuse_cross_site(connection: HTTPConnection) -> None:
    """Refuse changes sent by a page of another site: browsers let any page send requests to this machine."""
    if connection.scope.get("method", "GET") in SAFE:
        return
    site = connection.headers.get("sec-fetch-site")
    foreign = "origin" in connection.headers and (
        origin_of(connection) is None or origin_of(connection) != own_origin(connection)
    )
    if foreign or (site is not None and site not in _SAME_SITE):
        raise Problem("cross-site", "Changes are accepted from this server's own pages and from programs only.")


def _is_embedded_elsewhere(connection: HTTPConnection) -> bool:
    """Whether a page of another origin sent the request without leaving for the answer, as following a link does."""
    headers = connection.headers
    return headers.get("sec-fetch-site", "none") not in _SAME_SITE and headers.get("sec-fetch-dest") != "document"


def _require_direct(connection: HTTPConnection) -> None:
    host = host_of(connection)
    if host is None:
        raise Problem("bad-request", "The request needs exactly one Host header, a host name or address and a port.")
    client = connection.client
    if client is not None and not is_loopback(client.host):
        raise _not_local(f"this request came from {client.host}")
    proxied = next(filter(_is_of_a_proxy, connection.headers.keys()), None)
    if proxied is not None:
        raise _not_local(f"the header {proxied} of this request is that of a proxy")
    # After DNS rebinding, the attacker's name is still in the Host header.
    if not host.is_loopback:
        raise _not_local("the Host header of this request is not a name of this machine, such as localhost")


def _is_of_a_proxy(header: str) -> bool:
    name = header.lower()
    return name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIXES)


def _not_local(why: str) -> Problem:
    return Problem(
        "no-auth-configured",
        f"No authentication is configured, so only this machine is served, without a proxy; {why}. "
        "Start the server with --auth tokens, or give RowlockAPI(auth=…) an authenticator.",
    )


def _cookie_name(connection: HTTPConnection) -> str:
    """One cookie per port: browsers keep one set of cookies for all ports of a host."""
    host = host_of(connection)
    return f"rowlock_local_{host.port if host and host.port else 80}"


def _equal(sent: str, expected: str) -> bool:
    return hmac.compare_digest(sent.encode(errors="surrogateescape"), expected.encode())
