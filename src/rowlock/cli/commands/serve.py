"""rowlock serve: the REST API and the dashboard as a process of their own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowlock.cli import completion
from rowlock.cli.command import register_sync
from rowlock.cli.context import CommandContext
from rowlock.cli.find_app import attribute
from rowlock.cli.process.metrics import metrics_of
from rowlock.cli.process.worker_main import loop_factory, set_up_logging
from rowlock.errors import ConfigurationError
from rowlock.settings import role_pairs

if TYPE_CHECKING:
    from rowlock.api.auth.oidc import OIDCLogin
    from rowlock.settings import Settings


def add_to(root: typer.Typer) -> None:
    """Register the command."""
    register_sync(root, "serve", serve, _run)


def serve(
    context: CommandContext,
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0: any free one.")] = 8000,
    root_path: Annotated[str, typer.Option(metavar="PATH", help="Path prefix that a proxy strips.")] = "",
    auth: Annotated[
        str | None,
        typer.Option(
            metavar="tokens|MODULE:ATTR",
            envvar="ROWLOCK_AUTH",
            help="Authentication: API tokens, or your own authenticator.",
        ),
    ] = None,
    ui: Annotated[bool, typer.Option("--ui/--no-ui", help="Serve the dashboard too.")] = True,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse every change.")] = False,
    insecure_no_auth: Annotated[
        bool, typer.Option("--insecure-no-auth", help="Serve every client that reaches the port, without a token.")
    ] = False,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CIDR",
            help="Proxy whose X-Forwarded-For and X-Forwarded-Proto count; may be repeated.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Origin whose pages may use embed tokens, such as https://app.example.com; may be repeated.",
        ),
    ] = None,
    oidc_issuer: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Identity provider at which people log in; ROWLOCK_OIDC_CLIENT_SECRET has the secret.",
        ),
    ] = None,
    oidc_client_id: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of this server at the identity provider.")
    ] = None,
    oidc_role: Annotated[
        list[str] | None,
        typer.Option(
            metavar="THEIRS=OURS", help="Role of the identity provider, and what it stands for here; may be repeated."
        ),
    ] = None,
    log_level: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="Minimum log level.",
            autocompletion=completion.one_of("debug", "info", "warning", "error"),
        ),
    ] = "info",
) -> None:
    """Serve the REST API and the dashboard. SIGTERM or SIGINT finishes open requests and exits.

    Without authentication only this machine is served, to people who have the token that is printed; a wider --host is
    refused.
    """


def _oidc_login(
    settings: Settings, issuer: str | None, client_id: str | None, roles: list[str] | None
) -> OIDCLogin | None:
    """The login at an identity provider, by the options or the settings; None: there is none."""
    chosen = replace(
        settings,
        oidc_issuer=issuer or settings.oidc_issuer,
        oidc_client_id=client_id or settings.oidc_client_id,
    )
    if roles:
        try:
            chosen = replace(chosen, oidc_roles=role_pairs(",".join(roles)))
        except ValueError as error:
            message = f"--oidc-role cannot be read: {error}; got {', '.join(roles)}."
            raise ConfigurationError(message) from error
    if chosen.oidc_issuer is None:
        if client_id or roles:
            message = "--oidc-client-id and --oidc-role need --oidc-issuer, or ROWLOCK_OIDC_ISSUER."
            raise ConfigurationError(message)
        return None
    from rowlock.api.auth.oidc import configured_login

    return configured_login(chosen)


def _run(context: CommandContext, options: dict[str, Any]) -> None:
    context.require_app()
    set_up_logging(options.pop("log_level"), as_json=context.screen.as_json)
    from rowlock.api.server import Server

    auth, proxies, origins = (options.pop(name) for name in ("auth", "trusted_proxy", "allow_origin"))
    oidc = _oidc_login(context.app.settings, *(options.pop(f"oidc_{name}") for name in ("issuer", "client_id", "role")))
    known = auth if auth in (None, "tokens") else attribute(auth, "--auth")
    server = Server(
        context.app,
        auth=known,
        metrics=metrics_of(context.app),
        trusted_proxies=proxies,
        allow_origins=origins or None,
        oidc=oidc,
        **options,
    )
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(server.run_until_signalled())
