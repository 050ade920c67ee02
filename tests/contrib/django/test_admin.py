from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from orders.jobs import fail, refund, send_receipt
from pydantic import SecretStr

from rowlock.contrib.django import app
from rowlock.contrib.django.admin import ORDERS
from rowlock.contrib.django.models import Job

pytestmark = pytest.mark.usefixtures("project")
LIST = "/admin/rowlock/job/"


def logged_in(*permissions: str, superuser: bool = False) -> Client:
    user = User.objects.create(username="grace", first_name="Grace", is_staff=True, is_superuser=superuser)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def page(client: Client, address: str, **query: str) -> str:
    answer = client.get(address, query)
    assert answer.status_code == 200, answer
    return str(answer.content.decode())


def messages_shown(client: Client, answer: Any) -> list[str]:  # noqa: ANN401 - Django's
    """The messages that the next page shows."""
    text = client.get(answer["Location"]).content.decode()
    return re.findall(r'<li class="(?:success|warning|error|info)">(.*?)</li>', text, re.DOTALL)


def state(job: Any) -> str:  # noqa: ANN401 - an enqueued job
    return str(Job.objects.get(pk=job.public_id).state)


def test_the_list_shows_public_ids_and_filters_and_searches() -> None:
    client = logged_in(superuser=True)
    first, second = send_receipt.enqueue_sync(1), refund.options(submitted_by="ada").enqueue_sync(2)
    text = page(client, LIST)
    assert f'<a href="{LIST}{first.public_id}/change/">{first.public_id}</a>' in text
    assert second.public_id in text
    assert "Add" not in re.findall(r'<ul class="object-tools">.*?</ul>', text, re.DOTALL)
    for query in ({"state__exact": "pending"}, {"q": "kind:ref*"}, {"q": second.public_id}, {"kind": "refund"}):
        text = page(client, LIST, **query)
        assert second.public_id in text, query
        assert first.public_id not in text, query
    assert "nothing" not in page(client, LIST, lane="default")


def test_a_search_that_cannot_be_read_says_so() -> None:
    assert "There is no" in page(logged_in(superuser=True), LIST, q="colour:red")


def test_a_job_has_a_page_with_error_attempts_and_log_and_without_secrets() -> None:
    client = logged_in(superuser=True)
    job = fail.enqueue_sync(api_key="hunter2")
    app.wait_for(app.run_job(job.id))
    text = page(client, f"{LIST}{job.public_id}/change/")
    assert "the printer is on fire" in text
    assert "RuntimeError" in text
    assert "Traceback" in text
    assert "1 of 1" in text
    assert 'value="Retry"' in text
    assert 'value="Cancel"' not in text
    assert 'name="_save"' not in text


def test_secret_arguments_need_their_permission() -> None:
    job = app.job("secretive")(secretive).enqueue_sync(SecretStr("hunter2"))
    plain = logged_in("view_job")
    assert "hunter2" not in page(plain, f"{LIST}{job.public_id}/change/")
    User.objects.all().delete()
    assert "hunter2" in page(logged_in("view_job", "view_job_args"), f"{LIST}{job.public_id}/change/")
    app.tasks.pop("secretive")
    app.handlers.pop("secretive")


def secretive(password: SecretStr) -> None:
    del password


def test_missing_jobs_and_strange_ids_are_sent_back_to_the_index() -> None:
    client = logged_in(superuser=True)
    for strange in ("1234567", "nonsense", "'; DROP TABLE"):
        answer = client.get(f"{LIST}{strange}/change/")
        assert answer.status_code == 302
        assert answer["Location"] == "/admin/"


@pytest.mark.parametrize(
    ("action", "after"), [("cancel_jobs", "cancelled"), ("approve_jobs", "queued"), ("reject_jobs", "cancelled")]
)
def test_actions_are_orders_that_the_audit_knows(action: str, after: str) -> None:
    client = logged_in(superuser=True)
    jobs = [refund.enqueue_sync(number) for number in (1, 2)]
    answer = client.post(LIST, {"action": action, "_selected_action": [job.public_id for job in jobs]})
    verb = action.removesuffix("_jobs")
    assert messages_shown(client, answer) == [f"2 jobs {ORDERS[verb][2]}."]
    assert [state(job) for job in jobs] == [after, after]
    entries = [(entry.subject, entry.action) for entry in app.sync.audit.list()]
    assert entries == [("grace", f"job.{verb}")] * 2


def test_an_order_that_does_not_fit_is_explained() -> None:
    client = logged_in(superuser=True)
    job = send_receipt.enqueue_sync(1)
    answer = client.post(LIST, {"action": "approve_jobs", "_selected_action": [job.public_id]})
    (message,) = messages_shown(client, answer)
    assert job.public_id in message
    assert state(job) == "queued"


def test_a_button_gives_an_order_with_a_note() -> None:
    client = logged_in(superuser=True)
    job = fail.enqueue_sync()
    app.wait_for(app.run_job(job.id))
    answer = client.post(f"{LIST}{job.public_id}/order/retry/", {"note": "the fire is out"})
    assert messages_shown(client, answer) == ["1 job retried."]
    assert state(job) == "queued"
    text = page(client, f"{LIST}{job.public_id}/change/")
    assert "retry by grace: the fire is out" in text
    assert "No live worker" in text or "worker" in text


@pytest.mark.parametrize(
    ("held", "name", "allowed"),
    [
        (("view_job",), "cancel", False),
        (("view_job", "cancel_job"), "cancel", True),
        (("cancel_job",), "cancel", False),
        (("view_job", "cancel_job"), "retry", False),
        (("view_job", "approve_job"), "reject", True),
    ],
)
def test_orders_need_the_permission_of_django(held: tuple[str, ...], name: str, allowed: bool) -> None:
    client = logged_in(*held)
    job = refund.enqueue_sync(1)
    answer = client.post(f"{LIST}{job.public_id}/order/{name}/")
    assert answer.status_code == (302 if allowed else 403)
    assert (state(job) == "cancelled") == allowed


def test_what_a_user_may_not_do_is_not_offered() -> None:
    client = logged_in("view_job", "cancel_job")
    job = refund.enqueue_sync(1)
    text = page(client, LIST)
    assert "cancel_jobs" in text
    assert "approve_jobs" not in text
    text = page(client, f"{LIST}{job.public_id}/change/")
    assert 'value="Cancel"' in text
    assert 'value="Approve"' not in text


def test_orders_are_posts_of_this_sites_own_pages() -> None:
    client = logged_in(superuser=True)
    job = refund.enqueue_sync(1)
    assert client.get(f"{LIST}{job.public_id}/order/cancel/").status_code == 403
    assert client.post(f"{LIST}{job.public_id}/order/burn/").status_code == 404
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get())
    assert strict.post(f"{LIST}{job.public_id}/order/cancel/").status_code == 403
    assert state(job) == "pending"


def test_jobs_cannot_be_added_changed_or_deleted() -> None:
    client = logged_in(superuser=True)
    job = send_receipt.enqueue_sync(1)
    assert client.get(f"{LIST}add/").status_code == 403
    assert client.post(f"{LIST}{job.public_id}/change/", {"kind": "x"}).status_code == 403
    assert client.post(f"{LIST}{job.public_id}/delete/", {"post": "yes"}).status_code == 403


def test_a_large_table_is_counted_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    from rowlock.contrib.django import admin  # noqa: PLC0415 - after set_up()

    monkeypatch.setattr(admin, "_COUNTED", 3)
    client = logged_in(superuser=True)
    send_receipt.enqueue_many_sync([{"order_id": number} for number in range(5)])
    assert "More than 3 jobs" in page(client, LIST)
