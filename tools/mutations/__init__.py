"""What to break on purpose, room by room."""

from __future__ import annotations

from typing import Final

from mutations import (
    api,
    bad_rows,
    cli,
    delivery,
    desk,
    django,
    embed_and_login,
    engine,
    flow,
    hosts,
    invariants,
    locks,
    machine,
    model,
    moving,
    neighbours,
    store,
    torture,
    webhooks,
    workflows,
)
from mutations.mutation import Mutation

MUTATIONS: Final[tuple[Mutation, ...]] = (
    *api.MUTATIONS,
    *bad_rows.MUTATIONS,
    *cli.MUTATIONS,
    *delivery.MUTATIONS,
    *desk.MUTATIONS,
    *django.MUTATIONS,
    *embed_and_login.MUTATIONS,
    *engine.MUTATIONS,
    *flow.MUTATIONS,
    *hosts.MUTATIONS,
    *invariants.MUTATIONS,
    *locks.MUTATIONS,
    *machine.MUTATIONS,
    *model.MUTATIONS,
    *moving.MUTATIONS,
    *neighbours.MUTATIONS,
    *store.MUTATIONS,
    *torture.MUTATIONS,
    *webhooks.MUTATIONS,
    *workflows.MUTATIONS,
)

__all__ = ["MUTATIONS", "Mutation"]
