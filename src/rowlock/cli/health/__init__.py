"""Probes of worker processes: where `rowlock worker --health` answers, and `rowlock workers probe`, which asks.

endpoint.py answers at a port, at a socket or in a file, and informs systemd; what it says comes from the worker's or
supervisor's `health()` (flow/worker/health.py). probe.py reads it. Imported by cli/process and cli/commands. Start with
endpoint.py.
"""

from __future__ import annotations
