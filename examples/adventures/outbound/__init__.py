"""Clients of other services. Each folder has the real client and, where the design wants one, its stub."""

from __future__ import annotations
