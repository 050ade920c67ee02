"""Worker: the process that claims jobs, runs them and writes their outcomes.

Start with worker.py, which composes the parts: registration.py (its row), claim_loop.py (when to claim), slots.py
(attempts that run), chain_fast_path.py (steps of workflows without a queue), heartbeat.py (signs of life, orders),
watchdog.py (blocked event loops), health.py (what probes get), recycling.py and process_replacement.py (fresh
processes), background.py (tasks), job_log_lines.py (logs and events of jobs). worker_thread.py runs a worker inside
another program. Imports all stages of flow but supervise; imported by app.
"""

from __future__ import annotations
