"""Stand-ins for the services outside: Anthropic, DeepL, Gemini and a bucket, in one small server.

Run alone, `python -m examples.adventures.outside --port 8002` serves them as slowly as it is told.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import threading
import time
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from examples.adventures.outbound.gemini.wav import hum
from examples.adventures.sample_story import in_english, scene

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PART: Final = re.compile(r"part (\d+) of")


@dataclass(frozen=True)
class Asked:
    """A request. service: anthropic, deepl, gemini or s3."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def service(self) -> str:
        """Which service it is for."""
        ways = {"/v1/messages": "anthropic", "/v2/": "deepl", "/v1beta/": "gemini"}
        return next((name for way, name in ways.items() if self.path.startswith(way)), "s3")


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int
    body: bytes = b""

    @classmethod
    def of(cls, value: object) -> Reply:
        """A success with this value as JSON."""
        return cls(HTTPStatus.OK, json.dumps(value).encode())


class StandIns:
    """All four services. Their answers have the shape of the real ones; files stay in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._changing = threading.Lock()

    def __call__(self, asked: Asked) -> Reply:
        """Answer a request."""
        if asked.service == "s3":
            return self._put(asked) if asked.method == "PUT" else self._get(asked)
        return Reply.of(_answer(asked.service, asked))

    def _get(self, asked: Asked) -> Reply:
        found = self.files.get(asked.path)
        return Reply(HTTPStatus.NOT_FOUND) if found is None else Reply(HTTPStatus.OK, found)

    def _put(self, asked: Asked) -> Reply:
        is_bucket = asked.path.count("/") == 1
        with self._changing:
            if is_bucket and asked.path in self.files:
                return Reply(HTTPStatus.CONFLICT)
            self.files[asked.path] = asked.body
        return Reply(HTTPStatus.OK)


def _answer(service: str, asked: Asked) -> object:
    """What the service of that name says."""
    if service == "deepl" and asked.method == "GET":
        return [{"language": name} for name in ("DE", "EN-GB", "EN-US", "ES", "FR")]
    body = json.loads(asked.body)
    match service:
        case "anthropic":
            return {"content": [{"type": "text", "text": _told(body["messages"][0]["content"])}]}
        case "deepl":
            return {"translations": [{"text": in_english(text)} for text in body["text"]]}
        case _:
            text = body["contents"][0]["parts"][0]["text"].partition(": ")[2]
            data = base64.b64encode(hum(text)).decode()
            return {"candidates": [{"content": {"parts": [{"inlineData": {"data": data}}]}}]}


def _told(request: str) -> str:
    part = _PART.search(request)
    if part is None:
        return "Nothing happened, and everybody slept well."
    told = scene(int(part[1]))
    return json.dumps({"text": told.text, "choices": told.choices}, ensure_ascii=False)


class OutsideServer(ThreadingHTTPServer):
    """An HTTP server that answers each request with a function."""

    daemon_threads = True

    def __init__(self, port: int, answer: Callable[[Asked], Reply]) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answer = answer

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: OutsideServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        reply = self.server.answer(Asked(self.command, self.path, dict(self.headers), body))
        self.send_response(reply.status)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the lines of api and worker are what is worth reading."""


def main() -> None:
    """Serve the stand-ins."""
    parser = argparse.ArgumentParser(description="Stand-ins for the services outside.")
    parser.add_argument("--port", type=int, default=8002)
    parser.add_argument("--seconds", type=float, default=2.0, help="How long model, translator and speech take.")
    options = parser.parse_args()
    answer = StandIns()

    def slowly(asked: Asked) -> Reply:
        if asked.service != "s3" and asked.method == "POST":
            time.sleep(options.seconds)
        return answer(asked)

    with OutsideServer(options.port, slowly) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
