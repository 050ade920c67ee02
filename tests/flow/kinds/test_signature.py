from __future__ import annotations

import functools
from collections.abc import Callable  # noqa: TC003 - handlers' annotations are read at run time
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import pytest
from pydantic import BaseModel

import rowlock
from rowlock.errors import ConfigurationError
from rowlock.flow.kinds.codec import Codec

if TYPE_CHECKING:
    from nowhere import Imaginary  # type: ignore[import-not-found]

T = TypeVar("T")


class Context(Generic[T]):
    pass


class SyncContext:
    pass


async def build(ctx: Context[int], org_id: int, full: bool = False) -> str: ...  # type: ignore[empty-body]


def codec(function: Callable[..., object]) -> Codec:
    return Codec.of(function, context_types=(Context, SyncContext), kind="report", limit=1000)


def misdefined(function: Callable[..., object]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        codec(function)
    return str(caught.value)


def test_the_context_is_found_under_annotated_generic_and_optional() -> None:
    def annotated(c: Annotated[Context[int], "note"], a: int) -> None: ...
    def bare(c: Context, a: int) -> None: ...  # type: ignore[type-arg]
    def optional(a: int, c: SyncContext | None = None) -> None: ...

    assert [codec(function).signature.context for function in (annotated, bare, optional)] == ["c", "c", "c"]
    assert [list(codec(function).signature.arguments) for function in (annotated, bare, optional)] == [["a"]] * 3


def test_the_contexts_name_is_enough_when_only_the_type_checker_imports_it() -> None:
    namespace: dict[str, Any] = {}
    source = "from __future__ import annotations\ndef handler(ctx: SyncContext, a: int) -> None: ..."
    exec(compile(source, "<handler>", "exec", dont_inherit=True), namespace)  # noqa: S102 - a module without the import
    assert codec(namespace["handler"]).signature.context == "ctx"


def test_classes_of_the_enclosing_functions_are_found() -> None:
    class Local(BaseModel):
        n: int

    def inner() -> Codec:
        class Nearer(BaseModel):
            n: int

        def handler(a: Local, b: Nearer) -> Local: ...  # type: ignore[empty-body]

        return codec(handler)

    assert inner().encode(({"n": 1}, {"n": 2})) == '{"a":{"n":1},"b":{"n":2}}'


def test_a_class_that_is_out_of_reach_is_explained() -> None:
    def make() -> Callable[..., object]:
        class Gone(BaseModel):
            n: int

        def handler(a: Gone) -> None: ...

        return handler

    assert misdefined(make()) == (
        "report: the annotations of test_a_class_that_is_out_of_reach_is_explained.<locals>.make.<locals>.handler "
        "cannot be read: name 'Gone' is not defined. They are needed at run time: import the name outside of "
        "`if TYPE_CHECKING:`, and define classes at module level."
    )


def test_a_name_imported_for_the_type_checker_only_is_explained() -> None:
    def handler(a: int) -> Imaginary: ...

    assert "name 'Imaginary' is not defined. They are needed at run time: import the name" in misdefined(handler)


def test_a_wrapped_function_keeps_its_signature() -> None:
    @functools.wraps(build)
    async def wrapper(*args: Any, **kwargs: Any) -> str:  # noqa: ANN401 - a wrapper of anything
        return await build(*args, **kwargs)

    assert codec(wrapper).encode((7,)) == '{"org_id":7}'


def test_a_bound_method_can_be_a_handler() -> None:
    class House:
        def handler(self, ctx: SyncContext, a: int) -> None: ...

    assert codec(House().handler).encode((1,)) == '{"a":1}'


def test_varying_arguments_are_refused_with_advice() -> None:
    def stars(*rows: int) -> None: ...
    def double(**rows: int) -> None: ...

    assert misdefined(stars) == (
        "report: *rows cannot be stored under a name of its own. Name every argument; "
        "for a varying number take one parameter such as rows: list[int]."
    )
    assert misdefined(double) == (
        "report: **rows cannot be stored under a name of its own. Name every argument; "
        "for a varying number take one parameter such as rows: dict[str, int]."
    )


def test_other_impossible_handlers_are_refused() -> None:
    def two(a: SyncContext, b: Context[int]) -> None: ...
    def bare(ctx, a: int) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
    def foreign(a: Codec) -> None: ...

    assert misdefined(two) == "report: a and b both ask for the context. Keep one of them."
    assert misdefined(bare) == "report: parameter ctx has no annotation. Write ctx: Context."
    assert misdefined(functools.partial(two, SyncContext())).startswith(
        "report: expected a function written with def or async def, not functools.partial("
    )
    message = misdefined(foreign)
    assert message.startswith("report: argument 'a' is annotated with ")
    assert "Use plain types, dataclasses or pydantic models, or have the worker provide it: Annotated[" in message


def test_a_handler_with_the_other_context_is_told_which_one_it_gets() -> None:
    def blocking(ctx: rowlock.Context, n: int) -> None: ...
    async def waiting(n: int, ctx: rowlock.SyncContext) -> None: ...

    expected: dict[Callable[..., object], str] = {
        blocking: "report: ctx is annotated with Context, but a blocking handler is given a SyncContext. "
        "Write ctx: SyncContext.",
        waiting: "report: ctx is annotated with SyncContext, but an async def handler is given a Context. "
        "Write ctx: Context.",
    }
    for function, message in expected.items():
        given = rowlock.SyncContext if function is blocking else rowlock.Context
        with pytest.raises(ConfigurationError) as caught:
            Codec.of(function, context_types=(given,), kind="report", limit=1000)
        assert str(caught.value) == message
