"""Orders of the shop."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    customer = models.TextField()
    receipts = models.IntegerField(default=0)

    def __str__(self) -> str:
        return str(self.customer)
