"""The example's settings for Django's own tests."""

from __future__ import annotations

from shop.settings import *  # noqa: F403 - all of them
