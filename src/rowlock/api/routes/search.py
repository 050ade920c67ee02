"""Help with searches: suggestions while one is typed, and counts by state."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from rowlock.api.dependencies import CurrentDesk
from rowlock.api.routing import Routes
from rowlock.api.schemas.fields import CountAnswer
from rowlock.api.schemas.search import StateCountsAnswer, SuggestionsAnswer
from rowlock.model.access import Permission

routes = Routes("jobs")
Typed = Annotated[str, Query(max_length=2000, description="The search as far as it is typed.", examples=["kind:send"])]
Search = Annotated[str, Query(max_length=2000, description="A search.", examples=["kind:send_invoice"])]
Position = Annotated[
    int | None, Query(ge=0, le=2000, description="Position of the cursor; without it, the end.", examples=[9])
]


@routes.get("/search/suggest", needs=Permission.READ)
async def suggest_search(desk: CurrentDesk, q: Typed = "", cursor_position: Position = None) -> SuggestionsAnswer:
    """What may stand at the cursor of a search: fields, states, and names that begin with what is typed.

    Kinds, lanes, workers, tags, references, tenants, classes of errors and failure groups, as far as the caller may
    see them. The search need not be valid yet.
    """
    return SuggestionsAnswer.of(await desk.jobs.suggest(q, cursor_position))


@routes.get("/search/counts", needs=Permission.READ, problems=("invalid-search",))
async def count_search(desk: CurrentDesk, q: Search = "") -> StateCountsAnswer:
    """How many jobs a search finds in each state, up to 1,000 each; a state in the search itself is left out."""
    counts = await desk.jobs.counts(q)
    return StateCountsAnswer(states={state: CountAnswer.of(count) for state, count in counts.items()})
