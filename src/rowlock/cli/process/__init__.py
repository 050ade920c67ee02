"""Processes behind `rowlock worker` and `rowlock dev`: the worker itself, its supervisor, and reloading.

worker_main.py runs one worker, supervise.py several of them; watcher.py and file_changes.py start them again when
files change. Only the commands worker and dev import this. Start with worker_main.py.
"""

from __future__ import annotations
