from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rowlock.errors import InvalidOption
from rowlock.model.lock import LockUser, advisory, checked_lock


def test_the_number_of_a_lock_is_the_same_in_every_release() -> None:
    assert advisory("rowlock", "edition", "7") == -8079160529843779950
    assert advisory("rowlock", "edition", "7") != advisory("rowlock", "edition7", "")


def test_a_number_and_its_text_are_one_key() -> None:
    assert checked_lock("edition", 7) == checked_lock("edition", "7") == ("edition", "7")


@pytest.mark.parametrize(("namespace", "key"), [("", 1), (7, 1), ("n", ""), ("n", True), ("n", None), ("n", "a\0")])
def test_what_cannot_name_a_lock_is_refused(namespace: object, key: object) -> None:
    with pytest.raises(InvalidOption, match="A lock's"):
        checked_lock(namespace, key)


def test_a_user_is_named_by_its_job() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert LockUser("host:1", now).name == "host:1"
    user = LockUser("host:1", now, job_id=5, kind="k")
    assert user.name == f"job {user.public_id} (k) on host:1"
