"""Kinds of jobs: their options, their functions, and how arguments and results become JSON and back.

Start with handler.py (`Handler`: a kind with its function and codec), then codec.py. signature.py reads parameters,
schema.py and json_values.py encode values, args_upgrade.py upgrades arguments that older code stored, declare.py checks
the options of @app.job. This is the lowest shelf of flow: it imports model and errors only, and every other shelf may
import it. pydantic itself is imported only by pydantic_schema.py, for kinds that need it.
"""

from __future__ import annotations
