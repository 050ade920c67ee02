"""The codes of all problems: stable names for programs, with their HTTP status and title."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ProblemCode:
    """A kind of problem. name: for programs, stable; title: for people; status: of HTTP, 0: of the command line."""

    name: str
    status: int
    title: str


CODES: Final = {
    code.name: code
    for code in (
        ProblemCode("invalid-request", 422, "The request does not fit the schema"),
        ProblemCode("invalid-arguments", 422, "The arguments do not fit the kind"),
        ProblemCode("invalid-option", 422, "An option has an impossible value"),
        ProblemCode("invalid-search", 400, "The search cannot be read"),
        ProblemCode("invalid-cursor", 400, "The cursor does not belong to this list"),
        ProblemCode("invalid-id", 404, "This is not a valid id"),
        ProblemCode("bad-request", 400, "The request cannot be read"),
        ProblemCode("unauthenticated", 401, "The caller is unknown"),
        ProblemCode("forbidden", 403, "A permission is missing"),
        ProblemCode("approval-refused", 403, "This person's approval does not count"),
        ProblemCode("read-only", 403, "Only reading is allowed here"),
        ProblemCode("no-auth-configured", 403, "Without authentication only this machine is served"),
        ProblemCode("cross-site", 403, "Requests from the page of another site are refused"),
        ProblemCode("job-not-found", 404, "There is no such job"),
        ProblemCode("workflow-not-found", 404, "There is no such workflow"),
        ProblemCode("kind-not-found", 404, "There is no such kind"),
        ProblemCode("lane-not-found", 404, "There is no such lane"),
        ProblemCode("worker-not-found", 404, "There is no such worker"),
        ProblemCode("token-not-found", 404, "There is no such token"),
        ProblemCode("role-not-found", 404, "There is no such role"),
        ProblemCode("rule-not-found", 404, "There is no such approval rule"),
        ProblemCode("limit-not-found", 404, "There is no such gate or rate"),
        ProblemCode("operation-not-found", 404, "There is no such operation"),
        ProblemCode("failure-group-not-found", 404, "There is no such failure group"),
        ProblemCode("view-not-found", 404, "There is no such saved view"),
        ProblemCode("webhook-not-found", 404, "There is no such webhook"),
        ProblemCode("webhook-refused", 422, "Webhooks may not be sent there"),
        ProblemCode("schedule-not-found", 404, "There is no such schedule"),
        ProblemCode("not-found", 404, "There is no such route"),
        ProblemCode("method-not-allowed", 405, "The method does not apply here"),
        ProblemCode("invalid-transition", 409, "The job's state does not allow it"),
        ProblemCode("conflict", 409, "The current state does not allow it"),
        ProblemCode("unique-conflict", 409, "A job with this key exists already"),
        ProblemCode("bulk-refused", 409, "The bulk order does not match its dry run"),
        ProblemCode("in-flight", 409, "A request with this Idempotency-Key is being answered"),
        ProblemCode("version-mismatch", 412, "It has been changed meanwhile"),
        ProblemCode("too-slow-request", 408, "The request came too slowly"),
        ProblemCode("too-large", 413, "The body is too large"),
        ProblemCode("unsupported-media-type", 415, "The body must be JSON"),
        ProblemCode("key-reused", 422, "The Idempotency-Key was used for another body"),
        ProblemCode("if-match-required", 428, "The header If-Match is required"),
        ProblemCode("too-many-requests", 429, "Too many failed attempts"),
        ProblemCode("too-many-streams", 429, "The caller has too many open streams"),
        ProblemCode("too-many-connections", 503, "There are too many connections"),
        ProblemCode("streams-full", 503, "There are too many open streams"),
        ProblemCode("internal", 500, "Internal error"),
        ProblemCode("missing-extra", 501, "An optional package is not installed"),
        ProblemCode("provider-unavailable", 503, "The identity provider does not answer as it should"),
        ProblemCode("unavailable", 503, "The database is unavailable"),
        ProblemCode("too-slow", 503, "The answer took too long"),
    )
}
"""The problems that a REST answer may have, by name."""

USAGE: Final = ProblemCode("invalid-usage", 0, "The command line cannot be read")
"""An unknown command or option, or a missing argument."""
FAILED: Final = ProblemCode("failed", 0, "The command did not do what was asked")
"""A command that ended without success although nothing went wrong, such as a watched job that failed."""
CONFIGURATION: Final = ProblemCode("invalid-configuration", 0, "The program or its environment is set up wrongly")
