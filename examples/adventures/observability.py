"""OpenTelemetry: where spans go, and a span for every request."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from opentelemetry import context, propagate, trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_SERVER_ERRORS = 500


def set_up() -> None:
    """Export spans to OTEL_EXPORTER_OTLP_ENDPOINT, to the file SPANS_FILE as lines of JSON, to both or to none.

    OTEL_SERVICE_NAME tells api and worker apart. Called once per process, by the module of the jobs.
    """
    provider = TracerProvider(resource=Resource.create())
    if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - if wanted

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    if path := os.environ.get("SPANS_FILE"):
        file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: PTH123, SIM115 - open for the process's life
        lines = ConsoleSpanExporter(out=file, formatter=lambda span: f"{span.to_json(indent=None)}\n")
        provider.add_span_processor(SimpleSpanProcessor(lines))
    trace.set_tracer_provider(provider)


class RequestSpans:
    """ASGI middleware: a span per request, which continues the trace of a caller that names one."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app, self._tracer = app, trace.get_tracer("adventures")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - of ASGI
        """Serve one request."""
        # Below /ops are Rowlock's pages and streams, which last for hours.
        if scope["type"] != "http" or scope["path"].startswith("/ops"):
            return await self._app(scope, receive, send)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        name = f"{scope['method']} {scope['path']}"
        caller = propagate.extract(headers, context=context.Context())
        with self._tracer.start_as_current_span(name, caller, SpanKind.SERVER) as span:

            async def sent(message: Any) -> None:  # noqa: ANN401 - of ASGI
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if route := getattr(scope.get("route"), "path", None):
                        span.update_name(f"{scope['method']} {route}")
                    if message["status"] >= _SERVER_ERRORS:
                        span.set_status(Status(StatusCode.ERROR))
                await send(message)

            return await self._app(scope, receive, sent)
