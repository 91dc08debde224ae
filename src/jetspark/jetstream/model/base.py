"""The base of all JSON objects of the JetStream API: `Model`, and how its values are read and written.

A model is a frozen struct. Its type annotations say how each field is encoded, and this module is the
only place that knows how:

| annotation              | in Python                         | on the wire                       |
|-------------------------|-----------------------------------|-----------------------------------|
| `Duration`              | seconds, a float                  | nanoseconds, an integer           |
| `datetime`              | with a time zone                  | RFC 3339; Go's zero time is `None` |
| an `enum.StrEnum`       | a member, or an unknown raw string | the string                        |
| `bytes`                 | bytes                             | base64                            |
| a `Model`               | a model                           | an object                         |

Three rules hold for all of them. Unknown fields of a newer server are kept in `extra` and written back,
so that an update never loses them. A field that equals its default is not written: the server's default
is ours, and servers refuse fields that they do not know. Models that a user constructs are checked, and
models that the server sent are not, since a newer server may allow more.
"""

from __future__ import annotations

import base64
import enum
import math
import re
import reprlib
import types
from collections.abc import Callable, Iterable, Mapping
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    NewType,
    NoReturn,
    Self,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
)

import msgspec

from jetspark.core.json import decode_json
from jetspark.errors import RemoteProtocolError, UsageError
from jetspark.wire.subjects import check_text

__all__ = ["Duration", "Int32", "Model", "UInt", "from_ns", "time_from_wire", "to_ns"]

if TYPE_CHECKING:
    #: Seconds in Python, nanoseconds on the wire.
    Duration: TypeAlias = float
    #: An unsigned 64-bit integer: the server cannot read a negative one.
    UInt: TypeAlias = int
    #: A signed 32-bit integer.
    Int32: TypeAlias = int
else:  # `help()` shows these names.
    Duration = NewType("Seconds", float)  # noqa: PLC0132
    UInt = NewType("UInt", int)
    Int32 = NewType("Int32", int)

_INT64 = 2**63 - 1
#: Levels of objects and lists in a field that jetspark does not know. Showing and writing them is recursive.
_MAX_DEPTH = 32
_GO_ZERO_TIME = "0001-01-01T00:00:00Z"
_BELOW_MICROSECONDS = re.compile(r"\.\d{6}\d*[1-9]")


def to_ns(seconds: float) -> int:
    """Seconds as nanoseconds. Decimal, because 31536000.123 * 1e9 is not a whole number in floats."""
    return round(Decimal(repr(float(seconds))) * 1_000_000_000)


def from_ns(nanoseconds: int) -> float:
    """Nanoseconds as seconds. Comes back from `to_ns` unchanged up to 48 days."""
    return nanoseconds / 1_000_000_000


class _Received(dict[str, Any]):
    """The `extra` of a model that the server sent; it is how such a model knows that it is not checked."""


class _ServerTime(datetime):
    """A time that has more digits than a datetime. It is written as it was read.

    The server refuses an update whose `opt_start_time` differs by a nanosecond.
    """

    #: Empty in times computed from such a time.
    wire: str = ""

    def __repr__(self) -> str:
        return repr(datetime.combine(self.date(), self.timetz()))

    def __reduce__(self) -> tuple[Any, ...]:
        return time_from_wire, (self.wire or _time_to_wire(self),)

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return self.__reduce__()


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON object of the JetStream API, as a frozen struct. Changed copies come from `replace`."""

    #: Fields that this version of jetspark does not know, by their names on the wire.
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    #: Fields that are written even when they equal their default, because the server's differs.
    _always_sent: ClassVar[frozenset[str]] = frozenset()
    #: Fields that servers have since a level of the API (ADR-44); those without are in all of them.
    _levels: ClassVar[Mapping[str, int]] = MappingProxyType({})
    #: Keys of the envelope around an answer. They are not part of the model.
    _envelope: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.extra, _Received):
            self._check_types(_plan(type(self)))
            self.check()

    def __repr__(self) -> str:
        values = ((field, getattr(self, field.name)) for field in _plan(type(self)))
        shown = [f"{field.name}={value!r}" for field, value in values if value != field.default]
        if self.extra:
            shown.append(f"extra={dict(self.extra)!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def check(self) -> None:
        """Raise `UsageError` if fields contradict each other or hold values that the server refuses."""

    def _check_as(self, made: Callable[[Self], Model], fields: Mapping[str, str]) -> None:
        """Check the model that is made of this one. Its errors name the fields of this one."""
        try:
            made(self)
        except UsageError as error:
            own = type(self).__name__
            text = re.sub(
                r"^(\w+)\.(\w+)", lambda found: f"{own}.{fields.get(found[2], found[2])}", str(error.args[0])
            )
            raise UsageError(text, hint=error.hint) from None

    @classmethod
    def check_type(cls, value: object, argument: str) -> None:
        """Raise `UsageError` unless `value`, which a user gave as `argument`, is of this class."""
        if not isinstance(value, cls):
            raise UsageError(f"{argument} must be a {cls.__name__}, not {type(value).__name__}")

    def replace(self, **changes: object) -> Self:
        """A copy with some fields changed, and checked, also when the original came from the server.

        `msgspec.structs.replace` does the same without the checks for a model that the server sent.
        """
        changed = msgspec.structs.replace(self, **changes)
        changed._check_types(field for field in _plan(type(self)) if field.name in changes)
        changed.check()
        return changed

    @property
    def api_level(self) -> int:
        """The level of the API that a server must have to know all the fields that are set."""
        level = 0
        for field in _plan(type(self)):
            value = getattr(self, field.name)
            if value is not None and value != field.default:
                level = max(level, self._levels.get(field.name, 0))
                if isinstance(value, Model):
                    level = max(level, value.api_level)
        return level

    def to_wire(self) -> dict[str, Any]:
        """The JSON object as a dict."""
        wire = dict(self.extra)
        for field in _plan(type(self)):
            value = getattr(self, field.name)
            if value is None or (value == field.default and field.name not in self._always_sent):
                continue
            wire[field.key] = field.codec.encode(value)
        return wire

    def to_json(self) -> bytes:
        """The JSON object as bytes, ready to be sent."""
        try:
            return msgspec.json.encode(self.to_wire())
        except (
            TypeError,
            ValueError,
            OverflowError,
            RecursionError,
        ) as error:  # Only `extra` is not checked.
            raise UsageError(f"{type(self).__name__}.extra cannot be written as JSON: {error}") from None

    @classmethod
    def from_wire(cls, wire: object) -> Self:
        """Read a JSON object of the server. Raises `RemoteProtocolError` if it cannot be this model."""
        if not isinstance(wire, dict):
            raise RemoteProtocolError(f"{cls.__name__} cannot be {reprlib.repr(wire)}")
        values: dict[str, Any] = {}
        unknown = _Received(wire)
        for field in _plan(cls):
            value = unknown.pop(field.key, None)
            if value is None:
                continue
            try:
                decoded = field.codec.decode(value)
            except (TypeError, ValueError, AttributeError) as error:
                shown = reprlib.repr(value)
                raise RemoteProtocolError(f"{cls.__name__}.{field.name} cannot be {shown}") from error
            if decoded is not None:
                values[field.name] = decoded
        for key in cls._envelope:
            unknown.pop(key, None)
        if unknown and _is_deep(unknown, _MAX_DEPTH):
            raise RemoteProtocolError(f"{cls.__name__} is nested in more than {_MAX_DEPTH} levels")
        try:
            return cls(**values, extra=unknown)
        except TypeError as error:
            raise RemoteProtocolError(f"{cls.__name__} is incomplete: {error}") from error

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read the bytes of a JSON object. Raises `RemoteProtocolError` if it cannot be this model."""
        return cls.from_wire(decode_object(data))

    def _check_types(self, fields: Iterable[_Field]) -> None:
        for field in fields:
            value = getattr(self, field.name)
            if value is None and field.optional:
                continue
            try:
                accepted = field.codec.accept(value)
            except (TypeError, ValueError, OverflowError):
                self._refuse(field.name, f"is not accepted: it must be {field.codec.expects}")
            if accepted is not value:
                msgspec.structs.force_setattr(self, field.name, accepted)

    def _refuse(self, field: str, why: str) -> NoReturn:
        raise UsageError(f"{type(self).__name__}.{field}={getattr(self, field)!r} {why}")

    def _refuse_any(self, fields: Iterable[str], why: str) -> None:
        """Refuse the first of `fields` that is set."""
        for field in fields:
            if getattr(self, field):
                self._refuse(field, why)

    def _argument(self, field: str) -> str:
        return f"{type(self).__name__}.{field}"


def decode_object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises `RemoteProtocolError` if it is anything else."""
    return decode_json(data, dict[str, Any], "a JSON object")


def _is_deep(value: object, levels: int) -> bool:
    """Whether objects and lists are nested in more than so many levels."""
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return not levels or any(_is_deep(part, levels - 1) for part in parts)


class _Codec(NamedTuple):
    """How a value of one type is accepted from a user, written, and read. `accept` raises for bad values."""

    expects: str
    accept: Callable[[Any], Any]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


class _Field(NamedTuple):
    name: str
    key: str
    codec: _Codec
    optional: bool
    default: object


@cache
def _plan(cls: type[Model]) -> tuple[_Field, ...]:
    """How the fields of a model go on the wire, found once per class from its annotations."""
    plan = []
    for info in msgspec.structs.fields(cls):
        if info.name == "extra":
            continue
        default: object = info.default
        if info.default_factory is not msgspec.NODEFAULT:
            default = cast(Callable[[], object], info.default_factory)()
        optional = type(None) in get_args(info.type)
        plan.append(_Field(info.name, info.encode_name, _codec(info.type), optional, default))
    return tuple(plan)


def _codec(annotation: Any) -> _Codec:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _integer(arguments[1].ge, arguments[1].le)
    if origin in (Union, types.UnionType):
        # `Policy | str | None`: the most specific member of the union decides.
        members = [member for member in arguments if member not in (type(None), str)]
        return _codec(members[0] if members else str)
    if origin is list:
        return _list(_codec(arguments[0]))
    if origin is dict:
        return _dict(_codec(arguments[1]))
    if isinstance(annotation, type):
        if issubclass(annotation, enum.StrEnum):
            return _enum(annotation)
        if issubclass(annotation, Model):
            name = f"a {annotation.__name__}"
            return _Codec(name, _accept(annotation), annotation.to_wire, annotation.from_wire)
    return _PLAIN[annotation]


def _same(value: Any) -> Any:
    return value


def _accept(kind: type) -> Callable[[Any], Any]:
    def accept(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return accept


def _accept_text(value: Any) -> str:
    return check_text(value, "text")  # JSON cannot hold a lone surrogate.


def _integer(low: int | None, high: int | None) -> _Codec:
    if low is not None and high is None:
        expects, high = f"an integer of {low} or more", 2 * _INT64 + 1
    elif low is None or high is None:
        expects, low, high = "an integer", -_INT64 - 1, _INT64
    else:
        expects = f"an integer from {low} to {high}"

    def accept(value: Any) -> Any:
        if type(value) is not int or not low <= value <= high:
            raise ValueError
        return value

    return _Codec(expects, accept, _same, _received_integer)


def _received_integer(value: Any) -> int:
    """Any number of the server: 64 bits, with or without a sign."""
    if type(value) is not int or not -_INT64 - 1 <= value <= 2 * _INT64 + 1:
        raise ValueError
    return value


def _enum(policy: type[enum.StrEnum]) -> _Codec:
    def decode(value: Any) -> str:
        text: str = _accept(str)(value)
        try:
            return policy(text)
        except ValueError:
            return text

    return _Codec("one of " + ", ".join(map(repr, map(str, policy))), policy, str, decode)


def _list(item: _Codec) -> _Codec:
    def accept(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise TypeError  # above all a string, which would be taken apart into letters
        return [item.accept(each) for each in value]

    return _Codec(
        f"a list, each {item.expects}",
        accept,
        lambda value: [item.encode(each) for each in value],
        lambda value: [item.decode(each) for each in _accept(list)(value)],
    )


def _dict(item: _Codec) -> _Codec:
    return _Codec(
        f"a dict of text, each value {item.expects}",
        lambda value: {_accept_text(key): item.accept(each) for key, each in _accept(dict)(value).items()},
        lambda value: {key: item.encode(each) for key, each in value.items()},
        lambda value: {key: item.decode(each) for key, each in _accept(dict)(value).items()},
    )


def _accept_duration(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or abs(to_ns(value)) > _INT64:
        raise ValueError
    return float(value)


def _accept_time(value: Any) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError
    value.astimezone(UTC)  # Fails near the years 1 and 9999.
    return value


def _time_to_wire(value: datetime) -> str:
    if isinstance(value, _ServerTime) and value.wire:
        return value.wire
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def time_from_wire(value: str) -> datetime | None:
    """A time as the server writes it. Written back, it is the same to the nanosecond. Raises `ValueError`."""
    if value == _GO_ZERO_TIME:
        return None
    try:
        time = datetime.fromisoformat(value).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"not in the calendar: {value}") from error
    if not MINYEAR < time.year < MAXYEAR:
        raise ValueError(f"not in the calendar of every time zone: {value}")
    if _BELOW_MICROSECONDS.search(value) is None:
        return time
    exact = _ServerTime.combine(time.date(), time.timetz())
    exact.wire = value
    return exact


_DURATION = _Codec(
    "a number of seconds", _accept_duration, to_ns, lambda value: from_ns(_received_integer(value))
)

_PLAIN: dict[Any, _Codec] = {
    str: _Codec("text in UTF-8", _accept_text, _same, _accept(str)),
    bool: _Codec("True or False", _accept(bool), _same, _accept(bool)),
    int: _integer(None, None),
    UInt: _integer(0, None),
    Int32: _integer(-(2**31), 2**31 - 1),
    Duration: _DURATION,
    bytes: _Codec("bytes", _accept(bytes), lambda value: base64.b64encode(value).decode(), base64.b64decode),
    datetime: _Codec("a datetime with a time zone", _accept_time, _time_to_wire, time_from_wire),
    Any: _Codec("anything", _same, _same, _same),
}
