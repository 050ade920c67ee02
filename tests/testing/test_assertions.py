from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.testing.shop import Order

from rowlock import InvalidArguments, InvalidOption, UnknownKind
from rowlock.testing import ANY, near

if TYPE_CHECKING:
    from tests.testing.shop import Shop

    from rowlock.testing import Kit

ADA = UUID(int=7)


def failure(kit: Kit, *args: object, **kwargs: object) -> str:
    with pytest.raises(AssertionError) as caught:
        kit.assert_enqueued(*args, **kwargs)  # type: ignore[arg-type]  # passed on as they come
    return str(caught.value)


def test_a_job_is_found_by_some_of_its_arguments(kit: Kit, shop: Shop) -> None:
    shop.report.enqueue_sync(org_id=7, full=True)
    job = kit.assert_enqueued(shop.report, org_id=7)
    assert job.args == {"org_id": 7, "full": True}
    kit.assert_enqueued("report", full=True)
    kit.assert_enqueued(shop.report)
    kit.refute_enqueued(shop.report, org_id=8)
    kit.refute_enqueued(shop.mail)


async def test_assertions_block_for_a_moment_inside_an_async_test_too(kit: Kit, shop: Shop) -> None:
    await shop.report.enqueue(org_id=7)
    assert kit.assert_enqueued(shop.report, org_id=7).id == kit.enqueued(shop.report)[0].id


def test_a_default_that_was_not_passed_counts(kit: Kit, shop: Shop) -> None:
    shop.report.enqueue_sync(org_id=7)
    kit.assert_enqueued(shop.report, full=False)
    kit.refute_enqueued(shop.report, full=True)


def test_values_are_compared_as_the_handler_gets_them(kit: Kit, shop: Shop) -> None:
    shop.ship.enqueue_sync(Order(number=3, lines=["tea"]), ADA, "hunter2")  # type: ignore[arg-type]  # pydantic reads it
    kit.assert_enqueued(shop.ship, order=Order(number=3, lines=["tea"]), customer=ADA)
    kit.assert_enqueued(shop.ship, order={"number": 3, "lines": ["tea"]}, customer=str(ADA), password="hunter2")  # noqa: S106 - no secret
    kit.refute_enqueued(shop.ship, password="hunter3")  # noqa: S106 - no secret
    kit.refute_enqueued(shop.ship, order={"number": "x"})


def test_matchers_types_and_predicates(kit: Kit, shop: Shop) -> None:
    shop.report.enqueue_sync(org_id=7)
    kit.assert_enqueued(shop.report, org_id=ANY)
    kit.assert_enqueued(shop.report, org_id=int)
    kit.assert_enqueued(shop.report, org_id=lambda value: value > 6)
    kit.refute_enqueued(shop.report, org_id=lambda value: value > 7)
    kit.refute_enqueued(shop.report, org_id=str)


def test_a_job_counts_in_whatever_state(kit: Kit, shop: Shop) -> None:
    shop.report.enqueue_sync(org_id=7)
    kit.drain_sync()
    kit.assert_enqueued(shop.report, org_id=7, options={"state": "completed"})
    kit.refute_enqueued(shop.report, options={"state": "queued"})


def test_how_often(kit: Kit, shop: Shop) -> None:
    shop.report.enqueue_many_sync([{"org_id": n % 2} for n in range(5)])
    kit.assert_enqueued(shop.report, org_id=0, count=3)
    assert "Expected 2 of: report job with org_id=0; found 3." in failure(kit, shop.report, org_id=0, count=2)
    with pytest.raises(InvalidOption, match="refute_enqueued"):
        kit.assert_enqueued(shop.report, count=0)


def test_options(kit: Kit, shop: Shop) -> None:
    at = datetime.now(UTC) + timedelta(days=2)
    shop.report.options(
        priority=3, run_at=at, unique_key="org-7", tenant="acme", tags=["a", "b"], refs={"project": 7}, meta={"x": 1}
    ).enqueue_sync(org_id=7)
    there: list[dict[str, object]] = [
        {"priority": 3, "tenant": "acme", "unique_key": "org-7", "lane": "reports"},
        {"run_at": at, "tags": ["b"], "refs": {"project": 7}},
        {"run_at": near("2 days", within="1m"), "run_in": "2 days", "meta": {"x": ANY}},
        {"run_at": near(at)},
    ]
    for options in there:
        kit.assert_enqueued(shop.report, options=options)
    absent: list[dict[str, object]] = [
        {"priority": 4},
        {"run_in": "1 day"},
        {"run_at": near("1 day")},
        {"tags": ["c"]},
        {"lane": "x"},
    ]
    for options in absent:
        kit.refute_enqueued(shop.report, options=options)


def test_argument_names_that_clash_go_into_a_mapping(kit: Kit, shop: Shop) -> None:
    @shop.app.job
    async def counted(count: int, options: str) -> None: ...

    counted.enqueue_sync(count=3, options="x")
    kit.assert_enqueued(counted, {"count": 3, "options": "x"}, count=1)
    kit.refute_enqueued(counted, {"count": 4})


def test_a_failure_shows_the_nearest_job_and_what_there_is(kit: Kit, shop: Shop) -> None:
    first = shop.report.enqueue_sync(org_id=7, full=True)
    shop.report.options(run_in="1h").enqueue_sync(org_id=8)
    shop.mail.enqueue_sync("ada")
    told = failure(kit, shop.report, org_id=7, full=False)
    assert told.splitlines()[:3] == [
        "Expected a report job with org_id=7, full=False.",
        f"Nearest, {first.public_id}:",
        "    full: expected False, got True",
    ]
    assert f"    {first.public_id}  queued  full=True, org_id=7" in told
    assert "queued in 1h  org_id=8" in told or "queued in 59m" in told
    assert told.endswith("Jobs of other kinds: mail 1")


def test_a_failure_without_any_job_speaks_of_the_commit(kit: Kit, shop: Shop) -> None:
    assert failure(kit, shop.report) == (
        "Expected a report job.\nThere is no job of this kind. One enqueued in a transaction is seen after its commit."
    )


def test_a_failed_refutation_shows_the_jobs(kit: Kit, shop: Shop) -> None:
    job = shop.report.enqueue_sync(org_id=7)
    with pytest.raises(AssertionError, match=rf"Expected no report job with org_id=7.\n(.|\n)*{job.public_id}"):
        kit.refute_enqueued(shop.report, org_id=7)


def test_secrets_are_not_shown(kit: Kit, shop: Shop) -> None:
    shop.ship.enqueue_sync(Order(number=3), ADA, "hunter2")  # type: ignore[arg-type]  # pydantic reads it
    assert "hunter2" not in failure(kit, shop.ship, customer=UUID(int=8))


def test_a_mistake_in_the_assertion_is_no_failed_assertion(kit: Kit, shop: Shop) -> None:
    with pytest.raises(InvalidArguments, match=r"no argument 'org' in report.*Did you mean 'org_id'"):
        kit.refute_enqueued(shop.report, org=7)
    with pytest.raises(InvalidOption, match=r"no option 'prio'.*Did you mean 'priority'"):
        kit.refute_enqueued(shop.report, options={"prio": 7})
    with pytest.raises(UnknownKind, match="Did you mean 'report'"):
        kit.refute_enqueued("reprot")
