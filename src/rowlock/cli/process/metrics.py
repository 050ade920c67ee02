"""The metrics that a server shows under /metrics."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rowlock.errors import ConfigurationError

if TYPE_CHECKING:
    from rowlock.app import Rowlock


def metrics_of(app: Rowlock) -> Any:  # noqa: ANN401 - of an optional package
    """The metrics for Prometheus; None where its package is not installed."""
    try:
        return importlib.import_module("rowlock.contrib.prometheus").RowlockCollector(app)
    except (ImportError, ConfigurationError):
        return None
