"""Mutations of webhooks: what they are told of, where they may be sent, how they are signed, and when they give up."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation, migration

OF_DELIVERY: Final = "tests/webhooks/test_delivery.py::test_"
OF_POST: Final = "tests/webhooks/test_http_post.py::test_"
OF_RULES: Final = "tests/model/test_webhook_rules.py::test_"
OF_DESK: Final = "tests/desk/test_webhooks.py::test_"
WEBHOOKS: Final = migration("webhooks")

MUTATIONS: Final = (
    Mutation(
        "a delivery fails with the row of its webhook",
        "webhooks/delivery.py",
        "        except (RowlockError, *TRANSIENT) as error:\n",
        "        except ZeroDivisionError as error:\n",
        ("tests/webhooks/test_delivery.py::test_a_message_is_sent_once_although_its_webhooks_row_cannot_be_written",),
    ),
    Mutation(
        "a message is given up while the database is away",
        "webhooks/handler.py",
        "never=(WebhookRefused,)",
        "on=(WebhookRefused,)",
        ("tests/webhooks/test_delivery.py::test_trouble_with_the_database_is_no_reason_to_give_a_message_up",),
    ),
    Mutation(
        "webhooks reach the special networks of a site or cloud",
        "model/webhook_rules.py",
        "        and not any(one in network for network in _SPECIAL)\n",
        "",
        ("tests/model/test_webhook_rules.py::test_private_and_special_addresses_are_refused",),
    ),
    Mutation(
        "a change of a webhook that changes nothing is audited",
        "desk/webhooks.py",
        "if not _differs(before, values):",
        "if all(value is None for value in values.values()):",
        ("tests/desk/test_no_change.py::test_the_second_of_two_equal_calls_leaves_no_trace[webhooks.change]",),
    ),
    Mutation(
        "a webhook is told of the jobs of other tenants",
        WEBHOOKS,
        " AND (w.tenant IS NULL OR w.tenant = j.tenant)",
        "",
        (f"{OF_DELIVERY}only_the_chosen_kinds_states_and_tenants_are_told",),
    ),
    Mutation(
        "a webhook is told of its own deliveries",
        WEBHOOKS,
        "WHERE j.kind <> 'rowlock.webhook'",
        "WHERE true",
        (f"{OF_DELIVERY}deliveries_and_hooks_are_not_told_unless_a_pattern_names_the_hook",),
    ),
    Mutation(
        "a webhook is told of hooks that its pattern does not name",
        WEBHOOKS,
        "strpos(j.kind, '/') = 0 OR strpos(p.pattern, '/') > 0",
        "true",
        (f"{OF_DELIVERY}deliveries_and_hooks_are_not_told_unless_a_pattern_names_the_hook",),
    ),
    Mutation(
        "a job that is pending from its enqueue on is told to nobody",
        WEBHOOKS,
        "WHEN (NEW.state = 'pending')",
        "WHEN (NEW.state = 'blocked')",
        (f"{OF_DELIVERY}a_job_that_waits_for_approval_is_told_from_its_enqueue_on",),
    ),
    Mutation(
        "a disabled webhook is still told",
        WEBHOOKS,
        "ON w.enabled AND j.state",
        "ON j.state",
        (f"{OF_DELIVERY}a_disabled_endpoint_is_told_nothing_while_another_is",),
    ),
    Mutation(
        "a webhook is sent to private addresses",
        "webhooks/addresses.py",
        "if rules.allows(address)]",
        "if rules]",
        (
            f"{OF_POST}private_addresses_are_refused_before_a_connection_is_made",
            f"{OF_POST}a_name_that_points_elsewhere_after_the_check_is_not_asked_again",
        ),
    ),
    Mutation(
        "a webhook's name is resolved again after the check",
        "webhooks/http_post.py",
        "            return await asyncio.open_connection(\n                address, port,",
        "            return await asyncio.open_connection(\n                host, port,",
        (f"{OF_POST}the_name_is_sent_and_the_address_is_connected_to",),
    ),
    Mutation(
        "a webhook is sent over http where only https is allowed",
        "webhooks/http_post.py",
        "    rules.check_scheme(url.scheme)\n",
        "",
        (f"{OF_POST}http_is_refused_unless_it_is_allowed",),
    ),
    Mutation(
        "a private IPv4 address within an IPv6 address counts as public",
        "model/webhook_rules.py",
        "for one in inner or (address,)",
        "for one in (address,)",
        (f"{OF_RULES}private_and_special_addresses_are_refused",),
    ),
    Mutation(
        "a slow answer is waited for without end",
        "webhooks/http_post.py",
        "        async with asyncio.timeout(seconds):\n",
        "        async with asyncio.timeout(None):\n",
        (f"{OF_POST}an_endpoint_that_trickles_its_answer_is_left",),
    ),
    Mutation(
        "a redirect counts as accepted",
        "webhooks/delivery.py",
        "if 200 <= answer.status < 300:",
        "if 200 <= answer.status < 400:",
        (f"{OF_DELIVERY}a_redirect_is_not_followed",),
    ),
    Mutation(
        "only the newest secret signs",
        "model/webhook.py",
        "for secret in secrets)",
        "for secret in secrets[:1])",
        (f"{OF_DELIVERY}both_secrets_sign_while_one_replaces_the_other",),
    ),
    Mutation(
        "a secret signs after its overlap",
        "store/sql/webhooks.sql",
        " AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())",
        "",
        (f"{OF_DELIVERY}both_secrets_sign_while_one_replaces_the_other",),
    ),
    Mutation(
        "an endpoint that is gone stays enabled",
        "webhooks/delivery.py",
        "gone=gone)\n",
        "gone=False)\n",
        (f"{OF_DELIVERY}an_endpoint_that_is_gone_is_disabled_at_once_and_the_audit_says_so",),
    ),
    Mutation(
        "a delivery that is given up does not count",
        "webhooks/delivery.py",
        "gives_up=last and event is not None",
        "gives_up=False",
        (f"{OF_DELIVERY}a_streak_of_deliveries_that_are_given_up_disables_the_endpoint",),
    ),
    Mutation(
        "a delivery tells of a job as it is, not as it was",
        "webhooks/delivery.py",
        "        if job.fence == event.fence:\n",
        "        if job.fence >= 0:\n",
        (f"{OF_DELIVERY}a_job_that_was_retried_meanwhile_is_told_as_it_was",),
    ),
    Mutation(
        "a tenant sees the webhooks of others",
        "store/sql/webhooks.sql",
        "(:sees_all::boolean OR w.tenant = :tenant::text)",
        "(:sees_all::boolean OR w.tenant = :tenant::text OR true)",
        (f"{OF_DESK}a_tenant_sees_and_changes_its_own_webhooks_only",),
    ),
    Mutation(
        "a webhook for all tenants takes no permission to read their jobs",
        "desk/webhooks.py",
        "        if chosen is None or chosen != own:\n",
        "        if chosen is None and own:\n",
        (f"{OF_DESK}jobs_of_others_take_the_permission_to_read_them",),
    ),
)
