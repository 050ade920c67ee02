"""Saved views."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import StringConstraints

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, Body, doc
from rowlock.api.schemas.fields import INSTANT, STORABLE

if TYPE_CHECKING:
    from rowlock.model.saved_view import SavedView

Query = Annotated[str, StringConstraints(max_length=2000, pattern=STORABLE)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=STORABLE)]
Sort = Literal["newest", "oldest"]


class ViewAnswer(Answer):
    """A search that a person keeps."""

    id: Annotated[str, doc("Id of the view.", "12")]
    name: Annotated[str, doc("Name.", "failed today")]
    query: Annotated[str, doc("The search, as `q` of `GET /jobs` takes it.", "state:failed finished:<1d")]
    columns: Annotated[list[str], doc("Columns in order; empty: the usual ones.", ["kind", "state"])]
    sort: Annotated[str, doc("Order of the jobs: newest or oldest first.", "newest")]
    shared: Annotated[bool, doc("Whether everyone of the tenant sees it.", False)]
    own: Annotated[bool, doc("Whether the caller made it.", True)]
    owner: Annotated[str, doc("Subject that made it.", "ada@example.com")]
    tenant: fields.TenantOrNull
    version: Annotated[int, doc("Raised by every change.", 1)]
    created_at: fields.CreatedAt
    updated_at: Annotated[datetime, doc("When it was last changed.", INSTANT)]

    @classmethod
    def of(cls, view: SavedView) -> ViewAnswer:
        """From the desk's value."""
        names = ("name", "query", "sort", "shared", "own", "owner", "tenant", "version", "created_at", "updated_at")
        values = {name: getattr(view, name) for name in names}
        return cls(id=str(view.id), columns=list(view.columns), **values)


class ViewsAnswer(Answer):
    """Views that the caller sees."""

    items: Annotated[list[ViewAnswer], doc("One's own first, then shared ones, by name.")]


class NewView(Body):
    """A search to keep."""

    name: Annotated[Name, doc("Name, unique among one's own.", "failed today")]
    query: Annotated[Query, doc("The search.", "state:failed finished:<1d")] = ""
    columns: Annotated[list[Name], doc("Columns in order.", ["kind", "state"], max_length=50)] = []  # noqa: RUF012 - pydantic copies it
    sort: Annotated[Sort, doc("Newest or oldest first.", "newest")] = "newest"
    shared: Annotated[bool, doc("Show it to everyone of one's tenant; takes jobs:edit.", False)] = False


class ViewChange(Body):
    """What to change; absent: as it is."""

    name: Annotated[Name | None, doc("New name.", "failed this week")] = None
    query: Annotated[Query | None, doc("New search.", "state:failed finished:<7d")] = None
    columns: Annotated[list[Name] | None, doc("New columns.", ["kind", "error"], max_length=50)] = None
    sort: Annotated[Sort | None, doc("New order.", "oldest")] = None
    shared: Annotated[bool | None, doc("Share it, or no longer; takes jobs:edit.", True)] = None
