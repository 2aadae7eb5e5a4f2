"""Kernels of cuTile Python as modules of Tile IR, launched on the device that XLA has."""

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import ast
import io
import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from tensorir.runtime.errors import Source, Span, refuse
from tensorir.runtime.memory import SIZES, RecentCache, remembered
from tensorir.tile.bytecode import from_bytecode
from tensorir.tile.interpret.meanings import MEANINGS
from tensorir.tile.nodes import (
    CallSite,
    Location,
    Module,
    Named,
    Operation,
    Place,
    Region,
    Scoped,
    Slot,
    Typed,
    Value,
    dense,
    operations_of,
)
from tensorir.tile.operations import TABLE
from tensorir.tile.types import ELEMENTS, Function, Pointer, Tile, Type

# Lists of arrays in a kernel of cuTile: taken apart, so that each array is a parameter of its own.
#
# cuTile passes a list as a pointer to a table in memory, a row of words for each array (its pointer, its extents, its
# strides), and a length. No tensor program reads arrays through a table, and a launch knows the length: loops whose
# counter chooses an array are unrolled, rows at constant indices become parameters, and no table is left.

# Constants are folded by the interpreter's meanings, whose arrays hold elements of any type.


LARGEST = 20_000
"""How many operations a kernel may have once its loops over lists are unrolled."""

INDEX = "index a list by a constant or the counter of a loop with constant bounds, as in for n in range(len(xs))."


@dataclass(frozen=True, slots=True)
class ArrayList:
    """A list among the parameters: its name, how many arrays it has, and the types of the words of each."""

    name: str
    length: int
    words: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """The words of a row that have been read: all of them, or the one at `word`."""

    of: tuple[Value, ...]
    word: int | None = None


def without_lists(module: Module, lists: Mapping[int, ArrayList]) -> Module:
    """The module of one entry with the words of each array in place of its lists, by the place of the list's pointer.

    Raises TK11 for an index that is no constant, TK12 for one outside of the list, TK13 where a loop is not unrolled.
    """
    (entry,) = module.operations
    (body,) = entry.regions
    taking = _Taking()
    params: list[Value] = []
    at = 0
    while at < len(body.arguments):
        if at in lists:
            params += taking.list(lists[at], *body.arguments[at : at + 2])
        else:
            params.append(taking.fresh(body.arguments[at]))
        at += 2 if at in lists else 1
    taking.operations(body.operations)
    attributes = list(entry.attributes)
    index = entry.row.attribute_index["function_type"]
    attributes[index] = Typed(Function(tuple(p.type for p in params), ()))
    region = Region(tuple(params), tuple(taking.made), body.span)
    return replace(module, operations=(replace(entry, attributes=tuple(attributes), regions=(region,)),))


class _Taking:
    """One entry on its way: what stands for each value, and what is known of it."""

    def __init__(self) -> None:
        self.known: dict[Value, Value] = {}
        self.numbers: dict[Value, np.ndarray[Any, Any]] = {}
        self.tables: dict[Value, tuple[ArrayList, tuple[tuple[Value, ...], ...]]] = {}
        self.items: dict[Value, Item] = {}
        self.made: list[Operation] = []
        self.count = 0
        self.unrolling = False
        """Whether the innermost loop around is one that is unrolled."""

    def list(self, xs: ArrayList, pointer: Value, length: Value) -> Sequence[Value]:
        """The parameters that a list becomes; its length is a constant."""
        rows = tuple(tuple(map(Value, xs.words)) for _ in range(xs.length))
        self.tables[pointer] = xs, rows
        self.number(length, np.array(xs.length, np.int32))
        return [word for row in rows for word in row]

    def fresh(self, v: Value) -> Value:
        self.known[v] = made = replace(v)
        self.numbers.pop(v, None)
        return made

    def number(self, v: Value, number: np.ndarray[Any, Any]) -> None:
        """A value that is a constant."""
        assert isinstance(v.type, Tile)
        made = self.fresh(v)
        self.emit(Operation(TABLE["constant"], (), (dense(v.type, number.tobytes()),), (made,)))
        self.numbers[v] = number

    def slot(self, slot: Slot) -> Slot:
        if slot is None:
            return None
        return tuple(self.known[v] for v in slot) if isinstance(slot, tuple) else self.known[slot]

    def bind(self, names: Sequence[Value], values: Sequence[Value]) -> None:
        """Names for values; all are read before one is set, since a loop may carry its names on in another order."""
        found = [(self.known[v], self.numbers.get(v)) for v in values]
        for name, (value, number) in zip(names, found, strict=True):
            self.known[name] = value
            self.numbers.pop(name, None)
            if number is not None:
                self.numbers[name] = number

    def emit(self, op: Operation) -> None:
        self.count += 1
        if self.count > LARGEST:
            message = f"the loops that choose an array of a list come to more than {LARGEST:,} operations unrolled."
            raise refuse("TK13", message, "pass shorter lists, in several launches.", at=op.span)
        self.made.append(op)

    def operations(self, found: Sequence[Operation], ends: bool = True) -> Operation | None:
        """The operations of a region; what ends it is emitted where `ends`, and given."""
        for op in found:
            if op.row.ends:
                if ends:
                    self.plain(op)
                return op
            end = self.operation(op)
            if end is not None:
                if ends:
                    self.plain(end)
                return end
        return None

    def operation(self, op: Operation) -> Operation | None:
        """One operation; the end of the region where a branch that is known to be taken has it."""
        first = op.values[0] if op.values else None
        if first in self.tables:
            self.table(op, first)
        elif first in self.items and self.word(op, self.items[first]):
            pass
        elif op.name == "if" and op.operand("condition") in self.numbers:
            return self.branch(op)
        elif op.name == "for" and self.chooses(op):
            return self.unrolled(op)
        elif op.name == "if" and self.unrolling and (leaves := _leaving(op)):
            message = "a loop that chooses an array of a list goes on to its next iteration from within a branch."
            raise refuse("TK13", message, "put the rest of its body under the opposite condition.", at=leaves.span)
        else:
            self.plain(op)
            self.fold(op)
        return None

    def table(self, op: Operation, first: Value) -> None:
        """A view of a table of pointers, or a row of one."""
        xs, rows = self.tables[first]
        if op.name != "load_view_tko":
            self.tables[op.results[0]] = xs, rows
            return
        index = self.numbers.get(op.operand("index")[0])
        if index is None:
            message = f"which array of the list '{xs.name}' is meant depends on the block or on data."
            raise refuse("TK11", message, INDEX, at=op.span)
        if not 0 <= int(index) < xs.length:
            message = f"the list '{xs.name}' has {xs.length} arrays, and the array at {int(index)} is read."
            raise refuse("TK12", message, f"use indices from 0 to {xs.length - 1}.", at=op.span)
        self.items[op.results[0]] = Item(rows[int(index)])

    def word(self, op: Operation, item: Item) -> bool:
        """The operation that takes a row apart; False for one whose word has its type already."""
        if item.word is None:
            item = Item(item.of, int(self.numbers[op.operand("indices")[1]]))
        assert item.word is not None
        word, result = item.of[item.word], op.results[0]
        if op.values[0] in self.known:
            return False
        if word.type == result.type:
            self.known[result] = word
        self.items[result] = item
        return True

    def branch(self, op: Operation) -> Operation | None:
        taken = 0 if self.numbers[op.operand("condition")] else 1
        end = self.operations(op.regions[taken].operations, ends=False) if taken < len(op.regions) else None
        if end is not None and end.name != "yield":
            return end
        self.bind(op.results, end.values if end is not None else ())
        return None

    def chooses(self, op: Operation) -> bool:
        """True if what a loop counts or carries is the index of a list."""
        depends = set(op.regions[0].arguments)
        views = set(self.tables)
        for inner in operations_of(op.regions[0]):
            if inner.values and inner.values[0] in views:
                views |= set(inner.results)
                if inner.name == "load_view_tko" and inner.operand("index")[0] in depends:
                    return True
            if inner.regions or not depends.isdisjoint(inner.values):
                depends |= {*inner.results, *(v for region in inner.regions for v in region.arguments)}
        return False

    def unrolled(self, op: Operation) -> Operation | None:
        """A loop iteration by iteration; one whose bounds data tell stays, and its index is refused where it is met."""
        bounds = [self.numbers.get(op.operand(name)) for name in ("lowerBound", "upperBound", "step")]
        index, *names = op.regions[0].arguments
        found = [int(b) for b in bounds if b is not None]
        if len(found) < 3 or found[2] <= 0 or (op.attribute("unsignedCmp") and min(found) < 0):
            self.plain(op)
            return None
        first, stop, step = found
        outer, self.unrolling = self.unrolling, True
        assert isinstance(index.type, Tile)
        carried: Sequence[Value] = op.operand("initValues")
        self.bind(names, carried)
        element: Any = index.type.element
        for n in range(first, stop, step):
            self.number(index, np.array(n, element.numpy))
            end = self.operations(op.regions[0].operations, ends=False)
            assert end is not None
            if end.name == "return":
                return end
            self.bind(names, end.values)
        self.unrolling = outer
        self.bind(op.results, names)
        return None

    def plain(self, op: Operation) -> None:
        """An operation as it is, on what stands for its operands."""
        operands = tuple(map(self.slot, op.operands))
        outer, self.unrolling = self.unrolling, self.unrolling and op.name == "if"
        regions = tuple(map(self.region, op.regions))
        self.unrolling = outer
        results = tuple(map(self.fresh, op.results))
        self.emit(replace(op, operands=operands, results=results, regions=regions))

    def region(self, region: Region) -> Region:
        outer, self.made = self.made, []
        arguments = tuple(map(self.fresh, region.arguments))
        self.operations(region.operations)
        inner, self.made = self.made, outer
        return Region(arguments, tuple(inner), region.span)

    def fold(self, op: Operation) -> None:
        """The value of an operation on constants, where it is one integer."""
        if len(op.results) != 1 or not all(v in self.numbers for v in op.values):
            return
        (result,) = op.results
        if not (
            isinstance(result.type, Tile)
            and result.type.shape == ()
            and getattr(result.type.element, "is_integer", False)
        ):
            return
        numbers = [self.numbers[v] for v in op.values]
        if op.name == "assume":
            self.numbers[result] = numbers[0]
        elif op.name in MEANINGS:
            self.numbers[result] = np.asarray(MEANINGS[op.name](op, None, *numbers))


def _leaving(op: Operation) -> Operation | None:
    """The jumps that end a branch, at any depth, by going on with the loop around."""
    for branch in op.regions:
        for inner in branch.operations:
            if inner.name == "continue":
                return inner
            if inner.name == "if" and (found := _leaving(inner)):
                return found
    return None


# Kernels of cuTile Python as modules of Tile IR: cuTile compiles them to bytecode without a GPU, and that is read.
#
# This is the only file that knows cuTile (PyPI `cuda-tile`), and imports it when it is first called.

# cuTile states no types for what is used of it here.


def from_cutile(kernel: Any, *args: Any, version: str = "13.3") -> Module:
    """The module that cuTile makes of a kernel (`@ct.kernel`) for arguments like these; no GPU is needed.

    `args` has one for each parameter of the kernel: an array (of which its element type, its number of dimensions, and
    whether its last stride is 1 count), a number (its value for a parameter that is a `ct.Constant`, its type
    otherwise), a list of arrays (each becomes parameters of the entry, and loops that choose one are unrolled), or a
    constraint of `cuda.tile.compilation`. The entry is called as the kernel's function.
    Raises TK06 where cuTile refuses the kernel, TK07 where it is not installed, TK11 to TK13 for lists that are not
    taken apart.
    """
    try:
        import cuda.tile as ct
        from cuda.tile.compilation import CallingConvention, KernelSignature, export_kernel
    except ImportError:
        help = "pip install cuda-tile==1.7.0, or tensorir[peers]."
        raise refuse("TK07", "cuTile is not installed.", help) from None
    function = getattr(getattr(kernel, "_annotated_function", None), "pyfunc", None)
    if function is None:
        message = f"a kernel of cuTile is needed, and this is of type {type(kernel).__name__}."
        raise refuse("TK06", message, "write @ct.kernel above the function.")
    file = io.BytesIO()
    try:
        nodes = [*kernel._annotated_function.parameter_annotations, *[None] * len(args)]
        constraints = [_constraint(ct, value, node) for value, node in zip(args, nodes, strict=False)]
        # tuples need the second convention, which older bytecode lacks
        form = CallingConvention.cutile_python_v2 if any(isinstance(a, tuple) for a in args) else None
        form = form or CallingConvention.cutile_python_v1
        signature = KernelSignature(constraints, form(), function.__name__)
        code = None if version == "13.3" else "sm_100"
        export_kernel(
            kernel, [signature], file, gpu_code=code, output_format="tileir_bytecode", bytecode_version=version
        )  # fmt: skip
    except (ct.TileError, TypeError, ValueError, NotImplementedError) as problem:
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        message = f"cuTile refuses the kernel '{function.__name__}': {lines[0].rstrip('.')}."
        raise refuse("TK06", message, notes=tuple(lines[1:])) from None
    module = from_bytecode(file.getvalue(), function.__name__)
    lists, names = _parameters(args, constraints, list(kernel._annotated_function.pysig.parameters))
    return _of_source(without_lists(module, lists) if lists else module, names)


def _parameters(
    args: Sequence[Any], constraints: Sequence[Any], names: Sequence[str]
) -> tuple[dict[int, ArrayList], list[str]]:
    """The lists of arrays by the place of their pointer among the parameters of the entry; the parameters' names.

    The names are those of the entry without lists: an array `x` has x, x_shape0, ..., x_stride0, ...
    """
    found: dict[int, ArrayList] = {}
    made: list[str] = []
    at = 0

    def array(name: str, ndim: int) -> None:
        made.extend((name, *(f"{name}_{what}{k}" for what in ("shape", "stride") for k in range(ndim))))

    def place(value: Any, constraint: Any, name: str) -> None:
        nonlocal at
        kind = type(constraint).__name__
        if kind == "TupleConstraint":
            for k, (v, c) in enumerate(zip(value, constraint.items, strict=True)):
                place(v, c, f"{name}_{k}")
        elif kind == "ListConstraint":
            if isinstance(value, list):
                found[at] = ArrayList(name, len(value), _words(constraint.element))
                for k in range(len(value)):
                    array(f"{name}_{k}", constraint.element.ndim)
            else:
                made.extend((name, f"{name}_length"))
            at += 2
        elif kind == "ArrayConstraint":
            array(name, constraint.ndim)
            at += 1 + 2 * constraint.ndim
        elif kind in ("ScalarConstraint", "PointerConstraint"):
            made.append(name)
            at += 1

    for value, constraint, name in zip(args, constraints, names, strict=False):
        place(value, constraint, name)
    return found, made


def _of_source(module: Module, names: Sequence[str]) -> Module:
    """The module of one entry with these names of parameters, and with places in the Python source as spans."""
    (entry,) = module.operations
    (body,) = entry.regions
    known: dict[Value, Value] = {}
    if len(names) == len(body.arguments) == len(set(names)):
        known = {v: replace(v, name=name) for v, name in zip(body.arguments, names, strict=True)}
    files = _PythonFiles()

    def slot(x: Slot) -> Slot:
        return tuple(known.get(v, v) for v in x) if isinstance(x, tuple) else x and known.get(x, x)

    def region(r: Region) -> Region:
        return Region(tuple(known.get(v, v) for v in r.arguments), tuple(map(operation, r.operations)), r.span)

    def operation(op: Operation) -> Operation:
        span = files.span(op.location) or op.span
        return replace(op, operands=tuple(map(slot, op.operands)), regions=tuple(map(region, op.regions)), span=span)

    return replace(module, operations=(operation(entry),))


class _PythonFiles:
    """The files that locations name, and where the expressions end that begin at a line and a column."""

    def __init__(self) -> None:
        self.read: dict[str, tuple[Source, list[int], dict[tuple[int, int], tuple[int, int]]]] = {}

    def span(self, location: Location | None) -> Span | None:
        """The expression, or statement, that a location is about; None where its file cannot be read."""
        while not isinstance(location, Place):
            match location:
                case Scoped(place):
                    location = place
                case CallSite(callee):
                    location = callee
                case Named(_, at):
                    location = at
                case _:
                    return None
        if location.file not in self.read:
            self.read[location.file] = _places(location.file, "".join(linecache.getlines(location.file)))
        source, starts, ends = self.read[location.file]
        begin = location.line, location.column
        if begin not in ends:
            return None
        line, column = ends[begin]
        return Span(source, starts[begin[0] - 1] + begin[1], starts[line - 1] + column)


@remembered("places in Python files", limit=16)
def _places(name: str, text: str) -> tuple[Source, list[int], dict[tuple[int, int], tuple[int, int]]]:
    """A file, where its lines begin, and by line and column where the longest expression ends that begins there."""
    lines, ends = list(io.StringIO(text)), dict[tuple[int, int], tuple[int, int]]()
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):
        nodes = []
    for node in nodes:
        if isinstance(node, ast.expr | ast.stmt) and node.end_lineno is not None and node.end_col_offset is not None:
            # columns count bytes
            first, last = node.lineno, node.end_lineno
            start = node.lineno, len(lines[first - 1].encode()[: node.col_offset].decode())
            end = last, len(lines[last - 1].encode()[: node.end_col_offset].decode())
            ends[start] = max(end, ends.get(start, end))
    return Source(name, text), [0, *accumulate(map(len, lines))], ends


def _words(array: Any) -> tuple[Type, ...]:
    """The types of the parameters that an array is: its pointer, its extents, its strides."""
    name = str(array.dtype)
    bits = name.lstrip("uint")
    element = ELEMENTS[f"i{bits}" if bits.isdigit() else _ELEMENTS[name]]
    number = Tile((), ELEMENTS["i64" if "64" in str(array.index_dtype) else "i32"])
    return Tile((), Pointer(element)), *[number] * (2 * array.ndim)


_ELEMENTS = {
    "bool_": "i1", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "tfloat32": "tf32", "float64": "f64",
    "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2", "float8_e8m0fnu": "f8E8M0FNU",
    "float4_e2m1fn": "f4E2M1FN",
}  # fmt: skip
"""The elements that cuTile calls otherwise."""


def leaves_of(kernel: Any, args: tuple[Any, ...]) -> list[tuple[Any, bool]]:
    """The arguments of a kernel with tuples taken apart, each with whether it is known when the kernel is compiled."""

    def apart(value: Any, node: Any) -> list[tuple[Any, bool]]:
        if isinstance(value, list):
            return [(v, False) for v in value]
        if isinstance(value, tuple):
            return [leaf for v, n in zip(value, _inner(node, len(value)), strict=True) for leaf in apart(v, n)]
        return [(value, bool(getattr(node, "constant", False)))]

    nodes = kernel._annotated_function.parameter_annotations
    return [leaf for value, node in zip(args, nodes, strict=True) for leaf in apart(value, node)]


def _inner(node: Any, count: int) -> list[Any]:
    """The constraints of the members of a tuple."""
    return [node.each] * count if hasattr(node, "each") else list(getattr(node, "items", [None] * count))


@dataclass(frozen=True, slots=True)
class _Member:
    """The constraint of the arrays of a list."""

    array: Any


def _constraint(ct: Any, value: Any, node: Any) -> Any:
    """The constraint that cuTile gets for an argument."""
    from cuda.tile.compilation import ArrayConstraint, ListConstraint, ScalarConstraint, TupleConstraint

    if isinstance(value, list):
        member = _Member(array=getattr(getattr(node, "list", None), "element", None))
        found = [_constraint(ct, v, member) for v in value]
        if not found or not all(isinstance(c, ArrayConstraint) for c in found):
            raise TypeError("a list has arrays, one at least")
        # a stride is known where it is so of each array; what else differs, one entry has no parameter for
        strided = [c for c in found if c.stride_constant[-1] is None]
        element = (strided or found)[0]
        if any((c.dtype, c.ndim) != (element.dtype, element.ndim) for c in found):
            raise TypeError("the arrays of a list have one element type and one number of dimensions")
        return ListConstraint(element, alias_groups=(), elements_may_alias=False)
    if isinstance(value, tuple):
        return TupleConstraint([_constraint(ct, v, n) for v, n in zip(value, _inner(node, len(value)), strict=True)])
    if getattr(node, "constant", False) or type(value).__module__.startswith("cuda.tile"):
        return value
    if hasattr(value, "dtype") and len(getattr(value, "shape", ())) > 0:
        strides = getattr(value, "strides", None)
        unit = strides is None or callable(strides) or strides[-1] == np.dtype(value.dtype).itemsize
        wide = getattr(getattr(node, "array", None), "index_dtype", None) == ct.int64
        rank = len(value.shape)
        return ArrayConstraint(
            _dtype(ct, value.dtype), rank, index_dtype=ct.int64 if wide else ct.int32, stride_lower_bound_incl=0,
            alias_groups=(), may_alias_internally=False, stride_constant=[*[None] * (rank - 1), 1 if unit else None],
        )  # fmt: skip
    if isinstance(value, bool | np.bool_):
        return ScalarConstraint(ct.bool_)
    if isinstance(value, np.generic):
        return ScalarConstraint(_dtype(ct, value.dtype))
    if isinstance(value, int):
        wide = getattr(getattr(node, "scalar", None), "dtype", None) == ct.int64
        return ScalarConstraint(ct.int64 if wide else ct.int32)
    if isinstance(value, float):
        return ScalarConstraint(ct.float32)
    return value


def _dtype(ct: Any, dtype: Any) -> Any:
    name = str(dtype).removeprefix("torch.")
    known = {"bool": "bool_", "float8_e4m3fn": "float8_e4m3fn", "tf32": "tfloat32"}
    found = getattr(ct, known.get(name, name), None)
    if found is None:
        raise TypeError(f"it has no arrays of {name}")
    return found


# Launches of cuTile kernels on whatever device XLA has: compiled to Tile IR, lifted, and called like any function.

# Arrays hold elements of any type here, so what they are of has no type of its own.


LIFTED: RecentCache[Any, Any] = RecentCache("launched kernels", SIZES)
"""By kernel, grid and kind of arguments; the kernel stands beside its program, so that it lives as long."""


def launch(kernel: Any, grid: Sequence[int], args: Sequence[Any], **options: Any) -> tuple[Any, ...]:
    """Run a kernel of cuTile (`@ct.kernel`) on a grid: what its arrays hold afterwards, those that it writes, in order.

    `args` has one for each parameter: arrays of any kind, lists of arrays, numbers, constants, tuples of these; no
    array is changed. It is a function of JAX like any other where it is called with its arrays: under `jit`, `grad` and
    `vmap`. `options` are those of `ti.lift`. Raises TK06 where cuTile refuses the kernel, TK07 where it is not
    installed, TK11 to TK13 for lists that are not taken apart.
    """
    program, given = lifted_kernel(kernel, tuple(grid), tuple(args), **options)
    return program(*given)


def lifted_kernel(kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], **options: Any) -> tuple[Any, list[Any]]:
    """A kernel lifted for arguments like these, and those of them that it is called with."""
    from tensorir.tile.lift import lift

    if not hasattr(kernel, "_annotated_function"):
        from_cutile(kernel)  # says what is wrong with it
    found = leaves_of(kernel, args)
    given = [_number(value) for value, constant in found if not constant]
    key = (id(kernel), grid, _structure(args), tuple(map(_kind, found)), tuple(sorted(options.items())))
    known = LIFTED.get(key)
    if known is None:
        module = from_cutile(kernel, *args)
        known = kernel, lift(module, grid=grid, args=given, **options)
        LIFTED.put(key, known)
    return known[1], given


def _number(value: Any) -> Any:
    """A float as the element that cuTile takes it for."""
    return np.float32(value) if isinstance(value, float) else value


def _structure(args: tuple[Any, ...]) -> Any:
    """The nesting of tuples, and the lengths of lists."""
    return tuple(len(a) if isinstance(a, list) else _structure(a) if isinstance(a, tuple) else None for a in args)


def _kind(leaf: tuple[Any, bool]) -> Any:
    value, constant = leaf
    if constant:
        return type(value).__name__, value
    if hasattr(value, "dtype") and len(getattr(value, "shape", ())) > 0:
        strides = getattr(value, "strides", None)
        unit = strides is None or callable(strides) or strides[-1] == np.dtype(value.dtype).itemsize
        return tuple(value.shape), str(value.dtype), unit
    return type(value).__name__, str(getattr(value, "dtype", ""))
