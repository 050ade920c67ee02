"""Compose: jobs that wait for jobs, as chains, workflows and groups."""
