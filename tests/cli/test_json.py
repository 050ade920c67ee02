"""--json speaks the dialect of the REST API: the members of its answers, and problems like its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import opened

from rowlock import Approval, Lane, Rate, Rowlock, Workflow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Cli

DOCUMENT: Any = json.loads(Path(__file__).parents[2].joinpath("docs", "openapi.json").read_text())
NOWHERE = "postgresql://ada:horse@127.0.0.1:1/none"
TYPES: dict[str, Any] = {"null": type(None), "string": str, "integer": int, "number": int | float, "boolean": bool}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

SUBJECTS = {
    "job": (["jobs", "ls"], "GET /jobs/{job_id}"),
    "one job": (["jobs", "show", "{job}"], "GET /jobs/{job_id}"),
    "explanation": (["jobs", "explain", "{job}"], "GET /jobs/{job_id}/explain"),
    "submitted job": (
        ["enqueue", "greet", "--app", "tasks:app", "--args", '{"name": "Ada"}'],
        "POST /jobs",
    ),
    "pending job": (["approvals", "ls"], "GET /jobs/{job_id}"),
    "approval rule": (["approvals", "rule", "ls"], "POST /approvals/rules"),
    "bulk order": (["jobs", "cancel", "--search", "kind:none"], "GET /operations/{operation_id}"),
    "lane": (["lanes", "ls"], "GET /admin/workers/lanes"),
    "status": (["workers", "status"], "GET /admin/workers/status"),
    "overview": (["stats"], "GET /stats/overview"),
    "gate": (["limits", "show", "door"], "GET /limits/gates/{key}"),
    "rate": (["limits", "show", "post"], "GET /limits/rates/{key}"),
    "schedule": (["schedules", "ls"], "GET /schedules/{name}"),
    "run of a schedule": (["schedules", "run", "nightly", "--app", "tasks:app"], "POST /schedules/{name}/run"),
    "backfill": (
        ["schedules", "backfill", "nightly", "--app", "tasks:app", "--from", "2024-01-01", "--until", "2024-01-02"],
        "POST /schedules/{name}/backfill",
    ),
    "workflow": (["workflows", "ls"], "GET /workflows"),
    "workflow with steps": (["workflows", "show", "{workflow}"], "GET /workflows/{workflow_id}"),
    "token": (["tokens", "ls"], "DELETE /tokens/{token_id}"),
    "new token": (["tokens", "create", "another", "--role", "user"], "POST /tokens"),
    "audit entry": (["audit", "ls"], "GET /audit"),
}
MORE = {
    "one job": {"attempts", "acts"},  # GET /jobs/{id}/attempts is asked for separately over REST
    "submitted job": {"what"},  # created, kept or replaced; REST says it with its status and `deduplicated`
    "pending job": {"approval"},  # GET /jobs/{id}/approval is asked for separately over REST
    "overview": {"throughput", "backlog", "failures", "tenants", "slow", "references"},  # a request each over REST
    "gate": {"what"},  # one list of gates and rates
    "rate": {"what"},
    "token": {"state"},  # valid, expired or revoked, for scripts without a clock
    "new token": {"state"},
}
"""Members of the command line alone, and why."""


@pytest.fixture
async def ids(database_url: str) -> dict[str, str]:
    """A database with one of everything; the ids that commands name."""
    app = Rowlock(database_url)

    @app.job("greet", lane="front", gate=lambda name: "door", rate=Rate(10, "1s", key="post"))  # noqa: ARG005 - as the arguments are called
    async def greet(name: str) -> None: ...

    @app.job("pay", approval=Approval(approvers=2))
    async def pay() -> None: ...

    async with app:
        async with app.worker():
            await app.lanes.create(Lane("spare", rate=Rate.parse("10/s")))
            done = await greet.enqueue(name="Ada")
            await done.wait(timeout=20)
            await pay.enqueue()
            await app.approvals.add_rule(kind="pay*", by="ada")
            await app.schedules.create("nightly", "greet", every="1h", args={"name": "Ada"})
            flow = Workflow("orders")
            first = flow.add("first", greet.step("first"))
            flow.add("second", greet.step("second"), after=[first])
            started = await flow.enqueue()
            await app.tokens.create("robot", roles=["user"])
        async with opened(database_url) as store:
            held = await store.enqueue("held")
            await store.claim(await store.worker("clerk"), held)
        return {"job": done.public_id, "workflow": started.public_id}


@pytest.mark.parametrize("subject", SUBJECTS)
async def test_records_have_the_members_of_the_rest_answers(cli: Cli, ids: dict[str, str], subject: str) -> None:
    words, route = SUBJECTS[subject]
    named = [ids[word.strip("{}")] if word in ("{job}", "{workflow}") else word for word in words]
    record = (await cli(*named, "--json")).json
    records = record if isinstance(record, list) else [record]
    assert records
    for one in records:
        own = {name: value for name, value in one.items() if name not in MORE.get(subject, ())}
        assert list(unlike(own, answer_of(route), subject)) == []


def answer_of(route: str) -> Any:  # noqa: ANN401 - a JSON schema
    """The schema of one thing in a route's answer; of a list, that of its items."""
    method, _, path = route.partition(" ")
    responses = DOCUMENT["paths"][f"/api/v1{path}"][method.lower()]["responses"]
    code = next(code for code in ("200", "201", "202") if code in responses)
    schema = resolved(responses[code]["content"]["application/json"]["schema"])
    properties = schema["properties"]
    return resolved(properties["items"]["items"]) if "items" in properties else schema


def resolved(schema: Any) -> Any:  # noqa: ANN401 - a JSON schema
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def unlike(value: object, schema: Any, where: str) -> Iterator[str]:  # noqa: ANN401 - a JSON schema
    """Where a value differs from a schema: members, types, and the form of instants."""
    schema = resolved(schema)
    choices = schema.get("anyOf") or [schema]
    differences = [list(_unlike(value, resolved(choice), where)) for choice in choices]
    yield from min(differences, key=len)


def _unlike(value: object, schema: Any, where: str) -> Iterator[str]:  # noqa: ANN401 - a JSON schema
    kind = schema.get("type")
    if kind in TYPES and not isinstance(value, TYPES[kind]):
        yield f"{where} is {value!r}, not {kind}"
    elif schema.get("format") == "date-time" and not INSTANT.fullmatch(str(value)):
        yield f"{where} is {value!r}, not RFC 3339 in UTC"
    elif kind == "array" and isinstance(value, list):
        for n, item in enumerate(value):
            yield from unlike(item, schema["items"], f"{where}[{n}]")
    elif kind == "object" and isinstance(value, dict):
        yield from _unlike_object(value, schema, where)
    elif kind in ("array", "object"):
        yield f"{where} is {value!r}, not {kind}"


def _unlike_object(value: dict[str, object], schema: Any, where: str) -> Iterator[str]:  # noqa: ANN401 - a JSON schema
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    if properties is not None and value.keys() != properties.keys():
        yield f"{where} differs in {sorted(value.keys() ^ properties.keys())}"
    for name, item in value.items():
        expected = (properties or {}).get(name, others if isinstance(others, dict) else None)
        if expected is not None:
            yield from unlike(item, expected, f"{where}.{name}")


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (["jobs", "ls", "--bogus"], 2, "invalid-usage"),
        (["jobs", "bogus"], 2, "invalid-usage"),
        (["lanes", "set"], 2, "invalid-usage"),
        (["jobs", "ls", "--limit", "many"], 2, "invalid-usage"),
        (["worker", "--bogus"], 2, "invalid-usage"),
        (["run-job", "5"], 2, "invalid-configuration"),
        (["worker"], 2, "invalid-configuration"),
        (["worker", "--app", "nowhere:app"], 2, "invalid-configuration"),
        (["serve"], 2, "invalid-configuration"),
        (["jobs", "ls", "--database-url", NOWHERE], 3, "unavailable"),
        (["jobs", "ls", "--schema", "elsewhere"], 3, "unavailable"),
        (["schema", "status", "--schema", "elsewhere"], 3, "unavailable"),
        (["jobs", "show", "7777"], 1, "job-not-found"),
        (["jobs", "cancel", "7777"], 1, "job-not-found"),
        (["jobs", "show", "nonsense"], 2, "invalid-id"),
        (["jobs", "ls", "state:nonsense"], 2, "invalid-search"),
        (["jobs", "ls", "--after", "nonsense"], 2, "invalid-cursor"),
        (["lanes", "set", "default", "--poll-interval", "soon"], 2, "invalid-option"),
        (["lanes", "drain", "nowhere"], 1, "lane-not-found"),
        (["enqueue", "nothing"], 1, "kind-not-found"),
        (["enqueue", "nothing", "--args", "{"], 2, "invalid-arguments"),
        (["schedules", "run", "nothing"], 1, "schedule-not-found"),
        (["workflows", "show", "7777"], 1, "workflow-not-found"),
        (["tokens", "revoke", "nothing"], 1, "token-not-found"),
        (["roles", "rm", "nothing"], 1, "role-not-found"),
        (["limits", "show", "nothing"], 1, "limit-not-found"),
        (["workers", "drain", "nobody"], 1, "worker-not-found"),
        (["approvals", "rule", "rm", "7"], 1, "rule-not-found"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
async def test_an_error_is_one_problem_on_standard_error(cli: Cli, words: list[str], exit_code: int, code: str) -> None:
    answer = await cli(*words, "--json")
    problem = json.loads(answer.err)
    assert (answer.code, problem["code"]) == (exit_code, code)
    assert problem["title"]
    assert problem["detail"]
    assert answer.out == "" or json.loads(answer.out) is not None


async def test_a_problem_brings_what_is_known_beside_its_message(cli: Cli) -> None:
    search = json.loads((await cli("jobs", "ls", "state:faild", "--json")).err)
    assert search["position"] == 6
    once = ["enqueue", "greet", "--app", "tasks:app", "--args", '{"name": "Ada"}', "--unique-key", "a", "--json"]
    first = (await cli(*once)).json
    assert json.loads((await cli(*once)).err)["job_id"] == first["id"]


HUGE = "99999999999999999999999"


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "ls", "--before", HUGE],
        ["audit", "ls", "--within", "99 years"],
        ["approvals", "rule", "rm", HUGE],
        ["lanes", "set", "default", "--slots", HUGE],
        ["lanes", "set", "default", "--max-total", HUGE],
        ["lanes", "set", "default", "--version", HUGE],
        ["lanes", "set", "default", "--aging-interval", "100 years"],
        ["workers", "drain", HUGE],
        ["schema", "upgrade", "--to", "9999"],
        ["schema", "downgrade", "--to", "9999"],
        ["limits", "ls", "--limit", "-1"],
        ["limits", "ls", "--limit", HUGE],
        ["limits", "set", "key", "--limit", HUGE],
        ["enqueue", "greet", "--app", "tasks:app", "--args", '{"name": "A"}', "--priority", HUGE],
        ["enqueue", "greet", "--app", "tasks:app", "--args", '{"name": "A"}', "--run-in", "100 years"],
        ["jobs", "show", HUGE],
        ["jobs", "priority", "1", HUGE],
        ["jobs", "edit", "1", "--priority", HUGE],
        ["jobs", "logs", HUGE],
        ["jobs", "ls", "--schema", ""],
        ["jobs", "ls", "--database-url", "nonsense"],
        ["stats", "--window", "0s"],
        ["schedules", "backfill", "x", "--from", "9999-12-31", "--until", "9999-12-31"],
        ["schedules", "add", "x", "greet", "--every", "1us"],
        ["workflows", "show", HUGE],
    ],
    ids=" ".join,
)
async def test_a_foreseeable_mistake_shows_no_traceback(cli: Cli, words: list[str]) -> None:
    # Cli asserts that there is none.
    answer = await cli(*words, "--json")
    assert answer.code in (0, 1, 2, 3)
    if answer.code:
        assert json.loads(answer.err)["detail"]
