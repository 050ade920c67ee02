"""What the long-running commands do: the worker, its supervisor, hot reload and the demo.

worker_main.py runs a worker in this process and must not import typer, which costs memory that a worker keeps.
supervise.py starts several of them, reload.py replaces one whenever a file changes; reload_child.py is the worker's
side of that. demo/ is what `rowlock demo` runs. Start with worker_main.py. Imported by cli/commands and, for a plain
`rowlock worker`, by the console script.
"""

from __future__ import annotations
