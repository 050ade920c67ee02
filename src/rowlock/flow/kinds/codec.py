"""Codec: encodes and decodes the arguments and results of one kind, as its handler's signature says.

It is made once, when the kind is declared. Arguments that the caller does not pass are not stored, so that the defaults
of the code that runs the job apply.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, cast

from pydantic_core import ErrorDetails, ValidationError, to_json

from rowlock.errors import (
    ArgumentsTooLarge,
    InvalidArguments,
    InvalidResult,
    UndecodableArguments,
    UnreadableArguments,
)
from rowlock.flow.kinds import json_values, signature
from rowlock.flow.kinds.args_upgrade import Upgrades
from rowlock.flow.kinds.schema import ValueSchema, arguments_schema, result_schema, schema_of
from rowlock.flow.kinds.signature import EMPTY, Signature
from rowlock.model.kind import Kind
from rowlock.model.options import Options
from rowlock.model.redact import SECRET, SHORTEST, count_secrets, secrets_in
from rowlock.model.spelling.keyword_options import name_here
from rowlock.model.spelling.similar_names import closest
from rowlock.model.stored_args import KNOWN_SKILLS, OUTPUTS, VERSION, skills_of, version_of
from rowlock.model.stored_json import DEEPEST, UnreadableJson, is_deep, read_object

logger = logging.getLogger("rowlock.enqueue")
_SHOWN_ERRORS: Final = 3
_CHUNK: Final = 10_000  # arguments encoded at a time
_OPAQUE: Final = frozenset({"value_error", "assertion_error"})  # texts of the user's validators may quote the value


@dataclass(frozen=True, slots=True, eq=False)
class Codec:
    """Encodes and decodes the arguments and results of one kind."""

    kind: str
    limit: int  # bytes of encoded arguments
    result_limit: int  # bytes of an encoded result
    signature: Signature
    upgrades: Upgrades
    _arguments: ValueSchema
    _stored: ValueSchema  # the same, or one that ignores unknown arguments
    _result: ValueSchema
    _direct: bool  # calls by name can be validated and written without a walk over the values

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        *,
        context_types: tuple[type, ...],
        kind: Kind | str,
        limit: int,
        result_limit: int | None = None,
    ) -> Codec:
        """Build the codec of a handler; ConfigurationError when its signature cannot be stored."""
        declared = Kind(kind) if isinstance(kind, str) else kind
        read = signature.read(function, context_types, declared.name)
        arguments = stored = arguments_schema(read, declared.name)
        if declared.unknown_args == "ignore":
            stored = arguments_schema(read, declared.name, unknown="ignore")
        return cls(
            declared.name,
            limit,
            limit if result_limit is None else result_limit,
            read,
            Upgrades(declared.name, declared.version),
            arguments,
            stored,
            result_schema(read.returns),
            arguments.traits.flat and declared.version == 1 and not read.positional_only,
        )

    @property
    def secret(self) -> bool:
        """Whether the arguments may hold secrets, which the codec tags."""
        return self._arguments.traits.secret

    def encode(self, args: tuple[object, ...] = (), kwargs: Mapping[str, object] | None = None) -> str:
        """Bind like a call (without the context), validate, and write JSON keyed by parameter name."""
        if self._direct and not args:
            try:
                data = to_json(self._arguments.validate(kwargs or {}))
            except ValueError:
                pass  # _encode() says what is wrong
            else:
                if len(data) <= self.limit and json_values.is_storable(data, len(data)) and not is_deep(data):
                    return data.decode()
        return self._encode(self.call(args, kwargs))

    def call(self, args: tuple[object, ...] = (), kwargs: Mapping[str, object] | None = None) -> dict[str, object]:
        """The arguments of a call by name, without the defaults."""
        named = dict(kwargs) if kwargs else {}
        if args or self.signature.positional_only:
            self._bind_positional(args, named)
        return named

    def named(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """The arguments of a call by name, defaults included: for keys, gates and refs that are made of them."""
        defaults = {name: item.default for name, item in self.signature.arguments.items() if item.default is not EMPTY}
        return defaults | dict(zip(self.signature.positional, args, strict=False)) | dict(kwargs)

    def json_schema(self) -> dict[str, object]:
        """The JSON Schema of the arguments by name, for forms; an argument it cannot describe may be any value."""
        from rowlock.flow.kinds import pydantic_schema  # noqa: PLC0415 - see schema.py

        return pydantic_schema.json_schema(self.signature.arguments, self.kind)

    def encode_named(self, named: Mapping[str, object]) -> str:
        """Encode arguments by name, positional-only ones too."""
        return self._encode(dict(named))

    def encode_many(self, items: Iterable[Mapping[str, object]]) -> list[str]:
        """Encode one mapping of arguments per job; an error names the index of its item."""
        items = list(items)
        texts = self._encode_alike(items)
        if texts is not None:
            return texts
        texts = []
        for index, item in enumerate(items):
            try:
                if not isinstance(item, Mapping):
                    message = f"{self.kind}: expected a mapping of arguments, got {_shown(item)}."
                    raise InvalidArguments(message)  # noqa: TRY301 - one place adds the index
                texts.append(self._encode(dict(item)))
            except (InvalidArguments, ArgumentsTooLarge) as error:
                message = f"Item {index}: {error}"
                raise type(error)(message) from None
        return texts

    def _encode_alike(self, items: Sequence[Mapping[str, object]]) -> list[str] | None:
        """Encode them all without Python code per item; None: an item has to go through _encode()."""
        if not self._arguments.traits.flat or not set(map(type, items)) <= {dict}:
            return None
        texts: list[str] = []
        for start in range(0, len(items), _CHUNK):
            try:
                # to_json writes NaN and infinity as constants here, which is_storable() finds.
                part = list(map(to_json, map(self._arguments.validate, items[start : start + _CHUNK])))
            except ValueError:
                return None
            longest = max(map(len, part))
            if longest > self.limit or not json_values.is_storable(b"".join(part), longest):
                return None
            if longest > 2 * DEEPEST and any(map(is_deep, part)):
                return None
            texts.extend(map(bytes.decode, part))
        return texts if self.upgrades.version == 1 else list(map(self._versioned, texts))

    def decode(self, text: str) -> dict[str, object]:
        """Decode stored arguments; UnreadableArguments if they do not fit the present handler.

        UndecodableArguments: no code could read them, as they were not written by Rowlock.
        """
        if len(text) > 2 * DEEPEST and is_deep(text.encode()):
            self._refuse_undecodable(text)
        try:
            if self.upgrades.version == 1 and VERSION not in text:
                loaded = cast("dict[str, object]", self._stored.load(text))
            else:
                loaded = cast("dict[str, object]", self._stored.load_untagged(*self._upgraded(text)))
            if SECRET in text:
                self._check_secrets(text, loaded)
        except ValueError as error:
            self._refuse_undecodable(text)
            why, cause = self._explained(error), _cause(error)
        else:
            return loaded
        message = (
            f"{self.kind}: the stored arguments do not fit {self._call}: {why} Old and new code meet like this: give "
            'new parameters a default, drop old ones with unknown_args="ignore", change others with a version and '
            "an upgrade."
        )
        raise UnreadableArguments(message, cause)

    def _refuse_undecodable(self, text: str) -> None:
        """Raise UndecodableArguments if the arguments are no object that any code could read."""
        try:
            read_object(text)
            json_values.untag(text)
        except (UnreadableJson, ValueError) as error:
            message = (
                f"{self.kind}: the stored arguments cannot be read: {error}. Rowlock did not write them so. Remove "
                "the job, or edit it before it runs again."
            )
            raise UndecodableArguments(message) from None

    def _check_secrets(self, text: str, loaded: dict[str, object]) -> None:
        """Refuse a value that people see masked although the handler takes it as a plain one."""
        stored = read_object(text)
        # An upgrade may add and remove secrets; the result of another step may be one.
        if version_of(stored) != self.upgrades.version or OUTPUTS in skills_of(stored):
            return
        again = json_values.Tagger()
        self._arguments.dump(loaded, again)
        if again.secrets != count_secrets(stored):
            message = "a value is stored as a secret that the handler does not take as one"
            raise ValueError(message)

    def completed(self, text: str) -> str:
        """Stored arguments with the present defaults added; unchanged if their version differs or they do not fit."""
        try:
            if version_of(read_object(text)) != self.upgrades.version:
                return text
            given = self.decode(text)
            defaults = self.named((), {})
            return text if defaults.keys() <= given.keys() else self._encode(defaults | given)
        except (UnreadableJson, InvalidArguments, ArgumentsTooLarge):
            return text

    def _upgraded(self, text: str) -> tuple[object, bool]:
        """Stored arguments without tags, upgraded to the present version; the flag is that of json_values.untag."""
        value, python_only = json_values.untag(text)
        if not isinstance(value, dict):
            message = "expected an object"
            raise ValueError(message)  # noqa: TRY004 - a misfit in the stored data, like the others
        arguments = cast("dict[str, object]", value)
        stored, unknown = version_of(arguments), sorted({*skills_of(arguments)} - KNOWN_SKILLS)
        if unknown:
            message = (
                f"{self.kind}: the job needs a worker that supports {', '.join(unknown)}, which this code does not. "
                "It waits for one with newer code."
            )
            raise UnreadableArguments(message, f"takes {', '.join(unknown)}")
        arguments.pop(VERSION, None)
        if stored == self.upgrades.version:
            return arguments, python_only
        upgraded = self.upgrades.apply(arguments, stored)
        return upgraded, json_values.holds_bytes(upgraded)

    def bind(self, decoded: dict[str, object], context: object) -> tuple[tuple[object, ...], dict[str, object]]:
        """Turn decoded arguments into those of the call, context included; `decoded` is changed."""
        if self.signature.context is not None:
            decoded[self.signature.context] = context
        if not self.signature.positional_only:
            return (), decoded
        positional = tuple(decoded.pop(item.name, item.default) for item in self.signature.positional_only)
        return positional, decoded

    def encode_result(self, value: object) -> str | None:
        """Write a handler's return value as JSON; None stays None."""
        if value is None:
            return None
        try:
            data = self._result.dump(value, json_values.Tagger(naive_allowed=True))
        except (ValueError, TypeError, RecursionError) as error:
            message = (
                f"{self.kind}: the result, a {type(value).__qualname__}, cannot be stored as JSON: {error} "
                "Return a pydantic model, a dataclass or plain values."
            )
            raise InvalidResult(message) from None
        if len(data) > self.result_limit:
            size = f"takes {len(data):,} bytes, the limit is {self.result_limit:,}"
            message = f"{self.kind}: the result {size}. {json_values.ADVICE}"
            raise InvalidResult(message)
        if is_deep(data):
            message = f"{self.kind}: the result is nested more than {DEEPEST} levels deep. {json_values.ADVICE}"
            raise InvalidResult(message)
        return data.decode()

    def decode_result(self, text: str | None) -> object:
        """Decode a stored result as the return annotation says; InvalidResult if it does not fit."""
        if text is None:
            return None
        try:
            return self._result.load(text)
        except ValidationError as error:
            why = "; ".join(f"{_path(item['loc']) or 'the value'}: {item['msg']}" for item in error.errors()[:3])
        except ValueError as error:
            why = str(error)
        expected = inspect.formatannotation(self.signature.returns)
        message = f"{self.kind}: the stored result does not fit the return annotation {expected}: {why}."
        raise InvalidResult(message)

    def _bind_positional(self, args: tuple[object, ...], named: dict[str, object]) -> None:
        order = self.signature.positional
        if len(args) > len(order):
            message = f"{self._call} takes at most {len(order)} positional arguments, got {len(args)}."
            raise InvalidArguments(message)
        for parameter in self.signature.positional_only:
            if parameter.name in named:
                message = f"{self._call} takes {parameter.name!r} by position only; pass it without its name."
                raise InvalidArguments(message)
        for name, value in zip(order, args, strict=False):
            if name in named:
                message = f"{self._call} got argument {name!r} twice, by position and by name. Pass it once."
                raise InvalidArguments(message)
            named[name] = value

    def _encode(self, named: dict[str, object]) -> str:
        try:
            validated = self._arguments.validate(named)
        except ValidationError as error:
            message = f"{self.kind}: {self._explained(error)}"
            raise InvalidArguments(message) from None
        tagger = json_values.Tagger()
        try:
            data = self._arguments.dump(validated, tagger)
        except (ValueError, TypeError, RecursionError) as error:
            message = f"{self.kind}: {self._blamed(validated, error)}"
            raise InvalidArguments(message) from None
        json_values.check_arguments(self.kind, data, self.limit)
        text = data.decode()
        if tagger.secrets or tagger.others:
            self._check_round_trip(text, tagger)
        if tagger.secrets and any(0 < len(one) < SHORTEST for one in secrets_in(text)):
            logger.warning(
                "%s: a secret argument has fewer than %d characters; it cannot be kept out of logs, errors and results",
                self.kind,
                SHORTEST,
            )
        return text if self.upgrades.version == 1 else self._versioned(text)

    def _versioned(self, text: str) -> str:
        return f'{{"{VERSION}":{self.upgrades.version}{"" if text == "{}" else ","}{text[1:]}'

    def _check_round_trip(self, text: str, tagger: json_values.Tagger) -> None:
        """Decode tagged arguments at once: better refused at enqueue than unreadable in the worker."""
        again = json_values.Tagger()
        try:
            self._arguments.dump(self._arguments.load(text), again)
        except ValueError as error:
            why = self._explained(error)
            message = f"{self.kind}: JSON cannot carry the arguments there and back: {why} Pass it in another type."
            raise InvalidArguments(message) from None
        if again.secrets != tagger.secrets:
            message = (
                f"{self.kind}: a secret would reach the handler as plain text. Annotate the parameter or field that "
                "carries it with SecretStr, SecretBytes or Secret[...]."
            )
            raise InvalidArguments(message)

    def _blamed(self, validated: Mapping[str, object], error: Exception) -> str:
        """A message that names the argument which cannot be encoded; errors of the Tagger name it themselves."""
        reason = type(error).__name__ if self._arguments.traits.secret else str(error)  # pydantic quotes the value
        if str(error).startswith("argument "):
            return str(error)
        for name, value in validated.items():
            try:
                schema = schema_of(self.signature.arguments[name].annotation, strict_fields=True)
                schema.dump(value, json_values.Tagger())
            except (ValueError, TypeError, RecursionError):
                return f"argument {name!r}, a {type(value).__qualname__}, cannot be stored as JSON: {reason}"
        return f"the arguments cannot be stored as JSON: {reason}"

    @property
    def _call(self) -> str:
        return f"{self.kind}{self.signature.text}"

    def _explained(self, error: ValueError) -> str:
        if not isinstance(error, ValidationError):
            return f"{error}."
        errors = error.errors(include_url=False)
        lines = [self._line(item) for item in errors[:_SHOWN_ERRORS]]
        if len(errors) > _SHOWN_ERRORS:
            lines.append(f"And {len(errors) - _SHOWN_ERRORS} more.")
        return " ".join(lines)

    def _line(self, item: ErrorDetails) -> str:
        if not item["loc"]:
            return f"{item['msg']}."
        name, path = str(item["loc"][0]), _path(item["loc"])
        if name == self.signature.context:
            return f"argument {name!r} is the context, which the worker passes. Leave it out."
        if name in self.signature.injected:
            return f"argument {name!r} is injected by the worker that runs the job. Leave it out."
        if name not in self.signature.arguments:
            near = closest(name, self.signature.arguments, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else _option_hint(name)
            return f"there is no argument {name!r} in {self._call}." + (f" {hint}" if hint else "")
        expected = inspect.formatannotation(self.signature.arguments[name].annotation)
        if item["type"] == "missing":
            whole = "" if path == name else f" of {name!r}"
            return f"argument {path!r} is missing; {name if whole else 'it'} should be {expected} in {self._call}."
        secret = self._arguments.traits.secret
        came = f"a {type(item['input']).__name__}" if secret else _shown(item["input"])
        reason = "" if secret and item["type"] in _OPAQUE else f" ({item['msg']})"
        return f"argument {path!r} should fit {name}: {expected}, got {came}{reason}."


def open_codec(codec: Codec) -> Codec:
    """The same codec for part of the arguments, of which the rest follows later: none counts as missing."""
    arguments = {
        name: item if item.default is not EMPTY else item.replace(default=None)
        for name, item in codec.signature.arguments.items()
    }
    schema = arguments_schema(replace(codec.signature, arguments=arguments), codec.kind)
    return replace(codec, _arguments=schema, _stored=schema, _direct=False)


def _cause(error: ValueError) -> str:
    """What is wrong with stored arguments, without their values: equal for all jobs that share the problem."""
    if not isinstance(error, ValidationError):
        return type(error).__name__
    found = {(item["type"], str(item["loc"][0]) if item["loc"] else "") for item in error.errors(include_input=False)}
    return ", ".join(f"{name}: {sort.replace('_', ' ')}" for sort, name in sorted(found)[:10])


def _path(location: tuple[int | str, ...]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return re.sub(r"^\.", "", text)


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - code of others, and ints of more than 4,300 digits
        return f"a {type(value).__name__}"
    shortened = text if len(text) <= 60 else text[:60] + "…"  # noqa: PLR2004 - a line of a terminal
    return f"{shortened} ({type(value).__name__})"


def _option_hint(name: str) -> str:
    """For an option of this or another queue among the arguments; empty if the name is none."""
    option = name_here(name)
    known = {field.name for field in fields(Options)}
    return f"Options go first: .options({option}=…).enqueue(…)." if option in known else ""
