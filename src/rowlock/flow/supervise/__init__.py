"""Supervise: `rowlock worker --processes N`, one supervisor process over N worker processes.

Start with supervisor.py; worker_process.py is one worker process as the supervisor sees it, control_line.py the socket
between the two. Imported by cli.process alone; imports flow.worker for its constants, executors and store.
"""

from __future__ import annotations
