"""Random orders of random principals whose permissions have scopes, held against a model of what each of them may do.

The model knows nothing of guards and queries: a permission reaches a job if one of its scopes names the job's kind and
lane, and if the job is the principal's own or one that jobs:read_all reaches. Over the desk and over REST alike: an
order within reach is carried out or meets the wrong state, one outside of it is forbidden to a principal that may read
the job, and to all others the job does not exist.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.conftest import Bench, is_clear
from tests.fuzz.profile import PATIENCE, tried
from tests.rights import Rights

from rowlock.api import RowlockAPI
from rowlock.api.auth.trusted import TrustedAuth
from rowlock.errors import Forbidden, JobNotFound, RowlockError
from rowlock.model import ids
from rowlock.model.access import Permission

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowlock import Principal

LANES: Final = {"report.daily": "bulk", "report.weekly": "bulk", "mail": "front"}
"""Kind to lane."""
SCOPES: Final = ("", "@kind=report.*", "@kind=mail", "@kind=report.daily", "@lane=bulk", "@kind=report.*,lane=front")
ORDERS: Final = {
    "get": Permission.READ,
    "explain": Permission.READ,
    "history": Permission.READ,
    "cancel": Permission.CANCEL,
    "stop": Permission.CANCEL,
    "retry": Permission.RETRY,
    "approve": Permission.APPROVE,
    "reject": Permission.APPROVE,
    "delete": Permission.DELETE,
    "reprioritise": Permission.EDIT,
    "signal": Permission.EDIT,
}
ROUTES: Final = {
    "get": ("GET", ""),
    "explain": ("GET", "/explain"),
    "history": ("GET", "/attempts"),
    "cancel": ("POST", "/cancel"),
    "retry": ("POST", "/retry"),
    "approve": ("POST", "/approve"),
    "reject": ("POST", "/reject"),
    "signal": ("POST", "/signals/go"),
}
"""Orders that REST has by the same permission, behind /jobs/{id}."""
GIVEN: Final[dict[str, tuple[Any, ...]]] = {"reprioritise": (7,), "signal": ("go",)}
"""Arguments behind the job's id."""
PERMISSIONS: Final = (*sorted({Permission.READ_ALL, Permission.SUBMIT, *ORDERS.values()}),)


@dataclass(frozen=True)
class StoredJob:
    """A job as the model sees it. row: everything that the table says of it."""

    id: int
    kind: str
    tenant: str | None
    submitted_by: str | None
    row: str

    @property
    def lane(self) -> str:
        return LANES[self.kind]


def rights() -> st.SearchStrategy[Rights]:
    scoped = st.builds("{}{}".format, st.sampled_from(PERMISSIONS), st.sampled_from(SCOPES))
    reading = st.sampled_from([f"{Permission.READ}{scope}" for scope in SCOPES])
    held = st.lists(scoped, max_size=8).flatmap(lambda some: reading.map(lambda one: frozenset([*some, one])))
    return st.builds(Rights, st.sampled_from(["ada", "bob"]), st.sampled_from(["acme", "other", None]), held)


class Stage:
    """An application with jobs of three kinds, in two lanes, of two tenants and of none."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.app = bench, bench.app
        self.asking: Principal | None = None
        api = RowlockAPI(self.app, auth=TrustedAuth(lambda _connection: self.asking))
        transport = httpx.ASGITransport(api.asgi, raise_app_exceptions=True)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://door/api/v1")

    async def fill(self) -> None:
        for kind in LANES:
            self.app.job(kind)(_nothing)
        for lane in ("bulk", "front"):
            await self.app.lanes.create(lane, kinds=[kind for kind, at in LANES.items() if at == lane])

    async def refill(self) -> None:
        """A job of every sort again, whatever became of those before."""
        await self.bench.sql("DELETE FROM jobs")
        for kind in LANES:
            for tenant in ("acme", "other", None):
                for approval in (False, True):
                    await self.app.jobs.submit(kind, {}, tenant=tenant, submitted_by="ada", approval=approval)

    async def jobs(self) -> dict[int, StoredJob]:
        found = await self.bench.sql(
            "SELECT coalesce(jsonb_agg(jsonb_build_array(id, kind, tenant, submitted_by, j::text) ORDER BY id), '[]')"
            "::text FROM jobs j"
        )
        return {job[0]: StoredJob(*job) for job in _read(found)}

    async def by_desk(self, order: str, job_id: int) -> str:
        assert self.asking is not None
        try:
            await getattr(self.app.desk(self.asking).jobs, order)(job_id, *GIVEN.get(order, ()))
        except Forbidden as error:
            assert is_clear(error)
            return "forbidden"
        except JobNotFound as error:
            assert is_clear(error)
            return "missing"
        except RowlockError:
            return "done"  # within reach, and its state does not fit
        return "done"

    async def by_rest(self, order: str, job_id: int) -> str:
        method, path = ROUTES[order]
        answer = await self.client.request(method, f"/jobs/{ids.encode(job_id)}{path}", json=_BODIES.get(order))
        if answer.status_code in (403, 404):
            approval = answer.json()["code"] == "approval-refused"
            return "done" if approval else {403: "forbidden", 404: "missing"}[answer.status_code]
        assert answer.status_code in (200, 202, 204, 409), (order, answer.text)
        return "done"


_BODIES: Final[dict[str, Any]] = {"signal": {"payload": 1}}


async def _nothing() -> None: ...


def _read(text: str) -> list[list[Any]]:
    found: list[list[Any]] = json.loads(text)
    return found


def _unreached(jobs: Iterable[StoredJob], who: Rights, permission: str) -> dict[int, str]:
    return {job.id: job.row for job in jobs if not who.reaches(permission, job, job.lane)}


@pytest.fixture
def stage(bench: Bench) -> Stage:
    made = Stage(bench)
    bench.run(made.fill())
    return made


@pytest.mark.timeout(PATIENCE)
def test_an_order_reaches_what_the_scopes_of_its_permission_say(stage: Stage) -> None:
    async def give(who: Rights, given: list[tuple[str, int, bool]]) -> None:
        await stage.refill()
        stage.asking = who.principal
        first = min(await stage.jobs())
        for order, place, over_rest in given:
            before, permission = await stage.jobs(), ORDERS[order]
            job_id = first + place
            expected = who.outcome(permission, job := before.get(job_id), job.lane if job else "")
            ask = stage.by_rest if over_rest and order in ROUTES else stage.by_desk
            assert await ask(order, job_id) == expected, (who, order, before.get(job_id))
            after = await stage.jobs()
            untouched = _unreached(before.values(), who, permission)
            assert {number: after[number].row for number in untouched if number in after} == untouched

    step = st.tuples(st.sampled_from(sorted(ORDERS)), st.integers(0, 18), st.booleans())

    @tried(60)
    @given(rights(), st.lists(step, min_size=3, max_size=8))
    def one(who: Rights, given: list[tuple[str, int, bool]]) -> None:
        stage.bench.run(give(who, given))

    one()


@pytest.mark.timeout(PATIENCE)
def test_lists_counts_and_bulk_orders_are_of_the_jobs_within_reach(stage: Stage) -> None:
    stage.bench.run(stage.refill())

    async def look(who: Rights, action: str) -> None:
        jobs = await stage.jobs()
        desk = stage.app.desk(who.principal)
        seen = {number for number, job in jobs.items() if who.reaches(Permission.READ, job, job.lane)}
        assert {job.id for job in await desk.jobs.list(limit=100)} == seen
        stage.asking = who.principal
        answer = await stage.client.get("/jobs", params={"limit": 100})
        assert {ids.parse(job["id"]) for job in answer.json()["items"]} == seen
        permission = {"cancel": Permission.CANCEL, "retry": Permission.RETRY, "delete": Permission.DELETE}[action]
        if not who.has(permission):
            with pytest.raises(Forbidden):
                await desk.operations.preview(action, search="")
            return
        meant = {number for number in seen if who.reaches(permission, jobs[number], jobs[number].lane)}
        preview = await desk.operations.preview(action, ids=list(jobs))
        assert preview.count is not None
        assert preview.count.value == len(meant)

    @tried(60)
    @given(rights(), st.sampled_from(["cancel", "retry", "delete"]))
    def one(who: Rights, action: str) -> None:
        stage.bench.run(look(who, action))

    one()


@pytest.mark.timeout(PATIENCE)
def test_a_submission_is_of_a_kind_that_the_permission_names(stage: Stage) -> None:
    async def submit(who: Rights, kind: str, *, over_rest: bool) -> None:
        before = await stage.bench.jobs()
        stage.asking = who.principal
        allowed = who.has(Permission.SUBMIT) and who.names(Permission.SUBMIT, kind, LANES[kind])
        if over_rest:
            answer = await stage.client.post("/jobs", json={"kind": kind})
            assert answer.status_code == (202 if allowed else 403), (who, kind, answer.text)
        elif allowed:
            made = await stage.app.desk(who.principal).jobs.submit(kind, {})
            assert (made.job.tenant, made.job.submitted_by) == (who.tenant, who.subject)
        else:
            with pytest.raises(Forbidden):
                await stage.app.desk(who.principal).jobs.submit(kind, {})
        assert await stage.bench.jobs() == before + allowed

    @tried(60)
    @given(rights(), st.sampled_from(sorted(LANES)), st.booleans())
    def one(who: Rights, kind: str, over_rest: bool) -> None:
        stage.bench.run(submit(who, kind, over_rest=over_rest))

    one()
