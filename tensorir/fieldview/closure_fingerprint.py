"""The globals, closures and Python values that a function reads: their change makes a trace stale.

A trace has the values of the time when it was made. In a notebook `DT = 5.0` is run again, `settings["dt"]` is changed,
or an operator that others call is written anew, and what was traced before would go on with what was.

>>> DT = 5.0
>>> def moved(x):
...     return x + DT
>>> before = closure_fingerprint(moved)
>>> DT = 6.0
>>> closure_fingerprint(moved) == before
False

Numbers, texts, arrays, tables of pandas and what holds them are told by value. Other objects are told by which they
are, with those of their attributes whose names the code has, or that of functions which it reads and may hand them to:
`settings.dt` is looked at, and what else the settings hold is not. Programs never change: fencils are told by what they
are equal to, and what is compiled by which it is.
"""

from __future__ import annotations

import array
import dataclasses
import functools
import hashlib
import os
import sys
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Literal, cast

import numpy as np

from tensorir.binding.arrays import is_traced
from tensorir.ir.nodes import Fencil
from tensorir.runtime.memory import RecentCache, remembered

_OURS = os.path.dirname(os.path.dirname(__file__))
_OWN = (_OURS + os.sep, os.path.join(os.path.dirname(_OURS), "lowering") + os.sep)
_INSTALLED = (sys.prefix + os.sep, sys.base_prefix + os.sep, *_OWN)
_IMPLIED = ("__call__", "__getitem__", "__getattr__")
"""Methods that code calls by syntax, so that their names are not among those of the code."""
_PLAIN = (bool, int, float, complex, str, bytes, range)
_CONTAINERS = (tuple, list, dict, set, frozenset, deque, OrderedDict, defaultdict, bytearray, memoryview, array.array)
_LIBRARIES = ("numpy", "xarray", "pandas")
"""The modules of further types whose objects have nothing but their contents."""


def closure_fingerprint(function: Callable[..., Any], arguments: Iterable[Any] = ()) -> Hashable:
    """A hashable of the values that a function and its callees read: globals, closures, defaults and `arguments`.

    It is cached in `READS` while the objects that were read are the same and none of them can change in place.

    >>> def scaled(x, settings):
    ...     return settings["rate"] * x
    >>> closure_fingerprint(scaled, [{"rate": 1.0}]) == closure_fingerprint(scaled, [{"rate": 1.0}])
    True
    >>> closure_fingerprint(scaled, [{"rate": 1.0}]) == closure_fingerprint(scaled, [{"rate": 2.0}])
    False
    """
    arguments = tuple(arguments)
    alone = not arguments or all(value is function for value in arguments)
    known = READS.get(id(function)) if alone else None
    if known is not None and known.hold(function, len(arguments)):
        return known.fingerprint
    look = _look_at(function)
    fingerprint = tuple(look.inside(function)), tuple(map(look.key_of, arguments))
    if alone and look.reads.steady:
        key, drop = id(function), READS.drop
        with suppress(TypeError):  # nothing tells when an object without weak references is gone
            reference = weakref.ref(function, lambda _: drop(key))
            READS.put(key, replace(look.reads, function=reference, times=len(arguments), fingerprint=fingerprint))
    return fingerprint


def function_key(function: Callable[..., Any]) -> Hashable:
    """The cache key for a trace of a function: its code and fingerprint.

    Other callables enter the fingerprint themselves.
    """
    plain = isinstance(function, FunctionType) and not hasattr(function, "function")
    return function.__code__ if plain else None, closure_fingerprint(function, () if plain else (function,))


def values_read(function: Callable[..., Any]) -> list[Any]:
    """The values that a fingerprint of a function looks at, except numbers, texts, bytes and None.

    >>> weights = np.ones(2)
    >>> def scaled(x):
    ...     return weights * x
    >>> values_read(scaled)
    [array([1., 1.])]
    """
    look = _look_at(function)
    for _ in look.inside(function):  # run for its effect: it fills look.seen
        pass
    return [value for _, value in look.seen.values()]


@dataclass(slots=True)
class Reads:
    """The places that a fingerprint was read from, with the objects that were there: the cache entry of a function."""

    function: Callable[[], Any] = lambda: None
    times: int = 0
    """The number of arguments of the fingerprint, each of which is the function itself."""
    fingerprint: Hashable = None
    items: list[tuple[Any, Any, Any]] = field(default_factory=list[Any])
    """(mapping, name, value) of globals, keyword defaults and instance dicts."""
    attributes: list[tuple[Any, str, Any]] = field(default_factory=list[Any])
    steady: bool = True
    """False if the fingerprint has the contents of an object that may change in place, such as a list."""

    def hold(self, function: Callable[..., Any], times: int) -> bool:
        """True if the same object is still in every place, for the same function and number of arguments."""
        if self.function() is not function or self.times != times:
            return False
        for place, name, value in self.items:
            if place.get(name, MISSING) is not value:
                return False
        try:
            for owner, name, value in self.attributes:
                if getattr(owner, name, MISSING) is not value:
                    return False
        except ValueError:  # a variable that is not assigned any more
            return False
        return True


MISSING = object()
READS: RecentCache[int, Reads] = RecentCache("reads of functions", 256)


def _look_at(function: Callable[..., Any]) -> _Look:
    inner, reached = _users(function), dict[int, tuple[FunctionType, tuple[str, ...]]]()
    return _Look({}, () if inner is None else _names_reached(inner, reached), Reads(), reached)


class _Same:
    """A key for the identity of an object, held weakly.

    Unlike `id` it never equals a later object at the same address.
    """

    __slots__ = ("_hash", "_object")

    def __init__(self, thing: Any) -> None:
        """The identity of an object, by a weak reference where its type allows one."""
        self._hash = id(thing)
        try:
            self._object: Callable[[], Any] = weakref.ref(thing)
        except TypeError:
            self._object = lambda: thing

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        """True if both are of one object that still lives."""
        if not isinstance(other, _Same):
            return NotImplemented
        mine = self._object()
        return self is other or (mine is not None and mine is other._object())


@dataclass(frozen=True, slots=True)
class _Look:
    """The traversal of the values that code with these names reads; a value seen before becomes its number."""

    seen: dict[tuple[int, tuple[str, ...]], tuple[int, Any]]
    """By (id(object), names) its number and the object, which is kept alive so that its id stays valid."""
    names: tuple[str, ...]
    reads: Reads
    reached: dict[int, tuple[FunctionType, tuple[str, ...]]]
    """The names under which values of functions are looked at (`_names_reached`), by the id of the function."""

    def key_of(self, value: Any) -> Hashable:
        """The hashable key of a value: contents of numbers, arrays and containers, identity and attributes of others.

        Sets `reads.steady` to False for contents that may change in place.
        """
        if value is None or isinstance(value, _PLAIN):
            return type(value), repr(value)  # a text, since NaN equals nothing
        if (before := self._before(value)) is not None:
            return before
        held, kind = cast("tuple[Any, Any]", (value, type(value)))
        frozen = (tuple, frozenset, np.generic, Fencil)
        contents = self._contents(held)
        if not isinstance(value, frozen) and (contents is not None or _is_open(kind)):
            self.reads.steady = False
        if contents is not None:
            # objects of a user's own type may have attributes beside
            is_plain = kind in _CONTAINERS or kind.__module__.partition(".")[0] in _LIBRARIES
            return (kind, contents) if is_plain else (kind, contents, *self.inside(held))
        if getattr(kind, "told_by_identity", False):
            return _Same(value)
        if isinstance(value, Fencil):
            return value
        if dataclasses.is_dataclass(kind) and kind.__eq__ is not object.__eq__:
            fields = [self.key_of(getattr(held, f.name)) for f in dataclasses.fields(kind)]
            return kind, *fields, *self.inside(held)
        if isinstance(held, (MethodType, functools.partial)) and _users(_innermost(held)) is not None:
            return kind, *self.inside(held)  # `model.step` is another object each time
        identity = value.__code__ if isinstance(value, FunctionType) and _users(value) is value else _Same(held)
        return identity, *self.inside(held)

    def _contents(self, value: Any) -> Hashable | None:
        """The key of what an array, a table or a container holds; None for other objects."""
        match _holder(cast("Any", type(value))):
            case "":
                return None
            case "array":
                return _array(np.asarray(value)), self.key_of(getattr(value, "mask", None))
            case "xarray":
                return self._labelled(value)
            case "sequence":
                return tuple(map(self.key_of, value))
            case "set":
                return frozenset(map(self.key_of, value))
            case "mapping":
                return tuple([(self.key_of(k), self.key_of(v)) for k, v in list(value.items())])
            case "index":
                return self.key_of(list(value.names)), _array(value.to_numpy())
            case "series":
                return self.key_of(value.index), self.key_of(value.name), _array(value.to_numpy())
            case "table":
                columns = tuple([_array(column.to_numpy()) for _, column in value.items()])
                return self.key_of(value.index), self.key_of(value.columns), columns

    def _labelled(self, value: Any) -> Hashable:
        """The key of a DataArray or Variable: numbers, coordinates and attributes; the identity if it is traced."""
        variables = [getattr(value, "variable", value), *(c.variable for c in getattr(value, "coords", {}).values())]
        if any(is_traced(v._data) for v in variables):
            return _Same(value)
        names = (getattr(value, "name", None), *getattr(value, "coords", ()), *getattr(value, "xindexes", ()))
        return names, tuple([(v.dims, _array(np.asarray(v.values)), self.key_of(v.attrs)) for v in variables])

    def inside(self, value: Any) -> Iterator[Hashable]:
        """The keys of the values that a function reads; of other objects those of attributes whose names the code has.

        Installed modules have none. Places are recorded in `reads`.
        """
        match value:
            case functools.partial():
                yield from map(self.key_of, (value.func, value.args, value.keywords))
            case MethodType():
                yield self.key_of(value.__self__)
                yield from self._method(value.__self__, value.__func__)
            case ModuleType() if str(getattr(value, "__file__", "")).startswith(_INSTALLED):
                return
            case _ if (function := _users(value)) is not None:
                if value is not function:
                    self.reads.attributes.append((value, "function", function))
                look = self._within(function)
                yield from map(look.key_of, look.read_by(function))
                if function.__dict__:
                    attributes = [self._at(function.__dict__, name) for name in self.names]
                    yield from [self.key_of(a) for a in attributes if a is not MISSING]
            case _:
                yield from self._attributes(value)

    def read_by(self, function: FunctionType) -> Iterator[Any]:
        """The defaults of a function, the globals that its code may read, and its closure cells.

        Records them.
        """
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            self.reads.attributes.append((function, name, getattr(function, name)))
        yield from function.__defaults__ or ()
        by_name: Mapping[str, Any] = function.__kwdefaults__ or {}
        for place, name in (
            *((by_name, n) for n in by_name),
            *((function.__globals__, n) for n in _names(function.__code__)),
        ):
            if (value := self._at(place, name)) is not MISSING:
                yield value
        for cell in function.__closure__ or ():
            try:
                self.reads.attributes.append((cell, "cell_contents", cell.cell_contents))
                yield cell.cell_contents
            except ValueError:  # not assigned yet
                self.reads.steady = False

    def _at(self, place: Mapping[str, Any], name: str) -> Any:
        """The value of a name in a mapping, or MISSING; recorded in `reads`."""
        value = place.get(name, MISSING)
        self.reads.items.append((place, name, value))
        return value

    def _attributes(self, owner: Any) -> Iterator[Hashable]:
        """The keys of the attributes of an object that code may read, as `settings.dt`: dt is among its names.

        Attributes are looked up in `__dict__` and the classes, so that no property runs.
        """
        kinds: tuple[type, ...] = (owner if isinstance(owner, type) else type(owner)).__mro__
        places: list[Mapping[str, Any]] = [getattr(owner, "__dict__", {}), *map(vars, kinds)]
        goes_on = "super" in self.names  # to the classes behind
        for name in (*self.names, *_IMPLIED):
            values = (value for place in places if (value := self._at(place, name)) is not MISSING)
            for attribute in list(values) if goes_on else [next(values, None)]:
                yield from self._attribute(owner, name, attribute)

    def _attribute(self, owner: Any, name: str, attribute: Any) -> Iterator[Hashable]:
        """The keys of an attribute as it stands in the `__dict__` of an object or of a class."""
        function = getattr(attribute, "__func__", getattr(attribute, "fget", attribute))  # class methods, properties
        match attribute:
            case MemberDescriptorType():
                self.reads.attributes.append((owner, name, value := getattr(owner, name, None)))
                yield self.key_of(value)
            case classmethod() if not isinstance(owner, type):
                yield from self._method(type(owner), function)
            case _ if _users(function) is not None:
                yield from self._method(owner, function)
            case _:
                yield self.key_of(attribute)

    def _method(self, owner: Any, function: Any) -> Iterator[Hashable]:
        """The key of a method's function, and that of its object for the names in the method's code."""
        yield self.key_of(function)
        inner = _users(function)
        if inner is not None and not isinstance(owner, ModuleType):
            yield self._within(inner).key_of(owner)

    def _within(self, function: FunctionType) -> _Look:
        """The traversal of the values that a function reads."""
        return _Look(self.seen, _names_reached(function, self.reached), self.reads, self.reached)

    def _before(self, value: Any) -> int | None:
        """The number under which a value was looked at for these names, None if this is the first time."""
        key = id(value), self.names
        if key in self.seen:
            return self.seen[key][0]
        self.seen[key] = len(self.seen), value
        return None


@functools.lru_cache(maxsize=256)
def _holder(
    kind: type[Any],
) -> Literal["array", "xarray", "sequence", "set", "mapping", "index", "series", "table", ""]:
    """The kind of the contents by which objects of a type are told; "" if they are told by which they are."""
    if issubclass(kind, (np.ndarray, np.generic, bytearray, memoryview, array.array)):
        return "array"
    xarray, pandas = sys.modules.get("xarray"), sys.modules.get("pandas")
    if xarray is not None and issubclass(kind, (xarray.DataArray, xarray.Variable)):
        return "xarray"
    if issubclass(kind, Sequence):
        return "sequence"
    if issubclass(kind, Set):
        return "set"
    if issubclass(kind, Mapping):
        return "mapping"
    if pandas is not None and issubclass(kind, pandas.Index):
        return "index"
    if pandas is not None and issubclass(kind, pandas.Series):
        return "series"
    return "table" if pandas is not None and issubclass(kind, pandas.DataFrame) else ""


def _is_open(kind: type[Any]) -> bool:
    """True for dataclasses that are compared by their fields and are not frozen."""
    params = getattr(kind, "__dataclass_params__", None)
    return params is not None and not params.frozen and kind.__eq__ is not object.__eq__


def _array(array: np.ndarray[Any, Any]) -> Hashable:
    """The key of an array by contents: dtype, shape, and a digest of its bytes (objects: their text)."""
    if array.dtype.hasobject:
        return str(array.dtype), array.shape, repr(array.tolist())
    # as bytes: buffers hold no dates
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return str(array.dtype), array.shape, hashlib.blake2b(data).digest()


def _users(value: Any) -> FunctionType | None:
    """The Python function of a value (of an operator its `function`); None for installed packages and this one."""
    inner: Any = getattr(value, "function", value)
    if not isinstance(inner, FunctionType) or inner.__code__.co_filename.startswith(_INSTALLED):
        return None
    return inner


def _innermost(function: Any) -> Any:
    """The function of a method, and of one with some of its arguments."""
    while isinstance(function, (MethodType, functools.partial)):
        function = function.__func__ if isinstance(function, MethodType) else cast("Any", function).func
    return function


@remembered("facts of code", limit=4096)
def _names(code: CodeType) -> tuple[str, ...]:
    """The global and attribute names in code and in the functions nested in it."""
    inside = [c for c in code.co_consts if isinstance(c, CodeType)]
    return tuple(dict.fromkeys((*code.co_names, *(n for c in inside for n in _names(c)))))


def _names_reached(function: FunctionType, reached: dict[int, tuple[FunctionType, tuple[str, ...]]]) -> tuple[str, ...]:
    """The names in the code of a function, and of the functions that it finds in its globals and closure, or in modules
    and classes there, and so on. Functions of installed packages are not followed further.

    Functions are entered in `reached`, so that each is gone through once: those that another one has reached have the
    names of that one.
    """
    if id(function) in reached:
        return reached[id(function)][1]
    names: dict[str, None] = {}
    entered: dict[int, FunctionType] = {}
    waiting = [function]
    while waiting:
        one = waiting.pop()
        if id(one) in entered:
            continue
        if id(one) in reached:
            names.update(dict.fromkeys(reached[id(one)][1]))
            continue
        entered[id(one)] = one
        of_code = _names(one.__code__)
        names.update(dict.fromkeys(of_code))
        held = [one.__globals__.get(name) for name in of_code]
        for cell in one.__closure__ or ():
            with suppress(ValueError):  # not assigned yet
                held.append(cell.cell_contents)
        for value in list(held):
            match value:
                case ModuleType() if not str(getattr(value, "__file__", "")).startswith(_INSTALLED):
                    held += [vars(value).get(name) for name in of_code]
                case type():
                    # `A.step(self)`, and `super().step()` by the cell `__class__`
                    held += [vars(kind).get(name) for kind in value.__mro__ for name in of_code]
                case _:
                    continue
        functions = [getattr(value, "__func__", getattr(value, "fget", value)) for value in held]
        waiting += [inner for value in functions if callable(value) and (inner := _users(value)) is not None]
        for value in functions:
            if isinstance(value, FunctionType) and _is_installed(value):
                names.update(dict.fromkeys(_names(value.__code__)))
    every_name = tuple(names)
    reached.update({key: (one, every_name) for key, one in entered.items()})
    return every_name


def _is_installed(function: FunctionType) -> bool:
    """True for a function of an installed package other than this one."""
    file = function.__code__.co_filename
    return file.startswith(_INSTALLED) and not file.startswith(_OWN)
