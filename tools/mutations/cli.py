"""Mutations of the command line."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

_OF_JOBS: Final = "tests/cli/commands/test_jobs.py::test_"

MUTATIONS: Final = (
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
