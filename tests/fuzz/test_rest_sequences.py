"""Requests that follow from each other, along the links of the OpenAPI document: a job that was submitted is approved,
changed, cancelled, retried and removed, in any order, with job code beside the server and without.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import Flaky
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks
from tests.api.conftest import ADMIN, declare, running
from tests.fuzz.profile import LONG, examples

from rowlock import Rowlock, Workflow
from rowlock.api import RowlockAPI

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowlock.model.access import Principal

CHECKS: Final = [checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance]
RUNS: Final[tuple[dict[str, Any], ...]] = (
    {"kind": "greet", "args": {"name": "Ada"}},
    {"kind": "pay", "args": {"amount": 7}},
    {"kind": "explode"},
)
KINDS: Final = {"enum": [each["kind"] for each in RUNS]}
FITTING: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "Submission": (
        *RUNS,
        *({**each, "run_in": "1h", "gate": "door", "tags": ["a"]} for each in RUNS),
        *({**each, "approval": True, "unique_key": "one", "on_conflict": "replace"} for each in RUNS),
    ),
    "NewSchedule": tuple({"name": f"nightly-{n}", "cron": "0 2 * * *", **each} for n, each in enumerate(RUNS)),
    "NewLane": tuple({"name": f"lane-{n}", "rate": {"amount": 5}, "slots": n} for n in range(3)),
    "NewToken": ({"name": "ci", "roles": ["operator"]},),
}
"""Bodies that are accepted, so that other requests can follow from the answers; strange ones are test_rest.py's."""


class Root:
    async def authenticate(self, _connection: object) -> Principal:
        return ADMIN


def fitting(document: dict[str, Any]) -> dict[str, Any]:
    """The document with values that this server knows, without streams and without Prefer: those wait for jobs."""
    made = copy.deepcopy(document)
    schemas = made["components"]["schemas"]
    for name, bodies in FITTING.items():
        schemas[name] = {"enum": list(bodies)}
    schemas["NewRule"]["properties"]["kind"] = KINDS
    for path in [path for path, item in made["paths"].items() if any(one.get("x-streams") for one in item.values())]:
        del made["paths"][path]
    streams = {one for one in made["components"]["links"] if one.startswith("stream_")}
    # Every workflow: with a strange filter the list would be empty, and nothing could follow.
    made["paths"]["/api/v1/workflows"]["get"]["parameters"] = []
    for operation in (each for item in made["paths"].values() for each in item.values()):
        if "parameters" in operation:
            operation["parameters"] = [each for each in operation["parameters"] if each["name"].lower() != "prefer"]
    for item in made["paths"].values():
        for response in (each for operation in item.values() for each in operation["responses"].values()):
            for name in streams & response.get("links", {}).keys():
                del response["links"][name]
    return made


async def begin_workflows(app: Rowlock) -> None:
    """A workflow that ends, one that fails, and the newest, whose first step waits for approval."""
    greet, explode = app.task("greet").step("Ada"), app.task("explode").step()
    waiting = app.task("greet").options(approval=True).step("Ada")
    for first, second in ((greet, greet), (greet, explode), (waiting, greet)):
        flow: Any = Workflow("orders")
        begun = flow.add("first", first)
        flow.add("second", second, after=[begun])
        await flow.enqueue()


@pytest.fixture(params=["with job code", "without job code"])
def served(request: pytest.FixtureRequest, database_url: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The address of a server and its document. Without job code: it knows the kinds from a worker elsewhere."""
    coded, bare = declare(Rowlock(database_url)), Rowlock(database_url)
    worker = coded.start_worker()
    asyncio.run(begin_workflows(coded))
    api = RowlockAPI(coded if request.param == "with job code" else bare, auth=Root())
    with running(api) as url:
        yield url, fitting(api.openapi())
    worker.stop()
    for app in (coded, bare):
        asyncio.run(app.close())


def sequences_of(url: str, document: dict[str, Any], answered: Counter[tuple[str, int]], broken: list[str]) -> Any:  # noqa: ANN401 - schemathesis'
    """A state machine that follows the links, counts the answers and writes down what is wrong with one."""
    parent: Any = schemathesis.openapi.from_dict(document).as_state_machine()

    class Sequence(parent):  # type: ignore[misc]  # made at run time
        def setup(self) -> None:
            self.asked: list[str] = []

        def get_call_kwargs(self, _case: object) -> dict[str, Any]:
            return {"base_url": url, "headers": {"If-Match": "*"}, "timeout": 60}

        def validate_response(self, response: Any, case: Any, **_more: object) -> None:  # noqa: ANN401 - schemathesis'
            answered[case.operation.label, response.status_code] += 1
            self.asked.append(f"{case.operation.label}: {response.status_code}")
            try:
                assert response.status_code < 500 or response.json()["code"] == "missing-extra", response.content
                case.validate_response(response, checks=CHECKS)
            except (AssertionError, FailureGroup) as error:
                broken.append(f"{error}\nafter {self.asked}\n{case.as_curl_command()}")

    return Sequence


FOLLOWED: Final = {
    "GET /api/v1/workflows/{workflow_id}",
    "POST /api/v1/workflows/{workflow_id}/cancel",
    "POST /api/v1/workflows/{workflow_id}/retry",
}


def lacking(answered: Counter[tuple[str, int]]) -> list[str]:
    """Words for what the sequences have not reached yet; 409: the workflow is there, and a request has ended it."""
    reached = {label for label, status in answered if "{" in label and status < 300}
    answering = {label for label, status in answered if status < 300 or status == 409}
    too_few = [f"{len(reached)} of 21 routes with an id"] if len(reached) <= 20 else []
    return too_few + sorted(FOLLOWED - answering)


@pytest.mark.timeout(0 if LONG else 600)
def test_no_sequence_of_requests_breaks_a_route_or_its_description(served: tuple[str, dict[str, Any]]) -> None:
    url, document = served
    answered: Counter[tuple[str, int]] = Counter()
    broken: list[str] = []
    rounds = itertools.count(random.randrange(1 << 30) if LONG else 0)  # noqa: S311 - no secret
    enough, most = examples(500), examples(5000)
    # Which routes a number of requests reaches is luck: the rounds go on until each one that must be there was.
    while not broken and (answered.total() < enough or (lacking(answered) and answered.total() < most)):
        # A round ends when Hypothesis sees that the same requests are answered differently: jobs end meanwhile.
        with contextlib.suppress(Flaky):
            seed(next(rounds))(sequences_of(url, document, answered, broken)).run(
                settings=settings(
                    max_examples=10,
                    stateful_step_count=15,
                    database=None,
                    deadline=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
            )
    assert broken == []
    assert lacking(answered) == [], answered
