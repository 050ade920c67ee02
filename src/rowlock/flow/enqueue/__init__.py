"""Enqueue: a call with options and arguments becomes a row, and workers are woken.

Start with producer.py: it is the one path of every enqueue. In the order in which an enqueue meets them:

    middleware       functions of the application that may change the options of a call, or refuse it
    prepare          options of the kind and of the call -> everything of a job but its arguments
    insert           the jobs of one call, a single one or a bulk, and the plan of statements that writes them
    workflow_insert  the same for the steps of a workflow; workflow_additions: for steps added to one that runs
    lane_policy      which kinds their lane wants approved first, or shared out between tenants
    registered       pairs, gates and rates, registered once per process
    wake             NOTIFY after the commit, one message per window at most
    remote_kind      kinds whose code lives in other processes

Imported by the application, tasks, compose, upkeep and the shelves above; imports the store, telemetry and the model,
and of flow only kinds.
"""

from __future__ import annotations
