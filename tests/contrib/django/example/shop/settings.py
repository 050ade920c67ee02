"""Settings of the example; its database is the one that EXAMPLE_DATABASE_URL names."""

from __future__ import annotations

import os
from urllib.parse import parse_qs, unquote, urlsplit

import django


def database_entry(url: str) -> dict[str, object]:
    """The entry of DATABASES for a URL of PostgreSQL."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or query.get("host", [""])[0],
        "PORT": str(parts.port or query.get("port", [""])[0]),
        # The tests' role has the name of Rowlock's schema, which would come first.
        "OPTIONS": {"options": "-c search_path=public"},
    }


SECRET_KEY = "not a secret: the example runs in tests alone"  # noqa: S105 - as it says
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = os.environ.get("EXAMPLE_USE_TZ", "on") == "on"
TIME_ZONE = "Europe/Berlin"
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "rowlock.contrib.django",
    "orders",
    *(["django_tasks"] if django.VERSION < (6,) else []),
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # fast, for tests

DATABASES = {"default": database_entry(os.environ.get("EXAMPLE_DATABASE_URL", "postgresql:///unset"))}

ROWLOCK = {"database": "default", "shutdown_after": "20s"}
TASKS = {
    "default": {
        "BACKEND": "rowlock.contrib.django.tasks.RowlockBackend",
        "QUEUES": ["default", "emails"],
    }
}
