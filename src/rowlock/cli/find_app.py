"""Finds the application that --app module:attribute names, or says what is wrong with the path.

Without --app the applications of the current folder are looked for in the text of its modules: no module is imported
only to see what it makes.
"""

from __future__ import annotations

import ast
import functools
import importlib
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rowlock.errors import ConfigurationError, RowlockError
from rowlock.model.failure import is_library
from rowlock.model.spelling.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from rowlock.app import Rowlock

_MOST_PACKAGES: Final = 50
_MOST_MODULES: Final = 200
"""In one folder: a search must not read a whole disk when it starts in a wrong place."""
_TESTS: Final = ("test_", "conftest")


def locate(path: str) -> Rowlock:
    """The Rowlock that `module:attribute` names; the current folder is searched first."""
    from rowlock.app import Rowlock

    module, found = _find(path, "--app", "app")
    if not isinstance(found, Rowlock):
        apps = _apps(module)
        hint = f" Did you mean {module.__name__}:{apps[0]}?" if apps else ""
        raise ConfigurationError(f"{path} is a {type(found).__name__}, not a Rowlock application.{hint}")
    return found


def apps_in(folder: Path) -> list[str]:
    """The applications that modules of the folder, and of packages directly below it, make at their top level."""
    packages = [entry.parent for entry in sorted(folder.glob("*/__init__.py"))[:_MOST_PACKAGES]]
    files = [file for place in (folder, *packages) for file in sorted(place.glob("*.py"))[:_MOST_MODULES]]
    return [
        f"{_module_of(file, folder)}:{name}"
        for file in files
        if not file.name.startswith(_TESTS) and file.parent.name != "tests"
        for name in _apps_made_in(file)
    ]


def _module_of(file: Path, folder: Path) -> str:
    parts = file.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _apps_made_in(file: Path) -> list[str]:
    try:
        source = file.read_text(encoding="utf-8")
        statements = ast.parse(source).body if "Rowlock(" in source else []
    except (OSError, ValueError, SyntaxError):
        return []  # --app says what is wrong with a module that is asked for by name
    made = []
    for statement in statements:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and _makes_app(statement.value):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            made += [target.id for target in targets if isinstance(target, ast.Name)]
    return made


def _makes_app(value: ast.expr | None) -> bool:
    """Whether the expression is Rowlock(…) or rowlock.Rowlock(…)."""
    match value:
        case ast.Call(func=ast.Name(id="Rowlock")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="rowlock"), attr="Rowlock")):
            return True
        case _:
            return False


def attribute(path: str, option: str) -> object:
    """The object that `module:attribute` names."""
    return _find(path, option, option.strip("-"))[1]


def parts_of(path: str, option: str = "--app", usual: str = "app") -> tuple[str, str]:
    """The module and the attribute of a path; usual: the name that the attribute often has."""
    module_name, colon, attribute = path.partition(":")
    if not (colon and module_name and attribute):
        hint = f" Did you mean {module_name}:{usual}?" if module_name and not colon else ""
        raise ConfigurationError(f"{option} takes module:attribute, such as tasks:{usual}; got {path!r}.{hint}")
    return module_name, attribute


def _find(path: str, option: str, usual: str) -> tuple[ModuleType, object]:
    module_name, attribute = parts_of(path, option, usual)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _import(module_name)
    try:
        return module, functools.reduce(getattr, attribute.split("."), module)
    except AttributeError:
        raise ConfigurationError(_no_attribute(module, attribute)) from None


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigurationError(_import_failed(name, error)) from error
        raise ConfigurationError(
            f"There is no module {name!r} in {Path.cwd()} or among the installed packages."
            f"{_did_you_mean(name, _neighbours(name))}"
        ) from None
    except RowlockError:
        raise
    except Exception as error:
        raise ConfigurationError(_import_failed(name, error)) from error


def _import_failed(name: str, error: BaseException) -> str:
    """One line that leads to the place: the last frame of the application's own, or else of a library."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    frames = [frame for frame in frames if frame.filename != __file__]
    own = [frame for frame in frames if not is_library(frame.filename)] or frames
    file, line = (own[-1].filename, own[-1].lineno) if own else (None, None)
    says = str(error)
    if isinstance(error, SyntaxError):
        # Its text names the file without its folder, and the line once more.
        file, line, says = error.filename, error.lineno, error.msg
    where = f" ({file}, line {line})" if file else ""
    return f"Importing {name!r} failed: {type(error).__name__}: {says}{where}"


def _neighbours(name: str) -> list[str]:
    """Modules beside the one that is missing, as they would be written."""
    *parents, _ = name.split(".")
    folder = Path.cwd().joinpath(*parents)
    if not folder.is_dir():
        return []
    found = (entry.name for entry in os.scandir(folder))
    stems = {file.removesuffix(".py") for file in found if file.endswith(".py") or Path(folder, file).is_dir()}
    return [".".join([*parents, stem]) for stem in stems if stem.isidentifier()]


def _no_attribute(module: ModuleType, attribute: str) -> str:
    apps = _apps(module)
    names = [name for name in vars(module) if not name.startswith("_")]
    hint = _did_you_mean(attribute, apps) or _did_you_mean(attribute, names)
    there = f" Its applications: {', '.join(apps)}." if apps else " It makes no Rowlock()."
    return f"The module {module.__name__!r} has no attribute {attribute!r}.{hint or there}"


def _apps(module: ModuleType) -> list[str]:
    from rowlock.app import Rowlock

    return [name for name, value in vars(module).items() if isinstance(value, Rowlock)]


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    near = closest(name, sorted(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
