"""What happens to jobs, as it happens: waiting for an end, streams of one job, the feed of all jobs.

However many callers there are, each event loop has one LISTEN connection (waiting), one poll for followed jobs
(job_poll) and one for the feed (feed); per_loop keeps them. stream hands out the events in order and without
gaps, watch is the simpler poll of the command line. Start with stream.
"""

from __future__ import annotations
