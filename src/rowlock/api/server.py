"""The API served by uvicorn: as a process of its own, or beside another task; and how it shuts down."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from math import ceil
from typing import TYPE_CHECKING, Final, cast

from typing_extensions import override

from rowlock.api.auth import SessionAuth, TokenAuth, require_bind
from rowlock.api.auth.loopback import LINK, Loopback
from rowlock.api.backend import Authenticator, Metrics
from rowlock.api.connection_limits import ConnectionLimits, limited_protocol
from rowlock.api.door import PREFIX, RowlockAPI
from rowlock.errors import ConfigurationError, MissingExtra

try:
    import uvicorn
except ModuleNotFoundError as error:
    raise MissingExtra("uvicorn", "server") from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Sequence
    from types import FrameType

    from rowlock.api.auth.oidc import OIDCLogin
    from rowlock.app import Rowlock

logger = logging.getLogger("rowlock.api")
_GRACE: Final = 5
"""Seconds that open requests have after SIGTERM."""
_SHORT_GRACE: Final = 1
"""Seconds that open requests have when the rest of the process waits for the server."""
_LONGEST_HEADER: Final = 32 * 1024
"""Bytes of the request line and headers."""
_LATE_CONNECTIONS_INTERVAL: Final = 0.05
"""Seconds between two looks for connections that were accepted during the shutdown."""


class PromptServer(uvicorn.Server):
    """A uvicorn server that stops as soon as no request is open."""

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn closes the connections it knows of, once. A client being accepted at that moment would keep its
        # connection, send more requests on it (a stream reconnects at once), and hold up the process until the timeout.
        closing = asyncio.create_task(self._close_late_connections())
        try:
            await super().shutdown(sockets)
        finally:
            closing.cancel()

    async def _close_late_connections(self) -> None:
        while True:
            await asyncio.sleep(_LATE_CONNECTIONS_INTERVAL)
            for connection in list(self.server_state.connections):
                connection.shutdown()


class Server(PromptServer):
    """The API as a process of its own: `rowlock serve`."""

    def __init__(
        self,
        app: Rowlock,
        *,
        host: str,
        port: int,
        root_path: str = "",
        auth: object | None = None,
        read_only: bool = False,
        insecure_no_auth: bool = False,
        metrics: Metrics | None = None,
        trusted_proxies: Sequence[str] | None = None,
        allow_origins: Sequence[str] | None = None,
        oidc: OIDCLogin | None = None,
        ui: bool = True,
    ) -> None:
        """auth: "tokens", an authenticator, a list of them, or a function that makes them from the application.

        trusted_proxies, allow_origins: None: those of the settings. oidc: with it, auth is "tokens" unless given.
        """
        known = _authenticators(app, auth if auth is not None or oidc is None else "tokens")
        require_bind(host, known, insecure=insecure_no_auth)
        if trusted_proxies and known is None and not insecure_no_auth:
            message = "--trusted-proxy needs --auth: without authentication no request through a proxy is served."
            raise ConfigurationError(message)
        chain = known or [Loopback(app.settings.serve_token, any_address=insecure_no_auth)]
        self.api = RowlockAPI(
            app,
            auth=chain,
            read_only=read_only,
            metrics=metrics,
            trusted_proxies=trusted_proxies or None,
            allow_origins=allow_origins,
            oidc=oidc,
            ui=ui,
        )
        self.api.stream_seconds = None
        self._socket = _bound(host, port)
        super().__init__(_config(self.api, root_path, _GRACE, own=True))

    async def run_until_signalled(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        # uvicorn raises the signal again when it is done; ignoring it makes the exit code 0.
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: None)
        await self.serve([self._socket])

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        url, loopback = url_of(self._socket, self.config.root_path), self.api.loopback
        shown = loopback is not None and not loopback.announced
        if loopback is not None:
            loopback.announced = True
        await super().startup(sockets)
        logger.info("serving %s", url)
        if loopback is None and self.api.has_dashboard:
            logger.info("the dashboard: %s", url.removesuffix(PREFIX) + "/")
        if loopback is not None and shown:
            logger.warning("no authentication is configured: open this link on this machine: %s", link(url, loopback))
            logger.warning("or send its token as a header: %s", header(url, loopback))

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Open streams end before uvicorn begins to wait for them.
        self.api.close_streams()
        super().handle_exit(sig, frame)


class BackgroundServer(PromptServer):
    """The API inside a process that runs something else, for this machine only.

    The process around it handles signals and closes the application.
    """

    def __init__(
        self, app: Rowlock, listening: socket.socket, metrics: Metrics | None = None, token: str | None = None
    ) -> None:
        """token: that of the settings if None, else a new one."""
        loopback = Loopback(token or app.settings.serve_token)
        # The process around it says how to get in.
        loopback.announced = token is not None
        self.api = RowlockAPI(app, auth=loopback, metrics=metrics)
        self.api.stream_seconds = None
        self._socket = listening
        super().__init__(_config(self.api, "", _SHORT_GRACE, own=False))

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve inside the block; gives the address."""
        task = asyncio.create_task(self.serve([self._socket]), name="rowlock-api")
        try:
            yield url_of(self._socket)
        finally:
            self.api.close_streams()
            self.should_exit = True
            await asyncio.gather(task, return_exceptions=True)

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _config(api: RowlockAPI, root_path: str, grace: int, *, own: bool) -> uvicorn.Config:
    # Its log repeats ours.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    limits = ConnectionLimits.of(api.app.settings, api.proxies)
    return uvicorn.Config(
        api.asgi,
        root_path=root_path,
        log_config=None,
        access_log=False,
        # Without a lifespan the API opens the application at the first request and never closes it.
        lifespan="on" if own else "off",
        server_header=False,
        # Which proxies may speak for a client is decided in TrustedProxies; uvicorn would believe every local program.
        proxy_headers=False,
        http=limited_protocol(limits),
        ws="none",
        h11_max_incomplete_event_size=_LONGEST_HEADER,
        timeout_keep_alive=ceil(api.app.settings.serve_idle_timeout.total_seconds()),
        timeout_graceful_shutdown=grace,
    )


def url_of(listening: socket.socket, root_path: str = "") -> str:
    """The address of the API."""
    host, port, *_ = listening.getsockname()
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}{root_path}{PREFIX}"


def link(url: str, loopback: Loopback) -> str:
    """The link that logs a browser in. A token that the operator chose is not repeated."""
    return f"{url}{LINK}?token={'$ROWLOCK_SERVE_TOKEN' if loopback.is_chosen else loopback.token}"


def header(url: str, loopback: Loopback) -> str:
    """The same as a line for a shell."""
    token = "$ROWLOCK_SERVE_TOKEN" if loopback.is_chosen else loopback.token
    return f'curl -H "Authorization: Bearer {token}" {url}/me'


def _authenticators(app: Rowlock, auth: object | None) -> list[Authenticator] | None:
    if auth is None:
        return None
    if auth == "tokens":
        return [TokenAuth(app), SessionAuth(app)]
    is_one = hasattr(auth, "authenticate") or isinstance(auth, (list, tuple))
    made = auth(app) if callable(auth) and not is_one else auth
    found = list(made) if isinstance(made, (list, tuple)) else [made]
    wrong = next((each for each in found if not hasattr(each, "authenticate")), None)
    if not found or wrong is not None:
        raise ConfigurationError(
            "--auth takes the word tokens, or MODULE:ATTR of an authenticator, of a list of them, or of a function "
            f"that makes them of the application; got {wrong!r}, which has no method authenticate."
        )
    return cast("list[Authenticator]", found)


def _bound(host: str, port: int) -> socket.socket:
    """A bound socket; uvicorn itself would exit the process when the port is taken."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigurationError(
            f"Cannot serve on {host} port {port}: {why}. Choose another with --host and --port (0: any free one)."
        ) from error
    opened.set_inheritable(True)
    return opened
