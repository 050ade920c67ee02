from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rowlock.errors import InvalidOption
from rowlock.model.newer_than import newer_than
from rowlock.model.progress import Skip

EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(("mine", "theirs"), [(LATE, EARLY), (EARLY, EARLY), (2, None), ((1, 10), (1, 9))])
def test_who_is_not_older_goes_on(mine: object, theirs: object) -> None:
    newer_than(mine, theirs)  # type: ignore[type-var]


@pytest.mark.parametrize(("mine", "theirs", "by"), [(EARLY, LATE, "2026-01-02"), (1, 2, "2")])
def test_who_is_older_is_skipped_and_told_by_what(mine: object, theirs: object, by: str) -> None:
    with pytest.raises(Skip, match=f"superseded by {by}"):
        newer_than(mine, theirs)  # type: ignore[type-var]
    with pytest.raises(Skip, match="superseded by build 9"):
        newer_than(mine, theirs, by="build 9")  # type: ignore[type-var]


@pytest.mark.parametrize(("mine", "theirs"), [("9", "10"), (datetime(2026, 1, 1), LATE), (1, LATE)])  # noqa: DTZ001 - the mistake
def test_what_cannot_be_compared_is_refused(mine: object, theirs: object) -> None:
    with pytest.raises(InvalidOption, match="newer_than"):
        newer_than(mine, theirs)  # type: ignore[type-var]
