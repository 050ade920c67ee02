from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.model.access import ALL, Permission, Principal

if TYPE_CHECKING:
    from tests.api.conftest import Rest

RULES = "/approvals/rules"


async def test_what_waits_is_listed_and_how_far_it_has_come(rest: Rest) -> None:
    made = [(await rest.submit("pay", args={"amount": n}))["id"] for n in range(3)]
    await rest.submit()
    async with rest.client() as client:
        first = await client.get("/approvals", params={"limit": 2})
        assert [job["id"] for job in first.json()["items"]] == made[:2]
        rest_of_them = await client.get("/approvals", params={"limit": 2, "cursor": first.json()["next_cursor"]})
        assert [job["id"] for job in rest_of_them.json()["items"]] == made[2:]
        found = await client.get("/approvals", params={"q": "args.amount:1"})
        assert [job["id"] for job in found.json()["items"]] == [made[1]]
        standing = (await client.get(f"/jobs/{made[0]}/approval")).json()
        assert standing == {
            "job_id": made[0],
            "needed": 1,
            "four_eyes": True,
            "approvers": [],
            "answer_by": None,
        }
        async with rest.client("boss") as boss:
            await boss.post(f"/jobs/{made[0]}/approve")
        assert (await client.get(f"/jobs/{made[0]}/approval")).json()["approvers"] == ["boss"]


async def test_rules_approve_in_advance_and_are_their_tenants_own(rest: Rest) -> None:
    async with rest.client() as client:
        async with rest.client("boss") as boss:
            made = await boss.post(RULES, json={"kind": "pay", "args": {"amount": 5}, "note": "pennies"})
        assert made.status_code == 201, made.text
        rule = made.json()
        assert (rule["kind"], rule["args"], rule["created_by"]) == ("pay", {"amount": 5}, "boss")
        assert rule["args_match"] == "exact"
        assert (await rest.submit("pay", args={"amount": 5}))["state"] == "queued"
        assert (await rest.submit("pay", args={"amount": 6}))["state"] == "pending"
        assert (await client.get(RULES)).json()["items"] == [rule]
        empty = await client.post(RULES, json={})
        assert (empty.status_code, empty.json()["code"]) == (422, "invalid-option")
        async with rest.knows(Principal("bo", "acme", permissions=ALL - {Permission.READ_ALL})) as narrow:
            assert (await narrow.get(RULES)).json()["items"] == []
            theirs = await narrow.delete(f"{RULES}/{rule['id']}")
            assert (theirs.status_code, theirs.json()["code"]) == (404, "rule-not-found")
            own = await narrow.post(RULES, json={"kind": "*"})
            assert (own.status_code, own.json()["tenant"]) == (201, "acme")
            other = await narrow.post(RULES, json={"kind": "pay", "tenant": "other"})
            assert (other.status_code, other.json()["code"]) == (422, "invalid-option")
        gone = await client.delete(f"{RULES}/{rule['id']}")
        assert (gone.status_code, gone.json()) == (200, rule)
        again = await client.delete(f"{RULES}/{rule['id']}")
        assert (again.status_code, again.json()["code"]) == (404, "rule-not-found")
        audit = [entry["action"] for entry in (await client.get("/audit")).json()["items"]]
        assert audit.count("rule.add") == 2
        assert audit.count("rule.remove") == 1
