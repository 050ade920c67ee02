"""Mutations of the command line."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

MUTATIONS: Final = (
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
