"""Saved views: private and shared, by tenant, with their changes in the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock.errors import InvalidOption, ViewExists
from rowlock.model.access import ALL, Permission, Principal

if TYPE_CHECKING:
    from tests.api.conftest import Rest

NARROW = ALL - {Permission.READ_ALL}
ADA = Principal("ada", "acme", permissions=NARROW)


async def test_a_view_is_kept_changed_shared_and_deleted(rest: Rest) -> None:
    async with rest.knows(ADA) as client:
        assert (await client.get("/views")).json() == {"items": []}
        body = {"name": "mine", "query": "state:failed", "columns": ["kind", "error"], "sort": "oldest"}
        made = await client.post("/views", json=body)
        assert made.status_code == 201, made.text
        view = made.json()
        assert {key: view[key] for key in body} == body
        assert (view["own"], view["shared"], view["owner"], view["tenant"]) == (True, False, "ada", "acme")
        again = await client.post("/views", json=body)
        assert (again.status_code, again.json()["code"]) == (409, "conflict")
        changed = (await client.patch(f"/views/{view['id']}", json={"name": "ours", "shared": True})).json()
        assert (changed["name"], changed["query"], changed["shared"], changed["version"]) == (
            "ours",
            "state:failed",
            True,
            2,
        )
        other = (await client.post("/views", json={"name": "other"})).json()
        taken = await client.patch(f"/views/{other['id']}", json={"name": "ours"})
        assert (taken.status_code, taken.json()["code"]) == (409, "conflict")
        wrong = await client.post("/views", json={"name": "wrong", "query": "stat:x"})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid-search")
    async with rest.knows(Principal("bo", "acme", permissions=NARROW)) as client:
        (seen,) = (await client.get("/views")).json()["items"]
        assert (seen["name"], seen["own"], seen["owner"]) == ("ours", False, "ada")
        refused = await client.patch(f"/views/{view['id']}", json={"name": "his"})
        assert (refused.status_code, refused.json()["permission"]) == (403, "jobs:read_all")
        hidden = await client.delete(f"/views/{other['id']}")
        assert (hidden.status_code, hidden.json()["code"]) == (404, "view-not-found")
    async with rest.knows(Principal("zoe", "zeta", permissions=NARROW)) as client:
        assert (await client.get("/views")).json()["items"] == []
        assert (await client.delete(f"/views/{view['id']}")).status_code == 404
    async with rest.client() as client:
        assert (await client.delete(f"/views/{view['id']}")).json()["name"] == "ours"
        audit = (await client.get("/audit", params={"target": f"view:{view['id']}"})).json()["items"]
        assert [entry["action"] for entry in audit] == ["view.delete", "view.set", "view.create"]


async def test_sharing_takes_a_permission(rest: Rest) -> None:
    async with rest.knows(Principal("cy", "acme", permissions=NARROW - {Permission.EDIT})) as client:
        view = (await client.post("/views", json={"name": "mine"})).json()
        for asked in (
            client.post("/views", json={"name": "ours", "shared": True}),
            client.patch(f"/views/{view['id']}", json={"shared": True}),
        ):
            refused = await asked
            assert (refused.status_code, refused.json()["permission"]) == (403, "jobs:edit")


async def test_names_columns_and_orders_that_cannot_be_are_refused(rest: Rest) -> None:
    views = rest.app.views
    for wrong in ({"name": " "}, {"name": "x" * 101}, {"columns": [""]}, {"columns": ["c"] * 51}, {"sort": "size"}):
        with pytest.raises(InvalidOption):
            await views.create(**{"name": "v", **wrong})  # type: ignore[arg-type]
    await rest.store.execute(
        "INSERT INTO {s}.saved_views (owner, name, query) SELECT 'rowlock', 'v' || n, '' FROM generate_series(1, 200) n"
    )
    owner = await rest.app.desk(Principal("rowlock", permissions=ALL)).views.list()
    assert len(owner) == 200
    with pytest.raises(ViewExists):
        await rest.app.desk(Principal("rowlock", permissions=ALL)).views.create("one more")
