"""Delivery: how the process that runs a job hears of it. The table jobs decides; a carrier only brings the job's id.

backend.py says what a carrier is: the protocol QueueBackend, and Delivery, which Rowlock's own carriers extend.
routes.py says which carrier has which kind; outbox.py sends messages for jobs that are due, notes them in the table
job_deliveries and sends them again when they are lost; reception.py is what a carrier calls when a message arrives.
postgres.py (the default: workers poll and listen), inline.py, arq.py, safir.py and celery.py are the carriers.
Start with outbox.py. Imported by app; imports flow, model and store.
"""

from __future__ import annotations
