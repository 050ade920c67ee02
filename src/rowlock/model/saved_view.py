"""SavedView: a search that a person keeps, alone or for everyone of the tenant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class SavedView:
    """A search with its columns and order. own: the principal made it; shared: everyone of the tenant sees it."""

    id: int
    name: str
    query: str
    columns: Sequence[str]
    sort: str
    shared: bool
    owner: str
    tenant: str | None
    own: bool
    version: int
    created_at: datetime
    updated_at: datetime
