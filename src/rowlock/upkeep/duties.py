"""Every duty of upkeep by its name: each is bounded, idempotent, and harmless when two workers run it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.upkeep.counts import counts
from rowlock.upkeep.expire import expire, signals
from rowlock.upkeep.prune import limits, prune, registry
from rowlock.upkeep.repair import ageing, gates, operations, seal, sweep, workflows
from rowlock.upkeep.rescue import orphans, rescue, stalled

if TYPE_CHECKING:
    from rowlock.upkeep.duty import Duty

DUTIES: Final[dict[str, Duty]] = {
    "rescue": rescue,
    "stalled": stalled,
    "orphans": orphans,
    "expire": expire,
    "sweep": sweep,
    "gates": gates,
    "prune": prune,
    "registry": registry,
    "operations": operations,
    "workflows": workflows,
    "signals": signals,
    "ageing": ageing,
    "limits": limits,
    "counts": counts,
    "seal": seal,
}
