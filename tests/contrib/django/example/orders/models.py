"""Orders of the shop."""

from __future__ import annotations

from django.db import models
from typing_extensions import override


class Order(models.Model):
    customer = models.TextField()
    receipts = models.IntegerField(default=0)

    @override
    def __str__(self) -> str:
        return str(self.customer)
