"""Traces over process borders, as an application has them: the real SDK, exported over OTLP to a receiver."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.waiting import eventually, in_time, until
from typing_extensions import override

from rowlock import Rowlock, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow
TASKS = """
import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from rowlock import Rowlock
from rowlock.contrib.opentelemetry import instrument

provider = TracerProvider(resource=Resource.create({"service.name": os.environ["SERVICE"]}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

app = Rowlock()
instrument(app)


@app.job(executor="process")
def draw(n: int) -> dict:
    with trace.get_tracer("tasks").start_as_current_span("inside"):
        here = trace.get_current_span().get_span_context()
        return {"trace_id": f"{here.trace_id:032x}", "pid": os.getpid()}


@app.job
async def mail(n: int) -> None:
    await draw.enqueue(n)
"""
ENQUEUE = """
import asyncio

from opentelemetry import trace
from tasks import app, mail


async def main():
    async with app:
        with trace.get_tracer("web").start_as_current_span("POST /mail"):
            await mail.enqueue(7)


asyncio.run(main())
"""


@dataclass
class Received:
    """A span, and the service that sent it."""

    service: str
    span: Any


@dataclass
class Collector:
    """A receiver of OTLP over HTTP on loopback."""

    spans: list[Received] = field(default_factory=list)
    url: str = ""

    def named(self, name: str) -> list[Received]:
        return [each for each in list(self.spans) if each.span.name == name]

    def one(self, name: str) -> Any:  # noqa: ANN401 - a span of the protocol
        (found,) = self.named(name)
        return found.span

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [Received(names["service.name"], span) for span in scope.spans]


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        @override
        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


async def started(folder: Path, environment: dict[str, str], *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=folder, env=environment, stderr=asyncio.subprocess.PIPE
    )


async def test_a_trace_spans_three_processes(database_url: str, collector: Collector, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "web.py").write_text(ENQUEUE)
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("ROWLOCK_", "OTEL_"))}
    environment = plain | {"ROWLOCK_DATABASE_URL": database_url, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    web = await started(tmp_path, environment | {"SERVICE": "web"}, "web.py")
    assert await in_time(web.wait()) == 0, await web.stderr.read() if web.stderr else ""
    worker = await started(
        tmp_path, environment | {"SERVICE": "worker"}, "-m", "rowlock", "worker", "--app", "tasks:app"
    )
    try:
        async with Rowlock(database_url, settings=Settings()) as app:

            async def drawn() -> Any:  # noqa: ANN401 - a job
                found = await app.jobs.list(kind="draw")
                return found[0] if found and found[0].is_final else None

            job = await eventually(drawn)
    finally:
        worker.send_signal(signal.SIGTERM)
        _, err = await in_time(worker.communicate())
    assert worker.returncode == 0, err.decode()
    # A process that ends sends what it holds, a child of the worker included.
    await until(lambda: all(collector.named(name) for name in ("run draw", "run mail", "inside", "claim mail")))
    request, enqueued = collector.one("POST /mail"), collector.one("enqueue mail")
    run, child = collector.one("run mail"), collector.one("run draw")
    in_order = [request, enqueued, run, collector.one("enqueue draw"), child, collector.one("inside")]
    assert [span.parent_span_id for span in in_order] == [b"", *(span.span_id for span in in_order[:-1])]
    assert {span.trace_id for span in in_order} == {request.trace_id}
    assert job.result["trace_id"] == request.trace_id.hex()
    assert job.result["pid"] != worker.pid
    services = {each.span.name: each.service for each in collector.spans}
    assert (services["enqueue mail"], services["run draw"]) == ("web", "worker")
    (flush,) = [each.span for each in collector.named("flush mail")]
    assert [link.span_id for link in flush.links] == [run.span_id]
