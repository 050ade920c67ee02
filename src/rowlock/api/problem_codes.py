"""The codes of all problems: stable names for programs, with their HTTP status and title."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of problem: a stable name for programs, the HTTP status, and a title for people."""

    name: str
    status: int
    title: str


CODES: Final = {
    code.name: code
    for code in (
        Code("invalid-request", 422, "The request does not fit the schema"),
        Code("invalid-arguments", 422, "The arguments do not fit the kind"),
        Code("invalid-option", 422, "An option has an impossible value"),
        Code("invalid-search", 400, "The search cannot be read"),
        Code("invalid-cursor", 400, "The cursor does not belong to this list"),
        Code("invalid-id", 404, "This is not a valid id"),
        Code("bad-request", 400, "The request cannot be read"),
        Code("unauthenticated", 401, "The caller is unknown"),
        Code("forbidden", 403, "A permission is missing"),
        Code("approval-refused", 403, "This person's approval does not count"),
        Code("read-only", 403, "Only reading is allowed here"),
        Code("no-auth-configured", 403, "Without authentication only this machine is served"),
        Code("cross-site", 403, "Changes from the page of another site are refused"),
        Code("job-not-found", 404, "There is no such job"),
        Code("workflow-not-found", 404, "There is no such workflow"),
        Code("kind-not-found", 404, "There is no such kind"),
        Code("lane-not-found", 404, "There is no such lane"),
        Code("worker-not-found", 404, "There is no such worker"),
        Code("token-not-found", 404, "There is no such token"),
        Code("role-not-found", 404, "There is no such role"),
        Code("rule-not-found", 404, "There is no such approval rule"),
        Code("limit-not-found", 404, "There is no such gate or rate"),
        Code("operation-not-found", 404, "There is no such operation"),
        Code("schedule-not-found", 404, "There is no such schedule"),
        Code("not-found", 404, "There is no such route"),
        Code("method-not-allowed", 405, "The method does not apply here"),
        Code("invalid-transition", 409, "The job's state does not allow it"),
        Code("conflict", 409, "The current state does not allow it"),
        Code("unique-conflict", 409, "A job with this key exists already"),
        Code("bulk-refused", 409, "The bulk order does not match its dry run"),
        Code("in-flight", 409, "A request with this Idempotency-Key is being answered"),
        Code("version-mismatch", 412, "It has been changed meanwhile"),
        Code("too-slow-request", 408, "The request came too slowly"),
        Code("too-large", 413, "The body is too large"),
        Code("unsupported-media-type", 415, "The body must be JSON"),
        Code("key-reused", 422, "The Idempotency-Key was used for another body"),
        Code("if-match-required", 428, "The header If-Match is required"),
        Code("too-many-requests", 429, "Too many failed attempts"),
        Code("too-many-streams", 429, "The caller has too many open streams"),
        Code("too-many-connections", 503, "There are too many connections"),
        Code("streams-full", 503, "There are too many open streams"),
        Code("internal", 500, "Internal error"),
        Code("missing-extra", 501, "An optional package is not installed"),
        Code("unavailable", 503, "The database is unavailable"),
        Code("too-slow", 503, "The answer took too long"),
    )
}
