"""Share: which bucket of a fair lane a tenant's jobs are in."""

from __future__ import annotations

import zlib
from typing import Final

SHARES: Final = 64
"""Buckets. Two tenants that share one are served as one; a claim probes one pair for each that has jobs."""


def share_of(tenant: str | None) -> int:
    """The same in every process and for ever: 1 to 64, or 0 for jobs of no tenant."""
    return 0 if tenant is None else 1 + zlib.crc32(tenant.encode(errors="surrogatepass")) % SHARES
