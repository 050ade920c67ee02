"""Writes for many rows that one row makes fail."""

from __future__ import annotations

import pytest

from rowlock.errors import DatabaseUnreachable, WriteRefused
from rowlock.store.batch_halving import in_halves


async def test_all_but_the_refused_are_written_once() -> None:
    written: list[int] = []

    async def write(some: list[int]) -> None:
        if {3, 8} & set(some):
            raise WriteRefused("not this one")
        written.extend(some)

    await in_halves(list(range(10)), write)
    assert sorted(written) == [0, 1, 2, 4, 5, 6, 7, 9]


async def test_each_row_that_fails_alone_is_named_with_its_error() -> None:
    refused: list[tuple[int, str]] = []

    async def write(some: list[int]) -> None:
        if {3, 8} & set(some):
            raise WriteRefused("not this one")

    await in_halves(list(range(10)), write, refused=lambda row, error: refused.append((row, str(error))))
    assert refused == [(3, "not this one"), (8, "not this one")]


async def test_an_outage_ends_it() -> None:
    tries: list[list[int]] = []

    async def write(some: list[int]) -> None:
        tries.append(some)
        raise DatabaseUnreachable("gone")

    with pytest.raises(DatabaseUnreachable):
        await in_halves([1, 2], write)
    assert tries == [[1, 2]]


async def test_the_rest_is_left_when_time_is_up() -> None:
    tries: list[list[int]] = []

    async def write(some: list[int]) -> None:
        tries.append(some)
        raise WriteRefused("none of them")

    await in_halves(list(range(8)), write, may_go_on=lambda: len(tries) < 3)
    assert len(tries) == 3
