from __future__ import annotations

from typing import Any

import pytest

from rowlock import Rowlock
from rowlock.delivery.inline import InlineDelivery
from rowlock.delivery.postgres import PostgresDelivery
from rowlock.errors import ConfigurationError

NOWHERE = "postgresql://nowhere/x"


class Backend:
    """A QueueBackend of the user's own, which remembers its messages."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any], str]] = []

    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = "default") -> str | None:
        self.sent.append((job_type, payload, queue_name))
        return f"message-{len(self.sent)}"

    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        return {"id": backend_job_id}

    async def get_job_result(self, backend_job_id: str) -> object | None:
        return backend_job_id


def declared(app: Rowlock, kind: str = "work", **options: Any) -> None:  # noqa: ANN401 - of app.job()
    @app.job(kind, **options)
    async def work() -> None: ...


def test_without_a_carrier_postgresql_delivers_everything() -> None:
    app = Rowlock(NOWHERE)
    declared(app)
    routes = app._routes
    assert not routes.active
    assert routes.of("work", "default") is None
    assert not routes.may_carry("work")
    assert app.carriers == []


def test_one_carrier_has_every_kind_and_every_hook() -> None:
    inline = InlineDelivery()
    app = Rowlock(NOWHERE, delivery=inline)
    declared(app)
    for kind in ("work", "work/on_success"):
        assert app._routes.of(kind, "default") is inline
        assert app._routes.may_carry(kind)
        assert app._routes.always_carries(kind)


def test_a_kind_comes_before_its_lane_and_a_lane_before_the_rest() -> None:
    first, second, third = InlineDelivery(name="one"), InlineDelivery(name="two"), InlineDelivery(name="three")
    app = Rowlock(NOWHERE, delivery={"reports": first, "*": second})
    declared(app, "own", delivery=third)
    declared(app, "here", delivery=PostgresDelivery())
    declared(app, "other")
    routes = app._routes
    assert routes.of("own", "reports") is third
    assert routes.of("own/on_failure", "reports") is third
    assert routes.of("here", "reports") is None
    assert (routes.of("other", "reports"), routes.of("other", "default")) == (first, second)
    assert not routes.may_carry("here")
    assert routes.always_carries("other")


def test_lanes_that_no_carrier_has_stay_with_postgresql() -> None:
    inline = InlineDelivery()
    app = Rowlock(NOWHERE, delivery={"reports": inline})
    declared(app)
    routes = app._routes
    assert (routes.of("work", "reports"), routes.of("work", "default")) == (inline, None)
    assert routes.may_carry("work")
    assert not routes.always_carries("work")


def test_any_object_with_the_three_methods_is_a_carrier() -> None:
    app = Rowlock(NOWHERE, delivery=Backend())
    assert [carrier.name for carrier in app.carriers] == ["Backend"]


@pytest.mark.parametrize(
    ("delivery", "says"),
    [
        ("arq", "delivery must be a carrier such as ArqDelivery"),
        (InlineDelivery, "delivery must be a carrier such as ArqDelivery"),
        ({"reports": 5}, "delivery\\['reports'\\] must be a carrier"),
        ({5: InlineDelivery()}, "the name of a lane, or '\\*'; got 5"),
        ({"a": InlineDelivery(), "b": InlineDelivery()}, "Two carriers are called 'inline'"),
    ],
)
def test_a_wrong_carrier_is_refused(delivery: Any, says: str) -> None:  # noqa: ANN401 - anything
    with pytest.raises(ConfigurationError, match=says):
        Rowlock(NOWHERE, delivery=delivery)


def test_a_wrong_carrier_of_a_kind_is_refused() -> None:
    app = Rowlock(NOWHERE)
    with pytest.raises(ConfigurationError, match="delivery of work must be a carrier"):
        declared(app, delivery="celery")


@pytest.mark.parametrize(
    ("options", "says"), [({"name": ""}, "1 to 1000 bytes"), ({"redeliver_after": 0.1}, "a second")]
)
def test_a_carrier_with_wrong_options_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        InlineDelivery(**options)
