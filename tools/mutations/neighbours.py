"""Mutations of what other systems hear of a job: traces, logs, Sentry; and of retention that a deployment sets."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

OTEL: Final = "contrib/opentelemetry.py"
OF_OTEL: Final = "tests/contrib/test_opentelemetry.py::test_"
OF_SENTRY: Final = "tests/contrib/test_sentry.py::test_"
LINES: Final = "flow/worker/job_log_lines.py"
OF_LOGS: Final = "tests/cli/commands/test_worker_logs.py::test_"
OF_RETENTION: Final = "tests/upkeep/test_retention.py::test_"

MUTATIONS: Final = (
    Mutation(
        "a hook begins a new trace",
        "store/sql/finish.sql",
        "CASE WHEN h.trace IS NOT NULL THEN jsonb_build_object('trace_context', h.trace) END",
        "NULL::jsonb",
        (f"{OF_OTEL}children_and_hooks_stay_in_the_trace",),
    ),
    Mutation(
        "the hook of a job that upkeep ended begins a new trace",
        "store/sql/upkeep.sql",
        "e.tenant, e.trace, e.kind",
        "e.tenant, NULL::jsonb AS trace, e.kind",
        (f"{OF_OTEL}the_hook_of_a_job_that_upkeep_ends_stays_in_the_trace",),
    ),
    Mutation(
        "a run takes no notice of the stored trace",
        OTEL,
        "self._propagator.extract(trace_context.headers(ctx.job.meta)",
        "self._propagator.extract({}",
        (f"{OF_OTEL}a_run_goes_on_with_the_trace_of_its_enqueue",),
    ),
    Mutation(
        "the handler does not run in its span",
        OTEL,
        "otel_context.attach(trace.set_span_in_context(span, stored))",
        "otel_context.attach(stored)",
        (f"{OF_OTEL}the_context_is_current_in_the_thread_of_a_blocking_handler",),
    ),
    Mutation(
        "steps of a workflow are traced inside each other",
        OTEL,
        'f"enqueue {call.kind}", kind=SpanKind.PRODUCER, attributes=attributes)',
        'f"enqueue {call.kind}", kind=SpanKind.PRODUCER, attributes=attributes)\n'
        "        otel_context.attach(trace.set_span_in_context(span))",
        (f"{OF_OTEL}steps_of_chains_and_schedules_carry_a_trace",),
    ),
    Mutation(
        "a linked run belongs to the trace of its enqueue",
        OTEL,
        "return otel_context.Context(), _links(",
        "return stored, _links(",
        (f"{OF_OTEL}a_run_may_be_a_trace_of_its_own_that_links_to_its_enqueue",),
    ),
    Mutation(
        "children are killed before they could send their spans",
        "flow/executors/process_pool.py",
        "if child in resting:\n                child.leave()",
        "if child in resting:\n                child.kill()",
        ("tests/contrib/test_otlp.py::test_a_trace_spans_three_processes",),
    ),
    Mutation(
        "headers of one tracer replace those of another",
        "model/trace_context.py",
        "both = {**known, **added}",
        "both = {**added}",
        ("tests/model/test_trace_context.py::test_headers_of_several_tracers_stand_beside_each_other",),
    ),
    Mutation(
        "a job that failed for good is only a warning",
        LINES,
        "return logging.ERROR if write.state == State.FAILED else logging.INFO",
        "return logging.WARNING if write.state == State.FAILED else logging.INFO",
        (f"{OF_LOGS}a_failed_attempt_is_a_warning_and_the_last_one_an_error_with_every_field",),
    ),
    Mutation(
        "failures are not logged by a worker that logs no starts",
        "flow/worker/slots.py",
        "if write is not PLAIN or self._log_lines.wanted:",
        "if self._log_lines.wanted:",
        (f"{OF_LOGS}a_failed_attempt_is_a_warning_and_the_last_one_an_error_with_every_field",),
    ),
    Mutation(
        "the record about a failure has no traceback",
        LINES,
        "record.exc_text = trace",
        "record.exc_text = None",
        (f"{OF_LOGS}lines_for_people_have_milliseconds_level_and_traceback",),
    ),
    Mutation(
        "records about a rescue do not name the job",
        "upkeep/rescue.py",
        'extra={**id_fields(row["id"]), "kind"',
        'extra={"kind"',
        ("tests/upkeep/test_duties.py::test_the_record_about_a_rescue_names_the_job",),
    ),
    Mutation(
        "Sentry hears of attempts that are retried",
        "contrib/sentry.py",
        "if isinstance(outcome, Retried) and not self._retries:",
        "if False:",
        (f"{OF_SENTRY}a_job_that_failed_is_reported_once_with_its_job",),
    ),
    Mutation(
        "Sentry gets secret arguments",
        "contrib/sentry.py",
        "    if secrets:\n",
        "    if not secrets:\n",
        (f"{OF_SENTRY}a_job_that_failed_is_reported_once_with_its_job",),
    ),
    Mutation(
        "Sentry hears of a failure twice, by the log as well",
        "contrib/sentry.py",
        'ignore_logger("rowlock.job")',
        'ignore_logger("rowlock.none")',
        (f"{OF_SENTRY}a_job_that_failed_is_reported_once_with_its_job",),
    ),
    Mutation(
        "structlog prints secret arguments",
        "contrib/structlog.py",
        "    event.update(scrubbed)\n",
        "",
        ("tests/contrib/test_structlog.py::test_lines_of_structlog_and_of_the_engine_carry_the_job",),
    ),
    Mutation(
        "a starting worker undoes the retention of the deployment",
        "store/sql/retention.sql",
        "SET declared = excluded.declared, keep = coalesce(r.ordered, excluded.keep),",
        "SET declared = excluded.declared, keep = excluded.keep,",
        (f"{OF_RETENTION}what_a_person_orders_counts_before_what_the_code_declares",),
    ),
    Mutation(
        "jobs of a rule that was taken back stay for ever",
        "store/sql/retention.sql",
        "WHERE r.kind IN ('*', g.kind) AND r.state IN ('*', g.state) AND (r.kind, r.state) <> (g.kind, g.state))",
        "WHERE r.kind = '' AND g.kind = '')",
        (f"{OF_RETENTION}a_rule_that_is_taken_back_leaves_its_jobs_to_the_wider_one",),
    ),
    Mutation(
        "a mistyped kind gets a retention rule",
        "desk/retention.py",
        "        await self._known(kind)\n",
        "",
        ("tests/desk/test_retention.py::test_mistakes_are_refused",),
    ),
)
