"""Worker: the process that claims jobs, runs them and writes their outcomes.

Start with worker.py, which composes the parts: registration (its row), claim_loop (when to claim), slots (attempts that
run), chain_fast_path (steps of workflows without a queue), heartbeat (signs of life, orders), watchdog (blocked event
loops), health (what probes are told), recycling and process_replacement (fresh processes), background (tasks),
job_log_lines (logs and events of jobs). worker_thread.py runs a worker inside another program. Imports all stages of
flow but supervise; imported by app.
"""

from __future__ import annotations
