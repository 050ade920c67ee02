"""Principals: Django's users as Rowlock knows them, so that permissions decide and the audit names people."""

from __future__ import annotations

from typing import Any, Final

from django.utils.module_loading import import_string

from rowlock.contrib.django.application import project_app
from rowlock.errors import ConfigurationError
from rowlock.model.access import Permission, Principal

PERMISSIONS: Final = {
    "rowlock.view_job": (
        Permission.READ,
        Permission.READ_ALL,
        Permission.WORKERS_VIEW,
        Permission.SCHEDULES_VIEW,
    ),
    "rowlock.view_job_args": (Permission.READ_ARGS,),
    "rowlock.submit_job": (Permission.SUBMIT,),
    "rowlock.submit_job_as": (Permission.SUBMIT_AS,),
    "rowlock.cancel_job": (Permission.CANCEL,),
    "rowlock.retry_job": (Permission.RETRY,),
    "rowlock.approve_job": (Permission.APPROVE,),
    "rowlock.edit_job": (Permission.EDIT,),
    "rowlock.delete_job": (Permission.DELETE,),
    "rowlock.manage_workers": (Permission.WORKERS_MANAGE,),
    "rowlock.manage_schedules": (Permission.SCHEDULES_MANAGE,),
    "rowlock.view_audit": (Permission.AUDIT_READ,),
    "rowlock.manage_tokens": (Permission.TOKENS_MANAGE,),
    "rowlock.manage_webhooks": (Permission.WEBHOOKS_MANAGE,),
}
"""What each permission of Django's allows in Rowlock. Superusers have all of them."""


def default_principal(user: Any) -> Principal | None:  # noqa: ANN401 - the project's user model
    """The user with the permissions that Django gives it; None: nobody is logged in, or the account is inactive."""
    if not user.is_authenticated or not user.is_active:
        return None
    held = frozenset(one for name, several in PERMISSIONS.items() if user.has_perm(name) for one in several)
    full = getattr(user, "get_full_name", str)()
    return Principal(user.get_username(), permissions=held, display=full or None)


def principal_of(user: Any) -> Principal | None:  # noqa: ANN401 - the project's user model
    """The user as a principal: by the function that settings.ROWLOCK['principal'] names, or by its permissions."""
    path = project_app().configuration.principal
    if path is None:
        return default_principal(user)
    principal = import_string(path)(user)
    if principal is not None and not isinstance(principal, Principal):
        message = f"{path} returns a Principal or None; it returned a {type(principal).__name__}."
        raise ConfigurationError(message)
    return principal
