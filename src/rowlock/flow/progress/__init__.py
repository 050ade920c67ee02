"""What a handler reports while it runs, and the contexts through which it does.

Start with context.py (`Context`); sync_context.py is the same for blocking handlers, items.py and sync_items.py hold
ctx.items(). Contexts pass their calls to attempt_io.py (`AttemptIO`), which changes a `ProgressReport` (report.py) and
hands it to a channel (channel.py): the worker's `Reporter` (reporter.py), or the pipe of a child process. job_logs.py
captures log records. It may import enqueue, locks and kinds; run, executors and worker import it.
"""

from __future__ import annotations
