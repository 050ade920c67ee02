"""Suggest: what a search that found nothing may have meant, from the names there are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rowlock.model.access import Permission
from rowlock.model.search import Query, Text, render
from rowlock.model.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowlock.desk.guard import Guard
    from rowlock.model.search import Term, Value
    from rowlock.store.database import Database


async def suggested(database: Database, guard: Guard, query: Query) -> str | None:
    """The search with its mistyped kinds and lanes put right; None: there is nothing to put right."""
    if not any(term.field in {"kind", "lane"} for term in query.terms):
        return None
    (row,) = await database.fetch("search_names")
    names = {"kind": row["kinds"], "lane": row["lanes"] if guard.principal.may(Permission.WORKERS_VIEW) else []}
    meant = Query(tuple(_meant(term, names) for term in query.terms))
    return None if meant == query else render(meant)


def _meant(term: Term, names: Mapping[str, Sequence[str]]) -> Term:
    known = names.get(term.field, ())
    return replace(term, values=tuple(dict.fromkeys(_near(value, known) for value in term.values))) if known else term


def _near(value: Value, known: Sequence[str]) -> Value:
    if not isinstance(value, Text) or value.prefix or value.text in known:
        return value
    near = closest(value.text, known, n=1)
    return replace(value, text=near[0]) if near else value
