"""Own: the desk of the application itself, which acts as the library; inherited by Rowlock."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rowlock.desk.access import Parts
from rowlock.desk.guard import TRUSTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.bridge import Bridge
    from rowlock.desk.access import Backing
    from rowlock.desk.identity import Identity
    from rowlock.desk.schedules import Schedules
    from rowlock.desk.scheduling import Scheduling
    from rowlock.desk.sync import SyncDesk
    from rowlock.model.lane import Lane


class Own(Parts):
    """app.jobs, app.lanes, … and what no other desk has."""

    def __init__(self, backing: Backing, bridge: Bridge) -> None:
        super().__init__(backing, TRUSTED)
        self._bridge = bridge

    @cached_property
    def schedule(self) -> Scheduling:
        """app.schedule(…): declares a schedule where its task is declared."""
        from rowlock.desk.scheduling import Scheduling

        return Scheduling(self.schedules)

    @cached_property
    def sync(self) -> SyncDesk:
        """app.sync.jobs, …: the same parts for blocking code."""
        from rowlock.desk.sync import SyncDesk

        return SyncDesk(self._bridge, self)

    @cached_property
    def identity(self) -> Identity:
        """What authenticators ask."""
        from rowlock.desk.identity import Identity

        return Identity(self._backing.database)

    def declared_lanes(self) -> Sequence[Lane]:
        """Lanes that code defines; code that never asked for the part cannot have."""
        return self.lanes.defined if "lanes" in self.__dict__ else ()

    def declared_schedules(self) -> Schedules | None:
        """The part that schedules were declared in; None: nobody asked for it."""
        return self.schedules if "schedules" in self.__dict__ else None
