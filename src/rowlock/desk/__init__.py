"""What a person may ask or order: one module per subject, such as jobs, lanes, limits, schedules and workflows.

Each class is a part of a Desk (access.py), which belongs to one principal; guard.py checks the permission of every
method and audit.py records every change. explain/ says why a job does not run, follow/ reports what happens as it
happens, and sync.py, which is generated, has the same methods for blocking code. The subjects stand side by side: a
reader comes with the noun that library, terminal and REST share, and finds the file of that name without a shelf to
guess.

Start with jobs.py, then guard.py. Imported by the application, the REST API, the command line, upkeep, webhooks and
integrations; it imports the store and the model, and neither flow nor upkeep.
"""

from __future__ import annotations
