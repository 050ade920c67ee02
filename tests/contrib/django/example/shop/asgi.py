"""ASGI application of the example: Django, and Rowlock below /rowlock."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
django_application = get_asgi_application()

from rowlock.contrib.django.asgi import with_rowlock  # noqa: E402 - after Django is set up

application = with_rowlock(django_application, at="/rowlock")
