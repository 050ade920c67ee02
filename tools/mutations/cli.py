"""Mutations of the command line."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

_OF_JOBS: Final = "tests/cli/commands/test_jobs.py::test_"
_OF_PROBES: Final = "tests/cli/commands/test_worker_health.py::test_"
_OF_ENDPOINT: Final = "tests/cli/health/test_endpoint.py::test_"

MUTATIONS: Final = (
    Mutation(
        "a worker without its database is killed by its probe",
        "flow/worker/worker.py",
        "        hung = self._signs.hung(now, self.settings.blocked_limit or HUNG_AFTER)\n",
        "        hung = self._signs.unanswered(now, 3 * EVERY)\n",
        (f"{_OF_PROBES}a_worker_that_waits_for_its_database_lives_and_is_not_ready",),
    ),
    Mutation(
        "a process that its supervisor cannot reach counts as at work",
        "flow/supervise/supervisor.py",
        "away = sum(process.live_worker is None for process in self._processes)",
        "away = 0",
        (f"{_OF_PROBES}a_supervisor_answers_for_its_processes",),
    ),
    Mutation(
        "the file of a worker that was killed says that it lives",
        "cli/health/probe.py",
        'if age > _OLD and not state["drained"]:',
        "if False:",
        (f"{_OF_ENDPOINT}a_file_follows_the_worker_and_says_in_the_end_that_it_has_drained",),
    ),
    Mutation(
        "the socket of another worker is taken over",
        "cli/health/endpoint.py",
        "        except ConnectionRefusedError:\n            Path(target).unlink()\n",
        "        except ConnectionRefusedError:\n            pass\n    Path(target).unlink()\n",
        (f"{_OF_ENDPOINT}a_socket_answers_and_one_left_behind_by_a_killed_process_is_replaced",),
    ),
    Mutation(
        "systemd is told that a hung worker lives",
        "cli/health/endpoint.py",
        "if watchdog and now.live:",
        "if watchdog:",
        (f"{_OF_ENDPOINT}systemd_is_told_once_that_the_worker_is_ready_and_again_and_again_that_it_lives",),
    ),
    Mutation(
        "the first job that is held ends an order for several",
        "cli/commands/jobs.py",
        "except (JobNotFound, WrongState, DatabaseBusy, WriteRefused) as error:",
        "except (JobNotFound, WrongState, WriteRefused) as error:",
        (f"{_OF_JOBS}an_order_for_a_job_that_is_held_says_by_whom_and_reaches_the_others",),
    ),
    Mutation(
        "the first job that a trigger refuses ends an order for several",
        "cli/commands/jobs.py",
        "except (JobNotFound, WrongState, DatabaseBusy, WriteRefused) as error:",
        "except (JobNotFound, WrongState, DatabaseBusy) as error:",
        (f"{_OF_JOBS}an_order_for_a_job_that_a_trigger_refuses_says_so_and_reaches_the_others",),
    ),
    Mutation(
        "a job's log writes lines of the worker's own",
        "cli/screen/log_lines.py",
        'text = text.replace("\\n", "\\n    ")',
        "pass",
        ("tests/cli/screen/test_log_lines.py::test_a_message_of_several_lines_does_not_pass_for_several_messages",),
    ),
    Mutation(
        "workers status --json numbers jobs by their rows",
        "cli/screen/records.py",
        '        **members(value),\n        "id": value.public_id,\n        "worker_id"',
        '        **members(value),\n        "worker_id"',
        ("tests/cli/test_json.py::test_records_have_the_members_of_the_rest_answers[status]",),
    ),
    Mutation(
        "lanes on the command line have no use",
        "cli/commands/lanes.py",
        "[records.lane_load(load) for load in loads]",
        "[records.lane(load.lane) for load in loads]",
        ("tests/cli/test_json.py::test_records_have_the_members_of_the_rest_answers[lane]",),
    ),
    Mutation(
        "Ctrl-C is lost among the news",
        "cli/commands/top.py",
        "            async with asyncio.timeout(1.0):\n                await self._redraw.wait()\n",
        "            with contextlib.suppress(asyncio.CancelledError):\n                await self._redraw.wait()\n",
        ("tests/cli/commands/test_top.py::test_ctrl_c_is_heard_also_when_news_come_at_the_same_moment",),
    ),
    Mutation(
        "a key that destroys does not ask",
        "cli/commands/top.py",
        "        elif not question:\n",
        "        elif give:\n",
        ("tests/cli/commands/test_top.py::test_destructive_keys_ask_first_and_anything_but_y_does_nothing",),
    ),
    Mutation(
        "the terminal stays taken after a crash",
        "cli/screen/terminal.py",
        "            loop.remove_signal_handler(signal.SIGTSTP)\n            self._leave()\n",
        "            loop.remove_signal_handler(signal.SIGTSTP)\n",
        ("tests/cli/commands/test_top.py::test_the_terminal_is_restored_after_a_crash",),
    ),
    Mutation(
        "an option given twice is not left to typer",
        "cli/process/plain_options.py",
        "        if option is None or option.parameter in found:\n",
        "        if option is None:\n",
        ("tests/cli/process/test_plain_options.py::test_whatever_else_is_left_to_typer",),
    ),
)
