"""What the long-running commands do: the worker, its supervisor, hot reload and the demo.

worker_main runs a worker in this process and must not import typer, which costs memory that a worker keeps. supervise
starts several of them, reload replaces one whenever a file changes; reload_child is the worker's side of that.
Start with worker_main.
"""

from __future__ import annotations
