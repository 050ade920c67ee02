"""The shape of the tree: where tests stand, how large a folder grows, and that a name means one thing."""

from __future__ import annotations

import ast
import fnmatch
import re
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src" / "rowlock"
TESTS: Final = ROOT / "tests"

TESTED_BY_REASON: Final = {
    "Routes, bodies and authenticators are tested by requests: without a route a schema does nothing.": {
        "api/auth/test_oidc.py": "api/auth/claims api/auth/login_attempt api/routes/logins",
        "api/routes/test_embed.py": "api/auth/origins desk/embedded_jobs",
        "api/routes/test_failures.py": "desk/failures model/failure_group",
        "api/routes/test_jobs.py": "api/submit api/routes/items_and_logs",
        "api/routes/test_search.py": "desk/suggest model/search_suggestion",
        "api/routes/test_streams.py": "api/streaming/sse",
        "api/routes/test_system.py": "desk/system model/system_status",
        "api/routes/test_views.py": "model/saved_view",
        "api/test_access.py": "api/routes/access api/routes/bulk api/routes/locks api/routes/workers",
        "api/test_auth.py": "api/auth/bearer api/auth/bind api/auth/jwt api/auth/sessions api/auth/trusted",
        "api/test_door.py": "api/dependencies api/invalid_requests api/problems api/routing api/routes/health",
        "api/test_openapi.py": "api/openapi_links api/schemas/* api/routes/kinds",
    },
    "Commands are tested as a program: by what it prints, and by its exit code.": {
        "api/test_server.py": "cli/commands/serve",
        "cli/commands/test_access.py": "cli/commands/roles cli/commands/tokens",
        "cli/commands/test_demo.py": "cli/process/demo/* cli/screen/demo_display",
        "cli/commands/test_enqueue.py": "cli/option_values",
        "cli/commands/test_items_and_logs.py": "cli/screen/items_and_logs",
        "cli/commands/test_jobs.py": "cli/bulk_orders cli/commands/approvals",
        "cli/commands/test_limits.py": "cli/commands/locks",
        "cli/commands/test_mcp.py": "cli/mcp_server",
        "cli/commands/test_top.py": "cli/screen/panes cli/screen/terminal",
        "cli/commands/test_watch.py": "cli/screen/progress_text cli/screen/watch desk/follow/watch desk/follow/waiting",
        "cli/commands/test_worker.py": "cli/process/worker_main cli/process/worker_shutdown",
        "cli/commands/test_worker_logs.py": "flow/worker/job_log_lines",
        "cli/commands/test_workflows.py": "cli/screen/workflow_lines",
        "cli/health/test_endpoint.py": "cli/health/probe",
        "cli/process/test_reload.py": "cli/commands/dev cli/process/development cli/process/file_changes"
        " cli/process/free_port cli/process/reload_child",
        "cli/screen/test_output.py": "cli/screen/job_text",
        "cli/test_desk.py": "cli/commands/audit cli/commands/stats cli/commands/workers",
        "cli/test_json.py": "cli/screen/records",
        "cli/test_usage.py": "cli/command cli/context cli/root",
        "fuzz/test_cli.py": "cli/exit_codes",
    },
    "Needs real processes that are killed and stopped, or two connections at once.": {
        "flow/executors/test_executors.py": "flow/executors/child_handle flow/executors/child_limits"
        " flow/executors/child_main flow/executors/child_messages flow/executors/os_process"
        " flow/executors/process_pool flow/executors/threads flow/kinds/import_origin",
        "flow/supervise/test_supervisor.py": "flow/supervise/control_line flow/supervise/worker_process"
        " flow/worker/process_replacement flow/worker/watchdog",
        "races/test_one_bad_row.py": "flow/finish/set_aside_writes store/jobs/held_rows upkeep/refused_rows",
        "store/test_embedded.py": "store/embedded/binaries store/embedded/home store/embedded/keeper",
        "torture/test_recycling.py": "flow/worker/recycling",
        "torture/test_supervised.py": "cli/process/supervise",
    },
    "An integration is tested in a project of the other library.": {
        "contrib/django/test_application.py": "store/callers/django",
        "contrib/django/test_commands.py": "contrib/django/management/commands/rowlock contrib/django/project",
        "contrib/django/test_configuration.py": "contrib/django/apps contrib/django/checks",
        "contrib/django/test_migrations.py": "contrib/django/schema_step contrib/django/migrations/*",
        "contrib/django/test_tasks.py": "contrib/django/task_framework",
        "contrib/moving/test_celery.py": "contrib/moving/celery_canvas contrib/moving/celery_results"
        " contrib/moving/celery_running",
        "contrib/moving/test_procrastinate_jobs.py": "store/procrastinate",
    },
    "A part of the desk is tested through the subject that a person uses.": {
        "desk/explain/test_blocked.py": "desk/explain/dependencies",
        "desk/explain/test_explain.py": "desk/explain/approval desk/explain/facts desk/explain/locks"
        " desk/explain/rates desk/explain/reasons desk/explain/silent_worker desk/phrases",
        "desk/follow/test_feed.py": "store/rows/followed_jobs",
        "desk/follow/test_stream.py": "desk/follow/job_poll desk/follow/streams_per_loop",
        "desk/test_access.py": "desk/app_desk desk/roles desk/visible_jobs",
        "desk/test_bulk.py": "desk/operation_driver desk/operations",
        "desk/test_doctor_checks.py": "desk/doctor",
        "desk/test_schedules.py": "desk/schedule_fire",
        "desk/test_search.py": "store/search",
        "desk/test_stats.py": "desk/current_load",
        "desk/test_submit.py": "desk/idempotent_submit store/own_transaction",
        "desk/test_tokens.py": "desk/identity",
        "desk/test_workflows.py": "desk/workflow_halt",
    },
    "What makes statements of values, or values of rows, is tested by the statements it serves.": {
        "store/callers/test_guarded.py": "flow/progress/claim_guard store/callers/asyncpg store/callers/protocol"
        " store/callers/psycopg",
        "store/callers/test_joining.py": "store/caller_transaction",
        "store/driver/test_statement_check.py": "store/driver/tcp_timeouts",
        "store/test_servers.py": "store/replica store/driver/hosts store/driver/password",
        "store/test_statement_calls.py": "store/executor",
        "store/test_transitions.py": "store/jobs/claim store/jobs/finish store/rows/jobs",
        "store/test_workflows.py": "store/rows/workflows",
    },
    "The test kit is tested as its user sees it, and the application by its tasks.": {
        "test_tasks.py": "app decorator",
        "testing/test_assertions.py": "testing/match",
        "testing/test_databases.py": "testing/scratch_databases",
        "testing/test_drain.py": "testing/handler_loops",
        "testing/test_extensions.py": "extensions",
        "testing/test_travel.py": "testing/clock",
    },
    "One subject in several small modules: its test drives them together.": {
        "compose/test_running.py": "compose/follow_up compose/task_services compose/workflow_handle",
        "delivery/test_outbox.py": "delivery/backend delivery/postgres delivery/reception",
        "flow/claim/test_cursors.py": "flow/claim/claimer",
        "flow/enqueue/test_enqueue_many.py": "store/bulk",
        "flow/enqueue/test_producer.py": "flow/enqueue/insert flow/enqueue/registered store/jobs/enqueue",
        "flow/enqueue/test_wake.py": "store/jobs/wake",
        "flow/kinds/test_schema.py": "flow/kinds/pydantic_schema",
        "flow/kinds/test_signature.py": "flow/kinds/declare flow/kinds/handler",
        "flow/locks/test_process_locks.py": "desk/locks flow/locks/context_managers store/connections/lock_session",
        "flow/progress/test_context.py": "flow/progress/attempt_io flow/progress/channel store/jobs/progress",
        "flow/progress/test_items.py": "desk/items_and_logs flow/progress/sync_items",
        "flow/progress/test_signals.py": "desk/signals",
        "flow/progress/test_sync_context.py": "flow/progress/sync_io",
        "flow/run/test_inject.py": "flow/kinds/depends",
        "flow/run/test_middleware.py": "flow/enqueue/middleware",
        "flow/worker/test_chain_fast_path.py": "flow/enqueue/workflow_additions flow/enqueue/workflow_insert",
        "flow/worker/test_held_rows.py": "desk/explain/set_aside",
        "flow/worker/test_stopping.py": "desk/job_orders flow/worker/slots flow/run/attempt",
        "flow/worker/test_worker.py": "flow/worker/background flow/worker/registration store/jobs/workers store/lanes",
        "model/test_schedule.py": "model/times/cron",
        "upkeep/test_duties.py": "upkeep/duty upkeep/duty_runner upkeep/expire upkeep/repair upkeep/rescue",
        "upkeep/test_retention.py": "upkeep/prune",
        "upkeep/test_schedule_runner.py": "store/rows/schedules",
        "webhooks/test_delivery.py": "webhooks/handler webhooks/message",
        "webhooks/test_http_post.py": "webhooks/addresses",
    },
}
"""Why modules have no test at their own path; the tests that drive them; *: a whole folder of declarations."""
TESTED_ELSEWHERE: Final = {test: driven for tests in TESTED_BY_REASON.values() for test, driven in tests.items()}

MOST_MODULES: Final = 15
LARGER: Final = {
    "model": 51,  # one value a file
    "desk": 44,  # one subject a file
    "api/routes": 25,  # one subject a file
    "api/schemas": 22,  # one subject a file
    "cli/commands": 30,  # one subject a file
    "contrib/django/migrations": 99,  # one step of the schema a file
}
DOORS: Final = ("api", "cli", "contrib/django", "contrib/moving")
"""Their shapes, routes, commands and models are named after what they show, or stand for in another package."""


def modules() -> list[str]:
    """Every module by its path, such as flow/claim/cursors."""
    files = (file for file in SOURCE.rglob("*.py") if not file.name.startswith("__"))
    return sorted(str(file.relative_to(SOURCE).with_suffix("")) for file in files)


def mirror_of(module: str) -> str:
    """Where the test of a module stands if it mirrors the tree."""
    path = Path(module)
    return str(path.parent / f"test_{path.name}.py")


def test_every_module_has_a_test_at_its_path_or_says_where() -> None:
    mirrored = {module for module in modules() if (TESTS / mirror_of(module)).exists()}
    assert sorted(set(modules()) - mirrored - set(modules_tested_elsewhere())) == []


def modules_tested_elsewhere() -> list[str]:
    patterns = [pattern for listed in TESTED_ELSEWHERE.values() for pattern in listed.split()]
    return [module for pattern in patterns for module in fnmatch.filter(modules(), pattern) or [f"{pattern}: nothing"]]


def test_the_list_of_tests_elsewhere_names_what_is_there_and_no_more() -> None:
    listed = modules_tested_elsewhere()
    assert len(listed) == len(set(listed))
    assert [name for name in TESTED_ELSEWHERE if not (TESTS / name).exists()] == []
    assert sorted(set(listed) - set(modules())) == []
    assert [module for module in listed if (TESTS / mirror_of(module)).exists()] == []


def test_no_folder_is_too_large_to_take_in() -> None:
    sizes: dict[str, int] = defaultdict(int)
    for module in modules():
        sizes[str(Path(module).parent)] += 1
    allowed = {folder: LARGER.get(folder, MOST_MODULES) for folder in sizes if folder != "."}
    assert {folder: sizes[folder] for folder in allowed if sizes[folder] > allowed[folder]} == {}


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        if not any(Path(module).is_relative_to(door) for door in DOORS):
            tree = ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"))
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(module)
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


PACKAGES: Final = sorted(str(file.parent.relative_to(SOURCE)) for file in SOURCE.rglob("__init__.py"))
START: Final = re.compile(r"\bStart (?:with|at|reading at)\b")
IMPORTERS: Final = re.compile(
    r"\bimported (?:only )?(?:by|where)\b|\bimports? (?:it|them|this package)\b", re.IGNORECASE
)
FILE: Final = re.compile(r"[\w/]*\w\.py\b")
WORD_IN_PARTS: Final = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")
NO_MODULES: Final = {
    "manage.py",  # of a Django project
    "job_deliveries",  # a table
    "on_loop",  # a function
}
"""What reads like a module in the docstring of a package and is none."""


def docstring_of(package: str) -> str:
    text = (SOURCE / package / "__init__.py").read_text(encoding="utf-8")
    return " ".join((ast.get_docstring(ast.parse(text)) or "").split())


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_what_lives_there_who_imports_it_and_where_to_start(package: str) -> None:
    said = docstring_of(package)
    assert said, f"{package}/__init__.py has no docstring"
    assert START.search(said), f"{package}: say where a new reader starts: 'Start with …'"
    assert IMPORTERS.search(said), f"{package}: say who imports it: 'Imported by …'"


@pytest.mark.parametrize("package", PACKAGES)
def test_the_docstring_of_a_package_names_modules_that_exist(package: str) -> None:
    folder, said = SOURCE / package, docstring_of(package)
    known = {Path(module).name for module in modules()} | {Path(name).name for name in PACKAGES}
    files = [name for name in FILE.findall(said) if not is_there(folder, name)]
    words = [word for word in WORD_IN_PARTS.findall(said) if word not in known]
    assert sorted({*files, *words} - NO_MODULES) == []


def is_there(folder: Path, name: str) -> bool:
    """Whether a package that names this file has it, or its parent, or the tree at that path."""
    named = name.removeprefix("rowlock/")
    return any((home / named).is_file() for home in (folder, folder.parent, SOURCE)) or any(folder.rglob(named))


PARTS_OF_AN_APPLICATION: Final = {
    *("AppDesk", "AppLocks", "Bridge", "Database", "Desk", "DeskResources", "DutyRunner", "KindSubmitter", "Outbox"),
    *("Producer", "Reception", "Supervisor", "Waker", "Worker"),
}
"""What an application is made of. app.py puts it together, and the test kit for tests; nobody else does."""
MADE_ELSEWHERE: Final = {
    ("Database", "contrib/moving/procrastinate_jobs"): "of the other queue, beside the application's",
    ("Database", "store/database"): "the same database past its pooler",
    ("Database", "store/schema/migrate"): "a schema is migrated before there is an application",
    ("Supervisor", "cli/process/supervise"): "its process runs no application: it starts workers, which have one",
    ("Waker", "cli/process/supervise"): "of the same process, for rescues",
    ("Waker", "flow/enqueue/wake"): "one for each event loop that enqueues",
    ("Waker", "flow/worker/worker"): "a worker wakes others on its own loop",
}
FOUND_BY_NAME: Final = {
    "__init__": "the public names, each imported when it is asked for",
    "cli/find_app": "the application that --app names",
    "contrib/django/application": "the function that a setting of the project names",
    "contrib/django/asgi": "the store of sessions that a setting of the project names",
    "contrib/moving/celery": "the modules of tasks that the application lists",
    "flow/executors/child_main": "the application's modules, in a child process",
}
"""Modules that import what only a running program can name, and what that is."""


def everything() -> list[str]:
    """Every module, the __init__.py of packages included."""
    return sorted(str(file.relative_to(SOURCE).with_suffix("")) for file in SOURCE.rglob("*.py"))


def calls_of(module: str) -> Iterator[tuple[str, ast.Call]]:
    """The calls in a module, with the last part of the name that is called."""
    for node in ast.walk(ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            yield node.func.id if isinstance(node.func, ast.Name) else node.func.attr, node


def test_the_application_is_put_together_in_one_place() -> None:
    made = {
        (name, module)
        for module in everything()
        for name, _ in calls_of(module)
        if name in PARTS_OF_AN_APPLICATION and module != "app" and not module.startswith("testing/")
    }
    assert made == set(MADE_ELSEWHERE)
    assert {name for name, _ in calls_of("app")} >= PARTS_OF_AN_APPLICATION - {"Supervisor"}


def floors() -> dict[str, int]:
    """How far down each room is in the layers of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    return {room: floor for floor, layer in enumerate(layers) for room in re.findall(r"\w+", layer)}


def test_nothing_is_imported_upward_by_a_string() -> None:
    """import-linter reads statements alone: it would not see import_module("rowlock.api")."""
    floor, upward, by_name = floors(), [], set()
    for module in everything():
        for name, call in calls_of(module):
            if name not in {"import_module", "__import__"}:
                continue
            first = call.args[0].values[0] if isinstance(call.args[0], ast.JoinedStr) else call.args[0]
            if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
                by_name.add(module)
            elif first.value.startswith("rowlock.") and module != "__init__":
                target, room = first.value.split(".")[1], module.partition("/")[0]
                upward += [f"{module}: {first.value}"] if floor[target] < floor[room] else []
    assert upward == []
    assert by_name == set(FOUND_BY_NAME)


def test_no_test_imports_another_test() -> None:
    """What tests share stands in conftest.py or in a module of its own."""
    guilty = [
        f"{file.relative_to(ROOT)}: {node.module}"
        for file in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[2].startswith("test_")
    ]
    assert guilty == []


def test_what_may_be_repeated_is_there() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    listed = re.findall(r"^ +(tests/\S+)", script.partition("may_repeat=(")[2].partition("\n)")[0], re.MULTILINE)
    assert "tests/contrib/test_otlp.py" in listed
    assert [path for path in listed if not (ROOT / path).exists()] == []


def test_tests_look_at_sessions_and_locks_of_their_own_database_only() -> None:
    """The server runs other tests beside: a session that one of them holds is not ours to wait for, or to end."""
    views, own = (
        re.compile(r"(?:FROM|JOIN) pg_(?:stat_activity|locks)\b"),
        re.compile(r"datname|\bpid (?:=|IN)|\{mine\}"),
    )
    everywhere = [
        f"{path.relative_to(TESTS)}: {text[found.start() : found.start() + 120]}"
        for path in sorted(TESTS.rglob("*.py"))
        for text in [path.read_text(encoding="utf-8")]
        for found in views.finditer(text)
        if not own.search(text, max(0, found.start() - 120), found.start() + 240)
    ]
    assert everywhere == []
