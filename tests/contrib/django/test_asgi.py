from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.test import Client
from orders.jobs import refund

from rowlock.contrib.django import app
from rowlock.contrib.django.asgi import with_rowlock
from rowlock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.usefixtures("project")
JOBS = "/rowlock/api/v1/jobs"
SAME = {"Sec-Fetch-Site": "same-origin"}


def session_of(*permissions: str) -> str:
    user = User.objects.create(username="grace", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    connections.close_all()
    return str(client.cookies["sessionid"].value)


@pytest.fixture
async def served() -> AsyncIterator[Any]:
    from shop.asgi import django_application  # noqa: PLC0415 - after set_up()

    transport = httpx.ASGITransport(with_rowlock(django_application, at="/rowlock"))
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        yield client
    await app.close()
    await sync_to_async(connections.close_all)()


async def test_djangos_users_are_the_users_of_the_api(served: Any) -> None:  # noqa: ANN401 - a client
    job = await refund.enqueue(1)
    assert (await served.get(JOBS)).status_code == 401
    served.cookies["sessionid"] = await sync_to_async(session_of)("view_job", "approve_job")
    assert [found["id"] for found in (await served.get(JOBS)).json()["items"]] == [job.public_id]
    approve = f"{JOBS}/{job.public_id}/approve"
    assert (await served.post(approve, json={})).status_code == 403  # no page of this site
    assert (await served.post(f"{JOBS}/{job.public_id}/cancel", json={}, headers=SAME)).status_code == 403
    assert (await served.post(approve, json={}, headers=SAME)).status_code == 200
    assert [entry.subject for entry in await app.audit.list() if entry.action == "job.approve"] == ["grace"]
    served.cookies["sessionid"] = "strange"
    assert (await served.get(JOBS)).status_code == 401


async def test_an_inactive_user_is_nobody(served: Any) -> None:  # noqa: ANN401 - a client
    served.cookies["sessionid"] = await sync_to_async(session_of)("view_job")
    await User.objects.aupdate(is_active=False)
    assert (await served.get(JOBS)).status_code == 401


async def test_everything_else_is_djangos(served: Any) -> None:  # noqa: ANN401 - a client
    assert (await served.get("/admin/login/")).status_code == 200
    assert (await served.get("/rowlocks")).status_code == 404
    assert "Django" not in (await served.get("/rowlock/", headers={"Accept": "text/html"})).text
    answer = await served.get("/async-orders/ada/")
    assert (await app.jobs.get(answer.json()["job"])).kind == "send_receipt"


def test_a_path_begins_with_a_slash() -> None:
    with pytest.raises(ConfigurationError, match="at= is a path such as /rowlock"):
        with_rowlock(lambda *_: None, at="rowlock")
