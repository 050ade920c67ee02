from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import connections
from django.test import override_settings

from rowlock.contrib.django.configuration import database_url, read_configuration
from rowlock.errors import ConfigurationError

POSTGRES = {"ENGINE": "django.db.backends.postgresql"}


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ({"NAME": "shop"}, "postgresql:///shop"),
        (
            {"NAME": "my shop", "USER": "ada@x", "PASSWORD": "p:/?", "HOST": "db", "PORT": 5433},
            "postgresql://ada%40x:p%3A%2F%3F@/my%20shop?host=db&port=5433",
        ),
        (
            {"NAME": "s", "OPTIONS": {"sslmode": "require", "pool": True, "isolation_level": 3, "connect_timeout": 5}},
            "postgresql:///s?sslmode=require",
        ),
        ({"NAME": "s", "OPTIONS": {"assume_role": "owner"}}, "postgresql:///s?options=-c%20role%3Downer"),
        ({"NAME": "", "OPTIONS": {"service": "main"}}, "postgresql:///?service=main"),
    ],
)
def test_an_entry_of_databases_is_a_url(entry: dict[str, Any], url: str) -> None:
    assert database_url({**POSTGRES, **entry}, "default") == url


def test_another_database_than_postgresql_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"DATABASES\['default'\] has the engine 'django.db.backends.sqlite3'"):
        database_url({"ENGINE": "django.db.backends.sqlite3"}, "default")


def test_settings_stand_over_variables() -> None:
    with override_settings(ROWLOCK={"shutdown_after": "40s", "pooled": True, "modules": ["work"], "worker": None}):
        read = read_configuration({"ROWLOCK_SHUTDOWN_AFTER": "3s", "ROWLOCK_WORKER": "off"})
    assert read.settings.shutdown_after == timedelta(seconds=40)
    assert (read.settings.pooled, read.settings.worker) == (True, False)
    assert (read.modules, read.database) == (("work",), "default")


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ("default", "settings.ROWLOCK is a dict"),
        ({"databse": "default"}, "Did you mean 'database'?"),
        ({"database_url": "postgresql://"}, "names an entry of settings.DATABASES"),
        ({"modules": "jobs"}, "a list of module names"),
        ({"listen": "perhaps"}, "expected on or off"),
    ],
)
def test_wrong_settings_are_explained(setting: object, error: str) -> None:
    with override_settings(ROWLOCK=setting), pytest.raises(ConfigurationError) as raised:
        read_configuration({})
    assert error in str(raised.value)


def test_a_variable_that_is_not_used_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", "postgresql://elsewhere/shop")
    assert [found.id for found in run_checks(tags=["rowlock"])] == ["rowlock.W001"]
    monkeypatch.delenv("ROWLOCK_DATABASE_URL")
    assert run_checks(tags=["rowlock"]) == []


def test_a_database_user_named_like_the_schema_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "USER", "rowlock")
    monkeypatch.setitem(connections.settings["default"], "OPTIONS", {})
    assert [found.id for found in run_checks(tags=["rowlock"])] == ["rowlock.W002"]
