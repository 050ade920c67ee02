"""Every scenario by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from torture import database, daylight, machine, namespaces, network, poison, rewind, rows, workers
from torture.deploy import upgrade

if TYPE_CHECKING:
    from torture.scenario import Scenario

SCENARIOS: Final[dict[str, type[Scenario]]] = {
    scenario.name: scenario
    for room in (workers, database, network, namespaces, machine, rewind, rows, poison, daylight, upgrade)
    for scenario in room.SCENARIOS
}
