"""What a person may ask or order: one module per subject, such as jobs, lanes, limits, schedules and workflows.

Each class is a part of a Desk (access), which belongs to one principal; its guard checks the permission of every method
and audit records every change. explain/ says why a job does not run, follow/ reports what happens as it happens, and
sync, which is generated, has the same methods for blocking code. The application, the REST API and the command line use
the desk; it uses the store and the model, and neither flow nor upkeep. Start with jobs, then guard.
"""

from __future__ import annotations
