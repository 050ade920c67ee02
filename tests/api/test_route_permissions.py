"""Each route works with exactly the permissions of the route table; without one of them it is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.api.permission_matrix import (
    METHODS,
    OF_THE_CALLER,
    SHOWS_NOTHING,
    TENANT,
    WITHOUT_SCOPE,
    caller,
    cases_of,
    everything,
)

from rowlock.api.route_permissions import RoutePermissions
from rowlock.model import ids
from rowlock.model.access import ALL, SCOPABLE, Permission, ScopedPermission

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api.conftest import Rest
    from tests.api.permission_matrix import Case


ELSEWHERE = {
    "get_metrics": 501,
    "log_in_by_link": 404,
    "begin_oidc_login": 404,
    "finish_oidc_login": 404,
    "log_out_of_oidc": 404,
}
"""Answers of a server without an extra package, with authentication, and without an identity provider."""


async def test_each_route_works_with_exactly_the_permissions_of_the_route_table(rest: Rest) -> None:
    world, cases = await everything(rest)
    wrong = {}
    for case in cases:
        asked = await world.request(case)
        async with rest.knows(caller(case, case.needs)) as client:
            answer = await world.ask(client, case, asked)
        elsewhere = ELSEWHERE.get(case.operation) == answer.status_code
        if not answer.is_success and not elsewhere:
            wrong[case.operation, case.name] = (answer.status_code, answer.text[:300])
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


async def test_each_route_without_one_of_its_permissions_is_refused_and_changes_nothing(rest: Rest) -> None:
    world, cases = await everything(rest)
    wrong: dict[tuple[str, str, str], object] = {}
    for case in cases:
        for lacking in sorted(case.needs):
            asked = await world.request(case)
            before = await world.picture()
            async with rest.knows(caller(case, ALL - {lacking})) as client:
                answer = await world.ask(client, case, asked)
            changed = [name for name, value in (await world.picture()).items() if value != before[name]]
            if answer.status_code != 403 or answer.json()["permission"] != lacking or changed:
                wrong[case.operation, case.name, lacking] = (answer.status_code, changed, answer.text[:300])
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


def scoped(case: Case) -> Iterator[tuple[Permission, str, str]]:
    """Each permission of the case that can have a scope: with one that fits, and with one of something else."""
    fitting = {"kind": f"{case.kind[:3]}*", "lane": case.lane}
    for permission in sorted(case.needs & SCOPABLE.keys()):
        for by in SCOPABLE[permission]:
            yield permission, f"{permission}@{by}={fitting[by]}", f"{permission}@{by}=no_such*"


async def test_each_route_works_with_exactly_the_scope_of_what_it_is_asked_about(rest: Rest) -> None:
    world, cases = await everything(rest)
    await rest.app.lanes.create("rest", kinds=["*"])
    wrong, without = {}, set()
    for case in cases:
        for permission, fitting, _ in scoped(case):
            asked = await world.request(case)
            async with rest.knows(caller(case, case.needs - {permission} | {ScopedPermission(fitting)})) as client:
                answer = await world.ask(client, case, asked)
            if answer.status_code == 403 and "this takes it without a scope" in answer.text:
                without.add((case.operation, case.name))
            elif not answer.is_success:
                wrong[case.operation, case.name, fitting] = (answer.status_code, answer.text[:300])
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())
    # A gate is shared by every kind.
    assert without - {("submit_job", "with a gate")} == {
        (each.operation, each.name) for each in cases if each.operation in WITHOUT_SCOPE
    }


async def test_each_route_with_a_scope_elsewhere_is_refused_or_empty_and_changes_nothing(rest: Rest) -> None:
    world, cases = await everything(rest)
    await rest.app.lanes.create("rest", kinds=["*"])
    wrong: dict[tuple[str, str, str], object] = {}
    for case in cases:
        if case.operation in OF_THE_CALLER:
            continue
        for permission, _, elsewhere in scoped(case):
            asked = await world.request(case)
            before = await world.picture()
            held = (ALL - {permission, Permission.READ_ALL}) | {ScopedPermission(elsewhere)}
            async with rest.knows(caller(case, held)) as client:
                answer = await world.ask(client, case, asked)
            changed = [name for name, value in (await world.picture()).items() if value != before[name]]
            if case.operation in SHOWS_NOTHING:
                right = answer.is_success and "greet" not in answer.text
            else:
                right = answer.status_code in (403, 404)
            if not right or changed:
                wrong[case.operation, case.name, elsewhere] = (answer.status_code, changed, answer.text[:300])
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


def test_the_matrix_has_a_line_for_every_route(rest: Rest) -> None:
    document = rest.api.openapi()
    described = [item[method] for item in document["paths"].values() for method in METHODS & item.keys()]
    routes = {each["operationId"] for each in described if not each.get("x-embed")}
    assert {case.operation for case in cases_of(document)} == routes
    assert len(routes) > 80


@pytest.mark.parametrize("role", ["user", "operator", "platform_admin"])
async def test_a_role_may_do_what_its_permissions_say_and_nothing_else(rest: Rest, role: str) -> None:
    held = (await rest.app.roles.get(role)).permissions
    world, cases = await everything(rest)
    wrong = {}
    for case in cases:
        asked = await world.request(case)
        async with rest.knows(caller(case, held)) as client:
            answer = await world.ask(client, case, asked)
        if (answer.status_code == 403) is (case.needs <= held) or answer.status_code in (401, 422, 500):
            wrong[case.operation, case.name] = (answer.status_code, answer.text[:300])
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


async def test_own_jobs_and_the_workers_of_the_platform_are_one_possible_role(rest: Rest) -> None:
    """The role reads its own jobs only, and operates lanes and the jobs in their slots whoever submitted them."""
    await rest.app.roles.set("on_call", ["jobs:read", "jobs:submit", "workers:view", "workers:manage"])
    who = await rest.app.identity.of("ada", tenant=TENANT, roles=["on_call"])
    theirs = await rest.submit("greet", args={"name": "hidden"}, tenant="globex", tags=["hush"], submitted_by="bo")
    await rest.store.claim(await rest.store.worker(), ids.decode(theirs["id"]))
    async with rest.knows(who) as client:
        assert (await client.get(f"/jobs/{theirs['id']}")).status_code == 404
        status = await client.get("/admin/workers/status")
        ((job,),) = [worker["jobs"] for worker in status.json()["workers"]]
        assert (job["id"], job["kind"]) == (theirs["id"], "greet")
        assert (job["tenant"], job["tags"], job["refs"], job["progress"]) == (None, [], {}, None)
        ordered = await client.post(f"/admin/workers/jobs/{theirs['id']}/cancel", json={"stop": True})
        assert (ordered.status_code, ordered.json()["state"]) == (200, "cancelled"), ordered.text
        assert "hidden" not in ordered.text
        assert "hush" not in ordered.text
        again = await client.post(f"/admin/workers/jobs/{theirs['id']}/cancel")
        assert (again.status_code, again.json()["state"]) == (200, "cancelled")


@pytest.mark.parametrize(
    ("needs", "text"),
    [
        (None, ""),
        (Permission.READ, "`jobs:read`"),
        (RoutePermissions((Permission.READ, Permission.SUBMIT)), "`jobs:read` and `jobs:submit`"),
        (
            RoutePermissions((Permission.READ,), {"a": Permission.EDIT, "b": Permission.EDIT}),
            "`jobs:read` and `jobs:edit` for a or b",
        ),
        (
            RoutePermissions((Permission.SUBMIT,), also={"with a gate": Permission.EDIT}),
            "`jobs:submit`; with a gate also `jobs:edit`",
        ),
    ],
)
def test_permissions_are_written_for_people(needs: RoutePermissions | Permission | None, text: str) -> None:
    assert RoutePermissions.of(needs).text == text
