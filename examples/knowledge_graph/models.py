"""The models that the application asks, and a small server that stands in for the real services.

Run alone, `python -m examples.knowledge_graph.models --port 8100` serves the stand-in.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
import urllib.request
import zlib
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE: Final = 24
"""Numbers in a vector."""
_TIMEOUT: Final = 600


@dataclass(frozen=True)
class Question:
    """What is asked. task: "embed" a text as a vector, or "describe" the image of that name."""

    task: str
    text: str


class Models:
    """Asks the server at `url`. One question at a time: the service accepts no more from one caller."""

    def __init__(self, url: str) -> None:
        self.url = url

    def embed(self, text: str) -> list[float]:
        """The vector of a text, of length 1."""
        return [float(number) for number in self._ask(Question("embed", text))]

    def describe(self, image: str) -> str:
        """What is to be seen in an image."""
        return str(self._ask(Question("describe", image)))

    def _ask(self, question: Question) -> Any:  # noqa: ANN401 - JSON
        body = json.dumps({"task": question.task, "text": question.text}).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})  # noqa: S310 - http
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310 - http
            return json.load(answer)


def stand_in(question: Question) -> list[float] | str:
    """Vectors of texts that share letters are near each other; an image shows the words of its name."""
    if question.task == "describe":
        words = " ".join(re.findall(r"[a-z]+", question.text.rpartition(".")[0].lower()))
        return f"The {words.title()} is shown in a Photograph."
    vector = [0.0] * SIZE
    text = f" {question.text.lower()} "
    for start in range(len(text) - 2):
        vector[zlib.crc32(text[start : start + 3].encode()) % SIZE] += 1
    length = math.hypot(*vector) or 1.0
    return [round(number / length, 6) for number in vector]


class ModelServer(ThreadingHTTPServer):
    """Answers questions on this machine with a function."""

    daemon_threads = True

    def __init__(self, port: int, answer: Callable[[Question], list[float] | str]) -> None:
        self.answer = answer
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            body = json.dumps(self.server.answer(Question(**asked))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True  # the asking worker is gone

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a line for every question would drown the rest."""


def main() -> None:
    """Serve the stand-in until Ctrl-C."""
    parser = argparse.ArgumentParser(description="A stand-in for the embedding and vision services.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.2, help="How long it thinks about each question.")
    options = parser.parse_args()

    def slowly(question: Question) -> list[float] | str:
        time.sleep(options.seconds)
        return stand_in(question)

    with ModelServer(options.port, slowly) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
