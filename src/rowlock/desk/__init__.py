"""What people may read and order: jobs, lanes, limits, schedules, workflows, workers, statistics, tokens, audit.

One module per subject; each method checks a permission (guard.py) and shows only what the principal may see
(visible_jobs.py). explain/ answers why a job does not run; follow/ tells what happens as it happens. access.py puts
the subjects together for one principal, app_desk.py for the application; sync.py is generated from them. It may import
telemetry, store, settings, model and errors, and never flow; app, api and cli import it. Start with jobs.py.
"""

from __future__ import annotations
