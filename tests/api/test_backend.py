"""What routes use of the API: the caller's desk, from the first authenticator that knows the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from rowlock import Principal, Rowlock
from rowlock.api.backend import ApiBackend
from rowlock.api.problems import REQUEST_ID, Problem

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection, Request


class Known:
    def __init__(self, principal: Principal | None) -> None:
        self.principal, self.asked = principal, 0

    async def authenticate(self, connection: HTTPConnection, /) -> Principal | None:
        del connection
        self.asked += 1
        return self.principal


class Asking:
    """As much of a request as a desk needs."""

    client = None
    scope = {REQUEST_ID: "7d1f0c"}  # noqa: RUF012 - read only


def backend(*authenticators: Known) -> ApiBackend:
    app = Rowlock("postgresql://nowhere/x")
    return ApiBackend(app, authenticators, read_only=True, read_seconds=5, metrics=None)


async def test_the_first_authenticator_that_knows_the_caller_decides() -> None:
    stranger, known, never = Known(None), Known(Principal("ann")), Known(Principal("bob"))
    desk = await backend(stranger, known, never).desk(cast("Request", Asking()))
    assert (stranger.asked, known.asked, never.asked) == (1, 1, 0)
    guard: Any = desk.jobs._guard
    assert (guard.principal.name, guard.read_only, guard.request_id) == ("ann", True, "7d1f0c")


async def test_an_unknown_caller_is_refused() -> None:
    with pytest.raises(Problem) as refused:
        await backend(Known(None)).desk(cast("Request", Asking()))
    assert refused.value.code.name == "unauthenticated"
    assert refused.value.status == 401


def test_a_body_may_be_a_little_larger_than_the_arguments() -> None:
    made = backend()
    assert made.body_limit == made.app.settings.args_limit + 64 * 1024
