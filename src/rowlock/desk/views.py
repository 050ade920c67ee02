"""app.views: searches that people keep for themselves or share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.desk import audit
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.errors import Forbidden, InvalidOption, ViewExists, ViewNotFound
from rowlock.model import page as pages
from rowlock.model import search as grammar
from rowlock.model.access import Permission
from rowlock.model.saved_view import SavedView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowlock.store.database import Database, Record

_MOST: Final = 200
"""Views of one person."""
_LISTED: Final = 1000
_LONGEST_NAME: Final = 100
_MOST_COLUMNS: Final = 50


class SavedViews:
    """Saved views. A shared one is seen by everyone of its owner's tenant, and takes jobs:edit."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard

    @reads(Permission.READ, scoped=True)
    async def list(self) -> Sequence[SavedView]:
        """One's own views and those that are shared, by name."""
        return await self._found(None)

    @reads(Permission.READ, scoped=True)
    async def get(self, view_id: int) -> SavedView:
        """One view; ViewNotFound: there is none, or it is not the principal's to see."""
        found = await self._found(view_id)
        if not found:
            raise _not_found(view_id)
        return found[0]

    @changes(Permission.READ, scoped=True)
    async def create(
        self, name: str, query: str = "", *, columns: Sequence[str] = (), sort: str = "newest", shared: bool = False
    ) -> SavedView:
        """Keep a search under a name; ViewExists: the principal has a view of that name."""
        if shared:
            self._guard.demand(Permission.EDIT, unsafe=True, scoped=True)
        async with self._open().transaction() as session:
            made = await session.fetch(
                "saved_view_add",
                name=_name(name),
                query=_query(query),
                columns=_columns(columns),
                sort=_sort(sort),
                shared=shared,
                most=_MOST,
                **self._guard.visibility,
            )
            if not made:
                raise _exists(name)
            view = _view(made[0])
            await audit.record(session, self._guard, "view.create", f"view:{view.id}", after=_audit_fields(view))
        return view

    @changes(Permission.READ, scoped=True)
    async def change(
        self,
        view_id: int,
        *,
        name: str | None = None,
        query: str | None = None,
        columns: Sequence[str] | None = None,
        sort: str | None = None,
        shared: bool | None = None,
    ) -> SavedView:
        """Change one's own view; a shared one also as a principal with jobs:edit and jobs:read_all."""
        before = await self.get(view_id)
        self._demand(before, shared=bool(shared) or before.shared)
        if name is not None and name != before.name and any(v.own and v.name == name for v in await self._found(None)):
            raise _exists(name)
        async with self._open().transaction() as session:
            changed = await session.fetch(
                "saved_view_change",
                id=view_id,
                name=None if name is None else _name(name),
                query=None if query is None else _query(query),
                columns=None if columns is None else _columns(columns),
                sort=None if sort is None else _sort(sort),
                shared=shared,
                **self._guard.visibility,
            )
            if not changed:
                raise _not_found(view_id)
            view = _view(changed[0])
            target = f"view:{view_id}"
            await audit.record(
                session, self._guard, "view.set", target, before=_audit_fields(before), after=_audit_fields(view)
            )
        return view

    @changes(Permission.READ, scoped=True)
    async def delete(self, view_id: int) -> SavedView:
        """Delete one's own view; a shared one also as a principal with jobs:edit and jobs:read_all."""
        view = await self.get(view_id)
        self._demand(view, shared=view.shared)
        async with self._open().transaction() as session:
            if not await session.fetch("saved_view_delete", id=view_id):
                raise _not_found(view_id)
            await audit.record(session, self._guard, "view.delete", f"view:{view_id}", before=_audit_fields(view))
        return view

    def _demand(self, view: SavedView, *, shared: bool) -> None:
        if shared:
            self._guard.demand(Permission.EDIT, unsafe=True, scoped=True)
        if not view.own and not self._guard.sees_all:
            message = f"The view {view.name!r} is {view.owner}'s. Copy it: save its search under a name of your own."
            raise Forbidden(message, Permission.READ_ALL)

    async def _found(self, view_id: int | None) -> Sequence[SavedView]:
        found = await self._open().fetch("saved_views", id=view_id, n=_LISTED, **self._guard.visibility)
        return [_view(row) for row in found]


def _view(row: Record) -> SavedView:
    return SavedView(**{**row, "columns": tuple(row["columns"])})


def _audit_fields(view: SavedView) -> dict[str, object]:
    names = ("name", "query", "sort", "shared")
    return {**{name: getattr(view, name) for name in names}, "columns": list(view.columns)}


def _name(name: str) -> str:
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        message = f"A view's name has 1 to {_LONGEST_NAME} printable characters; got {name[:_LONGEST_NAME]!r}."
        raise InvalidOption(message)
    return name


def _query(query: str) -> str:
    grammar.parse(query)
    return query


def _columns(columns: Sequence[str]) -> list[str]:
    for column in columns:
        if not column or len(column) > _LONGEST_NAME or not column.isprintable():
            message = f"A column has 1 to {_LONGEST_NAME} printable characters; got {column[:_LONGEST_NAME]!r}."
            raise InvalidOption(message)
    if len(columns) > _MOST_COLUMNS:
        message = f"A view has at most {_MOST_COLUMNS} columns; got {len(columns)}."
        raise InvalidOption(message)
    return [*columns]


def _sort(sort: str) -> str:
    if sort not in pages.SORTS:
        message = f"sort must be one of {', '.join(pages.SORTS)}; got {sort!r}."
        raise InvalidOption(message)
    return sort


def _exists(name: str) -> ViewExists:
    return ViewExists(f"You have a view {name!r} already, or {_MOST} views. Choose another name, or delete one.")


def _not_found(view_id: int) -> ViewNotFound:
    return ViewNotFound(f"There is no view {view_id}, or it is not shared with you. See GET /views.")
