"""AppDesk: the desk of the application itself, with every permission; app.jobs, app.lanes and so on."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rowlock.desk.access import DeskBase
from rowlock.desk.guard import TRUSTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.bridge import Bridge
    from rowlock.desk.access import DeskResources
    from rowlock.desk.identity import Identity
    from rowlock.desk.schedules import ScheduleDecorator, Schedules
    from rowlock.desk.sync import SyncDesk
    from rowlock.model.lane import Lane


class AppDesk(DeskBase):
    """The parts of every desk, and those that only the application has."""

    def __init__(self, resources: DeskResources, bridge: Bridge) -> None:
        super().__init__(resources, TRUSTED)
        self._bridge = bridge

    @cached_property
    def schedule(self) -> ScheduleDecorator:
        """app.schedule(…): declares a schedule where its task is declared."""
        from rowlock.desk.schedules import ScheduleDecorator

        return ScheduleDecorator(self.schedules)

    @cached_property
    def sync(self) -> SyncDesk:
        """app.sync.jobs, …: the same parts for blocking code."""
        from rowlock.desk.sync import SyncDesk

        return SyncDesk(self._bridge, self)

    @cached_property
    def identity(self) -> Identity:
        """Checks of tokens and sessions, for authenticators."""
        from rowlock.desk.identity import Identity

        return Identity(self._resources.database)

    def declared_lanes(self) -> Sequence[Lane]:
        """Lanes that code defines; app.lanes is not imported just to find none."""
        return self.lanes.defined if "lanes" in self.__dict__ else ()

    def declared_schedules(self) -> Schedules | None:
        """app.schedules if code declared schedules with it; None: it was never used."""
        return self.schedules if "schedules" in self.__dict__ else None
