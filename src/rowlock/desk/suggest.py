"""Suggestions for a search that is being typed: fields, states, and names that this principal may know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.model.access import Permission
from rowlock.model.search_suggestion import (
    SearchSuggestion,
    SearchSuggestions,
    fields_like,
    search_cursor,
    value_suggestion,
)
from rowlock.model.state import State
from rowlock.store.search import like_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.desk.guard import Guard
    from rowlock.desk.visible_jobs import VisibleJobs
    from rowlock.model.search_suggestion import SearchCursor
    from rowlock.store.database import Database, Record

MOST: Final = 20
"""Suggestions of one call."""
_STEPS: Final = 200
"""Different values of job_refs that one call looks at."""
_NEWEST: Final = 500
"""Jobs whose labels are looked at for a caller who does not see all jobs."""


class Suggest:
    """Suggests what may stand at the cursor of a search."""

    def __init__(self, database: Database, guard: Guard, visible_jobs: VisibleJobs) -> None:
        self._database, self._guard, self._visible_jobs = database, guard, visible_jobs

    async def at(self, text: str, position: int) -> SearchSuggestions:
        """Suggestions for the part of the text at the position."""
        cursor = search_cursor(text, position)
        items = await self._items(cursor)
        return SearchSuggestions(cursor.start, cursor.end, items[:MOST])

    async def _items(self, cursor: SearchCursor) -> Sequence[SearchSuggestion]:
        if cursor.field is not None:
            values = await self._values(cursor.field, cursor.path, cursor.typed)
            return [value_suggestion(value, cursor.field) for value in values]
        if cursor.typed.startswith("ref."):
            names = await self._ref_names(cursor.typed.removeprefix("ref."))
            return [SearchSuggestion(f"ref.{name}:", f"ref.{name}:", "field") for name in names]
        kinds = await self._values("kind", None, cursor.typed) if cursor.typed else []
        return [*fields_like(cursor), *(_of_kind(kind) for kind in kinds)]

    async def _values(self, field: str, path: str | None, typed: str) -> list[str]:  # noqa: C901, PLR0911 - one case per field
        like, guard = like_prefix(typed), self._guard
        match field:
            case "state":
                return [state for state in State if state.startswith(typed.lower())]
            case "kind":
                found = await self._database.fetch("suggest_kinds", like=like, n=MOST)
                return list(await self._visible_jobs.kinds_within(_texts(found)))
            case "lane" if guard.principal.may(Permission.WORKERS_VIEW):
                return _texts(await self._database.fetch("suggest_lanes", like=like, n=MOST))
            case "worker" if guard.principal.may(Permission.WORKERS_VIEW):
                return _texts(await self._database.fetch("suggest_workers", like=like, n=MOST))
            case "tenant" if guard.sees_all:
                return _texts(await self._database.fetch("suggest_tenants", like=like, n=MOST))
            case "tenant" if guard.principal.tenant is not None:
                return [tenant for tenant in (guard.principal.tenant,) if tenant.startswith(typed)]
            case "error" if guard.granted is None:
                return _texts(await self._database.fetch("suggest_errors", like=like, n=MOST, **guard.visibility))
            case "fingerprint" if guard.granted is None:
                return _texts(await self._database.fetch("suggest_fingerprints", like=like, n=MOST, **guard.visibility))
            case "tag":
                return await self._labels("tag", typed)
            case "ref" if path is not None:
                return await self._labels(path, typed)
            case _:
                return []

    async def _labels(self, name: str, typed: str) -> list[str]:
        if self._guard.is_unlimited:
            like = like_prefix(typed)
            return _texts(
                await self._database.fetch(
                    "suggest_ref_values", name=name, typed=typed, like=like, steps=_STEPS, n=MOST
                )
            )
        return [row["value"] for row in await self._own() if row["name"] == name and row["value"].startswith(typed)]

    async def _ref_names(self, typed: str) -> list[str]:
        if self._guard.is_unlimited:
            like = like_prefix(typed)
            return _texts(await self._database.fetch("suggest_ref_names", like=like, steps=_STEPS, n=MOST))
        names = {row["name"] for row in await self._own()} - {"tag"}
        return sorted(name for name in names if name.startswith(typed))

    async def _own(self) -> Sequence[Record]:
        return await self._database.fetch("suggest_own_labels", newest=_NEWEST, **self._guard.visibility)


def _texts(found: Sequence[Record]) -> list[str]:
    return [row["value"] for row in found if row["value"]]


def _of_kind(kind: str) -> SearchSuggestion:
    written = value_suggestion(kind, "kind")
    return SearchSuggestion(f"kind:{written.text}", f"kind:{kind}", "kind")
