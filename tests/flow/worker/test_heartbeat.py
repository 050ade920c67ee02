"""The beat: what it asks for, and how often."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from rowlock.flow.worker.heartbeat import BeatReport, Heartbeat


class Answers:
    """A link that answers every beat, each look at the cost given to it (ms)."""

    def __init__(self, *costs: float) -> None:
        self.costs, self.looks, self.reconnects = [*costs], list[bool](), 0

    async def fetch(self, _name: str, **values: object) -> list[dict[str, Any]]:
        self.looks.append(bool(values["look"]))
        spent = self.costs.pop(0) if values["look"] else 1.0
        row = {
            "now": datetime.now(UTC),
            "known": True,
            "told": None,
            "lanes_version": 1,
            "sweep_epoch": 1,
            "schema_since": 1,
        }
        return [row | {"schedule_in": None, "cancelled": [], "lost": [], "due": [], "spent": spent}]


async def test_a_dear_look_for_duties_is_taken_more_rarely() -> None:
    link, at = Answers(2.0, 150.0, 1e6, 2.0), 100.0
    beat = Heartbeat(
        None,  # type: ignore[arg-type]  # never asked
        1,
        report=lambda: BeatReport(hungry=True, draining=False, claims=(), known_jobs=None),
        on_beat=lambda _: None,
        watchdog=None,  # type: ignore[arg-type]  # never asked
        monotonic=lambda: at,
    )
    taken = []
    for _ in range(7):
        await beat._beat(link, timedelta(0), disown=False)  # type: ignore[arg-type]  # all of a link that a beat needs
        if link.looks[-1]:
            taken.append(at)
        at += 2.0
    # 2 ms: at every beat. 150 ms: after three seconds. However dear: after five.
    assert taken == [100.0, 102.0, 106.0, 112.0]
