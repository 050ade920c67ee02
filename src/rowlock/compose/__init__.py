"""Jobs that wait for jobs: chains, workflows and groups.

Start reading at `step`: a step is a job that is not enqueued yet. `chain`, `workflow` and `group` arrange steps,
`workflow_draft` checks and enqueues the arrangement, `workflow_handle` is what the caller gets back. `tasks` and the
application import this room; it imports flow and the model, and is itself imported only by programs that compose jobs.
"""

from __future__ import annotations
