from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from rowlock.errors import InvalidOption
from rowlock.model.retry import Retry

DICE = Random(1)  # noqa: S311 - dice, not keys


class Highest(Random):
    @override
    def random(self) -> float:
        return 1.0


class Lowest(Random):
    @override
    def random(self) -> float:
        return 0.0


class TooManyRequests(Exception):
    def __init__(self, retry_after: object) -> None:
        self.retry_after = retry_after


class Rude(Exception):
    @property
    def retry_after(self) -> float:
        raise RuntimeError("no")


def seconds(value: timedelta | None) -> float | None:
    return None if value is None else value.total_seconds()


def test_durations_are_given_as_text_and_kept_as_timedelta() -> None:
    retry = Retry(attempts=3, minimum="30s", maximum=timedelta(hours=2), jitter=1.5)
    assert (retry.minimum, retry.maximum, retry.jitter) == (
        timedelta(seconds=30),
        timedelta(hours=2),
        timedelta(seconds=1.5),
    )


def test_defaults() -> None:
    retry = Retry()
    assert (retry.attempts, retry.multiplier, retry.jitter, retry.on, retry.never, retry.delay) == (
        5, 2.0, None, (Exception,), (), None,
    )  # fmt: skip
    assert (retry.minimum, retry.maximum) == (timedelta(seconds=1), timedelta(hours=1))


def test_it_is_a_value() -> None:
    retry = Retry(minimum="30s", on=OSError)
    assert retry == Retry(minimum=30, on=(OSError,))
    assert hash(retry) == hash(Retry(minimum="30s", on=(OSError,)))
    assert replace(retry, attempts=9) == Retry(attempts=9, minimum="30s", on=OSError)
    assert pickle.loads(pickle.dumps(retry)) == copy.copy(retry) == retry  # noqa: S301 - our own bytes
    with pytest.raises(FrozenInstanceError):
        retry.attempts = 4  # type: ignore[misc]


def test_the_delay_grows_and_stops_at_the_maximum() -> None:
    retry = Retry(attempts=10, minimum="10s", multiplier=3, maximum="200s", jitter="0s")
    delays = [seconds(retry.next_delay(attempt, OSError(), DICE)) for attempt in range(1, 10)]
    assert delays == [10, 30, 90, 200, 200, 200, 200, 200, 200]


def test_attempts_count_the_first_one() -> None:
    retry = Retry(attempts=2)
    assert retry.next_delay(1, OSError(), DICE) is not None
    assert retry.next_delay(2, OSError(), DICE) is None
    assert Retry(attempts=1).next_delay(1, OSError(), DICE) is None


def test_jitter_is_added_up_to_a_quarter_when_not_given() -> None:
    retry = Retry(minimum="100s")
    assert seconds(retry.next_delay(1, OSError(), Lowest())) == 100
    assert seconds(retry.next_delay(1, OSError(), Highest())) == 125


def test_jitter_is_added_on_top_of_the_maximum() -> None:
    retry = Retry(attempts=50, minimum="10s", maximum="10s", jitter="30s")
    assert seconds(retry.next_delay(40, OSError(), Highest())) == 40


@given(
    st.integers(1, 32_766), st.floats(1, 1e300), st.floats(0, 3e9), st.floats(0, 3e9), st.none() | st.floats(0, 3e9),
    st.integers(),
)  # fmt: skip
def test_the_delay_stays_within_its_bounds_and_never_overflows(  # noqa: PLR0917 - one per drawn value
    attempt: int, multiplier: float, minimum: float, more: float, jitter: float | None, seed: int
) -> None:
    retry = Retry(
        attempts=32_767, minimum=minimum, multiplier=multiplier, maximum=min(minimum + more, 3.1e9), jitter=jitter
    )
    delay = retry.next_delay(attempt, OSError(), Random(seed))  # noqa: S311 - dice, not keys
    assert delay is not None
    spread = retry.maximum / 4 if retry.jitter is None else retry.jitter
    assert retry.minimum <= delay <= retry.maximum + spread


def test_attempt_1000_is_the_maximum_and_a_minimum_of_zero_stays_zero() -> None:
    assert seconds(Retry(attempts=2000, jitter=0).next_delay(1000, OSError(), DICE)) == 3600
    assert seconds(Retry(attempts=2000, jitter=0).next_delay(1999, OSError(), DICE)) == 3600
    assert seconds(Retry(attempts=2000, minimum=0, multiplier=10).next_delay(1999, OSError(), DICE)) == 0


def test_only_the_named_errors_are_tried_again() -> None:
    retry = Retry(on=(OSError,), never=(FileNotFoundError,))
    assert retry.next_delay(1, ConnectionError(), DICE) is not None
    assert retry.next_delay(1, FileNotFoundError(), DICE) is None
    assert retry.next_delay(1, ValueError(), DICE) is None


def test_losses_are_as_many_as_attempts_a_number_or_unlimited() -> None:
    assert [Retry(losses=said).loss_limit for said in (None, 1, 32_000, "unlimited")] == [None, 1, 32_000, 0]
    for wrong in (0, -1, 32_001, True, 1.5, "many"):
        with pytest.raises(InvalidOption, match=r"Retry\.losses: .* nor \"unlimited\""):
            Retry(losses=wrong)  # type: ignore[arg-type]


def test_what_is_outside_exception_counts_as_one() -> None:
    mixed = BaseExceptionGroup("g", [SystemExit(), ValueError()])
    for error in (KeyboardInterrupt(), SystemExit(), GeneratorExit(), mixed):
        assert Retry().next_delay(1, error, DICE) is not None
        assert Retry(on=OSError).next_delay(1, error, DICE) is None
        assert Retry(never=Exception).next_delay(1, error, DICE) is None
    assert Retry(on=(OSError, SystemExit)).next_delay(1, SystemExit(), DICE) is not None
    assert Retry(never=SystemExit).next_delay(1, SystemExit(), DICE) is None
    assert Retry(never=SystemExit).next_delay(1, mixed, DICE) is None


def test_a_group_is_tried_again_when_all_its_errors_are() -> None:
    retry = Retry(on=OSError, never=FileNotFoundError)
    network = ExceptionGroup("g", [ConnectionError(), ExceptionGroup("inner", [TimeoutError()])])
    mixed = ExceptionGroup("g", [ConnectionError(), ValueError()])
    hopeless = ExceptionGroup("g", [ConnectionError(), FileNotFoundError()])
    assert retry.next_delay(1, network, DICE) is not None
    assert retry.next_delay(1, mixed, DICE) is None
    assert retry.next_delay(1, hopeless, DICE) is None
    assert Retry().next_delay(1, mixed, DICE) is not None


@pytest.mark.parametrize("asked", [120, 120.0, timedelta(minutes=2), "120", "2m"])
def test_an_error_may_ask_for_a_longer_delay(asked: object) -> None:
    assert seconds(Retry(maximum="60s").next_delay(1, TooManyRequests(asked), DICE)) == 120


def test_an_error_cannot_ask_for_a_shorter_delay() -> None:
    assert seconds(Retry(minimum="60s", jitter=0).next_delay(1, TooManyRequests(5), DICE)) == 60


@pytest.mark.parametrize("error", [Rude(), *map(TooManyRequests, ["soon", -5, float("nan"), None, object(), 1e300])])
def test_a_senseless_wish_is_ignored(error: Exception) -> None:
    assert seconds(Retry(minimum="60s", jitter=0).next_delay(1, error, DICE)) == 60


def test_a_delay_function_wins() -> None:
    seen: list[tuple[int, BaseException]] = []

    def delay(attempt: int, error: BaseException) -> str | None:
        seen.append((attempt, error))
        return "7s" if attempt < 3 else None

    retry = Retry(attempts=10, delay=delay, never=(KeyError,))
    error = TooManyRequests(100)
    assert seconds(retry.next_delay(1, error, Highest())) == 7
    assert retry.next_delay(3, error, Highest()) is None
    assert seen == [(1, error), (3, error)]
    assert retry.next_delay(1, KeyError(), Highest()) is None
    assert retry.next_delay(10, error, Highest()) is None
    assert len(seen) == 2


def test_a_delay_function_that_returns_nonsense_is_named() -> None:
    with pytest.raises(InvalidOption, match=r"^Retry\.delay returned: 'soon' is not a duration\."):
        Retry(delay=lambda _attempt, _error: "soon").next_delay(1, OSError(), DICE)


@pytest.mark.parametrize("attempts", [0, -1, 32_768, 2.5, True, "3"])
def test_impossible_attempts_are_refused(attempts: int) -> None:
    with pytest.raises(InvalidOption) as caught:
        Retry(attempts=attempts)
    assert str(caught.value) == (
        f"Retry.attempts: {attempts!r} is not a whole number from 1 to 32767. "
        "It counts the first attempt too: 1 means no retry."
    )


@pytest.mark.parametrize("multiplier", [0.5, 0, -2, float("nan"), float("inf"), "2", True])
def test_impossible_multipliers_are_refused(multiplier: float) -> None:
    with pytest.raises(InvalidOption) as caught:
        Retry(multiplier=multiplier)
    assert str(caught.value) == (
        f"Retry.multiplier: {multiplier!r} is not a number of at least 1. 1 keeps the delay, 2 doubles it."
    )


@pytest.mark.parametrize("name", ["minimum", "maximum", "jitter"])
def test_bad_durations_are_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidOption, match=rf"^Retry\.{name}: 'soon' is not a duration\."):
        Retry(**{name: "soon"})  # type: ignore[arg-type]


def test_a_minimum_above_the_maximum_is_refused() -> None:
    with pytest.raises(InvalidOption) as caught:
        Retry(minimum="2h")
    assert str(caught.value) == ("Retry.minimum: 2h is above Retry.maximum, 1h. Raise maximum or lower minimum.")


@pytest.mark.parametrize("name", ["on", "never"])
def test_only_exception_classes_can_be_named(name: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        Retry(**{name: (OSError, "ValueError")})  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"Retry.{name}: 'ValueError' is not an exception class. Write {name}=(OSError, TimeoutError)."
    )


def test_a_fixed_delay_is_not_a_function() -> None:
    with pytest.raises(InvalidOption) as caught:
        Retry(delay="30s")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Retry.delay: '30s' is not a function of (attempt, error). For a fixed delay write "
        'Retry(minimum="30s", multiplier=1, jitter="0s").'
    )
