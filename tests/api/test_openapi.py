"""The OpenAPI document: committed, and true."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import hypothesis
import jsonschema_rs
import psycopg
import pytest
import schemathesis
from schemathesis.specs.openapi import checks
from tests.api.conftest import ADMIN, declare, running
from tests.waiting import PATIENCE

from rowlock import Rowlock, chain
from rowlock.api import RowlockAPI
from rowlock.api.problems import MEDIA_TYPE
from rowlock.model.problem_codes import CODES

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
STARTS = ("draining", "done", "fast:", "next_cursor", "preview", "removed:", "skip", "up,", "user,", "filter_hash")
"""Words that begin a description with the name of a value."""
EXAMPLES = 6
"""Of each operation: enough to meet every kind of input, few enough for every run."""


REF = "#/components/schemas/"


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def test_the_document_is_in_step_with_the_routes() -> None:
    tool = subprocess.run(
        [sys.executable, "tools/openapi.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert tool.returncode == 0, tool.stderr


def test_the_document_is_made_once() -> None:
    api = RowlockAPI(Rowlock("postgresql://nowhere/x"))
    assert api.openapi()["paths"] is api.openapi()["paths"]


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


def described() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every property, parameter and response header: where it is, its description's owner, and its schema."""
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for field, about in schema.get("properties", {}).items():
            yield f"{name}.{field}", about, about
    for path, method, operation in operations():
        for each in operation.get("parameters", ()):
            yield f"{method} {path} {each['name']}", each, each["schema"]
        for status, response in operation["responses"].items():
            for header, about in response.get("headers", {}).items():
                yield f"{method} {path} {status} {header}", about, about["schema"]


def test_every_property_and_parameter_has_a_description_and_an_example() -> None:
    lacking = [
        where for where, about, schema in described() if not (about.get("description") and schema.get("examples"))
    ]
    assert lacking == []
    assert len(list(described())) > 500


def test_every_example_is_valid() -> None:
    cases = [(where, schema, example) for where, _, schema in described() for example in schema["examples"]]
    # One schema for them all: each validator reads the components anew, which takes longer than all examples.
    every = {"components": DOCUMENT["components"], "prefixItems": [schema for _, schema, _ in cases]}
    found = jsonschema_rs.Draft202012Validator(every).iter_errors([example for *_, example in cases])
    assert [(cases[int(error.instance_path[0])][0], error.message) for error in found] == []


def test_descriptions_are_sentences() -> None:
    for where, about, _ in described():
        text = about["description"]
        assert text[0].isupper() or text[0] in "`•" or text.split()[0] in STARTS, (where, text)
        assert text.endswith((".", "…")), (where, text)


def request_schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    left = [operation["requestBody"] for _, _, operation in operations() if "requestBody" in operation]
    seen: set[str] = set()
    while left:
        text = json.dumps(left.pop())
        for name, schema in DOCUMENT["components"]["schemas"].items():
            if f'"{REF}{name}"' in text and name not in seen:
                seen.add(name)
                left.append(schema)
                yield name, schema


def test_a_generated_client_need_not_send_what_has_a_default() -> None:
    """openapi-typescript makes a property with a `default` one that must be sent."""
    found = dict(request_schemas())
    assert found["Submission"]["required"] == ["kind"]
    assert found["NewLane"]["required"] == ["name"]
    assert found["RateLimitBody"]["required"] == ["amount"]
    assert found["NewSchedule"]["required"] == ["name", "kind"]
    for name, schema in found.items():
        assert not [field for field, about in schema.get("properties", {}).items() if "default" in about], name


def test_an_answer_always_has_all_its_fields() -> None:
    requests = dict(request_schemas())
    for name, schema in DOCUMENT["components"]["schemas"].items():
        if name.endswith("Answer"):
            assert name not in requests
            assert sorted(schema["required"]) == sorted(schema["properties"]), name


def test_no_old_name_is_shown() -> None:
    shown = {where.rpartition(".")[2] for where, _, _ in described()}
    assert not {name for name in shown if name.endswith("_s")}
    old = {"poll", "stale", "stall", "age", "ordering", "parked_capped"}
    assert not old & shown


def test_problems_are_described_with_their_codes() -> None:
    for path, method, operation in operations():
        for status, response in operation["responses"].items():
            if "x-codes" in response:
                assert response["x-codes"], (path, method, status)
                for code in response["x-codes"]:
                    assert CODES[code].status == int(status)
                    assert f"`{code}`: {CODES[code].title}." in response["description"]


def test_links_lead_from_what_was_created_to_every_operation_on_it() -> None:
    by_id = {operation["operationId"]: (path, operation) for path, _, operation in operations()}
    links = DOCUMENT["components"]["links"]
    for name, link in links.items():
        path, operation = by_id[link["operationId"]]
        taken = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert name in (link["operationId"], f"{link['operationId']}_again", f"{link['operationId']}_of_list")
        assert set(link["parameters"]) <= taken, path
    on_jobs = {name for name, (path, _) in by_id.items() if "{job_id}" in path}
    for status in ("200", "202"):
        assert set(by_id["submit_job"][1]["responses"][status]["links"]) >= on_jobs
    on_workflows = {name for name, (path, _) in by_id.items() if "{workflow_id}" in path}
    assert set(by_id["list_workflows"][1]["responses"]["200"]["links"]) >= {f"{name}_of_list" for name in on_workflows}
    assert set(by_id["retry_workflow"][1]["responses"]["200"]["links"]) >= {f"{name}_again" for name in on_workflows}
    unlinked = {path for path, operation in by_id.values() if "{" in path and operation["operationId"] not in links}
    # A worker registers itself, a kind is declared in code, roles are made by the library and failures happen: no
    # request creates them.
    assert unlinked == {
        "/api/v1/retention/{kind}",
        "/api/v1/roles/{role}/grants",
        "/api/v1/roles/{role}/grants/{subject}",
        "/api/v1/kinds/{kind}/schema",
        "/api/v1/kinds/{kind}/stats",
        "/api/v1/failures/{fingerprint}",
        "/api/v1/failures/{fingerprint}/mute",
        "/api/v1/failures/{fingerprint}/unmute",
        "/api/v1/admin/workers/{worker}/forget",
        "/api/v1/admin/workers/{worker}/drain",
    }


class Root:
    async def authenticate(self, _connection: object) -> Principal:
        return ADMIN


class There:
    """Something of everything that a path can name, made anew for each question: one may take it away."""

    def __init__(self, app: Rowlock, url: str) -> None:
        self._app, self._url = app, f"{url}/api/v1"
        self._numbers = itertools.count(1)
        self._made: dict[str, Callable[[], str]] = {
            "job_id": self._job,
            "kind": lambda: "greet",
            "name": lambda: "front",
            "role": lambda: "operator",
            "subject": lambda: "bob",
            "worker": self._worker,
            "token_id": lambda: self._post("tokens", name="t", roles=["platform_admin"]),
            "rule_id": lambda: self._post("approvals/rules", kind="greet"),
            "operation_id": self._operation,
            "view_id": lambda: self._post("views", name=self._name()),
            "webhook_id": lambda: self._post("webhooks", url="https://example.com/"),
            "fingerprint": self._failure,
            "workflow_id": self._workflow,
            "/limits/gates/key": self._gate,
            "/limits/rates/key": lambda: "lane:front",
            "/schedules/name": lambda: self._post(
                "schedules", "name", name=self._name(), kind="explode", cron="0 2 * * *"
            ),
        }
        self._post("admin/workers/lanes", "name", name="front", rate={"amount": 5})

    def __call__(self, path: str, name: str) -> str:
        """What stands for {name} in the path."""
        of_its_own = next((key for key in self._made if key.startswith("/") and key.endswith(f"/{name}")
                           and f"{key.removesuffix(name)}{{{name}}}" in path), name)  # fmt: skip
        return self._made[of_its_own]()

    def _name(self) -> str:
        return f"n{next(self._numbers)}"

    def _post(self, where: str, what: str = "id", **body: object) -> str:
        answer = httpx.post(f"{self._url}/{where}", json=body, timeout=PATIENCE)
        assert answer.status_code < 300, answer.text
        return str(answer.json()[what])

    def _job(self) -> str:
        return self._post("jobs", kind="greet", args={"name": "Ada"}, approval=next(self._numbers) % 2 == 0)

    def _worker(self) -> str:
        name = self._name()
        with psycopg.connect(self._app.database().url) as connection:
            values = [name, "h", 1, "0"]
            connection.execute("INSERT INTO rowlock.workers (name, host, pid, version) VALUES (%s, %s, %s, %s)", values)
        return name

    def _failure(self) -> str:
        name = self._name()
        with psycopg.connect(self._app.database().url) as connection:
            connection.execute(
                "INSERT INTO rowlock.failure_groups (fingerprint, tenant, kind, first_seen, last_seen) "
                "VALUES (%s, '', 'greet', now(), now())",
                [name],
            )
        return name

    def _gate(self) -> str:
        key = self._name()
        self._app.task("greet").options(gate=key).enqueue_sync(name="Ada")
        return key

    def _workflow(self) -> str:
        step: Any = self._app.task("greet")
        started = chain(step.step(name="a"), step.step(name="b", times=2)).enqueue_sync()
        return str(started.public_id)

    def _operation(self) -> str:
        order: dict[str, Any] = {"action": "cancel", "ids": [self._job()]}
        told = httpx.post(f"{self._url}/jobs/bulk", json={**order, "dry_run": True}, timeout=PATIENCE).json()
        return self._post("jobs/bulk", "id", **order, filter_hash=told["filter_hash"], expected_max=5)


@pytest.fixture
def served(database_url: str) -> Iterator[tuple[str, dict[str, Any], There]]:
    """The door on a port, in a thread with an event loop of its own."""
    app = declare(Rowlock(database_url))
    api = RowlockAPI(app, auth=Root())
    with running(api) as url:
        yield url, api.openapi(), There(app, url)
    asyncio.run(app.close())


def assert_code_is_described(operation: Any, answer: Any) -> None:  # noqa: ANN401 - schemathesis'
    """Each route names the codes of its problems."""
    response = operation.definition.raw["responses"][str(answer.status_code)]
    if "x-codes" in response:
        assert answer.json()["code"] in response["x-codes"], (operation.label, answer.json())


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_no_input_breaks_a_route_or_its_description(served: tuple[str, dict[str, Any], There]) -> None:
    url, document, there = served
    asked: set[str] = set()
    reached: set[str] = set()
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
            assert_code_is_described(case.operation, answer)
            named = {name: there(case.operation.path, name) for name in case.path_parameters}
            if named:
                # The same with what is there, so that more than the name is looked at.
                case.path_parameters = named
                answer = case.call(base_url=url)
                assert answer.status_code < 500, answer.content
                case.validate_response(answer, checks=CHECKS)
                assert_code_is_described(case.operation, answer)
                if answer.status_code != 404:
                    reached.add(case.operation.label)

        ask()
    # A route that never finds what its path names has been asked nothing.
    assert {label for label in asked if "{" in label} == reached
    assert len(asked) == sum(not operation.get("x-streams") for _, _, operation in operations())


def test_the_reference_page_names_every_problem() -> None:
    page = (ROOT / "docs" / "reference" / "rest.md").read_text(encoding="utf-8")
    for code in CODES.values():
        assert f"| `{code.name}` | {code.status} |" in page
