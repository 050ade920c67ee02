"""AllowedOrigins: the pages of other origins that may use the routes for embed tokens (CORS). Without any: none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.api.auth.hosts import origin_of, own_origin, parse_origin
from rowlock.api.problems import Problem
from rowlock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import HTTPConnection
    from starlette.responses import Response

_PREFLIGHT: Final = {
    "Access-Control-Allow-Headers": "authorization, content-type, if-none-match, last-event-id",
    "Access-Control-Max-Age": "600",
}
_SHOWN: Final = "ETag, Retry-After, X-Request-Id"
"""Headers of the answer that a page of another origin may read."""


class AllowedOrigins:
    """A list of origins, each written out. Cookies are never accepted from them: a token comes in a header."""

    def __init__(self, origins: Iterable[str] = ()) -> None:
        """origins: such as https://app.example.com; ConfigurationError for anything else, `*` and `null` included."""
        self._origins = frozenset(map(_parsed, origins))

    def allows(self, connection: HTTPConnection) -> bool:
        """Whether the request comes from a page of one of these origins."""
        return origin_of(connection) in self._origins

    def require(self, connection: HTTPConnection) -> None:
        """Refuse a request from a page of another origin that is not in the list."""
        sent = connection.headers.get("origin")
        if sent is None or self.allows(connection):
            return
        origin = origin_of(connection)
        if origin is None or origin != own_origin(connection, origin.scheme):
            raise Problem(
                "cross-site",
                f"Pages of {sent[:200]} may not use this API. Start the server with --allow-origin and that origin, "
                "or give RowlockAPI(allow_origins=[…]) it.",
            )

    def add_headers(self, connection: HTTPConnection, response: Response, *, methods: str | None = None) -> None:
        """Let the page read the answer, if its origin is in the list. methods: for a preflight, those of the path."""
        # For caches: the answer to another page is another one, also where none is allowed.
        response.headers.add_vary_header("Origin")
        if not self.allows(connection):
            return
        response.headers["Access-Control-Allow-Origin"] = connection.headers["origin"]
        response.headers["Access-Control-Expose-Headers"] = _SHOWN
        # The answer is for that page; the default is for pages of this server alone.
        response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        if methods is not None:
            response.headers.update({**_PREFLIGHT, "Access-Control-Allow-Methods": methods})


def _parsed(text: str) -> object:
    origin = parse_origin(text)
    if origin is None:
        message = (
            f"An allowed origin is written as the browser sends it, such as https://app.example.com, one for each; "
            f"got {text!r}. There is no way to allow every origin."
        )
        raise ConfigurationError(message)
    return origin
