"""Server: the door on a port of its own, and how it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from typing import TYPE_CHECKING, Final, cast

from typing_extensions import override

from rowlock.api.auth import SessionAuth, TokenAuth, require_bind
from rowlock.api.door import PREFIX, Authenticator, Metrics, RowlockAPI
from rowlock.api.loopback import Loopback
from rowlock.errors import ConfigurationError, MissingExtra

try:
    import uvicorn
except ModuleNotFoundError as error:
    raise MissingExtra("uvicorn", "server") from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator
    from types import FrameType

    from rowlock.app import Rowlock

logger = logging.getLogger("rowlock.api")
_GRACE: Final = 5
"""Seconds that requests under way have after SIGTERM."""
_HURRY: Final = 1
"""The same where somebody else waits for the process."""
_LATECOMERS: Final = 0.05
"""Seconds between two looks for connections that came while the server was leaving."""


class Leaving(uvicorn.Server):
    """Leaves as soon as nobody is being answered."""

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn tells those it knows of, once. Whoever was being let in at that moment would keep the connection, ask
        # again on it (a stream that is told to come back does so at once), and hold up the process until it gives up.
        telling = asyncio.create_task(self._tell_latecomers())
        try:
            await super().shutdown(sockets)
        finally:
            telling.cancel()

    async def _tell_latecomers(self) -> None:
        while True:
            await asyncio.sleep(_LATECOMERS)
            for connection in list(self.server_state.connections):
                connection.shutdown()


class Server(Leaving):
    """One process that serves one application."""

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
    ) -> None:
        """auth: "tokens", or an authenticator (or several, or what makes them of the application)."""
        known = _authenticators(app, auth)
        require_bind(host, known, insecure=insecure_no_auth)
        auth = known or Loopback(everybody=insecure_no_auth)
        self.api = RowlockAPI(app, auth=auth, read_only=read_only, metrics=metrics)
        self.api.stream_seconds = None
        self._socket = _bound(host, port)
        super().__init__(_config(self.api, root_path, _GRACE, own=True))

    async def run_until_told(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        # uvicorn raises the signal again when it is done: leaving as told is no failure.
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: None)
        await self.serve([self._socket])

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        logger.info("serving %s", url_of(self._socket, self.config.root_path))

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Open streams end before uvicorn begins to wait for them.
        self.api.close_streams()
        super().handle_exit(sig, frame)


class Beside(Leaving):
    """The door in a process that does something else, for this machine: others hear signals and own the application."""

    def __init__(self, app: Rowlock, listening: socket.socket, metrics: Metrics | None = None) -> None:
        self.api = RowlockAPI(app, metrics=metrics)
        self.api.stream_seconds = None
        self._socket = listening
        super().__init__(_config(self.api, "", _HURRY, own=False))

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve meanwhile; the address."""
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
    # Its log says little that ours does not.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return uvicorn.Config(
        api.asgi,
        root_path=root_path,
        log_config=None,
        access_log=False,
        # Without it the door opens the application at its first request, and never closes it.
        lifespan="on" if own else "off",
        server_header=False,
        timeout_graceful_shutdown=grace,
    )


def url_of(listening: socket.socket, root_path: str = "") -> str:
    """Where the door is reached."""
    host, port, *_ = listening.getsockname()
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}{root_path}{PREFIX}"


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
    """A socket of our own: uvicorn would end the process with a line of its log."""
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
