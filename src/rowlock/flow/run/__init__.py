"""One attempt, from the claimed row to its outcome.

Start with attempt.py (`RunningAttempt`). middleware.py wraps middleware and injected dependencies around the handler's
call, inject.py and scope.py make those dependencies, hooks.py runs functions after an outcome, outputs.py fills in
results of other workflow steps, verdict.py decides the outcome. It may import progress and kinds; executors and worker
import it.
"""

from __future__ import annotations
