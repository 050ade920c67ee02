"""Origin: under which module and name another process can import the application."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowlock.flow.kinds.handler import Handler


@dataclass(frozen=True, slots=True)
class Origin:
    """A module, and the name that the application has in it."""

    module: str
    attribute: str


NO_ORIGIN: Final = (
    "A child process must find the application by import: give the Rowlock(...) a name at the top level of a module, "
    "and run the worker from that module's folder."
)


def importable(handler: Handler) -> bool:
    """Whether another process can import the handler's function by module and name."""
    return "<" not in handler.function.__qualname__ and module_of(handler.function.__module__) is not None


def module_of(name: str) -> str | None:
    """The name under which another process can import a module; of a script, its file's. None: it cannot."""
    if name != "__main__":
        return name
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else None


def origin_of(app: object, handlers: Iterable[Handler]) -> Origin | None:
    """The module and name under which another process can import the application; None: it cannot."""
    declaring = [handler.function.__module__ for handler in handlers]
    # Last, as a child would run it again: a script that merely imports the application.
    for name in (*dict.fromkeys(declaring), *(name for name in sys.modules if name != "__main__"), "__main__"):
        for attribute, value in list(getattr(sys.modules.get(name), "__dict__", {}).items()):
            if value is app and (found := module_of(name)) is not None:
                return Origin(found, attribute)
    return None
