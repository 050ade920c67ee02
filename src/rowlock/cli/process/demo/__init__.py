"""What `rowlock demo` runs: sample jobs, the shop whose traffic the dashboard shows, and the process that serves it.

sample_jobs.py has one job of each way a life can go, traffic.py jobs that keep coming, server.py serves the dashboard
over them, linger.py lets the demo outlive its terminal. Start with sample_jobs.py. Imported by `rowlock demo` and the
benchmark of the dashboard; imports the application and the API's server.
"""

from __future__ import annotations
