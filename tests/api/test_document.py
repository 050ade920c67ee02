"""The OpenAPI document: committed, and true."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import hypothesis
import pytest
import schemathesis
from schemathesis.specs.openapi import checks
from tests.api.conftest import ADMIN, declare, running

from rowlock import Rowlock
from rowlock.api import RowlockAPI
from rowlock.api.problems import CODES, MEDIA_TYPE
from rowlock.model import ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rowlock.model.access import Principal

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
EXAMPLES = 6
"""Of each operation: enough to meet every kind of input, few enough for every run."""


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def test_the_document_is_in_step_with_the_routes() -> None:
    tool = subprocess.run(
        [sys.executable, "tools/openapi.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert tool.returncode == 0, tool.stderr


def test_operations_have_names_tags_and_permissions_and_problems_are_problems() -> None:
    assert DOCUMENT["openapi"].startswith("3.1")
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))
    for path, method, operation in operations():
        assert operation["tags"], path
        assert operation["description"], (path, method)
        for status, response in operation["responses"].items():
            if status >= "400" and not path.startswith("/readyz"):
                assert set(response["content"]) == {MEDIA_TYPE}, (path, method, status)


class Root:
    async def authenticate(self, _connection: object) -> Principal:
        return ADMIN


@pytest.fixture
def served(database_url: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The door on a port, in a thread with an event loop of its own."""
    app = declare(Rowlock(database_url))
    api = RowlockAPI(app, auth=Root())
    with running(api) as url:
        yield url, api.openapi()


@pytest.mark.timeout(240)
def test_no_input_breaks_a_route_or_its_description(served: tuple[str, dict[str, Any]]) -> None:
    url, document = served
    asked: set[str] = set()

    def a_job() -> str:
        body = {"kind": "greet", "args": {"name": "Ada"}, "approval": len(asked) % 2 == 0}
        return str(httpx.post(f"{url}/api/v1/jobs", json=body).json()["id"])

    httpx.post(f"{url}/api/v1/admin/workers/lanes", json={"name": "front"})
    known: dict[str, Callable[[], str]] = {"job_id": a_job, "name": lambda: "front", "kind": lambda: "greet"}
    known |= {"worker": lambda: "w", "token_id": lambda: "none", "operation_id": lambda: "1", "rule_id": lambda: "1"}
    known |= {"workflow_id": lambda: ids.encode_workflow(1), "key": lambda: "org:7"}
    schema = schemathesis.openapi.from_dict(document)
    for found in schema.get_all_operations():
        operation = found.ok()  # type: ignore[union-attr]  # every operation of ours can be read
        if operation.definition.raw.get("x-streams"):
            continue  # it would not end

        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate],
        )
        @hypothesis.given(case=operation.as_strategy())
        def ask(case: schemathesis.Case[Any]) -> None:
            asked.add(case.operation.label)
            answer = case.call(base_url=url)
            assert answer.status_code < 500 or answer.json()["code"] == "missing-extra", answer.content
            case.validate_response(answer, checks=CHECKS)
            named = {name: known[name]() for name in case.path_parameters}
            if named:
                # The same with what is there, so that more than the name is looked at.
                case.path_parameters = named
                answer = case.call(base_url=url)
                assert answer.status_code < 500, answer.content
                case.validate_response(answer, checks=CHECKS)

        ask()
    assert len(asked) == sum(not operation.get("x-streams") for _, _, operation in operations())


def test_the_reference_page_names_every_route_its_permission_and_every_problem() -> None:
    page = (ROOT / "docs" / "reference" / "rest.md").read_text(encoding="utf-8")
    for path, method, operation in operations():
        needs = operation.get("x-permission") or "–"  # noqa: RUF001 - as the page has it
        needs = f"`{needs}`" if ":" in needs else needs
        assert f"| `{method.upper()} {path.removeprefix('/api/v1')}` | {needs} |" in page, (path, method)
    for code in CODES.values():
        assert f"| `{code.name}` | {code.status} |" in page
