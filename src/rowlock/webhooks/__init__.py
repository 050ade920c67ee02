"""Deliveries: the jobs that send signed messages to endpoints of other systems."""
