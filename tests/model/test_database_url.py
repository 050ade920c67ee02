"""Passwords in database URLs and in what drivers say about them."""

from __future__ import annotations

import pytest

from rowlock.model.database_url import shown, without_passwords

URLS = [
    "postgresql://ada:hunter2pw@db/shop",
    "postgresql://ada:hunter2pw@[::1]:5432,other:5433/shop",
    "postgresql://ada:hunter2pw#x@db/shop",
    "postgresql://ada:x/hunter2pw@db/shop",
    "postgresql://ada:hunter2pw?x@db/shop",
    "postgresql://ada:hunter2pw@x@db/shop",
    "postgresql://ada:hunter2pw%23@db/shop?sslmode=require",
    "postgresql://db/shop?user=ada&password=hunter2pw",
    "postgresql://db/shop?PASSWORD=hunter2pw&sslpassword=hunter2pw",
    "host=db user=ada password=hunter2pw dbname=shop",
    "host=db password = 'x\\' hunter2pw y' user=ada",
    "password='hunter2pw",
]


@pytest.mark.parametrize("url", URLS)
def test_the_password_is_masked_wherever_it_stands(url: str) -> None:
    assert "hunter2pw" not in shown(url)
    assert "•••" in shown(url)
    assert "hunter2pw" not in without_passwords(f"cannot use 'hunter2pw' of {url}", url)


@pytest.mark.parametrize(
    "url",
    ["postgresql://db/shop", "postgresql://ada@db:5432/shop?sslmode=require", "host=db user=ada", "", "rowlock", "://"],
)
def test_a_url_without_a_password_is_shown_as_it_is(url: str) -> None:
    assert shown(url) == url
    assert without_passwords("no such host: db", url) == "no such host: db"


def test_the_rest_of_the_url_stays_readable() -> None:
    assert shown("postgresql://ada:hunter2pw@db:5432/shop?sslmode=require") == (
        "postgresql://ada:•••@db:5432/shop?sslmode=require"
    )
    assert shown("postgresql://db/shop?password=hunter2pw&user=ada") == "postgresql://db/shop?password=•••&user=ada"


def test_an_escaped_password_is_found_in_both_spellings() -> None:
    text = without_passwords("password hunter#2pw (hunter%232pw) failed", "postgresql://ada:hunter%232pw@db/shop")
    assert text == "password ••• (•••) failed"
