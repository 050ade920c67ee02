"""Mutations of the doors that speak HTTP."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

OF_BROWSERS: Final = "tests/browser/test_foreign_pages.py::test_"
OF_LOOPBACK: Final = "tests/api/auth/test_loopback.py::test_"
OF_PROXIES: Final = "tests/api/auth/test_proxies.py::test_"
OF_DASHBOARD: Final = "tests/api/test_dashboard.py::test_"
OF_LIMITS: Final = "tests/api/test_connection_limits.py::test_"

MUTATIONS: Final = (
    Mutation(
        "files beside the dashboard are served",
        "api/dashboard.py",
        "found.is_relative_to(folder) and ",
        "",
        (f"{OF_DASHBOARD}other_files_are_not_there",),
    ),
    Mutation(
        "a program that forgot the prefix of the API gets a page",
        "api/dashboard.py",
        'or not (path == "" or _wants_page(request))',
        "",
        (f"{OF_DASHBOARD}what_is_not_of_the_dashboard_stays_a_problem",),
    ),
    Mutation(
        "an unknown address of the API is a page",
        "api/dashboard.py",
        " or _API.match(path)",
        "",
        (f"{OF_DASHBOARD}what_is_not_of_the_dashboard_stays_a_problem",),
    ),
    Mutation(
        "a prefix is written into the page as it is",
        "api/dashboard.py",
        'base = quote(request.scope.get("root_path", "").rstrip("/")) + "/"',
        'base = request.scope.get("root_path", "").rstrip("/") + "/"',
        (f"{OF_DASHBOARD}the_page_knows_the_prefix_that_a_proxy_takes_away",),
    ),
    Mutation(
        "without authentication the dashboard is served under any name",
        "api/door.py",
        "                self.loopback.require_direct(request)\n        except Problem as refusal:",
        "                pass\n        except Problem as refusal:",
        (f"{OF_DASHBOARD}without_authentication_the_link_and_the_token_lead_into_the_dashboard",),
    ),
    Mutation(
        "a page of another site logs a browser in with the printed token",
        "api/routes/access.py",
        "        refuse_cross_site(request)\n        door.loopback.log_in",
        "        door.loopback.log_in",
        (f"{OF_DASHBOARD}without_authentication_the_link_and_the_token_lead_into_the_dashboard",),
    ),
    Mutation(
        "any page gives orders with a visitor's cookie",
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
        "a client that comes while a server leaves holds it up",
        "api/server.py",
        "                connection.shutdown()\n",
        "                pass\n",
        ("tests/api/test_server.py::test_whoever_comes_while_a_server_leaves_does_not_hold_it_up",),
    ),
    Mutation(
        "a HEAD of a stream follows it for ever",
        "api/routing.py",
        "    if isinstance(response, sse.EventStream):\n        response.release()\n",
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
    Mutation(
        "a malformed Host passes for this machine",
        "api/auth/loopback.py",
        "    if host is None:\n",
        "    if host is None and connection.url.hostname:\n        return\n    if host is None:\n",
        (f"{OF_LOOPBACK}no_foreign_host_page_machine_or_proxy_is_served_even_with_the_token",),
    ),
    Mutation(
        "a rebound name passes for this machine",
        "api/auth/loopback.py",
        "    if not host.is_loopback:\n",
        "    if False:\n",
        (f"{OF_LOOPBACK}no_foreign_host_page_machine_or_proxy_is_served_even_with_the_token",),
    ),
    Mutation(
        "a page of another origin changes something without authentication",
        "api/auth/loopback.py",
        "    if foreign or (site",
        "    if (site",
        (f"{OF_LOOPBACK}no_foreign_host_page_machine_or_proxy_is_served_even_with_the_token",),
    ),
    Mutation(
        "a page of another origin in the user's browser changes something",
        "api/auth/loopback.py",
        "    if foreign or (site is not None and site not in _SAME_SITE):\n",
        "    if False:\n",
        ("tests/browser/test_foreign_pages.py::test_a_page_of_another_origin_reads_and_changes_nothing[logged in]",),
    ),
    Mutation(
        "a page of another origin fetches and embeds answers that it cannot read",
        "api/auth/loopback.py",
        "        if sent is None and _is_embedded_elsewhere(connection):\n",
        "        if False:\n",
        (f"{OF_LOOPBACK}a_page_of_another_origin_may_link_to_an_answer_but_not_fetch_or_embed_it",),
    ),
    Mutation(
        "a rebound name reaches the log-in of a server without authentication",
        "api/routes/access.py",
        "    if door.loopback is not None:\n",
        "    if False:\n",
        (f"{OF_LOOPBACK}a_rebound_name_does_not_reach_the_log_in",),
    ),
    Mutation(
        "pages of other origins may embed answers",
        "api/routing.py",
        '    "Cross-Origin-Resource-Policy": "same-origin",\n',
        "",
        ("tests/browser/test_foreign_pages.py::test_a_page_of_another_origin_reads_and_changes_nothing[logged in]",),
    ),
    Mutation(
        "only the best known header gives a proxy away",
        "api/auth/loopback.py",
        "    return name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIXES)\n",
        '    return name == "x-forwarded-for"\n',
        (f"{OF_LOOPBACK}no_foreign_host_page_machine_or_proxy_is_served_even_with_the_token",),
    ),
    Mutation(
        "every program of this machine is let in without the token",
        "api/auth/loopback.py",
        "            self._require_token(connection)\n",
        "            pass\n",
        (f"{OF_LOOPBACK}without_the_token_the_answer_says_how_to_get_it",),
    ),
    Mutation(
        "without authentication everybody makes tokens",
        "api/auth/bind.py",
        "permissions=ALL - WITHHELD, is_anonymous=True)",
        "permissions=ALL)",
        (f"{OF_LOOPBACK}secrets_and_lasting_rights_need_authentication",),
    ),
    Mutation(
        "every client says from which address it comes",
        "api/auth/proxies.py",
        "not peer or not self.trusts(peer[0]):\n",
        "not peer:\n",
        (f"{OF_PROXIES}the_client_is_the_last_hop_that_is_no_trusted_proxy",),
    ),
    Mutation(
        "the address that the client wrote itself counts",
        "api/auth/proxies.py",
        "            if not self._trusts(parsed):\n                break\n",
        "",
        (f"{OF_PROXIES}the_client_is_the_last_hop_that_is_no_trusted_proxy",),
    ),
    Mutation(
        "half a header keeps its connection",
        "api/connection_limits.py",
        '            self._expect("header", self.limits.header_timeout, self._on_late_header)\n\n    @override\n',
        "            pass\n\n    @override\n",
        (f"{OF_LIMITS}a_silent_connection_is_closed",),
    ),
    Mutation(
        "half a body keeps its connection",
        "api/connection_limits.py",
        "            self._expect(self.cycle, self.limits.body_timeout, self._on_late_body)\n",
        "            pass\n",
        (f"{OF_LIMITS}half_a_body_is_answered_and_closed",),
    ),
    Mutation(
        "one address takes every connection",
        "api/connection_limits.py",
        "        elif self.open[address] >= self.most_per_address and",
        "        elif False and",
        (f"{OF_LIMITS}one_address_leaves_connections_to_others",),
    ),
    Mutation(
        "one caller takes every stream",
        "api/streaming/stream_limits.py",
        "        if self._open[caller] >= self.most_per_caller:\n",
        "        if False:\n",
        ("tests/api/streaming/test_stream_limits.py::test_a_caller_and_all_callers_have_a_limit",),
    ),
    Mutation(
        "a stream that is over keeps its place",
        "api/routes/streams.py",
        "        place.release()\n",
        "",
        (
            "tests/api/streaming/test_stream_limits.py::test_a_stream_that_ends_is_refused_or_never_begins_gives_its_place_back",
        ),
    ),
    Mutation(
        "a stream goes on with rights that were taken away",
        "api/routes/streams.py",
        "        return await door.principal(request) == desk.principal\n",
        "        return bool(await door.principal(request))\n",
        ("tests/api/routes/test_streams.py::test_nothing_is_sent_with_rights_that_were_taken_away",),
    ),
    Mutation(
        "a forged token breaks the request by its depth",
        "api/auth/jwt.py",
        "(JoseError, ValueError, TypeError, RecursionError)",
        "(JoseError, ValueError, TypeError)",
        ("tests/api/test_auth.py::test_a_forged_token_is_refused_whatever_is_in_it",),
    ),
    Mutation(
        "a search from the first day there is fails",
        "desk/search.py",
        "low is None or low < _FIRST else",
        "low is None else",
        ("tests/api/routes/test_jobs.py::test_a_search_for_the_ends_of_time_and_numbers_is_answered",),
    ),
)
