from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rowlock import ConfigurationError, InvalidOption, Rowlock
from rowlock.contrib.moving.queue_kinds import QueueKinds, checked_app, dotted_path, expires_in, handler_of
from rowlock.errors import UnknownKind

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def kinds() -> QueueKinds:
    return QueueKinds(Rowlock("postgresql://nowhere/x"), "default", ("mails",), "App(queues=…)")


def work(a: int, /, b: int = 2, *, c: int = 3) -> tuple[int, int, int]:
    return a, b, c


def test_a_function_has_a_kind_and_a_lane_for_each_queue(kinds: QueueKinds) -> None:
    kinds.declare(work, "work", "reports", aliases=("job",))
    lanes = {name: handler.kind.lane for name, handler in kinds.app.handlers.items()}
    assert lanes == {
        "work": "reports",
        "job": "reports",
        "work/default": None,
        "job/default": None,
        "work/mails": "mails",
        "job/mails": "mails",
    }
    found = [kinds.task("work", queue).kind for queue in (None, "reports", "default", "mails")]
    assert found == ["work", "work", "work/default", "work/mails"]
    assert [kinds.queue_of(kind) for kind in found] == ["reports", "reports", "default", "mails"]
    with pytest.raises(InvalidOption, match=r"workers know 'reports', 'default', 'mails'.*App\(queues=…\)"):
        kinds.task("work", "nowhere")
    with pytest.raises(UnknownKind, match="play"):
        kinds.task("play", "mails")


def test_a_handler_passes_its_first_argument_and_positional_ones_on(kinds: QueueKinds) -> None:
    def with_self(self: str, a: int, /, b: int = 2) -> tuple[str, int, int]:
        return self, a, b

    handler = handler_of(with_self, "t", first=lambda context: f"self of {context}")
    assert handler(rowlock_context="ctx", a=1, b=5) == ("self of ctx", 1, 5)
    kinds.declare(handler, "t", None)
    assert list(kinds.app.handlers["t"].codec.signature.arguments) == ["a", "b"]
    assert handler_of(work, "work") is work
    assert handler_of(work, "work", keep_result=False)(rowlock_context=None, a=1) is None


def test_an_error_is_shown_to_its_watcher_and_goes_on() -> None:
    seen: list[object] = []

    def fail() -> None:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - the very one
        handler_of(fail, "fail", on_error=lambda context, error: seen.extend((context, type(error))))(
            rowlock_context="ctx"
        )
    assert seen == ["ctx", OSError]


@pytest.mark.parametrize(
    ("expires", "run_at", "run_in", "left"),
    [
        (None, None, None, None),
        (3600, None, None, HOUR),
        (2 * HOUR, None, 3600, HOUR),
        (7200, NOON + HOUR, None, HOUR),
        (NOON + HOUR, None, None, HOUR),
        (NOON + 2 * HOUR, None, HOUR, HOUR),
        (NOON + 2 * HOUR, NOON + HOUR, None, HOUR),
        (60, None, 3600, timedelta(0)),
    ],
)
def test_expiry_counts_from_the_earliest_start(
    expires: float | timedelta | datetime | None,
    run_at: datetime | None,
    run_in: float | timedelta | None,
    left: timedelta | None,
) -> None:
    assert expires_in(expires, lambda: NOON, run_at=run_at, run_in=run_in) == left


def test_names_and_applications() -> None:
    assert dotted_path(work) == f"{__name__}.work"
    with pytest.raises(ConfigurationError, match=r"App\(…\) takes the application: App\(Rowlock\(…\)\); got 3"):
        checked_app(3, "App(…)")
