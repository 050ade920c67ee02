"""app.jobs: submit, read, search, explain, order and await jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rowlock.desk import items_and_logs
from rowlock.desk.bulk import Bulk, in_batches
from rowlock.desk.edit import Editor, JobEdit
from rowlock.desk.explain import explain, facts, position
from rowlock.desk.explain.repeated_reads import RepeatedReads
from rowlock.desk.follow.waiting import EndNotifications, until_final
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.desk.job_orders import JobOrders
from rowlock.desk.operation_driver import BackgroundOperations
from rowlock.desk.operations import Operations
from rowlock.desk.search import JobSearch
from rowlock.desk.signals import Signalled, Signals
from rowlock.desk.submit import GuardedSubmit, Submitted
from rowlock.desk.suggest import Suggest
from rowlock.desk.visible_jobs import VisibleJobs, not_found
from rowlock.errors import BulkRefused, InvalidOption
from rowlock.model import ids
from rowlock.model.access import Permission
from rowlock.model.job import Relative
from rowlock.model.options import Options, Span
from rowlock.model.page import Listing
from rowlock.model.search import Query, Term, Text
from rowlock.model.state import State
from rowlock.store.rows import jobs as rows
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from typing_extensions import Unpack

    from rowlock.desk.submit import Submit, SubmitOptions
    from rowlock.model.count import Count
    from rowlock.model.explanation import Explanation, QueuePosition
    from rowlock.model.job import Act, Attempt, Job
    from rowlock.model.operation import Action, Operation
    from rowlock.model.page import Page
    from rowlock.model.progress import Item, ItemState, LogLine
    from rowlock.model.queue_pair import Wake
    from rowlock.model.search_suggestion import SearchSuggestions
    from rowlock.store.database import Connection, Database, Record

_LARGEST_ID: Final = 2**63 - 1
_WALK: Final = 25_000
"""Jobs that are looked at for a previous one."""
_RELATIVES: Final = 200
MOST_EXPLAINED: Final = 50
"""Jobs that one call explains: a screen of them."""


@dataclass(frozen=True, slots=True)
class History:
    """One job with its earlier attempts and the orders that people gave."""

    job: Job
    attempts: Sequence[Attempt]
    acts: Sequence[Act]


class Jobs:
    """Jobs. Ids are numbers or public ids."""

    def __init__(
        self,
        database: Callable[[], Database],
        wake: Wake,
        guard: Guard = TRUSTED,
        end_notifications: EndNotifications | None = None,
        submit: Submit | None = None,
        *,
        operations: Operations | None = None,
        reads: Callable[[], Database] | None = None,
    ) -> None:
        """reads: where searches and suggestions are read, if not in the database itself."""
        self._reads = reads or database
        self._open, self._wake, self._guard, self._submit = database, wake, guard, submit
        self._end_notifications = end_notifications or EndNotifications(database)
        self._visible_jobs = VisibleJobs(database, guard)
        self._operations = operations or Operations(database, BackgroundOperations(database, wake), guard)
        self._job_search = JobSearch(self._reads, guard, self._visible_jobs)
        self._submissions = GuardedSubmit(database, submit, guard, self._visible_jobs)

    @changes(Permission.SUBMIT, scoped=True)
    async def submit(
        self,
        kind: str,
        args: Mapping[str, object] | Sequence[object] = (),
        *,
        connection: Connection[Record] | None = None,
        **options: Unpack[SubmitOptions],
    ) -> Submitted:
        """Enqueue a job by the name of its kind, with decoded JSON; tenant and submitter are the principal's.

        options: as of task.options(). The arguments are checked where the kind's code is imported; where it is not,
        they are stored unchecked, if a worker has registered the kind. connection: one of
        app.database().connection(), whose transaction it joins.
        """
        return await self._submissions.submit(kind, args, options, connection)

    @changes(Permission.SUBMIT, scoped=True)
    async def clone(self, job_id: int | str) -> Submitted:
        """Submit a job with the kind, arguments and labels of another, and the approval that was demanded of it.

        Secret arguments are copied for principals that may read them.
        """
        return await self._submissions.clone(job_id)

    @reads(Permission.READ, scoped=True)
    async def get(self, job_id: int | str) -> Job:
        """The job as it is now; JobNotFound: there is none, or retention removed it."""
        return await self._visible_jobs.one(job_id)

    async def get_for(self, permission: Permission, job_id: int | str) -> Job:
        """The job, for a principal that holds this permission; without jobs:read its content is left out."""
        self._guard.demand(permission, scoped=True)
        return await self._jobs_for(permission).one(job_id)

    def _jobs_for(self, permission: Permission) -> VisibleJobs:
        """The jobs for which the principal holds this permission."""
        return VisibleJobs(self._open, self._guard.acting_with(permission))

    def _orders(self, permission: Permission) -> JobOrders:
        return JobOrders(self._open, self._wake, self._guard.acting_with(permission), self._jobs_for(permission))

    async def kinds_for(self, permission: Permission, kinds: Iterable[str]) -> Sequence[str]:
        """Those of the kinds for whose jobs the principal holds this permission."""
        self._guard.demand(permission, scoped=True)
        return await self._jobs_for(permission).kinds_within(kinds)

    @reads(Permission.READ_ARGS)
    async def result(self, job_id: int) -> str | None:
        """The stored result, encoded and with its secrets: for the program that awaits it, not for display."""
        number = await self._visible_jobs.checked(job_id)
        found = await self._open().fetch("outcome_of", id=number)
        if not found:
            raise not_found(job_id)
        await self._visible_jobs.record_reading({number: found[0]["result"]})
        return None if found[0]["result"] is None else str(found[0]["result"])

    @reads(Permission.READ, scoped=True)
    async def previous(self, job_id: int | str) -> Job | None:
        """The last job of the same kind and tenant before this one that has run; None: not among 25,000 before it."""
        number = (await self._visible_jobs.one(job_id)).id
        found = await self._open().fetch("previous_job", id=number, walk=_WALK)
        jobs = await self._visible_jobs.many([row["id"] for row in found])
        return jobs[0] if jobs else None

    @reads(Permission.READ, scoped=True)
    async def relatives(self, job_id: int | str) -> Sequence[Relative]:
        """The jobs that it waits for and those that wait for it in its workflow, and its hooks: 200 of each at most."""
        number = (await self._visible_jobs.one(job_id)).id
        found = await self._open().fetch("job_relatives", id=number, n=_RELATIVES, **self._guard.visibility)
        return [Relative(**{**row, "state": State(row["state"])}) for row in found]

    @reads(Permission.READ, scoped=True)
    async def counts(self, search: str = "") -> Mapping[State, Count]:
        """How many jobs a search finds in each state, up to 1,000; a state in the search itself is left out."""
        return await self._job_search.by_state(search)

    @reads(Permission.READ, scoped=True)
    async def suggest(self, search: str, position: int | None = None) -> SearchSuggestions:
        """What may stand at a position of a search that is being typed; None: at its end."""
        suggestions = Suggest(self._reads(), self._guard, self._visible_jobs)
        return await suggestions.at(search, len(search) if position is None else position)

    @reads(Permission.READ, scoped=True)
    async def many(self, job_ids: Iterable[int | str]) -> list[Job]:
        """Several jobs in id order; missing ones are left out."""
        return await self._visible_jobs.many(job_ids)

    @reads(Permission.READ, scoped=True)
    async def history(self, job_id: int | str) -> History:
        """The job with its earlier attempts and the orders that people gave."""
        job = await self._visible_jobs.one(job_id)
        attempts = await self._open().fetch("attempts_of", id=job.id)
        acts = await self._open().fetch("acts_of", id=job.id)
        return History(job, [rows.attempt_of(row) for row in attempts], [rows.act_of(row) for row in acts])

    @reads(Permission.READ, scoped=True)
    async def items(
        self,
        job_id: int | str,
        *,
        states: Sequence[ItemState | str] | None = None,
        phase: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[Item]:
        """The items of the newest attempt, by phase and name; after: the key of the last one on the page before."""
        number = (await self.get(job_id)).id
        return await items_and_logs.items(self._open(), number, states=states, phase=phase, after=after, limit=limit)

    @reads(Permission.READ, scoped=True)
    async def logs(self, job_id: int | str, *, after: int = 0, limit: int = 1000, last: bool = False) -> list[LogLine]:
        """Log lines of all attempts. after: the n of the last line read; last: the newest ones instead of the first."""
        return await items_and_logs.logs(self._open(), (await self.get(job_id)).id, after, limit, last=last)

    @reads(Permission.READ, scoped=True)
    async def explain(self, job_id: int | str) -> Explanation:
        """Why the job is not running: every reason that holds, the most decisive first. print() it."""
        async with self._open().snapshot() as reads:
            found = await facts.read(reads, ids.parse(job_id), migrate.newest(), self._guard)
        if found is None:
            raise not_found(job_id)
        return explain.explain(found)

    @reads(Permission.READ, scoped=True)
    async def explain_many(self, job_ids: Sequence[int | str]) -> list[Explanation]:
        """explain() of up to 50 jobs at one moment, in the order asked. Jobs that are gone are left out."""
        if len(job_ids) > MOST_EXPLAINED:
            message = f"explain_many() takes {MOST_EXPLAINED} jobs at most; got {len(job_ids)}. Ask in several calls."
            raise InvalidOption(message)
        numbers = [ids.parse(each) for each in job_ids]
        async with self._open().snapshot() as snapshot:
            reads = RepeatedReads(snapshot)
            found = [await facts.read(reads, number, migrate.newest(), self._guard) for number in numbers]
        return [explain.explain(each) for each in found if each is not None]

    @reads(Permission.READ, scoped=True)
    async def position(self, job_id: int | str) -> QueuePosition | None:
        """How many due jobs its lane starts before it; None unless it is queued and due, and in a fair lane."""
        job = await self._visible_jobs.one(job_id)
        async with self._open().snapshot() as reads:
            return await position.read(reads, job)

    @reads(Permission.READ, scoped=True)
    async def list(
        self,
        *,
        states: Sequence[State | str] | None = None,
        kind: str | None = None,
        lane: str | None = None,
        tenant: str | None = None,
        refs: Mapping[str, object] | None = None,
        tag: str | None = None,
        before: int | str | None = None,
        limit: int = 50,
    ) -> Listing:
        """Jobs, newest first. before: the last id of the previous page.

        It examines no more jobs than one search does, as a rule the newest 25,000. The answer's cut_off says
        that older ones were not examined, and its `before` where to continue.
        """
        if states is not None and not states:
            return Listing()
        asked = {"state": states and [_state(state) for state in states], "tag": [tag] if tag else None}
        asked |= {"kind": kind and [kind], "lane": lane and [lane], "tenant": tenant and [tenant]}
        terms = [Term(name, tuple(map(Text, texts))) for name, texts in asked.items() if texts]
        terms += [Term("ref", (Text(rows.ref_text(value)),), path=(name,)) for name, value in (refs or {}).items()]
        below = _LARGEST_ID if before is None else ids.parse(before)
        plan = await self._job_search.plan(Query(tuple(terms)))
        found = await self._job_search.find(plan, limit, newest=True, below=below)
        return Listing((await self._visible_jobs.many(found.ids))[::-1], found.reached)

    @reads(Permission.READ, scoped=True)
    async def search(self, text: str = "", *, limit: int = 50, after: str | None = None, sort: str = "newest") -> Page:
        """Jobs that fulfil every term, such as "state:failed kind:ingest* created:<2h -tag:test".

        after: a page's next or previous. sort: "newest" or "oldest" first. InvalidSearch says where a search is wrong.
        """
        return await self._job_search.page(text, limit=limit, after=after, sort=sort)

    @reads(Permission.READ, scoped=True)
    async def bulk(
        self,
        action: Action,
        *,
        search: str | None = None,
        ids: Iterable[int | str] | None = None,
        dry_run: bool = False,
        filter_hash: str | None = None,
        expected_max: int | None = None,
        priority: int | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> Operation:
        """Give one order to many jobs. With dry_run=True: count them, show five, and return a filter_hash.

        With that filter_hash, and expected_max as the limit: carry it out in the background, in batches;
        app.operations follows and cancels it. It needs the permission of the order itself.
        """
        desk = self._operations
        if dry_run:
            return await desk.preview(action, search=search, ids=ids, priority=priority)
        if filter_hash is None or expected_max is None:
            message = "Nothing was ordered. Ask with dry_run=True first, then send its filter_hash and expected_max."
            raise BulkRefused(message)
        return await desk.start(
            action,
            search=search,
            ids=ids,
            priority=priority,
            filter_hash=filter_hash,
            expected_max=expected_max,
            by=by,
            note=note,
        )

    @changes(Permission.CANCEL, scoped=True)
    async def cancel(self, job_id: int | str, *, by: str | None = None, note: str | None = None) -> Job:
        """End a waiting job at once; ask a running one to stop at its next await."""
        return await self._orders(Permission.CANCEL).cancel(job_id, by, note)

    @changes(Permission.CANCEL, scoped=True)
    async def cancel_many(
        self, job_ids: Iterable[int | str], *, by: str | None = None, note: str | None = None
    ) -> Bulk:
        """Cancel several jobs; those that cannot be cancelled are reported in `refused`."""
        return await in_batches(job_ids, lambda batch: self._orders(Permission.CANCEL).cancel_batch(batch, by, note))

    @changes(Permission.CANCEL, scoped=True)
    async def stop(self, job_id: int | str, *, by: str | None = None, note: str | None = None) -> Job:
        """End the job now, whatever its handler does; a late result is refused."""
        return await self._orders(Permission.CANCEL).stop(job_id, by, note)

    @changes(Permission.APPROVE, scoped=True)
    async def approve(self, job_id: int | str, *, by: str | None = None, note: str | None = None) -> Job:
        """Let a pending job run."""
        return await self._orders(Permission.APPROVE).approve(job_id, by, note)

    @changes(Permission.APPROVE, scoped=True)
    async def reject(self, job_id: int | str, *, by: str | None = None, note: str | None = None) -> Job:
        """End a pending job."""
        return await self._orders(Permission.APPROVE).reject(job_id, by, note)

    @changes(Permission.RETRY, scoped=True)
    async def retry(
        self,
        job_id: int | str,
        *,
        items: Literal["failed"] | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> Job:
        """Run a finished job again with a new attempt budget; its history stays. items: only those not done yet."""
        if items is not None:
            items_and_logs.check_items(await self._jobs_for(Permission.RETRY).one(job_id), items)
        return await self._orders(Permission.RETRY).retry(job_id, by, note, keep_items=items is not None)

    @changes(Permission.RETRY, scoped=True)
    async def retry_many(self, job_ids: Iterable[int | str], *, by: str | None = None, note: str | None = None) -> Bulk:
        """Run several finished jobs again; those that cannot be retried are reported in `refused`."""
        return await in_batches(job_ids, lambda batch: self._orders(Permission.RETRY).retry_batch(batch, by, note))

    @changes(Permission.DELETE, scoped=True)
    async def delete(self, job_id: int | str, *, by: str | None = None, note: str | None = None) -> Job:
        """Remove a finished job with its history before its retention does, and return it."""
        return await self._orders(Permission.DELETE).delete(job_id, by, note)

    @changes(Permission.EDIT, scoped=True)
    async def reprioritise(
        self, job_id: int | str, priority: int, *, by: str | None = None, note: str | None = None
    ) -> Job:
        """Give a waiting job another priority."""
        return await self._orders(Permission.EDIT).reprioritise(job_id, priority, by, note)

    @changes(Permission.EDIT, scoped=True)
    async def edit(
        self,
        job_id: int | str,
        *,
        args: Mapping[str, object] | None = None,
        run_at: datetime | None = None,
        run_in: Span | None = None,
        tags: Sequence[str] | None = None,
        priority: int | None = None,
        version: int | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> Job:
        """Change a waiting job; None stays as it is. args and tags replace the old ones entirely.

        Arguments are checked as by submit(), and a change voids approvals. A secret sent back as it is shown, •••,
        stays. version: only if the job's seq is still that; WrongState otherwise, and once it has begun to run.
        """
        change = JobEdit(args, Options(run_at=run_at, run_in=run_in, tags=tags, priority=priority))
        guard, editable = self._guard.acting_with(Permission.EDIT), self._jobs_for(Permission.EDIT)
        editor = Editor(self._open, self._wake, guard, editable, self._submit)
        return await editor.edit(job_id, change, version, by, note)

    @reads(Permission.READ, scoped=True)
    async def wait(self, job_id: int | str, *, timeout: float | None = None) -> Job:
        """Wait until the job is final. timeout in seconds; after WaitTimeout the job goes on."""
        number = ids.parse(job_id)
        return await until_final(
            self._open(),
            self._end_notifications,
            number,
            lambda: self._visible_jobs.one(number),
            timeout=timeout,
            what="Job",
        )

    @changes(Permission.EDIT, scoped=True)
    async def signal(
        self, job_id: int | str, name: str, payload: object = None, *, by: str | None = None, note: str | None = None
    ) -> Signalled:
        """Send a signal that the job waits for, or will, with ctx.wait_for(name); the first of a name counts."""
        guard, reached = self._guard.acting_with(Permission.EDIT), self._jobs_for(Permission.EDIT)
        return await Signals(self._open, self._wake, guard, reached).send(job_id, name, payload, by, note)


def _state(state: State | str) -> str:
    try:
        return State(state)
    except ValueError:
        message = f"There is no state {str(state)!r}; there are {', '.join(State)}."
        raise InvalidOption(message) from None
