"""Mutations of what makes Rowlock fit into hosts: web servers, migration tools, connections."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

ALEMBIC: Final = "contrib/alembic.py"
REPLICA: Final = "store/replica.py"
HOSTS: Final = "store/driver/hosts.py"
OF_ALEMBIC: Final = "tests/contrib/test_alembic.py::test_"
OF_SERVERS: Final = "tests/store/test_servers.py::test_"
OF_STREAMS: Final = "tests/api/streaming/test_stop_signals.py::test_"
OF_ROUTES: Final = "tests/api/test_route_choice.py::test_"
OF_THREADS: Final = "tests/flow/worker/test_worker_thread.py::test_"
OF_READING: Final = f"{OF_SERVERS}searches_and_statistics_are_read_on_the_replica_and_without_it_on_the_primary"

MUTATIONS: Final = (
    Mutation(
        "streams hold up a host that stops",
        "api/backend.py",
        "            self._stop_signals.watch()\n",
        "            pass\n",
        (f"{OF_STREAMS}a_host_with_open_streams_stops_at_once",),
    ),
    Mutation(
        "the server's own handler of SIGTERM is not called",
        "api/streaming/stop_signals.py",
        "        self.before(number, frame)\n",
        "",
        (f"{OF_STREAMS}the_handler_of_the_server_is_called_after_ours_and_comes_back",),
    ),
    Mutation(
        "a handler that came later is thrown out",
        "api/streaming/stop_signals.py",
        "            if now is ours:\n",
        "            if now:\n",
        (f"{OF_STREAMS}a_handler_that_stepped_before_ours_stays",),
    ),
    Mutation(
        "handlers of APIs that are gone pile up",
        "api/streaming/stop_signals.py",
        " and handler.callback() is None:",
        " and False:",
        (f"{OF_STREAMS}the_handler_of_an_api_that_is_gone_is_left_out",),
    ),
    Mutation(
        "a route is selected for every method",
        "api/route_choice.py",
        "    return same and wanted in (None, method)\n",
        "    return same\n",
        (f"{OF_ROUTES}ten_routes_stand_alone_at_the_root_of_the_host",),
    ),
    Mutation(
        "a misspelt route is left out in silence",
        "api/door.py",
        "        choice.require_all((entry.method, entry.path) for routes in _ROUTES for entry in routes.entries)\n",
        "",
        (f"{OF_ROUTES}a_name_that_no_route_has_is_refused",),
    ),
    Mutation(
        "an application is not closed when the host fails",
        "app.py",
        "                yield\n        finally:\n            await self.close()\n",
        "                yield\n        finally:\n            pass\n        await self.close()\n",
        ("tests/contrib/test_asgi.py::test_what_was_entered_is_left_when_a_later_one_fails",),
    ),
    Mutation(
        "nothing is said of gunicorn --preload",
        "flow/worker/worker_thread.py",
        "            self._warn_of_forks()\n",
        "",
        (
            f"{OF_THREADS}a_handler_that_forks_is_not_warned_of",
            f"{OF_THREADS}preload_is_warned_of_because_jobs_run_in_the_master",
        ),
    ),
    Mutation(
        "a handler that forks is warned of",
        "flow/worker/worker_thread.py",
        " and threading.get_ident() == started_in",
        "",
        (f"{OF_THREADS}a_handler_that_forks_is_not_warned_of",),
    ),
    Mutation(
        "a revision commits by itself",
        ALEMBIC,
        "                    op.get_bind().exec_driver_sql(statement, execution_options=",
        '                    op.get_bind().exec_driver_sql("COMMIT")\n'
        "                    op.get_bind().exec_driver_sql(statement, execution_options=",
        (f"{OF_ALEMBIC}a_revision_that_fails_leaves_nothing",),
    ),
    Mutation(
        "a revision takes an invalid index for a finished one",
        ALEMBIC,
        "if found and not found[0][0]:",
        "if False:",
        (f"{OF_ALEMBIC}an_index_whose_building_broke_off_is_built_again",),
    ),
    Mutation(
        "autogenerate drops Rowlock's tables in public",
        ALEMBIC,
        'else type_ == "table" and name in tables',
        "else False",
        (f"{OF_ALEMBIC}tables_in_the_schema_public_are_left_alone_by_name",),
    ),
    Mutation(
        "a password of before is used for ever",
        "store/driver/password.py",
        "        found = await (password() if",
        '        found = password.__dict__["kept"] = password.__dict__.get("kept") or await (password() if',
        (f"{OF_SERVERS}a_rotated_password_reaches_a_running_worker",),
    ),
    Mutation(
        "any of several hosts will do",
        HOSTS,
        "            query[_ATTRIBUTES] = self._wanted\n",
        "            pass\n",
        (f"{OF_SERVERS}a_worker_follows_from_a_dead_primary_to_the_promoted_standby",),
    ),
    Mutation(
        "a mute host comes first for ever",
        "store/database.py",
        "                hosts.pass_on()\n",
        "",
        (f"{OF_SERVERS}a_host_that_never_answers_does_not_hide_the_next",),
    ),
    Mutation(
        "a replica is read however far it is behind",
        REPLICA,
        'return replica["seconds"] is None or replica["seconds"] > self._max_lag',
        "return False",
        (OF_READING,),
    ),
    Mutation(
        "a replica that is away takes the answers with it",
        REPLICA,
        "                self._unusable(error)\n        return await there()",
        "                self._unusable(error)\n                raise\n        return await there()",
        (OF_READING,),
    ),
    Mutation(
        "without the primary the replica is not read either",
        REPLICA,
        "            primary = None\n",
        "            raise\n",
        (OF_READING,),
    ),
    Mutation(
        "a trace begins inside Rowlock",
        "model/failure.py",
        "        inner = inner.tb_next\n",
        "        break\n",
        ("tests/model/test_failure.py::test_the_trace_of_an_attempt_begins_in_the_handler",),
    ),
    Mutation(
        "a lane without a worker is not named",
        "cli/process/worker_main.py",
        "    if limited:\n        await _warn_of_unserved_lanes(worker, app)\n",
        "",
        ("tests/cli/commands/test_worker.py::test_a_lane_that_no_worker_serves_is_named",),
    ),
    Mutation(
        "an application's engine is given another spelling than drivers know",
        "store/database.py",
        "        self.url = plain_url(url)\n",
        "        self.url = url\n",
        ("tests/test_tasks.py::test_an_engine_of_the_application_finds_the_database",),
    ),
)
