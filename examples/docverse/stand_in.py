"""A small server that stands in for the object store, the CDN and GitHub.

Run alone, `python -m examples.docverse.stand_in --port 8104` keeps everything in memory.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mimetypes
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, unquote, urlsplit

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable

TEMPLATE: Final = "<h1>{project}</h1>\n<ul>\n{editions}\n</ul>\n"


@dataclass(frozen=True)
class Call:
    """A request. path: without its query, decoded."""

    method: str
    path: str
    body: bytes = b""
    prefix: str = ""


@dataclass(frozen=True)
class Answer:
    """What the server says."""

    status: HTTPStatus = HTTPStatus.NO_CONTENT
    body: bytes = b""


def _json(value: object) -> Answer:
    return Answer(HTTPStatus.OK, json.dumps(value).encode())


@dataclass
class StandIn:
    """The state of the three services. objects: content and time by key; kv: prefix by path; refs by repository."""

    objects: dict[str, tuple[bytes, datetime]] = field(default_factory=dict)
    kv: dict[str, str] = field(default_factory=dict)
    refs: dict[str, list[str]] = field(default_factory=dict)
    templates: dict[str, dict[str, str]] = field(default_factory=dict)
    purged: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, call: Call) -> Answer:
        """Answer one request."""
        with self._lock:
            room, _, rest = call.path.lstrip("/").partition("/")
            match room:
                case "objects":
                    return self._objects(call, rest)
                case "copy":
                    wanted = json.loads(call.body)
                    self.objects[wanted["target"]] = (self.objects[wanted["source"]][0], datetime.now(UTC))
                case "delete":
                    for key in json.loads(call.body):
                        self.objects.pop(key, None)
                case "kv" if call.method == "PUT":
                    self.kv[rest] = call.body.decode()
                case "kv" if rest in self.kv:
                    return Answer(HTTPStatus.OK, self.kv[rest].encode())
                case "purge":
                    self.purged.append(rest)
                case "github":
                    return self._github(rest)
                case _:
                    return Answer(HTTPStatus.NOT_FOUND)
        return Answer()

    def _objects(self, call: Call, key: str) -> Answer:
        if call.method == "PUT":
            self.objects[key] = (call.body, datetime.now(UTC))
            return Answer()
        if key:
            found = self.objects.get(key)
            return Answer(HTTPStatus.NOT_FOUND) if found is None else Answer(HTTPStatus.OK, found[0])
        return _json([self._listed(each) for each in sorted(self.objects) if each.startswith(call.prefix)])

    def _listed(self, key: str) -> dict[str, object]:
        content, stored_at = self.objects[key]
        return {
            "key": key,
            "content_hash": hashlib.sha256(content).hexdigest(),
            "content_type": mimetypes.guess_type(key)[0] or "application/octet-stream",
            "size": len(content),
            "stored_at": stored_at.isoformat(),
        }

    def _github(self, path: str) -> Answer:
        repository, _, what = path.rpartition("/")
        if what == "refs":
            return _json(self.refs.get(repository, ["main"]))
        return _json(self.templates.get(repository, {"dashboard.html": TEMPLATE}))


class StandInServer(ThreadingHTTPServer):
    """An HTTP server that answers each request with a function."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, answer: Callable[[Call], Answer]) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answer = answer

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: StandInServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        address = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        prefix = parse_qs(address.query).get("prefix", [""])[0]
        answer = self.server.answer(Call(self.command, unquote(address.path), body, prefix))
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Access-Control-Allow-Origin", "*")  # the page uploads builds with the browser
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_POST = do_PUT = _answer  # noqa: N815 - the names that http.server calls

    def do_OPTIONS(self) -> None:
        """Allow a page to upload."""
        self.send_response(HTTPStatus.NO_CONTENT)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Access-Control-Allow-Methods", "PUT")
        self.send_header("Content-Length", "0")
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the lines of the workers are what is worth reading."""


def main() -> None:
    """Serve the stand-in; the CDN is as slow as it is told."""
    parser = argparse.ArgumentParser(description="A stand-in for object store, CDN and GitHub.")
    parser.add_argument("--port", type=int, default=8104)
    parser.add_argument("--seconds", type=float, default=1.0, help="How long the CDN takes for each edition.")
    options = parser.parse_args()
    services = StandIn()

    def slowly(call: Call) -> Answer:
        if call.path.startswith("/kv/"):
            time.sleep(options.seconds)
        return services(call)

    with StandInServer(options.port, slowly) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
