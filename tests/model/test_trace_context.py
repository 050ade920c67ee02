from __future__ import annotations

import json

import pytest

from rowlock.model import trace_context

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_headers_of_several_tracers_stand_beside_each_other() -> None:
    first = trace_context.with_headers({"page": 7}, {"traceparent": PARENT, "baggage": "customer=acme"})
    both = trace_context.with_headers(first, {"sentry-trace": "abc", "baggage": "sentry-release=1"})
    assert both["page"] == 7
    assert trace_context.headers(both) == {
        "traceparent": PARENT,
        "sentry-trace": "abc",
        "baggage": "customer=acme,sentry-release=1",
    }
    assert trace_context.with_headers({"page": 7}, {}) == {"page": 7}
    assert trace_context.with_headers(None, {}) == {}


def test_headers_that_are_too_long_are_left_out() -> None:
    meta = trace_context.with_headers(None, {"traceparent": PARENT, "tracestate": "x" * 9000})
    assert trace_context.headers(meta) == {"traceparent": PARENT}


@pytest.mark.parametrize(
    ("meta", "found"),
    [
        (json.dumps({"trace_context": {"traceparent": PARENT}}), PARENT[3:35]),
        (
            json.dumps(
                {"trace_context": {"traceparent": PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32)}}
            ),
            None,
        ),
        (json.dumps({"trace_context": {"traceparent": 7}}), None),
        (json.dumps({"trace_context": "traceparent"}), None),
        (json.dumps({"traceparent": PARENT}), None),
        ('["trace_context", "traceparent"]', None),
        ("{", None),
        (None, None),
    ],
)
def test_the_trace_id_is_read_from_whatever_is_stored(meta: str | None, found: str | None) -> None:
    assert trace_context.trace_id(meta) == found
