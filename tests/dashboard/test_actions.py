"""Every page and what a person can do on it, each with the test that does it in a browser."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest
from tests.dashboard import page_list

HERE: Final = Path(__file__).parent

ACTIONS: Final[dict[str, dict[str, str]]] = {
    "overview": {
        "safe to deploy": "pages/test_overview.py::test_a_deploy_is_unsafe_while_a_job_runs_that_must_not_run_twice",
        "charts, also as tables": "pages/test_overview.py::test_charts_are_there_as_tables_too",
        "deploys on charts": "pages/test_overview.py::test_a_deploy_is_marked_on_the_charts",
        "lanes as bars": "pages/test_overview.py::test_lanes_are_bars_that_lead_to_the_lane",
        "attention, numbers that link": "pages/test_overview.py::test_the_overview_says_what_waits_and_where_to_look",
    },
    "jobs": {
        "search with completion": "pages/test_jobs.py::test_a_search_is_completed_run_and_kept_in_the_address",
        "state tabs": "pages/test_jobs.py::test_states_are_filters_with_counts",
        "why a job waits": "pages/test_jobs.py::test_every_waiting_job_says_why_with_one_request",
        "columns, density": "pages/test_jobs.py::test_columns_density_and_order_are_chosen",
        "private views": "pages/test_jobs.py::test_a_view_is_saved_used_and_removed",
        "shared views": "pages/test_jobs.py::test_a_shared_view_is_there_for_others",
        "multi-select with dry run": "pages/test_jobs.py::test_selected_jobs_get_an_order_after_a_count",
        "select all that match": "pages/test_jobs.py::test_all_that_match_get_an_order_also_those_not_loaded",
        "export": "pages/test_jobs.py::test_the_jobs_of_a_search_are_exported",
        "keys": "pages/test_jobs.py::test_keys_move_select_and_open",
    },
    "job": {
        "why; approve, cancel, retry": "pages/test_job.py::test_a_waiting_job_says_why_and_takes_orders",
        "folded traceback": "pages/test_job.py::test_a_failed_job_shows_its_error_folded_to_own_frames",
        "compare attempts": "pages/test_job.py::test_two_attempts_are_compared",
        "compare jobs": "pages/test_job.py::test_jobs_are_compared_and_related_ones_found",
        "phases, items, log": "pages/test_job.py::test_progress_phases_items_and_log_are_shown",
        "log goes on": "pages/test_job.py::test_the_log_of_a_running_job_goes_on_by_itself",
        "redaction": "pages/test_job.py::test_secrets_stay_hidden",
        "edit with conflict": "pages/test_job.py::test_a_waiting_job_is_edited_and_a_conflict_shows_both",
        "clone, delete, copy as": "pages/test_job.py::test_a_job_is_copied_deleted_and_written_for_a_shell",
        "stop": "pages/test_job.py::test_a_running_job_is_stopped_at_once",
        "parents and children": "pages/test_job.py::test_parents_and_children_lead_to_each_other",
        "audit": "pages/test_job.py::test_orders_are_in_the_audit",
    },
    "new-job": {
        "form of the schema": "pages/test_new_job.py::test_a_job_is_enqueued_from_a_form",
        "again with other arguments": "pages/test_new_job.py::test_a_copy_begins_with_the_arguments_of_the_other_job",
    },
    "approvals": {
        "diff to the last run": "pages/test_approvals.py::test_a_decision_is_made_beside_the_last_run",
        "bulk": "pages/test_approvals.py::test_many_are_approved_at_once",
        "four eyes": "pages/test_approvals.py::test_four_eyes_and_a_missing_permission_are_explained",
    },
    "failures": {
        "retry group, mute, open list": "pages/test_failures.py::test_a_cause_is_opened_retried_and_muted",
    },
    "lanes": {
        "create, edit, pause": "pages/test_lanes.py::test_a_lane_is_created_edited_and_paused",
        "conflict side by side": "pages/test_lanes.py::test_an_edit_that_meets_another_shows_both_side_by_side",
    },
    "lane": {
        "slots by worker, history": "pages/test_lanes.py::test_slots_by_worker_and_the_history_of_edits",
    },
    "workers": {
        "lanes, slots, jobs, version, memory": (
            "pages/test_workers.py::test_a_process_shows_its_lanes_slots_jobs_version_and_memory"
        ),
        "find, drain": "pages/test_workers.py::test_a_worker_is_found_and_drained",
    },
    "schedules": {
        "create, cron in words": "pages/test_schedules.py::test_a_schedule_is_created_from_the_page",
        "strip of last runs": "pages/test_schedules.py::test_the_last_runs_are_a_strip_of_their_states",
    },
    "schedule": {
        "run now, pause, edit, delete": "pages/test_schedules.py::test_a_schedule_takes_every_order",
        "backfill with preview": "pages/test_schedules.py::test_a_backfill_is_previewed_before_it_enqueues",
    },
    "workflows": {
        "list": "pages/test_workflows.py::test_a_failed_workflow_is_found_understood_and_retried_from_a_step",
    },
    "workflow": {
        "graph, retry from a step": (
            "pages/test_workflows.py::test_a_failed_workflow_is_found_understood_and_retried_from_a_step"
        ),
        "times, steps": "pages/test_workflows.py::test_times_and_steps_show_the_same_without_a_graph",
        "cancel": "pages/test_workflows.py::test_a_workflow_that_goes_on_is_cancelled",
        "a thousand steps": "pages/test_workflows.py::test_a_thousand_steps_stay_usable",
    },
    "limits": {
        "who holds, who waits": "pages/test_limits.py::test_holders_and_those_that_wait_are_shown",
        "raise": "pages/test_limits.py::test_a_gate_is_raised_and_shows_its_holders",
        "pause": "pages/test_limits.py::test_a_rate_is_paused_resumed_and_changed",
    },
    "incident": {
        "what changed, as a link": (
            "pages/test_incident.py::test_an_incident_shows_what_changed_and_is_kept_in_the_address"
        ),
    },
    "system": {
        "doctor, sizes": "pages/test_system.py::test_health_and_database_are_shown",
        "schema version": "pages/test_system.py::test_the_footer_names_the_version_of_the_schema",
        "retention": "pages/test_system.py::test_retention_is_set_changed_and_given_back_to_the_code",
        "new and revoked tokens": "pages/test_system.py::test_a_token_is_created_shown_once_rotated_and_revoked",
        "rotated tokens": "pages/test_system.py::test_a_token_is_rotated",
        "roles": "pages/test_system.py::test_a_role_is_given_and_taken_away",
        "new webhooks": "pages/test_system.py::test_a_webhook_is_added_and_its_secret_shown_once",
        "orders for webhooks": "pages/test_system.py::test_a_webhook_takes_every_order",
        "audit": "pages/test_system.py::test_the_audit_is_filtered_in_the_address_and_its_seals_checked",
    },
}


def names_in(path: str) -> set[str]:
    tree = ast.parse((HERE / path).read_text(encoding="utf-8"))
    return {each.name for each in tree.body if isinstance(each, ast.AsyncFunctionDef)}


def test_every_page_is_in_the_table() -> None:
    assert set(ACTIONS) == set(page_list.routes().values())


@pytest.mark.parametrize("page", ACTIONS)
def test_every_action_has_a_test_in_a_browser(page: str) -> None:
    for action, named in ACTIONS[page].items():
        path, _, name = named.partition("::")
        assert name in names_in(path), (action, named)
