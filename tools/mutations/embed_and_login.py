"""Mutations of what keeps visitors to their own: embed tokens, allowed origins, and logins at an identity provider."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

OF_EMBED: Final = "tests/api/routes/test_embed.py::test_"
OF_TOKENS: Final = "tests/desk/test_embed_tokens.py::test_"
OF_OIDC: Final = "tests/api/auth/test_oidc.py::test_"

MUTATIONS: Final = (
    Mutation(
        "a token of one job opens every job",
        "desk/embedded_jobs.py",
        "        if self.grant.job not in (None, number):\n",
        "        if False:\n",
        (f"{OF_EMBED}another_job_does_not_exist_for_it",),
    ),
    Mutation(
        "a token of a person opens the jobs of the tenant",
        "desk/embedded_jobs.py",
        "        return job.submitted_by == self.grant.subject and job.tenant == self.grant.tenant\n",
        "        return job.tenant == self.grant.tenant\n",
        (f"{OF_EMBED}a_person_sees_its_own_jobs_and_not_those_of_its_tenant",),
    ),
    Mutation(
        "every embed token cancels",
        "desk/embedded_jobs.py",
        "        if not self.grant.may_cancel:\n",
        "        if False:\n",
        (f"{OF_EMBED}a_token_reads_its_job_and_shows_neither_arguments_nor_results",),
    ),
    Mutation(
        "the desk behind every embed token cancels",
        "desk/embedded_jobs.py",
        "*((Permission.CANCEL,) if grant.may_cancel else ())",
        "Permission.CANCEL",
        (f"{OF_EMBED}a_token_reads_its_job_and_shows_neither_arguments_nor_results",),
    ),
    Mutation(
        "every embed token shows items and logs",
        "desk/embedded_jobs.py",
        "        if detail not in self.grant.show:\n",
        "        if False:\n",
        (f"{OF_EMBED}a_token_reads_its_job_and_shows_neither_arguments_nor_results",),
    ),
    Mutation(
        "log lines reach pages that may not show them",
        "api/routes/embed.py",
        '    if event.name == LOG and "logs" not in grant.show:\n',
        "    if False:\n",
        (f"{OF_EMBED}a_stream_shows_as_much_as_its_token",),
    ),
    Mutation(
        "workers and lanes are shown to pages",
        "api/routes/embed.py",
        '_STATE: Final = ("id", "kind", "state", "attempt", "run_after")\n',
        '_STATE: Final = ("id", "kind", "state", "attempt", "run_after", "worker", "lane")\n',
        (f"{OF_EMBED}a_stream_shows_as_much_as_its_token",),
    ),
    Mutation(
        "anybody signs embed tokens",
        "model/embed_token.py",
        "        return hmac.compare_digest(self.signature, _signature(self.body, secret))\n",
        "        return True\n",
        ("tests/model/test_embed_token.py::test_another_key_or_another_text_does_not_fit",),
    ),
    Mutation(
        "an embed token never expires",
        "desk/embed_tokens.py",
        ' or found[0]["seconds"] <= 0',
        "",
        (f"{OF_TOKENS}a_token_expires_by_the_databases_clock",),
    ),
    Mutation(
        "a revoked embed token is accepted",
        "desk/embed_tokens.py",
        ' or found[0]["revoked"]',
        "",
        (f"{OF_TOKENS}a_revoked_person_is_out_and_gets_in_again_with_a_new_token",),
    ),
    Mutation(
        "a stream outlives its embed token",
        "api/routes/embed.py",
        "        await door.app.identity.by_embed_token(caller.token)\n        return True\n",
        "        return True\n",
        (f"{OF_EMBED}an_open_stream_ends_with_its_token",),
    ),
    Mutation(
        "pages of every origin read jobs",
        "api/auth/origins.py",
        "        return origin_of(connection) in self._origins\n",
        "        return origin_of(connection) is not None\n",
        (f"{OF_EMBED}pages_of_other_origins_are_refused_unless_they_are_listed",),
    ),
    Mutation(
        "a login ends in another browser than it began in",
        "api/auth/oidc.py",
        'compare_digest(answer.get("state", "").encode(errors="replace"), attempt.state.encode())',
        'compare_digest(b"", b"")',
        (f"{OF_OIDC}the_answer_of_another_browser_is_refused",),
    ),
    Mutation(
        "an id token of another login is accepted",
        "api/auth/oidc.py",
        'compare_digest(str(claims.get("nonce")).encode(errors="replace"), attempt.nonce.encode())',
        'compare_digest(b"", b"")',
        (f"{OF_OIDC}an_answer_that_does_not_hold_opens_no_session",),
    ),
    Mutation(
        "an id token for another application is accepted",
        "api/auth/oidc.py",
        "        if self._client_id not in audiences or ",
        "        if False and ",
        (f"{OF_OIDC}an_answer_that_does_not_hold_opens_no_session",),
    ),
    Mutation(
        "an expired id token is accepted",
        "api/auth/oidc.py",
        "        if expires < now - LEEWAY:\n",
        "        if False:\n",
        (f"{OF_OIDC}an_answer_that_does_not_hold_opens_no_session",),
    ),
    Mutation(
        "a login sends people to any site",
        "api/auth/login_attempt.py",
        '    fine = text.startswith("/") and not text.startswith(("//", "/\\\\")) and ',
        "    fine = ",
        (f"{OF_OIDC}nobody_is_sent_elsewhere_after_the_login",),
    ),
    Mutation(
        "people without a role get in",
        "desk/identity.py",
        "        if not principal.permissions:\n",
        "        if False:\n",
        (f"{OF_OIDC}a_person_without_a_role_is_told_so_and_gets_in_with_a_grant",),
    ),
)
