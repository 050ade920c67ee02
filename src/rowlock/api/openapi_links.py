"""Links of the OpenAPI document: which operations take what an answer has created or named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Schema: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Subject:
    """Something with a name. sources: operations whose answers name it; value: where, as a runtime expression."""

    what: str
    sources: tuple[str, ...]
    parameter: str
    path: str
    """Part of the paths of operations that take the name."""
    value: str = "$response.body#/id"
    suffix: str = ""
    """Behind the names of its links, where another subject has links to the same operations."""


_SUBJECTS: Final = (
    _Subject("job", ("submit_job", "clone_job", "run_schedule"), "job_id", "/jobs/{job_id}"),
    _Subject("operation", ("order_jobs",), "operation_id", "/operations/{operation_id}"),
    _Subject("workflow", ("get_job",), "workflow_id", "/workflows/{workflow_id}", "$response.body#/workflow"),
    _Subject(
        *("workflow", ("get_workflow", "cancel_workflow", "retry_workflow"), "workflow_id"),
        path="/workflows/{workflow_id}",
        suffix="_again",
    ),
    _Subject(
        *("first workflow", ("list_workflows",), "workflow_id", "/workflows/{workflow_id}"),
        value="$response.body#/items/0/id",
        suffix="_of_list",
    ),
    _Subject("approval rule", ("add_rule",), "rule_id", "/approvals/rules/{rule_id}"),
    _Subject("lane", ("create_lane",), "name", "/admin/workers/lanes/{name}", "$response.body#/name"),
    _Subject("gate", ("submit_job",), "key", "/limits/gates/{key}", "$response.body#/gate_key"),
    _Subject("rate of the lane", ("create_lane",), "key", "/limits/rates/{key}", "lane:{$response.body#/name}"),
    _Subject("schedule", ("create_schedule",), "name", "/schedules/{name}", "$response.body#/name"),
    _Subject("saved view", ("create_view",), "view_id", "/views/{view_id}"),
    _Subject("webhook", ("create_webhook",), "webhook_id", "/webhooks/{webhook_id}"),
    _Subject("token", ("create_token",), "token_id", "/tokens/{token_id}"),
)


def add_links(document: Schema) -> None:
    """Add a link to each operation that takes what an answer names; each is described once, in the components."""
    by_id = {operation["operationId"]: operation for _, operation in _operations(document)}
    described: dict[str, Schema] = {}
    for subject in _SUBJECTS:
        targets = [operation["operationId"] for path, operation in _operations(document) if subject.path in path]
        for target in targets:
            described[target + subject.suffix] = {
                "operationId": target,
                "parameters": {subject.parameter: subject.value},
                "description": f"The {subject.what} of this answer.",
            }
        for response in (each for source in subject.sources for each in _successes(by_id[source])):
            links = response.setdefault("links", {})
            links |= {
                name: {"$ref": f"#/components/links/{name}"} for name in (target + subject.suffix for target in targets)
            }
    document["components"]["links"] = dict(sorted(described.items()))


def _operations(document: Schema) -> Iterator[tuple[str, Schema]]:
    for path, item in document["paths"].items():
        for operation in item.values():
            yield path, operation


def _successes(operation: Schema) -> Iterator[Schema]:
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            yield response
