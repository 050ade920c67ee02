"""Mutations of the doors that speak HTTP."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

MUTATIONS: Final = (
    Mutation(
        "any page gives orders with somebody's cookie",
        "api/auth/sessions.py",
        "            refuse_cross_site(connection)\n        return principal",
        "            pass\n        return principal",
        ("tests/api/test_auth.py::test_orders_with_a_cookie_come_from_our_own_pages",),
    ),
    Mutation(
        "a request with another body passes for a repeated one",
        "api/submit.py",
        "        if len(used) == 1:\n",
        "        if not used:\n",
        ("tests/api/test_jobs.py::test_the_same_idempotency_key_makes_one_job",),
    ),
    Mutation(
        "without authentication the whole network is served",
        "api/local.py",
        "    if client is not None and not is_loopback(client.host):\n        return False\n",
        "",
        ("tests/api/test_door.py::test_without_authentication_only_this_machine_is_served",),
    ),
)
