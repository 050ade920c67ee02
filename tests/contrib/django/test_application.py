from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection, connections, transaction
from django.test import override_settings
from orders.jobs import refund, send_receipt, send_receipt_async
from orders.models import Order
from tests.django_project import EXAMPLE, environment

from rowlock.contrib.django import DjangoRowlock, app
from rowlock.contrib.django.application import project_app
from rowlock.contrib.django.models import Job
from rowlock.errors import ConfigurationError, InvalidOption, SchemaMissing

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("project")


def committed() -> int:
    """Jobs that a connection of Rowlock's own sees."""
    return len(app.sync.jobs.list())


def test_a_job_is_committed_with_the_surrounding_transaction() -> None:
    with transaction.atomic():
        order = Order.objects.create(customer="ada")
        job = send_receipt.enqueue_sync(order.pk)
        assert Job.objects.get(pk=job.public_id).kind == "send_receipt"
        assert committed() == 0
    assert committed() == 1


def test_a_rollback_takes_the_job_with_it() -> None:
    with transaction.atomic():
        send_receipt.enqueue_sync(1)
        transaction.set_rollback(True)
    with transaction.atomic():
        with transaction.atomic():  # a savepoint
            send_receipt.enqueue_sync(2)
            transaction.set_rollback(True)
        refund.enqueue_sync(3)
    assert [job.kind for job in app.sync.jobs.list()] == ["refund"]


def test_many_jobs_and_chains_join_the_transaction_too() -> None:
    with transaction.atomic():
        send_receipt.enqueue_many_sync([{"order_id": number} for number in range(3)])
        assert committed() == 0
        transaction.set_rollback(True)
    assert committed() == 0


def test_workers_are_woken_after_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[object] = []
    monkeypatch.setattr(app._producer.wakers, "wake", lambda pairs: woken.append(list(pairs)))
    send_receipt.enqueue_sync(0)
    woken.clear()
    with transaction.atomic():
        send_receipt.enqueue_many_sync([{"order_id": 1}, {"order_id": 2}])
        assert woken == []
    assert len(woken) == 1


def test_without_a_transaction_the_job_is_committed_at_once() -> None:
    send_receipt.enqueue_sync(1)
    assert committed() == 1


def test_djangos_connection_can_be_named() -> None:
    with transaction.atomic():
        send_receipt.options(connection=connection).enqueue_sync(1)
        send_receipt.options(connection=connections["default"]).enqueue_sync(2)
        assert committed() == 0
    send_receipt.options(connection=connection).enqueue_sync(3)
    assert committed() == 3


def test_joining_can_be_switched_off() -> None:
    with override_settings(ROWLOCK={"join_transactions": False}):
        apart = DjangoRowlock()
    kind = apart.job("apart")(lambda: None)
    with transaction.atomic():
        kind.enqueue_sync()
        assert committed() == 1
    apart.disconnect()


def test_a_transaction_without_autocommit_notifies_by_itself() -> None:
    transaction.set_autocommit(False)
    try:
        send_receipt.options(connection=connection).enqueue_sync(1)
        assert committed() == 0
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert committed() == 1


async def test_async_code_enqueues_on_rowlocks_own_connection() -> None:
    await send_receipt_async.enqueue(1)
    assert len(await app.jobs.list()) == 1
    await app.close()


async def test_async_code_that_passes_djangos_connection_is_told_what_to_do() -> None:
    with pytest.raises(InvalidOption, match="await sync_to_async"):
        await send_receipt.options(connection=connection).enqueue(1)
    job = await sync_to_async(send_receipt.options(connection=connection).enqueue_sync)(1)
    assert (await app.jobs.get(job.id)).kind == "send_receipt"
    await app.close()
    await sync_to_async(connections.close_all)()


def test_a_database_that_is_not_postgresql_is_refused() -> None:
    from django.db.backends.sqlite3.base import DatabaseWrapper  # noqa: PLC0415 - this test alone

    lite = DatabaseWrapper({**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3"}, "lite")
    with pytest.raises(InvalidOption, match="belongs to sqlite"):
        send_receipt.options(connection=lite).enqueue_sync(1)


def test_missing_tables_are_named() -> None:
    send_receipt.enqueue_sync(0)  # the lanes are known
    with connection.cursor() as cursor:
        cursor.execute("ALTER SCHEMA rowlock RENAME TO elsewhere")
    with pytest.raises(SchemaMissing), transaction.atomic():
        send_receipt.enqueue_sync(1)


DRIVERS = """
import sys
if {driver!r} == "psycopg2":
    sys.modules["psycopg"] = None  # Django prefers it
import django
django.setup()
from django.db import connection, transaction
from django.conf import settings
from orders.jobs import send_receipt
from orders.models import Order
from rowlock.contrib.django import app
from rowlock.store.callers.django import join
with transaction.atomic():
    ((now,),) = join(connection).run(app.database().statements["clock"], {{}})
    print("aware" if now.tzinfo else "naive")
    order = Order.objects.create(customer="ada")
    send_receipt.enqueue_sync(order.pk)
    send_receipt.options(unique_key="k").enqueue_sync(order.pk)
    send_receipt.enqueue_many_sync([{{"order_id": order.pk}}] * 2)
    print(len(app.sync.jobs.list()), connection.connection.__class__.__module__.partition(".")[0], settings.USE_TZ)
print(len(app.sync.jobs.list()))


"""


@pytest.mark.parametrize("tz", ["on", "off"])
@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_both_drivers_join_with_and_without_time_zones(driver: str, tz: str, project_url: str) -> None:
    script = DRIVERS.format(driver=driver)
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=EXAMPLE,
        env=environment(project_url, EXAMPLE_USE_TZ=tz),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["aware", "0", driver, str(tz == "on"), "4"]


# --- which application, which database -------------------------------------------------------------------------------


def test_rowlock_follows_django_to_another_database(project_url: str, empty_database_url: str) -> None:
    from tests.django_project import entry_of  # noqa: PLC0415 - with this test

    send_receipt.enqueue_sync(1)
    assert project_url.partition("?")[0].rpartition("/")[2] in app.database().url
    app.disconnect()
    connections.close_all()
    connections.settings["default"].update(entry_of(empty_database_url))
    with pytest.raises(SchemaMissing):
        app.sync.jobs.list()
    app.disconnect()
    connections.settings["default"].update(entry_of(project_url))
    assert committed() == 1


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"app": "orders.jobs"}, "module:attribute"),
        ({"app": "orders.models:Order"}, "expected an application made with"),
    ],
)
def test_a_wrong_application_is_explained(setting: dict[str, Any], error: str) -> None:
    make: Callable[[], object] = project_app.__wrapped__
    with override_settings(ROWLOCK=setting), pytest.raises(ConfigurationError, match=error):
        make()


def test_the_project_can_make_the_application_itself() -> None:
    make: Callable[[], object] = project_app.__wrapped__
    with override_settings(ROWLOCK={"app": "orders.jobs:app"}):
        assert make() is app


def test_an_unknown_entry_of_databases_is_explained() -> None:
    with override_settings(ROWLOCK={"database": "jobs"}):
        wrong = DjangoRowlock()
    with pytest.raises(ConfigurationError, match=r"which settings\.DATABASES does not have; it has default"):
        wrong.database()
    assert settings.ROWLOCK["database"] == "default"
