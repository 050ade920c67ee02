"""`rowlock worker --health`: answers probes from a thread of its own, and keeps systemd informed.

A probe that hangs must say that the worker hangs, so nothing here waits for the worker's event loop or its database.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from typing_extensions import override

from rowlock.errors import ConfigurationError, InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.server import HTTPServer

    from rowlock.flow.worker.health import WorkerHealth

    Health: TypeAlias = Callable[[float], WorkerHealth]

logger = logging.getLogger("rowlock.cli")
EVERY: Final = 1.0
"""Seconds between two states written to a file, or reported to systemd."""
_REQUEST_WITHIN: Final = 2.0
"""Seconds for a probe to send its request."""
_LOOPBACK: Final = "127.0.0.1"
_CHECKS: Final = {"/healthz": "live", "/readyz": "ready", "/drained": "drained"}
"""Path → the member of the answer that decides between 200 and 503."""


@contextlib.contextmanager
def answering(target: str | None, health: Health) -> Iterator[None]:
    """Answer probes at a port, a socket or in a file while the block runs, and inform systemd if it asks for that."""
    with contextlib.ExitStack() as parts:
        if target is not None:
            parts.enter_context(_file(Path(target), health) if is_file(target) else _server(target, health))
        if address := os.environ.get("NOTIFY_SOCKET"):
            parts.enter_context(_systemd(address, os.environ.get("WATCHDOG_USEC"), health))
        yield


def state_of(health: WorkerHealth) -> dict[str, object]:
    """What a probe reads."""
    return {
        "phase": health.phase.value,
        "live": health.live,
        "ready": health.ready,
        "drained": health.drained,
        "running_jobs": health.running_jobs,
        "reason": health.reason,
    }


def is_file(target: str) -> bool:
    """Whether --health names a file, and neither a socket nor a port."""
    return "/" in target and not target.endswith(".sock")


# --- a port or a socket -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _server(target: str, health: Health) -> Iterator[None]:
    try:
        server = _unix_server(target, health) if "/" in target else _tcp_server(target, health)
    except OSError as error:
        raise ConfigurationError(f"--health {target}: this address cannot be used: {error.strerror}.") from error
    threading.Thread(target=server.serve_forever, args=[0.1], name="rowlock-health", daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        if "/" in target:
            Path(target).unlink(missing_ok=True)


def _tcp_server(target: str, health: Health) -> HTTPServer:
    from http.server import ThreadingHTTPServer

    server = ThreadingHTTPServer(tcp_address(target), _request_handler(health))
    server.daemon_threads = True
    return server


def tcp_address(target: str) -> tuple[str, int]:
    """Host and port that --health names."""
    host, colon, text = target.rpartition(":")
    port = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 < port < 2**16 or (colon and not host):
        raise InvalidOption(
            "--health takes a port (8081: on this machine only), an address (0.0.0.0:8081), a path that ends in .sock, "
            f"or the path of a file (/run/worker/health, ./health); got {target!r}."
        )
    return host.strip("[]") or _LOOPBACK, port


def _unix_server(target: str, health: Health) -> HTTPServer:
    from http.server import ThreadingHTTPServer

    class UnixServer(ThreadingHTTPServer):
        """A server on a socket of the file system, which has no port."""

        address_family = socket.AF_UNIX
        daemon_threads = True

        @override
        def server_bind(self) -> None:
            self.socket.bind(target)

    if Path(target).is_socket():
        _remove_stale(target)
    return UnixServer(target, _request_handler(health))  # type: ignore[arg-type]  # an address of AF_UNIX is a path


def _remove_stale(target: str) -> None:
    """Remove the socket of a process that was killed; one that is answered is in use."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(target)
        except ConnectionRefusedError:
            Path(target).unlink()


def _request_handler(health: Health) -> Any:  # noqa: ANN401 - a class
    from http.server import BaseHTTPRequestHandler

    class ProbeRequest(BaseHTTPRequestHandler):
        """Answers one request and closes the connection."""

        timeout = _REQUEST_WITHIN
        server_version, sys_version = "rowlock", ""

        def do_GET(self) -> None:
            check = _CHECKS.get(self.path.partition("?")[0])
            answer: dict[str, object]
            if check is None:
                answer, status = {"error": f"Ask for {', '.join(_CHECKS)}."}, HTTPStatus.NOT_FOUND
            else:
                answer = state_of(health(time.monotonic()))
                status = HTTPStatus.OK if answer[check] else HTTPStatus.SERVICE_UNAVAILABLE
            body = json.dumps(answer).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            logger.debug("probe: %s", format % args)

        @override
        def address_string(self) -> str:
            return str(self.client_address[0]) if self.client_address else "socket"

    return ProbeRequest


# --- a file -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _file(path: Path, health: Health) -> Iterator[None]:
    """Write the state to a file each second. After the end it says `drained`; after kill -9 it grows old."""

    def write() -> None:
        state = {**state_of(health(time.monotonic())), "at": time.time()}
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(json.dumps(state) + "\n", encoding="utf-8")
        fresh.replace(path)

    try:
        write()
    except OSError as error:
        raise ConfigurationError(f"--health {path}: this file cannot be written: {error.strerror}.") from error
    with _repeated(write, f"the state cannot be written to {path}"):
        yield


@contextlib.contextmanager
def _repeated(act: Callable[[], None], complaint: str) -> Iterator[None]:
    """Call it each second in a thread, and once more in the end."""
    ended = threading.Event()

    def run() -> None:
        failing = False
        while not ended.wait(EVERY):
            try:
                act()
                failing = False
            except OSError as error:
                if not failing:
                    logger.warning("%s: %s", complaint, error)
                failing = True

    thread = threading.Thread(target=run, name="rowlock-health", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(EVERY)
        with contextlib.suppress(OSError):
            act()


# --- systemd ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _systemd(address: str, watchdog: str | None, health: Health) -> Iterator[None]:
    """Tell systemd that the worker is ready, lives and stops (sd_notify, Type=notify, WatchdogSec=).

    watchdog: what WATCHDOG_USEC says; without it systemd expects no signs of life.
    """
    said_ready = False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:

        def report() -> None:
            nonlocal said_ready
            now = health(time.monotonic())
            words = [f"STATUS={now.phase}" + (f": {now.reason}" if now.reason else "")]
            if now.ready and not said_ready:
                words.append("READY=1")
                said_ready = True
            if watchdog and now.live:
                words.append("WATCHDOG=1")
            if now.phase in ("draining", "drained"):
                words.append("STOPPING=1")
            line.sendto("\n".join(words).encode(), _abstract(address))

        with _repeated(report, "systemd cannot be told of the worker"):
            yield


def _abstract(address: str) -> str:
    return "\0" + address[1:] if address.startswith("@") else address
