"""Mutations of the doors that speak HTTP."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

OF_LOOPBACK: Final = "tests/api/auth/test_loopback.py::test_"
OF_LIMITS: Final = "tests/api/test_connection_limits.py::test_"

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
        "desk/idempotent_submit.py",
        "        if len(used) == 1:\n",
        "        if not used:\n",
        ("tests/api/routes/test_jobs.py::test_the_same_idempotency_key_makes_one_job",),
    ),
    Mutation(
        "without authentication the whole network is served",
        "api/auth/loopback.py",
        "    if client is not None and not is_loopback(client.host):\n",
        "    if False:\n",
        (f"{OF_LOOPBACK}no_foreign_host_page_machine_or_proxy_is_served_even_with_the_token",),
    ),
    Mutation(
        "a browser stays away for ever after an outage",
        "api/routing.py",
        "        if away and self._streams and ",
        "        if not away and self._streams and ",
        ("tests/api/routes/test_streams_trouble.py::test_streams_stay_open_while_the_database_is_away",),
    ),
    Mutation(
        "whoever comes while a server leaves holds it up",
        "api/server.py",
        "                connection.shutdown()\n",
        "                pass\n",
        ("tests/api/test_server.py::test_whoever_comes_while_a_server_leaves_does_not_hold_it_up",),
    ),
    Mutation(
        "a HEAD of a stream follows it for ever",
        "api/routing.py",
        "        await anext(frames, None)\n",
        "",
        ("tests/api/test_door.py::test_a_head_of_a_stream_leaves_nobody_behind",),
    ),
    Mutation(
        "a parameter under its old name is refused",
        "api/routing.py",
        "        if old:\n",
        "        if not old:\n",
        ("tests/api/test_old_names.py::test_parameters_are_read_under_old_and_new_names",),
    ),
    Mutation(
        "generated clients have to send what has a default",
        "api/openapi.py",
        '        default = field.pop("default", None)\n',
        '        default = field.get("default")\n',
        ("tests/api/test_openapi.py::test_the_document_is_in_step_with_the_routes",),
    ),
    Mutation(
        "a duration is a number only",
        "api/schemas/base.py",
        "    if not isinstance(value, (str, bool)):\n",
        "    if True:\n",
        ("tests/api/test_old_names.py::test_a_duration_is_a_number_or_a_text",),
    ),
)
