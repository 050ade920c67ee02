"""The registry that publishes emission factors and units: a client, and a small server in place of the real one.

Run alone, `python -m examples.emissions.registry --port 8100` serves the stand-in. Its factors are of a realistic size,
but nobody should report with them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final, TypeAlias

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Records: TypeAlias = "list[dict[str, str | None]]"
PUBLICATIONS: Final = ("factors", "units")
_FACTORS: Final = """
electricity   2 kWh 0.20705 2024-01-01 2025-01-01
electricity   2 kWh 0.17700 2025-01-01 -
natural_gas   1 kWh 0.18290 2024-01-01 2025-01-01
natural_gas   1 kWh 0.18296 2025-01-01 -
diesel        1 L   2.51279 2024-01-01 2025-01-01
diesel        1 L   2.57082 2025-01-01 -
petrol        1 L   2.08440 2024-01-01 2025-01-01
petrol        1 L   2.06916 2025-01-01 -
refrigerant   1 kg  1924    2024-01-01 -
rail_travel   3 km  0.03546 2024-01-01 -
air_travel    3 km  0.18592 2024-01-01 -
road_freight  3 tkm 0.10650 2024-01-01 -
water         3 m3  0.15311 2024-01-01 -
"""
_UNITS: Final = """
kWh energy 1        | MWh energy 1000       | MJ energy 0.2777777778 | GJ energy 277.7777778 | therm energy 29.3071
L   volume 1        | m3  volume 1000       | gal volume 4.54609
km  distance 1      | m   distance 0.001    | mi distance 1.609344
kg  mass 1          | g   mass 0.001        | t mass 1000             | lb mass 0.45359237
tkm freight 1
"""


@dataclass(frozen=True)
class Publication:
    """What the registry says now. version: changes when the records do."""

    version: str
    records: Records


@dataclass(frozen=True)
class Registry:
    """The registry at a URL. timeout: seconds after which a request fails with an OSError."""

    url: str
    timeout: float = 60

    def read(self, name: str, known: str | None) -> Publication | None:
        """A publication; None: it still has the version that is known."""
        headers = {"If-None-Match": known} if known else {}
        request = urllib.request.Request(f"{self.url}{name}", headers=headers)  # noqa: S310 - of the deployment
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:  # noqa: S310 - as above
                return Publication(answer.headers["ETag"], json.load(answer))
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.NOT_MODIFIED:
                return None
            raise


def stand_in(name: str) -> Records:
    """Factors and units that never change."""
    match name:
        case "factors":
            names = ("activity", "scope", "unit", "kg_co2e", "valid_from", "valid_until")
            rows = [line.split() for line in _FACTORS.strip().splitlines()]
            return [
                {key: None if value == "-" else value for key, value in zip(names, row, strict=True)} for row in rows
            ]
        case _:
            rows = [cell.split() for line in _UNITS.strip().splitlines() for cell in line.split("|")]
            return [dict(zip(("symbol", "dimension", "in_base"), row, strict=True)) for row in rows]


class RegistryServer(ThreadingHTTPServer):
    """An HTTP server that publishes what a function returns."""

    daemon_threads = True

    def __init__(self, port: int, records: Callable[[str], Records]) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.records = records

    @property
    def url(self) -> str:
        """Where a Registry finds it."""
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: RegistryServer

    def do_GET(self) -> None:
        name = self.path.strip("/")
        if name not in PUBLICATIONS:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = json.dumps(self.server.records(name)).encode()
        version = hashlib.sha256(body).hexdigest()[:16]
        if self.headers.get("If-None-Match") == version:
            self._answer(HTTPStatus.NOT_MODIFIED, {"ETag": version})
        else:
            self._answer(HTTPStatus.OK, {"ETag": version, "Content-Length": str(len(body))}, body)

    def _answer(self, status: HTTPStatus, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Keep silent about single requests."""


def main() -> None:
    """Serve the stand-in."""
    parser = argparse.ArgumentParser(prog="python -m examples.emissions.registry", description="A registry of factors.")
    parser.add_argument("--port", type=int, default=8100)
    with RegistryServer(parser.parse_args().port, stand_in) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
