"""One module per command or group of commands, named after it; root.py imports it when it is asked for.

A command is a coroutine whose first parameter is the CommandContext and whose other parameters are its options. It asks
the application or its desk, and prints with context.screen. Start with lanes.py, a group in its simplest form.
"""

from __future__ import annotations
