"""Share: the bucket of a fair lane that a tenant's jobs belong to."""

from __future__ import annotations

import zlib
from typing import Final

SHARES: Final = 64
"""Number of buckets. Two tenants in one bucket are served as one; a claim probes each bucket that has jobs."""


def share_of(tenant: str | None) -> int:
    """The bucket of a tenant, 1 to 64, the same in every process and release; 0: no tenant."""
    return 0 if tenant is None else 1 + zlib.crc32(tenant.encode(errors="surrogatepass")) % SHARES
