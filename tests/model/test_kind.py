from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock.errors import ConfigurationError
from rowlock.model.approval import Approval
from rowlock.model.kind import Gate, Kind
from rowlock.model.rate import Rate
from rowlock.model.retry import Retry


def test_what_a_process_without_the_code_needs_is_all_in_the_defaults() -> None:
    kind = Kind(
        "new",
        priority=3,
        retry=Retry(attempts=7),
        expires_in=timedelta(hours=1),
        approval=Approval(2),
        gate=Gate("g", 4, fifo=True),
        version=2,
        rate=Rate(5, "1s", key="r"),
        weight=2,
        fair=True,
        aliases=("old",),
    )
    again = Kind.from_defaults("new", kind.defaults() or {})
    assert again.defaults() == kind.defaults()
    assert (again.scope, again.gate, again.approval) == ("old", kind.gate, kind.approval)


def test_a_kind_that_computes_its_gate_has_no_defaults() -> None:
    assert Kind("k", gate=lambda org: f"org:{org}").defaults() is None


@pytest.mark.parametrize(
    "wrong",
    [{"version": 0}, {"unknown_args": "drop"}, {"aliases": "old"}, {"aliases": ("k",)}, {"aliases": ("a", "a")}],
)
def test_what_a_kind_cannot_be_is_refused_with_its_name(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=r"^k: "):
        Kind("k", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("key", "limit"), [("", 1), ("lane:front", 1), ("g", -1), ("g", True), ("g", 10**10)])
def test_what_a_gate_cannot_be_is_refused(key: str, limit: int) -> None:
    with pytest.raises(ConfigurationError, match="A gate needs a key"):
        Gate(key, limit)
