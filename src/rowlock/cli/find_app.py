"""Finds the application that --app module:attribute names, or says what is wrong with the path."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from rowlock.errors import ConfigurationError, RowlockError
from rowlock.model.failure import is_library
from rowlock.model.spelling.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from rowlock.app import Rowlock


def locate(path: str) -> Rowlock:
    """The Rowlock that `module:attribute` names; the current folder is searched first."""
    from rowlock.app import Rowlock

    module, found = _find(path, "--app", "app")
    if not isinstance(found, Rowlock):
        apps = _apps(module)
        hint = f" Did you mean {module.__name__}:{apps[0]}?" if apps else ""
        raise ConfigurationError(f"{path} is a {type(found).__name__}, not a Rowlock application.{hint}")
    return found


def attribute(path: str, option: str) -> object:
    """The object that `module:attribute` names."""
    return _find(path, option, option.strip("-"))[1]


def _find(path: str, option: str, usual: str) -> tuple[ModuleType, object]:
    module_name, colon, attribute = path.partition(":")
    if not (colon and module_name and attribute):
        hint = f" Did you mean {module_name}:{usual}?" if module_name and not colon else ""
        raise ConfigurationError(f"{option} takes module:attribute, such as tasks:{usual}; got {path!r}.{hint}")
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
