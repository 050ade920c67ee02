"""Background jobs for Python on one PostgreSQL table."""
