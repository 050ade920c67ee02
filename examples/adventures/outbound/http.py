"""HTTP calls to other services: each is a span of the current trace, and an error answer is an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind

if TYPE_CHECKING:
    from collections.abc import Mapping

_tracer = trace.get_tracer("adventures")


class ServiceFailed(OSError):
    """A service that answered with an error, or not at all; it may work a moment later."""


async def call(
    client: httpx.AsyncClient,
    service: str,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    json: object = None,
    content: bytes | None = None,
) -> httpx.Response:
    """The answer of a service; ServiceFailed unless it is a success."""
    with _tracer.start_as_current_span(f"{method} {service}", kind=SpanKind.CLIENT) as span:
        sent = dict(headers or {})
        propagate.inject(sent)
        try:
            answer = await client.request(method, url, headers=sent, json=json, content=content)
            span.set_attribute("http.response.status_code", answer.status_code)
            answer.raise_for_status()
        except httpx.HTTPStatusError as error:
            message = f"{service} answered {error.response.status_code}: {error.response.text[:200]}"
            raise ServiceFailed(message) from error
        except httpx.HTTPError as error:
            message = f"{service} cannot be reached: {error!r}"
            raise ServiceFailed(message) from error
        return answer


def field(answer: httpx.Response, *path: str | int) -> Any:  # noqa: ANN401 - whatever the service put there
    """A value inside a JSON answer; ServiceFailed if the answer has another shape."""
    try:
        found = answer.json()
        for step in path:
            found = found[step]
    except (ValueError, LookupError, TypeError) as error:
        message = f"{answer.request.url.host} answered something unexpected: {answer.text[:200]}"
        raise ServiceFailed(message) from error
    return found
