"""Pages in Django's admin: jobs, and orders to give them. Every order goes through the desk and its audit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.functional import cached_property
from django.utils.html import format_html

from rowlock.contrib.django.application import project_app
from rowlock.contrib.django.models import Job
from rowlock.contrib.django.principals import principal_of
from rowlock.errors import InvalidSearch, JobNotFound, RowlockError
from rowlock.model.state import State, Verb, reachable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowlock.desk.access import Desk

_COUNTED: Final = 10_000
"""Jobs that a list counts at most; counting a large table takes longer than the page may."""
_FOUND: Final = 500
"""Jobs that a search shows at most."""
_LOG_LINES: Final = 200
ORDERS: Final = {
    "cancel": (Verb.CANCEL, "rowlock.cancel_job", "cancelled"),
    "retry": (Verb.RETRY, "rowlock.retry_job", "retried"),
    "approve": (Verb.APPROVE, "rowlock.approve_job", "approved"),
    "reject": (Verb.REJECT, "rowlock.approve_job", "rejected"),
}
"""Orders by name: what they do to a job, the permission they need, and how the answer calls a job that got one."""


class CappedPaginator(Paginator):
    """Pages whose number is exact up to a limit."""

    @cached_property
    def count(self) -> int:
        """The number of jobs, or the limit if there are more."""
        return int(self.object_list.order_by()[:_COUNTED].count())


class KindFilter(admin.SimpleListFilter):
    """Kinds whose code is here. Asking the table for its kinds would read all of it."""

    title = parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ANN401, ARG002 - Django's
        """The names of the kinds."""
        return [(name, name) for name in sorted(project_app().tasks)]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:  # noqa: ANN401, ARG002 - Django's
        """Jobs of the chosen kind."""
        return queryset.filter(kind=self.value()) if self.value() else queryset


class LaneFilter(admin.SimpleListFilter):
    """The lanes of the database."""

    title = parameter_name = "lane"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ANN401, ARG002 - Django's
        """The names of the lanes."""
        return [(lane.name, lane.name) for lane in project_app().sync.lanes.list()]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:  # noqa: ANN401, ARG002 - Django's
        """Jobs that the chosen lane has claimed."""
        return queryset.filter(lane=self.value()) if self.value() else queryset


class JobChangeList(ChangeList):
    """The list of jobs. The search is Rowlock's own, so its mistakes are shown instead of an empty list."""

    def get_results(self, request: HttpRequest) -> None:
        """The page, and how it is counted."""
        super().get_results(request)
        if self.result_count >= _COUNTED:
            messages.info(request, f"More than {_COUNTED:,} jobs: narrow the list down by filters or a search.")


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    """Jobs: filters, search, a page with progress, error and attempts, and the orders of `ORDERS`."""

    list_display = ("id", "kind", "state", "lane", "priority", "tries", "created_at", "finished_at", "submitted_by")
    list_filter = ("state", KindFilter, LaneFilter, "created_at")
    search_fields = ("kind",)  # shows the field; get_search_results() reads it
    search_help_text = "Rowlock's search, such as: state:failed kind:send* created:<2h, or an id"
    actions = ("cancel_jobs", "retry_jobs", "approve_jobs", "reject_jobs")
    change_form_template = "admin/rowlock/job/change_form.html"
    paginator = CappedPaginator
    show_full_result_count = False
    list_per_page = 50
    ordering = ("-id",)
    fieldsets = (
        (None, {"fields": ("id", "kind", "state", "why", "lane", "priority", "tries", "worker")}),
        ("Times", {"fields": ("created_at", "run_after", "claimed_at", "finished_at")}),
        ("Progress", {"fields": ("progress",)}),
        ("Outcome", {"fields": ("returned", "error", "traceback")}),
        ("Arguments", {"fields": ("arguments", "references", "tags", "application_data", "tenant", "submitted_by")}),
        ("History", {"fields": ("attempts", "orders", "logs")}),
    )

    # --- what may be done --------------------------------------------------------------------------------------------

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - Django's signature
        """Never: jobs are enqueued by code."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:  # noqa: ARG002 - Django's signature
        """Never: jobs are changed by orders."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:  # noqa: ARG002 - Django's signature
        """Never: retention removes jobs."""
        return False

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Whether the action is offered."""
        return bool(request.user.has_perm("rowlock.cancel_job"))

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Whether the action is offered."""
        return bool(request.user.has_perm("rowlock.retry_job"))

    def has_approve_permission(self, request: HttpRequest) -> bool:
        """Whether the actions are offered."""
        return bool(request.user.has_perm("rowlock.approve_job"))

    # --- the list ----------------------------------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[JobChangeList]:  # noqa: ANN401, ARG002 - Django's signature
        """The list with a capped count."""
        return JobChangeList

    def get_queryset(self, request: HttpRequest) -> Any:  # noqa: ANN401 - a QuerySet
        """Jobs without the large columns, which a list does not show."""
        return super().get_queryset(request).defer("args", "result", "errors", "refs", "meta")

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:  # noqa: ANN401 - QuerySets
        """The jobs that Rowlock's search finds, newest first, up to a limit."""
        if not search_term.strip():
            return queryset, False
        app = project_app()
        try:
            page = app.wait_for(_desk(request).jobs.search(search_term, limit=_FOUND))
        except InvalidSearch as error:
            messages.error(request, str(error))
            return queryset.none(), False
        except RowlockError as error:
            messages.error(request, str(error))
            return queryset.none(), False
        if page.next is not None:
            messages.info(request, f"The search shows the newest {len(page.items)} jobs; there are more.")
        return queryset.filter(pk__in=[job.id for job in page.items]), False

    @admin.display(description="attempts")
    def tries(self, job: Job) -> str:
        """Attempts so far, of so many."""
        return f"{job.attempt} of {job.max_attempts}"

    # --- orders ------------------------------------------------------------------------------------------------------

    @admin.action(description="Cancel selected jobs", permissions=["cancel"])
    def cancel_jobs(self, request: HttpRequest, queryset: Any) -> None:  # noqa: ANN401 - a QuerySet
        """End waiting jobs at once, and ask running ones to stop."""
        self._order(request, "cancel", queryset.values_list("pk", flat=True))

    @admin.action(description="Retry selected jobs", permissions=["retry"])
    def retry_jobs(self, request: HttpRequest, queryset: Any) -> None:  # noqa: ANN401 - a QuerySet
        """Run finished jobs again."""
        self._order(request, "retry", queryset.values_list("pk", flat=True))

    @admin.action(description="Approve selected jobs", permissions=["approve"])
    def approve_jobs(self, request: HttpRequest, queryset: Any) -> None:  # noqa: ANN401 - a QuerySet
        """Let pending jobs run."""
        self._order(request, "approve", queryset.values_list("pk", flat=True))

    @admin.action(description="Reject selected jobs", permissions=["approve"])
    def reject_jobs(self, request: HttpRequest, queryset: Any) -> None:  # noqa: ANN401 - a QuerySet
        """End pending jobs."""
        self._order(request, "reject", queryset.values_list("pk", flat=True))

    def _order(self, request: HttpRequest, name: str, job_ids: Iterable[str], note: str | None = None) -> None:
        """Give one order to jobs, one by one, and say what came of it."""
        app, give, done = project_app(), getattr(_desk(request).jobs, name), 0
        for job_id in job_ids:
            try:
                app.wait_for(give(job_id, note=note))
                done += 1
            except RowlockError as error:
                messages.warning(request, str(error))
        if done:
            messages.success(request, f"{done} job{'s' if done > 1 else ''} {ORDERS[name][2]}.")

    def get_urls(self) -> list[Any]:
        """The pages, and an address that takes orders for one job."""
        take = path(
            "<str:job_id>/order/<str:name>/", self.admin_site.admin_view(self.take_order), name="rowlock_job_order"
        )
        return [take, *super().get_urls()]

    def take_order(self, request: HttpRequest, job_id: str, name: str) -> HttpResponseRedirect:
        """Give the order of a button on a job's page."""
        if name not in ORDERS:
            message = f"There is no order {name!r}."
            raise Http404(message)
        if (
            request.method != "POST"
            or not self.has_view_permission(request)
            or not request.user.has_perm(ORDERS[name][1])
        ):
            raise PermissionDenied
        self._order(request, name, [job_id], note=request.POST.get("note", "").strip() or None)
        return HttpResponseRedirect(
            reverse("admin:rowlock_job_change", args=[job_id], current_app=self.admin_site.name)
        )

    # --- the page of one job -----------------------------------------------------------------------------------------

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Job | None:
        """The job as the desk shows it to this user: without secrets, unless the user may see them."""
        job: Job | None = super().get_object(request, object_id, from_field)
        if job is None:
            return None
        desk, app = _desk(request), project_app()
        try:
            job.history = app.wait_for(desk.jobs.history(job.pk))
        except JobNotFound:
            return None
        job.why_text = str(app.wait_for(desk.jobs.explain(job.pk)))
        job.log_lines = app.wait_for(desk.jobs.logs(job.pk, limit=_LOG_LINES, last=True))
        return job

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> Any:  # noqa: ANN401 - Django's
        """The page, with a button for each order that fits the job and the user."""
        job = super().get_object(request, object_id)
        state = State(job.state) if job is not None else None
        fitting = [
            name
            for name, (verb, permission, _) in ORDERS.items()
            if state is not None and reachable(verb, state) and request.user.has_perm(permission)
        ]
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), "orders": fitting})

    def get_readonly_fields(self, request: HttpRequest, obj: Job | None = None) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        """All of them."""
        return tuple(name for _, about in self.fieldsets for name in about["fields"])

    @admin.display(description="why")
    def why(self, job: Job) -> str:
        """Why it is not running."""
        return str(job.why_text)

    @admin.display
    def worker(self, job: Job) -> str:
        """The worker that runs it or ran it last."""
        return job.history.job.worker or ""

    @admin.display
    def progress(self, job: Job) -> str:
        """The last report."""
        report = job.history.job.progress
        if report is None:
            return "nothing reported"
        counter = f"{report.done:g}" + (f" of {report.total:g}" if report.total is not None else "")
        parts = [report.phase or "", counter, report.message or ""]
        if report.items is not None:
            items = report.items
            parts.append(f"items: {items.completed} completed, {items.failed} failed, {items.skipped} skipped")
        return " · ".join(part for part in parts if part)

    # Not args, result, refs and meta: Django would show the columns of these names, secrets included.

    @admin.display
    def arguments(self, job: Job) -> str:
        """Arguments, secrets redacted."""
        return _json(job.history.job.args)

    @admin.display(description="result")
    def returned(self, job: Job) -> str:
        """What the handler returned, secrets redacted."""
        return _json(job.history.job.result)

    @admin.display
    def error(self, job: Job) -> str:
        """The last error."""
        about = dict(job.history.job.errors or {})
        return ": ".join(str(about[name]) for name in ("type", "message") if about.get(name)) or str(
            about.get("reason", "")
        )

    @admin.display
    def traceback(self, job: Job) -> str:
        """The traceback of the last error."""
        return _preformatted(str((job.history.job.errors or {}).get("traceback", "")))

    @admin.display
    def references(self, job: Job) -> str:
        """References."""
        return _json(job.history.job.refs)

    @admin.display
    def tags(self, job: Job) -> str:
        """Labels."""
        return ", ".join(job.history.job.tags)

    @admin.display(description="meta")
    def application_data(self, job: Job) -> str:
        """Free JSON of the application."""
        return _json(job.history.job.meta)

    @admin.display(description="earlier attempts")
    def attempts(self, job: Job) -> str:
        """Attempts that the row itself does not describe."""
        return _preformatted(
            "\n".join(
                f"{each.ended_at:%Y-%m-%d %H:%M:%S} attempt {each.attempt} {each.outcome} on {each.worker or 'unknown'}"
                f"{': ' + str(each.error.get('message', '')) if each.error else ''}"
                for each in job.history.attempts
            )
        )

    @admin.display(description="orders")
    def orders(self, job: Job) -> str:
        """What people did."""
        return _preformatted(
            "\n".join(
                f"{act.at:%Y-%m-%d %H:%M:%S} {act.verb} by {act.by or 'system'}{': ' + act.note if act.note else ''}"
                for act in job.history.acts
            )
        )

    @admin.display(description="log")
    def logs(self, job: Job) -> str:
        """The newest log lines."""
        return _preformatted("\n".join(f"{line.at:%H:%M:%S} {line.message}" for line in job.log_lines))


def _desk(request: HttpRequest) -> Desk:
    principal = principal_of(request.user)
    if principal is None:
        raise PermissionDenied
    return project_app().desk(principal, address=request.META.get("REMOTE_ADDR"))


def _json(value: object) -> str:
    return (
        "" if value in (None, {}, ()) else _preformatted(json.dumps(value, indent=2, ensure_ascii=False, default=str))
    )


def _preformatted(text: str) -> str:
    return format_html('<pre style="margin: 0; white-space: pre-wrap">{}</pre>', text) if text else ""
