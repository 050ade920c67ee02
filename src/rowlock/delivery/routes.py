"""Routes: which carrier delivers the jobs of which kind or lane."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from rowlock.delivery.backend import BackendDelivery, Delivery, QueueBackend
from rowlock.delivery.postgres import PostgresDelivery
from rowlock.errors import ConfigurationError
from rowlock.model.hook import hooked_kind
from rowlock.model.keys import shown
from rowlock.model.lane import EVERY_KIND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowlock.delivery.reception import Reception
    from rowlock.flow.kinds.handler import Handler

Carrier: TypeAlias = Delivery | QueueBackend
_EXPECTED: Final = (
    "a carrier such as ArqDelivery(…), CeleryDelivery(…), InlineDelivery() or PostgresDelivery(), or an object with "
    "the methods enqueue, get_job_metadata and get_job_result"
)


class Routes:
    """The carriers of one application. A kind's own carrier comes first, then that of its lane, then the default."""

    def __init__(
        self, delivery: Carrier | Mapping[str, Carrier] | None, reception: Reception, handlers: Mapping[str, Handler]
    ) -> None:
        """delivery: for every kind, or by lane, with "*" for the lanes that are not named; None: PostgreSQL."""
        self._reception, self._handlers = reception, handlers
        self._by_name: dict[str, Delivery] = {}
        self._by_kind: dict[str, Delivery] = {}
        self._by_lane: dict[str, Delivery] = {}
        self.enabled = True
        """False in tests, whose jobs reach no broker."""
        if isinstance(delivery, Mapping):
            for lane, carrier in delivery.items():
                if not isinstance(lane, str) or not lane:
                    raise ConfigurationError(
                        f"A key of delivery={{…}} is the name of a lane, or '*'; got {shown(lane)}."
                    )
                self._by_lane[lane] = self._known(carrier, f"delivery[{lane!r}]")
        elif delivery is not None:
            self._by_lane[EVERY_KIND] = self._known(delivery, "delivery")

    def add_kind(self, kind: str, carrier: Carrier) -> None:
        """Let a carrier of its own deliver a kind and its hooks."""
        self._by_kind[kind] = self._known(carrier, f"delivery of {kind}")

    def _known(self, carrier: object, where: str) -> Delivery:
        if not isinstance(carrier, Delivery):
            if isinstance(carrier, type) or not isinstance(carrier, QueueBackend):
                raise ConfigurationError(f"{where} must be {_EXPECTED}; got {shown(carrier)}.")
            carrier = BackendDelivery(carrier)
        other = self._by_name.setdefault(carrier.name, carrier)
        if other is not carrier and not isinstance(carrier, PostgresDelivery):
            raise ConfigurationError(
                f"Two carriers are called {carrier.name!r}. Name one of them: {type(carrier).__name__}(name=…)."
            )
        if other is carrier:
            carrier.bind(self._reception)
        return carrier

    @property
    def active(self) -> bool:
        """Whether any job may be delivered by something else than PostgreSQL."""
        return self.enabled and any(not isinstance(one, PostgresDelivery) for one in self._by_name.values())

    @property
    def carriers(self) -> Iterable[Delivery]:
        """Every carrier there is."""
        return self._by_name.values()

    @property
    def stored(self) -> str | None:
        """The names of carriers by kind and by lane as JSON, for the row of a worker; None: PostgreSQL delivers all."""
        if not self.active:
            return None
        own = {kind: carrier for kind in self._handlers if (carrier := self._own(kind)) is not None}
        return json.dumps({"kinds": _names(own), "lanes": _names(self._by_lane)})

    def of(self, kind: str, lane: str) -> Delivery | None:
        """The carrier of a kind that this lane serves; None: PostgreSQL."""
        if not self.enabled:
            return None
        own = self._own(kind)
        found = own if own is not None else self._by_lane.get(lane, self._by_lane.get(EVERY_KIND))
        return None if isinstance(found, PostgresDelivery) else found

    def carries(self, kind: str, lane: str) -> bool:
        """Whether something else than PostgreSQL delivers the jobs of a kind that this lane serves."""
        return self.of(kind, lane) is not None

    def may_carry(self, kind: str) -> bool:
        """Whether that is so in any lane: only the database knows the lane of a kind."""
        if not self.active:
            return False
        own = self._own(kind)
        choices = self._by_lane.values() if own is None else (own,)
        return any(not isinstance(one, PostgresDelivery) for one in choices)

    def always_carries(self, kind: str) -> bool:
        """Whether that is so in every lane."""
        if not self.active:
            return False
        own = self._own(kind)
        choices = list(self._by_lane.values()) if own is None else [own]
        rest = own is not None or EVERY_KIND in self._by_lane
        return rest and not any(isinstance(one, PostgresDelivery) for one in choices)

    def _own(self, kind: str) -> Delivery | None:
        base = hooked_kind(kind)
        handler = self._handlers.get(base)
        return self._by_kind.get(base if handler is None else handler.name)


def _names(carriers: Mapping[str, Delivery]) -> dict[str, str | None]:
    return {key: None if isinstance(one, PostgresDelivery) else one.name for key, one in carriers.items()}
