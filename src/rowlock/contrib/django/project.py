"""The application of a Django project, for `rowlock --app`, child processes and supervised workers.

Importing this module sets Django up, as manage.py does; DJANGO_SETTINGS_MODULE names the settings.
"""

from __future__ import annotations

import django
from django.apps import apps

from rowlock.contrib.django.application import project_app

if not apps.ready:
    django.setup()

app = project_app()
