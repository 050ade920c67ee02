"""Saved views: searches that people keep."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path

from rowlock.api.dependencies import CurrentDesk
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.routing import Routes
from rowlock.api.schemas.views import NewView, ViewAnswer, ViewChange, ViewsAnswer
from rowlock.model.access import Permission

routes = Routes("views")
ViewId = Annotated[int, Path(ge=1, le=2**63 - 1, description="Id of the view.", examples=[12])]
_SHARED: Final = RoutePermissions((Permission.READ,), also={"for a shared view": Permission.EDIT})
_MISSING: Final = ("view-not-found",)


@routes.get("/views", needs=Permission.READ)
async def list_views(desk: CurrentDesk) -> ViewsAnswer:
    """One's own saved views, and those that are shared within the tenant."""
    return ViewsAnswer(items=[ViewAnswer.of(view) for view in await desk.views.list()])


@routes.post("/views", needs=_SHARED, status_code=201, problems=("conflict", "invalid-search", "invalid-option"))
async def create_view(desk: CurrentDesk, view: NewView) -> ViewAnswer:
    """Keep a search under a name; 409 when one of one's own has it."""
    made = await desk.views.create(view.name, view.query, columns=view.columns, sort=view.sort, shared=view.shared)
    return ViewAnswer.of(made)


@routes.patch("/views/{view_id}", needs=_SHARED, problems=(*_MISSING, "conflict", "invalid-search", "invalid-option"))
async def change_view(desk: CurrentDesk, view_id: ViewId, change: ViewChange) -> ViewAnswer:
    """Change one's own view; a shared one of another person takes `jobs:read_all`, too."""
    return ViewAnswer.of(await desk.views.change(view_id, **change.model_dump(exclude_unset=True)))


@routes.delete("/views/{view_id}", needs=_SHARED, problems=_MISSING)
async def delete_view(desk: CurrentDesk, view_id: ViewId) -> ViewAnswer:
    """Delete one's own view; a shared one of another person takes `jobs:read_all`, too. Answers with it as it was."""
    return ViewAnswer.of(await desk.views.delete(view_id))
