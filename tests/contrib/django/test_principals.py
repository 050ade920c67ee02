from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User

from rowlock.contrib.django.application import project_app
from rowlock.contrib.django.principals import default_principal, principal_of
from rowlock.errors import ConfigurationError
from rowlock.model.access import ALL, Principal
from rowlock.model.access import Permission as Allowed

if TYPE_CHECKING:
    from rowlock.contrib.django.application import DjangoRowlock

pytestmark = pytest.mark.usefixtures("project")


def test_djangos_permissions_are_those_of_the_principal() -> None:
    user = User.objects.create(username="ada", first_name="Ada", last_name="Lovelace")
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_job", "retry_job"]))
    expected = {Allowed.READ, Allowed.READ_ALL, Allowed.WORKERS_VIEW, Allowed.SCHEDULES_VIEW, Allowed.RETRY}
    assert principal_of(user) == Principal("ada", permissions=frozenset(expected), display="Ada Lovelace")


def test_superusers_may_do_everything() -> None:
    known = principal_of(User(username="root", is_superuser=True))
    assert known is not None
    assert known.permissions == ALL


def test_an_inactive_user_is_no_principal() -> None:
    assert principal_of(AnonymousUser()) is None
    assert principal_of(User(username="ada", is_superuser=True, is_active=False)) is None


def tenant_of(user: User) -> object:
    known = default_principal(user)
    return known and replace(known, tenant="acme")


def nonsense(user: User) -> object:
    return user


def test_the_project_can_decide_who_is_who(monkeypatch: pytest.MonkeyPatch) -> None:
    app: DjangoRowlock = project_app()
    for function in (tenant_of, nonsense):
        path = f"{__name__}.{function.__name__}"
        monkeypatch.setattr(app, "configuration", replace(app.configuration, principal=path))
        if function is tenant_of:
            known = principal_of(User(username="ada", is_superuser=True))
            assert known is not None
            assert known.tenant == "acme"
        else:
            with pytest.raises(ConfigurationError, match="returns a Principal or None; it returned a User"):
                principal_of(User(username="ada", is_superuser=True))
