from __future__ import annotations

import pytest

from rowlock.model.hook import HOOK_EVENTS, hook_kind, hooked_kind


@pytest.mark.parametrize("event", HOOK_EVENTS)
def test_a_hook_is_a_kind_of_its_own_that_knows_whom_it_follows(event: str) -> None:
    assert hooked_kind(hook_kind("pay", event)) == "pay"  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["pay", "reports/daily", "pay/on_fire"])
def test_another_kind_is_its_own(name: str) -> None:
    assert hooked_kind(name) == name
