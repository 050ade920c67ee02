"""Every scenario by its name."""

from __future__ import annotations

from typing import Final

from torture import database, network, poison, workers
from torture.scenario import Scenario

SCENARIOS: Final[dict[str, type[Scenario]]] = {
    scenario.name: scenario for room in (workers, database, network, poison) for scenario in room.SCENARIOS
}
