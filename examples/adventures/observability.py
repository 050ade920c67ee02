"""OpenTelemetry: where spans go. FastAPI makes those of requests, Rowlock those of jobs."""

from __future__ import annotations

import os

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor


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
