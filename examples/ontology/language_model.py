"""The language model: a client, and a small server that stands in for the real service.

Run alone, `python -m examples.ontology.language_model --port 8100` serves the stand-in.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from typing_extensions import override

_WORD: Final = re.compile(r"[A-Z][\w-]+(?: [A-Z][\w-]+)*")
_SENTENCE: Final = re.compile(r"[^.!?]+")


@dataclass(frozen=True)
class Question:
    """What a run asks of the model. run: who asks; task: "concepts" of a text, or "relations" between concepts."""

    run: str
    task: str
    text: str


Answer = Callable[[Question], list[str]]


@dataclass(frozen=True)
class LanguageModel:
    """The service at a URL. timeout: seconds after which a question fails with an OSError."""

    url: str
    timeout: float = 600

    def ask(self, question: Question) -> list[str]:
        """The model's answer; blocks for as long as the model thinks."""
        request = urllib.request.Request(self.url, json.dumps(vars(question)).encode())  # noqa: S310 - of the deployment
        with urllib.request.urlopen(request, timeout=self.timeout) as answer:  # noqa: S310 - as above
            return [str(each) for each in json.load(answer)]


def stand_in(question: Question) -> list[str]:
    """Words with a capital letter are concepts; two of them in one sentence are related."""
    match question.task:
        case "concepts":
            return sorted(set(_WORD.findall(question.text)))
        case "relations":
            sentences = [sorted(set(_WORD.findall(part))) for part in _SENTENCE.findall(question.text)]
            return sorted(
                {f"{one} - {other}" for found in sentences for one in found for other in found if one < other}
            )
        case _:
            return []


class ModelServer(ThreadingHTTPServer):
    """An HTTP server that answers each question with a function."""

    daemon_threads = True

    def __init__(self, port: int, answer: Answer) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answer = answer

    @property
    def url(self) -> str:
        """Where a LanguageModel finds it."""
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(self.server.answer(Question(**asked))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the pods' own lines are what is worth reading."""


def main() -> None:
    """Serve the stand-in, as slowly as it is told."""
    parser = argparse.ArgumentParser(description="A stand-in for a language model.")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--seconds", type=float, default=2.0, help="How long it thinks about each question.")
    options = parser.parse_args()

    def slowly(question: Question) -> list[str]:
        time.sleep(options.seconds)
        return stand_in(question)

    with ModelServer(options.port, slowly) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
