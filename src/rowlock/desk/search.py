"""Searching jobs: which index serves a query, how many jobs one call may examine, and suggestions for typos."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from rowlock.errors import InvalidOption
from rowlock.model import page as pages
from rowlock.model import search
from rowlock.model.access import Permission
from rowlock.model.count import Count
from rowlock.model.page import Cursor, Page
from rowlock.model.search import Query, Term, Text, render
from rowlock.model.spelling.similar_names import closest
from rowlock.model.state import State
from rowlock.store import lanes
from rowlock.store import search as composing
from rowlock.store.search import AccessPath, Conditions, SearchFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowlock.desk.guard import Guard
    from rowlock.desk.visible_jobs import VisibleJobs
    from rowlock.model.search import Value
    from rowlock.store.database import Database, Record

ENDED_BADLY: Final = frozenset({State.COMPLETED_WITH_ERRORS, State.FAILED, State.CANCELLED, State.EXPIRED})
"""States with an index in id order. Completed jobs are most of the table and have none."""
INDEXED: Final = frozenset({State.PENDING, State.BLOCKED, State.QUEUED, State.RUNNING, State.FAILED})
"""States with an index of their own."""
_FEW: Final = 5000
"""Up to so many jobs of an index are examined all; an index with more is not selective, and the ids are walked."""
_CAP: Final = 10_000
"""Jobs at which a count stops."""
_STATE_CAP: Final = 1_000
"""Jobs at which the count of one state stops, where all nine are counted."""
_SCAN, _DEAR_SCAN, _LOOKUPS = 25_000, 12_000, 4_000
"""Jobs that one call examines at most; fewer if a term costs more than a comparison or the rows lie far apart."""
_MOST: Final = 1000
_LOWEST, _LARGEST = -1, 2**63 - 1
_SLACK: Final = timedelta(minutes=10)
"""Largest distance between the order of ids and of created_at: clocks are set back, and statements take time."""
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC) + _SLACK, datetime.max.replace(tzinfo=UTC) - _SLACK
"""Instants that can be moved by the slack; a search beyond them is open at that end."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """How a query is run: its conditions, the index to walk, the jobs to examine, and the range of ids."""

    query: Query
    where: Conditions
    walk: AccessPath
    scan: int
    low: int = _LOWEST
    high: int = _LARGEST


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """Ids in the order walked. reached: the last key examined if the walk was cut off, else None."""

    ids: Sequence[int]
    reached: int | None = None


class JobSearch:
    """Searches the jobs that one principal may see."""

    def __init__(self, database: Callable[[], Database], guard: Guard, visible_jobs: VisibleJobs) -> None:
        self._open, self._guard, self._visible_jobs = database, guard, visible_jobs

    async def page(self, text: str, *, limit: int, after: str | None, sort: str) -> Page:
        """One page, the cursors of its neighbours, and the count of all jobs found."""
        if not 1 <= limit <= _MOST:
            message = f"limit must be from 1 to {_MOST}; got {limit}."
            raise InvalidOption(message)
        if sort not in pages.SORTS:
            message = f"sort must be one of {', '.join(pages.SORTS)}; got {sort!r}."
            raise InvalidOption(message)
        query = search.parse(text)
        cursor = None if after is None else pages.decode(after, sort=sort, filter_hash=query.hash)
        plan = await self.plan(query)
        back = cursor is not None and cursor.back
        newest = (sort == "newest") != back
        found, count = await self._beyond(plan, limit, cursor, newest=newest)
        items = {job.id: job for job in await self._visible_jobs.many(found.ids[:limit])}
        kept = [items[number] for number in found.ids[:limit] if number in items]
        here = Cursor(sort, 0, query.hash, back, count)
        last = found.ids[limit - 1] if len(found.ids) > limit else found.reached
        on = None if last is None else replace(here, key=last).encode()
        origin = None
        if cursor is not None:
            # An empty page lies between two jobs: its previous page includes the job that it was reached from.
            edge = found.ids[0] if found.ids else cursor.key + (-1 if newest else 1)
            origin = replace(here, key=edge, back=not back).encode()
        if back:
            # A previous page is walked backwards: its last job found is the first one shown.
            return Page(kept[::-1], origin, on, count, found.reached is not None)
        none = cursor is None and not kept and found.reached is None
        suggestion = await suggested(self._open(), self._guard, query) if none else None
        return Page(kept, on, origin, count, found.reached is not None, suggestion)

    async def _beyond(
        self, plan: SearchPlan, limit: int, cursor: Cursor | None, *, newest: bool
    ) -> tuple[FoundJobs, Count]:
        """The jobs of a page and one more, and the count: taken with the first page, then carried by the cursors."""
        if cursor is None:
            found, count = await self.counted(plan, newest=newest)
            return (FoundJobs(found.ids[: limit + 1]) if len(found.ids) > limit else found), count
        if newest:
            return await self.find(plan, limit + 1, newest=True, below=cursor.key), cursor.count
        return await self.find(plan, limit + 1, newest=False, above=cursor.key), cursor.count

    async def plan(self, query: Query, *, now: datetime | None = None) -> SearchPlan:
        """Choose the index. now: the instant that ages are relative to; None: the present."""
        database = self._open()
        if now is None:
            (clock,) = await database.fetch("clock")
            now = clock["now"]
        known = SearchFacts(now, await lanes.read(database) if any(t.field == "lane" for t in query.terms) else ())
        scope = Conditions(database.statements.fragment("visible"), self._guard.visibility)
        where = composing.conditions(database.statements, query, known, scope)
        walk = await self._walk(query, now)
        timed = walk.name in {"id", "tenant", "submitter"}
        low, high = await self._window(query, now) if timed else (_LOWEST, _LARGEST)
        return SearchPlan(query, where, walk, _scan(query, walk), low, high)

    async def find(
        self, plan: SearchPlan, n: int, *, newest: bool, below: int = _LARGEST, above: int = _LOWEST
    ) -> FoundJobs:
        """The first n ids between `above` and `below`, in one direction."""
        values = self._values(plan) | {"low": max(plan.low, above), "high": min(plan.high, below), "n": n}
        numbers = [row["id"] for row in await self._run("search_ids", plan, values, newest=newest)]
        return FoundJobs(numbers, await self._reach(plan, values, newest=newest) if len(numbers) < n else None)

    async def counted(self, plan: SearchPlan, *, newest: bool = True) -> tuple[FoundJobs, Count]:
        """All ids found, up to 10,000 and within the jobs that one search examines, and their count."""
        found = await self.find(plan, _CAP + 1, newest=newest)
        return found, Count(min(len(found.ids), _CAP), exact=len(found.ids) <= _CAP and found.reached is None)

    async def by_state(self, text: str) -> Mapping[State, Count]:
        """How many jobs the search finds in each state, 1,000 at most; its own state terms are left out."""
        asked = search.parse(text)
        rest = tuple(term for term in asked.terms if term.field != "state")
        (clock,) = await self._open().fetch("clock")
        counts = {}
        for state in State:
            plan = await self.plan(Query((*rest, Term("state", (Text(state),)))), now=clock["now"])
            found = await self.find(plan, _STATE_CAP + 1, newest=True)
            number = len(found.ids)
            counts[state] = Count(min(number, _STATE_CAP), exact=number <= _STATE_CAP and found.reached is None)
        return counts

    async def _reach(self, plan: SearchPlan, values: Mapping[str, object], *, newest: bool) -> int | None:
        """The key at which the walk was cut off; None: it reached its end."""
        (reach,) = await self._run("search_reach", plan, values, newest=newest)
        if reach["n"] < plan.scan:
            return None
        return int(reach["low"] if newest else reach["high"])

    def _values(self, plan: SearchPlan) -> dict[str, object]:
        return {**plan.where.values, **plan.walk.values, "scan": plan.scan}

    async def _run(
        self, name: str, plan: SearchPlan, values: Mapping[str, object], *, newest: bool
    ) -> Sequence[Record]:
        database = self._open()
        statement = composing.composed(database.statements, name, plan.walk, plan.where, newest=newest)
        return await database.fetch_in_order(statement, *statement.bind(values))

    # --- which way ---------------------------------------------------------------------------------------------------

    async def _walk(self, query: Query, now: datetime) -> AccessPath:
        """A selective index, if a term has one; else that of references or tags; else the ids."""
        for term in search.positives(query, "id"):
            numbers = [composing.number_of(value.text) for value in term.values if isinstance(value, Text)]
            return AccessPath("list", {"few": sorted(number for number in numbers if number is not None)})
        for term in search.positives(query, "fingerprint"):
            values = [value for value in term.values if isinstance(value, Text)]
            if not any(value.prefix for value in values):
                return AccessPath("fingerprint", {"fingerprints": [value.text for value in values]})
        if (few := await self._few(query, now)) is not None:
            return AccessPath("list", {"few": few})
        for term in search.positives(query, "ref", "tag"):
            values = [value for value in term.values if isinstance(value, Text)]
            if not any(value.prefix for value in values):
                name = term.path[0] if term.path else "tag"
                return AccessPath("ref", {"ref_name": name, "ref_values": [value.text for value in values]})
        for term in search.positives(query, "state"):
            if ENDED_BADLY.issuperset(states := _states(term)):
                return AccessPath("state", {"ended": states})
        return self._by_owner(query) or AccessPath("id")

    async def _delivered(self, query: Query) -> list[int] | None:
        """The jobs that a carrier knows by the ids of a term; None: no term names whole ids, or too many."""
        for term in search.positives(query, "backend"):
            values = [value for value in term.values if isinstance(value, Text)]
            if not any(value.prefix for value in values):
                names = [value.text for value in values]
                rows = await self._open().fetch("search_delivered_as", backend_job_ids=names, cap=_FEW + 1)
                return [row["id"] for row in rows] if len(rows) <= _FEW else None
        return None

    def _by_owner(self, query: Query) -> AccessPath | None:
        """The index of the only tenant or submitter that the principal may see or asks for."""
        who = self._guard.principal
        asked = {
            value.text
            for term in search.positives(query, "tenant")
            for value in term.values
            if isinstance(value, Text) and not value.prefix
        }
        if not self._guard.sees_others and who.tenant is None:
            return AccessPath("submitter", {"submitter": who.subject})
        if not self._guard.sees_others:
            return AccessPath("tenant", {"of_tenant": who.tenant})
        if len(asked) == 1 and all(len(term.values) == 1 for term in search.positives(query, "tenant")):
            return AccessPath("tenant", {"of_tenant": asked.pop()})
        return None

    async def _few(self, query: Query, now: datetime) -> Sequence[int] | None:
        if (delivered := await self._delivered(query)) is not None:
            return delivered
        database = self._open()
        for term in search.positives(query, "state"):
            if INDEXED.issuperset(states := _states(term)) and not ENDED_BADLY.issuperset(states):
                (few,) = await database.fetch("few_jobs", states=states, kind=_kind(query), cap=_FEW)
                if few["complete"]:
                    return list(few["ids"])
        if finished := list(search.positives(query, "finished")):
            low, high = composing.window(finished, now)
            (few,) = await database.fetch("search_few_finished", **{"from": low, "until": high, "cap": _FEW})
            if len(few["ids"]) <= _FEW:
                return list(few["ids"])
        return await self._few_by_args(query)

    async def _few_by_args(self, query: Query) -> Sequence[int] | None:
        terms = [
            term
            for term in search.positives(query, "args")
            if not any(isinstance(value, Text) and value.prefix for value in term.values)
        ]
        database = self._open()
        if not terms or not (await database.fetch("args_index"))[0]["valid"]:
            return None
        statement, values = composing.few_by_args(database.statements, terms)
        (few,) = await database.fetch_in_order(statement, *statement.bind({**values, "cap": _FEW}))
        return list(few["ids"]) if len(few["ids"]) <= _FEW else None

    async def _window(self, query: Query, now: datetime) -> tuple[int, int]:
        """The range of ids that jobs of this age have; a job that ended before an instant was created before it."""
        low, high = composing.window(search.positives(query, "created"), now)
        _, ended = composing.window(search.positives(query, "finished"), now)
        high = min((at for at in (high, ended) if at is not None), default=None)
        return (
            _LOWEST if low is None or low < _FIRST else await self._id_at(low - _SLACK, "low"),
            _LARGEST if high is None or high > _LAST else await self._id_at(high + _SLACK, "high"),
        )

    async def _id_at(self, at: datetime, edge: str) -> int:
        rows = await self._open().fetch("search_id_at", at=at)
        return int(rows[0][edge]) if rows and rows[0][edge] is not None else {"low": _LOWEST, "high": _LARGEST}[edge]


def _scan(query: Query, walk: AccessPath) -> int:
    if walk.name != "id":
        return _FEW + 1 if walk.name == "list" else _LOOKUPS
    return _DEAR_SCAN if any(term.field in composing.DEAR for term in query.terms) else _SCAN


def _states(term: Term) -> list[str]:
    return [value.text for value in term.values if isinstance(value, Text)]


def _kind(query: Query) -> str | None:
    """The kind, if the query names exactly one: few of its jobs may be queued though many of others are."""
    for term in search.positives(query, "kind"):
        if len(term.values) == 1 and isinstance(value := term.values[0], Text) and not value.prefix:
            return value.text
    return None


async def suggested(database: Database, guard: Guard, query: Query) -> str | None:
    """The search with mistyped kinds and lanes corrected; None: nothing to correct."""
    # Names of kinds outside the scope of a permission are not suggested.
    if guard.granted is not None or not any(term.field in {"kind", "lane"} for term in query.terms):
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
