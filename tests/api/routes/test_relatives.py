"""Relatives of a job: hooks and the jobs that they follow lead to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.waiting import eventually

from rowlock import Failure, Job, Retry
from rowlock.model import ids

if TYPE_CHECKING:
    from tests.api.conftest import Rest


async def relatives(rest: Rest, job: str, who: str = "root") -> list[tuple[str, str, str]]:
    async with rest.client(who) as client:
        items = (await client.get(f"/jobs/{job}/relatives")).json()["items"]
    return [(each["relation"], each["kind"], each["id"]) for each in items]


async def test_a_hook_and_its_job_lead_to_each_other(rest: Rest) -> None:
    @rest.app.job("pay/bill", retry=Retry(attempts=2, minimum="0s", jitter="0s"))
    async def pay_bill() -> None:
        raise ValueError("no money")

    @pay_bill.on_failure
    async def again(job: Job, error: Failure) -> None: ...

    @pay_bill.on_exhausted
    async def give_up(job: Job, error: Failure) -> None: ...

    number = ids.encode((await pay_bill.enqueue()).id)
    alone = (await rest.submit("greet", args={"name": "Ada"}))["id"]
    async with rest.app.worker():

        async def ended() -> bool:
            return len(await relatives(rest, number)) == 2

        await eventually(ended)
    hooks = await relatives(rest, number)
    assert [(relation, kind) for relation, kind, _ in hooks] == [
        ("hook", "pay/bill/on_failure"),
        ("hook", "pay/bill/on_exhausted"),
    ]
    for _, _, hook in hooks:
        assert await relatives(rest, hook) == [("hooked", "pay/bill", number)]
    assert await relatives(rest, alone) == []


async def test_a_kind_that_is_spelled_like_a_hook_is_none(rest: Rest) -> None:
    """Its arguments are its own: a number of another job, or no number at all."""

    @rest.app.job("tea/on_success")
    async def on_success(job: str) -> None: ...

    first: dict[str, Any] = await rest.submit("greet", args={"name": "Ada"})
    for argument in (str(ids.decode(first["id"])), "not a number", "9" * 30):
        other = await rest.submit("tea/on_success", args={"job": argument})
        assert await relatives(rest, other["id"]) == []
    assert await relatives(rest, first["id"]) == []
