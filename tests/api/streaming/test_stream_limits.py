"""Places for streams: per caller, in all, and given back however a stream ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock.api.problems import Problem
from rowlock.api.streaming.stream_limits import StreamLimits
from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from tests.api.conftest import Rest

ADA, BOB, EVE = (Principal(name, permissions=frozenset({Permission.READ})) for name in ("ada", "bob", "eve"))


def refused(limits: StreamLimits, who: Principal) -> Problem:
    with pytest.raises(Problem) as found:
        limits.take(who)
    assert found.value.headers == {"Retry-After": "5"}
    return found.value


def test_a_caller_and_all_callers_have_a_limit() -> None:
    limits = StreamLimits(3, 2)
    places = [limits.take(ADA), limits.take(ADA)]
    assert (refused(limits, ADA).code.name, refused(limits, ADA).status) == ("too-many-streams", 429)
    limits.take(BOB)
    assert (refused(limits, EVE).code.name, refused(limits, EVE).status) == ("streams-full", 503)
    for _ in range(2):
        places[0].release()  # the second time changes nothing
    assert limits.open == 2
    limits.take(EVE)


def test_each_token_of_a_subject_has_places_of_its_own() -> None:
    limits = StreamLimits(10, 1)
    first, second = (Principal("ci", token=token) for token in ("a", "b"))
    limits.take(first)
    limits.take(second)
    refused(limits, first)


async def test_a_stream_that_ends_is_refused_or_never_begins_gives_its_place_back(rest: Rest) -> None:
    rest.api.stream_limits.most_per_caller = 1
    job = await rest.submit()
    async with rest.client() as client:
        for _ in range(3):
            for path in ("/events", f"/jobs/{job['id']}/stream"):
                assert (await client.head(path)).status_code == 200
                assert rest.api.stream_limits.open == 0
        rest.api.stream_limits.most_per_caller = 0
        assert (await client.get("/events")).status_code == 429
        assert (await client.get(f"/jobs/{job['id']}/stream")).status_code == 429
    here = rest.app._resources.streams_per_loop.current()
    assert (here.job_poll._followed, here.feed._subscribers) == ({}, set())


async def test_a_browser_comes_back_to_a_server_that_is_full(rest: Rest) -> None:
    rest.api.stream_limits.most = 0
    async with rest.client() as client:
        assert (await client.get("/events")).json()["code"] == "streams-full"
        told = await client.get("/events", headers={"Accept": "text/event-stream"})
        assert (told.status_code, "event: unavailable" in told.text) == (200, True)
