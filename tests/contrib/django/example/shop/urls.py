"""Addresses of the example."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path
from orders.views import place, place_async

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders/<str:customer>/", place),
    path("async-orders/<str:customer>/", place_async),
]
