"""Never run: what the checkers say of options() and of what app.job() takes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_type

from rowlock import Enqueued, Gate, Retry, Rowlock, Window
from rowlock.decorator import JobDecorator
from rowlock.tasks import BoundTask  # noqa: TC001 - as users write it

app = Rowlock("postgresql://nowhere/x")


@app.job(
    "named",
    lane="reports",
    retry=Retry(attempts=2),
    timeout="10m",
    gate=Gate("x"),
    retention={"failed": "1d"},
    on_worker_lost="hold",
    version=2,
    unknown_args="ignore",
    aliases=("former",),
)
async def report(org_id: int) -> str:
    return str(org_id)


def key_of(org_id: int) -> str:
    return f"org-{org_id}"


async def right() -> None:
    assert_type(report.options(priority=5).enqueue_sync(7), Enqueued[str])
    await report.options(priority=5, run_in="1h", unique_key=key_of, unique_scope="waiting").enqueue(7)
    await report.options(run_at=datetime.now().astimezone(), expires_in=timedelta(1), on_conflict="keep").enqueue(7)
    await report.options(refs={"project": 7}, tags=["a"], meta={"x": 1}, gate=Gate("g", limit=2)).enqueue(7)
    assert_type(app.job("x", max_age=3600), JobDecorator)


async def wrong_values() -> None:
    report.options(priority="high")  # E: arg-type | reportArgumentType
    report.options(on_conflict="ignore")  # E: arg-type | reportArgumentType
    report.options(run_at="tomorrow")  # E: arg-type | reportArgumentType
    report.options(run_in=datetime.now())  # E: arg-type | reportArgumentType
    report.options(unique_scope="all")  # E: arg-type | reportArgumentType
    report.options(tags=[1])  # E: list-item | reportArgumentType
    report.options(gate=1)  # E: arg-type | reportArgumentType
    report.options(approval=None)  # E: arg-type | reportArgumentType
    await report.options(priority=1).enqueue(org_id="x")  # E: arg-type | reportArgumentType
    await report.options(priority=1).enqueue_many([7])  # E: list-item | reportArgumentType


async def wrong_names() -> None:
    report.options(org_id=7)  # E: call-arg | reportCallIssue
    report.options(prioriti=1)  # E: call-arg | reportCallIssue
    report.options(1)  # E: call-arg | reportCallIssue
    report.options(priority=1)(7)  # E: operator | reportCallIssue
    report.options(priority=1).options(tenant="x")  # E: attr-defined | reportAttributeAccessIssue


def scheduled() -> None:
    assert_type(app.schedule("0 2 * * *", tz="UTC")(report).enqueue_sync(7), Enqueued[str])
    app.schedule(every="15m", overlap="skip", windows=[Window("22:00-06:00")])(report)
    app.schedule(2)  # E: arg-type | reportArgumentType
    app.schedule("0 2 * * *", missed="some")  # E: arg-type | reportArgumentType
    app.schedule("0 2 * * *", windows=["22:00-06:00"])  # E: list-item | reportArgumentType
    app.schedule("0 2 * * *", colour="red")  # E: call-arg | reportCallIssue
    app.schedule("0 2 * * *")(len)  # E: type-var | reportArgumentType


def wrong_declarations() -> None:
    app.job(colour="red")  # E: call-overload | reportCallIssue
    app.job("x", executor="fork")  # E: call-overload | reportArgumentType
    app.job("x", on_worker_lost="ignore")  # E: call-overload | reportArgumentType
    app.job("x", unknown_args="drop")  # E: call-overload | reportArgumentType
    app.job("x", version="2")  # E: call-overload | reportArgumentType
    app.job(7)  # E: call-overload | reportArgumentType, reportCallIssue


@report.upgrade(from_version=1)
def numbered(args: dict[str, Any]) -> dict[str, Any]:
    return {"org_id": int(args["org"])}


def wrong_upgrades() -> None:
    def waits_for(args: list[str]) -> dict[str, Any]:
        return {arg: arg for arg in args}

    report.upgrade(from_version=1)(waits_for)  # E: type-var | reportArgumentType
    report.upgrade(1)  # E: call-arg | reportCallIssue
    report.upgrade(from_version="1")  # E: arg-type | reportArgumentType


def bound(options: BoundTask[[int], str]) -> None:
    assert_type(options.enqueue_sync(7), Enqueued[str])
