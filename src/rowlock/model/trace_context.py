"""Trace context: the headers of a trace (W3C traceparent and others) that an enqueue leaves in the job's meta."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rowlock.model import stored_json

META: Final = "trace_context"
"""The name under which a job's meta has them: a job without tracing has no such name and pays nothing."""
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_LONGEST: Final = 8192
"""Characters of all headers together; longer ones are left out, as the W3C allows."""


def headers(meta: Mapping[str, object]) -> dict[str, str]:
    """The headers in a job's meta; empty when there are none, or when they are not texts."""
    found = meta.get(META)
    if not isinstance(found, Mapping):
        return {}
    return {name: value for name, value in found.items() if isinstance(name, str) and isinstance(value, str)}


def with_headers(meta: Mapping[str, object] | None, added: Mapping[str, str]) -> dict[str, object]:
    """The meta with these headers beside those of other tracers."""
    before = dict(meta or {})
    known = headers(before)
    both = {**known, **added}
    lists = [each["baggage"] for each in (known, added) if each.get("baggage")]
    if lists:
        # Two tracers have a list each; both lists make one.
        both["baggage"] = ",".join(dict.fromkeys(lists))
    if sum(len(name) + len(value) for name, value in both.items()) > _LONGEST:
        both = {name: value for name, value in both.items() if name == "traceparent"}
    return {**before, META: both} if both else before


def stored_headers(meta: str | None) -> dict[str, str]:
    """The headers in a stored meta, which may hold anything."""
    return headers(stored_json.shown_object(meta, "meta")) if meta is not None and META in meta else {}


def trace_id(meta: str | None) -> str | None:
    """The trace id of the traceparent in a stored meta; None: there is none that can be read."""
    if meta is None or "traceparent" not in meta:
        return None
    found = _TRACEPARENT.fullmatch(stored_headers(meta).get("traceparent", ""))
    return None if found is None else found[1]
