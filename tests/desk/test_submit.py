"""Submitting by the name of a kind: whose job it becomes, with the code and without."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr  # noqa: TC002 - read by the codec

from rowlock import Forbidden, Gate, InvalidArguments, Permission, Principal, Retry, UniqueConflict, UnknownKind
from rowlock.errors import ArgumentsTooLarge
from rowlock.model.access import ALL

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.desk.conftest import Desk

    from rowlock import Rowlock

USER = Principal("ada", "acme", frozenset({Permission.SUBMIT, Permission.READ}))
OTHER = Principal("eve", "globex", USER.permissions)
AGENT = Principal("bot", "acme", USER.permissions | {Permission.SUBMIT_AS})


@pytest.fixture
def app(make_app: Callable[..., Rowlock]) -> Rowlock:
    """With kinds."""
    app = make_app(args_limit=1000)

    @app.job("build", priority=4, retry=Retry(attempts=3), expires_in="1h", approval=True, gate=Gate("g", 2), version=2)
    async def build(org_id: int, /, note: str = "") -> None: ...

    @build.upgrade(from_version=1)
    def as_now(args: dict[str, Any]) -> dict[str, Any]:
        return args

    @app.job("login")
    async def login(password: SecretStr) -> None: ...

    @app.job("keyed", gate=lambda key: f"key:{key}")
    async def keyed(key: str) -> None: ...

    @app.job("plain")
    async def plain(org_id: int = 0) -> None: ...

    return app


async def test_tenant_and_submitter_are_those_of_whoever_asks(app: Rowlock) -> None:
    made = await app.desk(USER).jobs.submit("build", {"org_id": 7, "note": "x"})
    assert (made.what, made.job.tenant, made.job.submitted_by) == ("created", "acme", "ada")
    assert (made.job.args, made.job.state, made.job.args_version) == ({"org_id": 7, "note": "x"}, "pending", 2)
    (line,) = await app.audit.list(job_id=made.job.id)
    assert (line.action, line.subject, line.after) == (
        "job.submit",
        "ada",
        {"kind": "build", "state": "pending", "tenant": "acme", "submitted_by": "ada"},
    )


@pytest.mark.parametrize("claim", [{"tenant": "globex"}, {"submitted_by": "grace"}])
async def test_acting_for_others_takes_a_permission(app: Rowlock, claim: dict[str, Any]) -> None:
    for who in (USER, replace(USER, kind="system"), replace(USER, kind="token")):
        with pytest.raises(Forbidden, match="jobs:submit_as"):
            await app.desk(who).jobs.submit("plain", **claim)
    job = (await app.desk(AGENT).jobs.submit("plain", **claim)).job
    assert {"tenant": job.tenant, "submitted_by": job.submitted_by} == {
        "tenant": "acme",
        "submitted_by": "bot",
        **claim,
    }


@pytest.mark.parametrize("policy", ["reject", "keep", "replace"])
async def test_nobody_meets_a_strangers_key(app: Rowlock, policy: Any) -> None:  # noqa: ANN401 - OnConflict
    mine = (await app.desk(USER).jobs.submit("plain", {"org_id": 1}, unique_key="k")).job
    theirs = await app.desk(OTHER).jobs.submit("plain", {"org_id": 2}, unique_key="k", on_conflict=policy)
    assert (theirs.what, theirs.job.id != mine.id) == ("created", True)
    assert (await app.jobs.get(mine.id)).args == {"org_id": 1}
    once = [(await app.desk(who).jobs.submit("plain", idempotency_key="i")).job.id for who in (USER, USER, OTHER)]
    assert once[0] == once[1] != once[2]
    with pytest.raises(UniqueConflict):
        await app.desk(USER).jobs.submit("plain", unique_key="k")


async def test_a_gate_is_not_for_everybody_to_take(app: Rowlock) -> None:
    with pytest.raises(Forbidden, match="jobs:edit"):
        await app.desk(USER).jobs.submit("plain", gate="everybodys")


async def test_a_kept_job_leaves_no_line(app: Rowlock) -> None:
    for what in ("created", "kept"):
        made = await app.desk(USER).jobs.submit("plain", unique_key="k", on_conflict="keep")
        assert made.what == what
    assert len(await app.audit.list()) == 1


async def test_joining_a_transaction(app: Rowlock) -> None:
    async with app.database().connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        made = await app.desk(USER).jobs.submit("plain", connection=connection)
        assert await app.jobs.many([made.job.id]) == []
        await transaction.rollback()
    assert await app.audit.list() == []


async def test_a_misspelt_kind_is_answered_with_every_known_kind_once(
    app: Rowlock, make_app: Callable[..., Rowlock]
) -> None:
    async with app.worker():
        pass
    with pytest.raises(UnknownKind) as here:
        await app.jobs.submit("biuld")
    assert str(here.value).count("'build'") == 1
    assert str(here.value).endswith("No worker has registered it in the database either.")
    with pytest.raises(UnknownKind, match=r"either; workers have build, .*\. Did you mean 'build'\?$"):
        await make_app().jobs.submit("biuld")


async def test_without_the_code_a_kind_is_submitted_as_workers_told(
    app: Rowlock, make_app: Callable[..., Rowlock]
) -> None:
    bare = make_app(args_limit=1000)
    with pytest.raises(UnknownKind, match="no kind 'build'"):
        await bare.jobs.submit("build", {"org_id": 7})
    async with app.worker():
        pass
    made = await bare.desk(USER).jobs.submit("build", {"org_id": 7}, priority=5)
    direct = await app.desk(USER).jobs.submit("build", {"org_id": 7}, priority=5)
    same = "kind", "args", "args_version", "state", "priority", "max_attempts", "gate_key", "tenant", "submitted_by"
    assert [getattr(made.job, name) for name in same] == [getattr(direct.job, name) for name in same]
    assert made.job.expires_at is not None
    for kind in ("login", "keyed"):
        with pytest.raises(UnknownKind, match="its code computes"):
            await bare.jobs.submit(kind, {"password": "x"})
    for args, wrong in (
        ([1], "by name"),
        ({"$version": 9}, "called"),
        ({"x": "\x00"}, "NUL"),
        ({"x": object()}, "JSON"),
    ):
        with pytest.raises(InvalidArguments, match=wrong):
            await bare.jobs.submit("plain", args)
    with pytest.raises(ArgumentsTooLarge):
        await bare.jobs.submit("plain", {"x": "y" * 1000})


async def test_arguments_are_checked_where_the_code_is(app: Rowlock) -> None:
    with pytest.raises(InvalidArguments, match="org_id"):
        await app.desk(USER).jobs.submit("build", {"org_id": "seven"})
    assert (await app.jobs.submit("build", [7])).job.args == {"org_id": 7}


async def test_a_masked_secret_comes_back_as_it_is_stored(desk: Desk, app: Rowlock) -> None:
    made = await app.desk(Principal("root", None, ALL - {Permission.READ_ARGS})).jobs.submit(
        "login", {"password": "pw12"}
    )
    assert made.job.args == {"password": "•••"}
    assert "pw12" not in await desk.store.value("SELECT jsonb_agg(to_jsonb(a))::text FROM {s}.audit a")


async def test_a_key_shows_nothing_of_a_job_that_the_caller_may_not_read(app: Rowlock) -> None:
    first = await app.desk(USER).jobs.submit("plain", {"org_id": 7}, unique_key="k", meta={"note": "hush"}, tags=["t"])
    colleague = Principal("eve", "acme", frozenset({Permission.SUBMIT}))
    kept = await app.desk(colleague).jobs.submit("plain", {"org_id": 8}, unique_key="k", on_conflict="keep")
    assert (kept.what, kept.job.id, kept.job.state) == ("kept", first.job.id, "queued")
    assert (kept.job.args, kept.job.meta, kept.job.tags, kept.job.submitted_by) == ({}, {}, (), None)
    reader = replace(colleague, permissions=USER.permissions)
    seen = await app.desk(reader).jobs.submit("plain", {"org_id": 8}, unique_key="k", on_conflict="keep")
    assert (seen.what, seen.job.args) == ("kept", {"org_id": 7})
    own = await app.desk(replace(USER, permissions=colleague.permissions)).jobs.submit(
        "plain", {"org_id": 9}, unique_key="k", on_conflict="keep"
    )
    assert own.job.args == {"org_id": 7}
