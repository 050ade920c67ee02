"""Places that pages name: files, and what is defined in them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def found(path: str) -> Path | None:
    """The file, from the package or from the top of the repository."""
    return next((base / path for base in (ROOT / "src" / "rowlock", ROOT) if (base / path).exists()), None)


def names(file: Path) -> set[str]:
    """What is defined in a file: `function`, `Class`, `Class.method`, `CONSTANT`; statements of an .sql file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".sql":
        return set(re.findall(r"^-- name: (\w+)", text, re.MULTILINE))
    if file.suffix != ".py":
        return set()
    body = ast.parse(text).body
    return {name for node in body for name in defined(node)}


def defined(node: ast.stmt) -> set[str]:
    match node:
        case ast.ClassDef(name=name, body=body):
            return {name, *(f"{name}.{inner}" for each in body for inner in defined(each))}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Assign(targets=[ast.Name(id=name)]):
            return {name}
        case _:
            return set()
