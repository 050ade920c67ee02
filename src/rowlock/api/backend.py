"""ApiBackend: what routes use of the API that serves them: the application, the caller's desk, limits and metrics."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from rowlock.api.auth.bearer import address_of
from rowlock.api.auth.loopback import Loopback
from rowlock.api.auth.origins import AllowedOrigins
from rowlock.api.auth.proxies import TrustedProxies
from rowlock.api.auth.sessions import SessionAuth
from rowlock.api.lane_names import LaneNames
from rowlock.api.problems import BEARER, REQUEST_ID, Problem
from rowlock.api.streaming.sse import LIFETIME
from rowlock.api.streaming.stop_signals import StopSignals
from rowlock.api.streaming.stream_limits import StreamLimits
from rowlock.api.submit import JobSubmission
from rowlock.desk import audit
from rowlock.errors import ConfigurationError, DatabaseError, Forbidden, WaitTimeout
from rowlock.outage_log import OutageLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from starlette.requests import HTTPConnection, Request

    from rowlock.api.auth.oidc import OIDCLogin
    from rowlock.app import Rowlock
    from rowlock.desk.access import Desk
    from rowlock.desk.guard import Guard
    from rowlock.model.access import Principal
    from rowlock.model.job import Job

logger = logging.getLogger("rowlock.api")
GUARD: Final = "rowlock.guard"
"""Key of the caller's guard in the ASGI scope, once it is known."""
_BODY: Final = 64 * 1024
"""Bytes that a body may have beside the arguments."""


class Authenticator(Protocol):
    """Tells who sends a request."""

    async def authenticate(self, connection: HTTPConnection, /) -> Principal | None:
        """The principal, or None when the request carries nothing that this authenticator reads."""


class Metrics(Protocol):
    """The source of /metrics."""

    async def text(self) -> bytes:
        """All metrics in the Prometheus text format."""


class ApiBackend:
    """The part of RowlockAPI that knows no routes, so that routes can know it."""

    def __init__(
        self,
        app: Rowlock,
        authenticators: Sequence[Authenticator],
        *,
        read_only: bool,
        read_seconds: float,
        metrics: Metrics | None,
        trusted_proxies: Iterable[str] | None = None,
        allow_origins: Iterable[str] | None = None,
        oidc: OIDCLogin | None = None,
        require_if_match: bool | None = None,
        lane_names: Mapping[str, str] | None = None,
    ) -> None:
        """See RowlockAPI. authenticators: tried in turn."""
        settings = app.settings
        if oidc is not None and not any(isinstance(each, SessionAuth) for each in authenticators):
            message = "oidc= opens sessions, so auth= needs SessionAuth(app) among its authenticators."
            raise ConfigurationError(message)
        self.oidc = oidc
        self.proxies = TrustedProxies(settings.trusted_proxies if trusted_proxies is None else trusted_proxies)
        self.origins = AllowedOrigins(settings.allow_origins if allow_origins is None else allow_origins)
        self.require_if_match = settings.require_if_match if require_if_match is None else require_if_match
        self.lane_names = LaneNames(lane_names or {})
        self.body_seconds = settings.serve_body_timeout.total_seconds()
        self.stream_limits = StreamLimits(settings.serve_streams, settings.serve_streams_per_caller)
        self.embed_stream_limits = StreamLimits(settings.serve_streams, settings.serve_streams_per_caller)
        """Apart, so that users of the application's pages cannot take the places of operators."""
        self.loopback = next((each for each in authenticators if isinstance(each, Loopback)), None)
        """Set where no authentication is configured."""
        self.metrics = metrics
        self.app, self.read_only, self.read_seconds = app, read_only, read_seconds
        self.body_limit = app.settings.args_limit + _BODY
        self._authenticators = tuple(authenticators)
        self.submissions = JobSubmission(app)
        self.stream_seconds: float | None = LIFETIME
        """Seconds that a stream lasts; None: until it ends or `close_streams()` ends it."""
        self._stop_signals = StopSignals(self.close_streams)
        self._starting = asyncio.Lock()
        self._started = False
        self.outage = OutageLog(logger, "requests wait for the database", "requests are answered again")

    def shows_dashboard(self, request: Request) -> bool:  # noqa: ARG002 - RowlockAPI looks at it
        """Whether the request came to an application that serves the dashboard beside the API."""
        return False

    async def start(self) -> None:
        """Open the database, once. Every request calls this, because a mounted application has no lifespan."""
        if self._started:
            return
        self._announce()
        async with self._starting:
            if not self._started:
                # In a thread: the embedded PostgreSQL takes a while to start.
                await asyncio.to_thread(self.app.database)
                self._started = True

    def _announce(self) -> None:
        """Log how to get in without authentication; a server of ours has done that, with its address."""
        if self.loopback is None or self.loopback.announced:
            return
        self.loopback.announced = True
        token = "with the value of ROWLOCK_SERVE_TOKEN" if self.loopback.is_chosen else self.loopback.token
        logger.warning(
            "no authentication is configured: this machine only is served, with the header Authorization: Bearer %s",
            token,
        )

    async def close(self) -> None:
        """Close the database; a later request opens it again."""
        self._started = False
        self._stop_signals.leave()
        await self.app.close()

    def close_streams(self) -> None:
        """End every open stream, so that a server that waits for connections can stop."""
        self.app.streams.close()

    def stream_opens(self) -> None:
        """Have SIGTERM and SIGINT end the streams of a host, whose server would wait for them."""
        # Our own servers close the streams themselves.
        if self.stream_seconds is not None:
            self._stop_signals.watch()

    async def desk(self, request: Request) -> Desk:
        """The desk of the caller; the problem `unauthenticated` when no authenticator knows it."""
        desk = self.app.desk(
            await self.principal(request),
            read_only=self.read_only,
            request_id=request.scope[REQUEST_ID],
            address=address_of(request),
        )
        request.scope[GUARD] = desk.guard
        return desk

    async def principal(self, request: Request) -> Principal:
        """The caller; the problem `unauthenticated` when no authenticator knows it."""
        for each in self._authenticators:
            principal = await each.authenticate(request)
            if principal is not None:
                return principal
        raise Problem(
            "unauthenticated",
            "No valid credentials were sent. Send Authorization: Bearer <token>.",
            headers=BEARER,
        )

    async def record_refusal(self, request: Request, path: str, error: BaseException) -> None:
        """Write a request that was refused for want of a permission to the audit; not while the database is away."""
        guard: Guard | None = request.scope.get(GUARD)
        if guard is None or not isinstance(error, Forbidden):
            return
        after = {"permission": error.permission, "method": request.method}
        try:
            await audit.record_refusal(self.app.database(), guard, f"route:{path}", after=after)
        except DatabaseError as trouble:
            logger.warning("request %s: its refusal is not in the audit: %s", request.scope[REQUEST_ID], trouble)

    async def wait_for_end(self, job: Job, seconds: int) -> Job:
        """The job once it has ended, or as it stands after that many seconds."""
        try:
            return await self.app.jobs.wait(job.id, timeout=seconds)
        except WaitTimeout:
            return await self.app.jobs.get(job.id)
