"""Connections of `rowlock serve`: how many there may be, and how long each part of a request may take."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from rowlock.api.problems import MEDIA_TYPE, TYPE_PREFIX
from rowlock.errors import MissingExtra
from rowlock.model.problem_codes import CODES

try:
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as error:
    raise MissingExtra("uvicorn", "server") from error

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any

    from rowlock.api.auth.proxies import TrustedProxies
    from rowlock.settings import Settings

logger = logging.getLogger("rowlock.api")
_RETRY_AFTER: Final = "5"
_FAREWELL: Final = 1.0
"""Seconds that a refused client has to read the answer. Closing at once would discard it."""
_WARN_INTERVAL: Final = 60.0
"""Seconds between two log lines about refused connections."""


@dataclass(slots=True)
class ConnectionLimits:
    """The limits of one server, and the connections that count against them. Times in seconds."""

    header_timeout: float
    body_timeout: float
    send_timeout: float
    most: int
    most_per_address: int
    proxies: TrustedProxies
    """Exempt from the limit per address: one proxy has the connections of many clients."""
    open: Counter[str] = field(default_factory=Counter)
    _warned_at: float = float("-inf")

    @classmethod
    def of(cls, settings: Settings, proxies: TrustedProxies) -> ConnectionLimits:
        """The limits of these settings."""
        return cls(
            header_timeout=settings.serve_header_timeout.total_seconds(),
            body_timeout=settings.serve_body_timeout.total_seconds(),
            send_timeout=settings.serve_send_timeout.total_seconds(),
            most=settings.serve_connections,
            most_per_address=settings.serve_connections_per_address,
            proxies=proxies,
        )

    def refusal(self, address: str, now: float) -> str | None:
        """Why one more connection of this address is refused; None: it is accepted."""
        if self.open.total() >= self.most:
            why = f"This server has {self.most} connections, its limit."
        elif self.open[address] >= self.most_per_address and not self.proxies.trusts(address):
            why = f"Your address has {self.most_per_address} connections, the limit for one address."
        else:
            return None
        if now - self._warned_at > _WARN_INTERVAL:
            self._warned_at = now
            logger.warning("a connection from %s is refused: %s", address or "a local socket", why)
        return why


class LimitedProtocol(H11Protocol):
    """One connection. A client that sends a request, or reads its answer, too slowly is disconnected.

    uvicorn has a timeout for idle connections only. h11 is always used, also where httptools is installed.
    """

    limits: ClassVar[ConnectionLimits]

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **kwargs)
        self._address: str | None = None
        self._refused = False
        self._receiving: asyncio.TimerHandle | None = None
        self._phase: object = None
        self._sending: asyncio.TimerHandle | None = None
        self._closing: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        refusal = self.limits.refusal(address, time.monotonic())
        self._address = address
        self.limits.open[address] += 1
        if refusal is not None:
            self._refuse(refusal)
        else:
            self._expect("header", self.limits.header_timeout, self._on_late_header)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._receiving, self._sending, self._closing):
            if timer is not None:
                timer.cancel()
        if self._address is not None:
            self.limits.open[self._address] -= 1
            if not self.limits.open[self._address]:
                del self.limits.open[self._address]
            self._address = None
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self._refused or self.transport.is_closing():
            return
        super().data_received(data)
        self._watch_receiving()

    def _watch_receiving(self) -> None:
        """Start or stop the clock for the part of a request that the client is sending."""
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._expect(self.cycle, self.limits.body_timeout, self._on_late_body)
        elif state is h11.IDLE and self.conn.trailing_data[0]:
            self._expect("header", self.limits.header_timeout, self._on_late_header)
        else:
            self._expect(None, 0, self._on_late_header)

    def _expect(self, phase: object, seconds: float, late: Callable[[], None]) -> None:
        """Begin a phase of receiving, unless it is going on already: a byte now and then gains no time."""
        if phase == self._phase:
            return
        self._phase = phase
        if self._receiving is not None:
            self._receiving.cancel()
        self._receiving = None if phase is None else self.loop.call_later(seconds, late)

    def _on_late_header(self) -> None:
        if self.conn.trailing_data[0]:
            self._answer_late("The request line and headers did not come in time.")
        else:
            self._close()

    def _on_late_body(self) -> None:
        if self.flow.read_paused:
            # The client waits for this server, which has not read yet what came.
            self._receiving = self.loop.call_later(self.limits.body_timeout, self._on_late_body)
        elif self.cycle.response_started:
            self._close()
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self._answer_late("The body did not come in time.")

    def _refuse(self, why: str) -> None:
        self._refused = True
        self._write("too-many-connections", f"{why} Close connections that you do not need, or try again later.")
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._closing = self.loop.call_later(_FAREWELL, self.transport.abort)

    def _answer_late(self, why: str) -> None:
        self._refused = True
        self._write("too-slow-request", f"{why} Send it again, faster.")
        self._close()

    def _write(self, name: str, detail: str) -> None:
        code, status = CODES[name], HTTPStatus(CODES[name].status)
        problem = {"type": TYPE_PREFIX + name, "title": code.title, "status": status, "detail": detail, "code": name}
        body = json.dumps(problem).encode()
        headers = [
            ("Content-Type", MEDIA_TYPE),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            *([] if status is HTTPStatus.REQUEST_TIMEOUT else [("Retry-After", _RETRY_AFTER)]),
        ]
        for event in (
            h11.Response(status_code=status, headers=headers, reason=status.phrase),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")

    def _close(self) -> None:
        self.transport.close()
        self._abort_later()

    def _abort_later(self) -> None:
        """A closed transport waits until the client has read everything; this one does not wait for ever."""
        if self._closing is None:
            self._closing = self.loop.call_later(self.limits.send_timeout, self.transport.abort)

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._abort_later()
        else:
            # A part of the next request may have come before this answer was complete.
            self._watch_receiving()

    @override
    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._abort_later()

    @override
    def shutdown(self) -> None:
        if not self._refused:
            super().shutdown()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        if self._sending is None:
            self._sending = self.loop.call_later(self.limits.send_timeout, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None


def limited_protocol(limits: ConnectionLimits) -> type[LimitedProtocol]:
    """The protocol class of one server, for uvicorn's `http` option."""
    return type("LimitedProtocol", (LimitedProtocol,), {"limits": limits})
