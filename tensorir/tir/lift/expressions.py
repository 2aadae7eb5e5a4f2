"""Expressions of TIR as terms, and the whole numbers that they compare sizes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from tensorir.ir.types import BOOL, INT32, Scalar, scalar_of
from tensorir.lifting.nests.bounded import bytes_of
from tensorir.lifting.nests.linear import settled
from tensorir.lifting.nests.terms import Buffer, Load, Number, Op, Term, loads
from tensorir.lifting.storage.narrow import NARROW
from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import NOWHERE, Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.builtins import builtin_of
from tensorir.tir.dtypes import DataType, other_bytes
from tensorir.tir.lift.intrinsics import INTRINSICS, binary, cast, comparison, number
from tensorir.tir.lift.memory import View, linear_view, plus, scalar_view, scaled
from tensorir.tir.trees import walk

read_returned = ExtensionPoint("what a function of TIR returns as a scalar term", "tensorir.tir.lift.calls", "returned")

# Expressions of TIR as terms: one term per lane of a vector, loads as elements of the memory behind a view.

Lanes = Callable[[Term], Term]
"""The value of a variable in each lane; scalars ignore the lane."""

ZERO = Number(0, INT32)


FIXED = "write the number of lanes: T.Ramp(0, 1, 4)."


def row_major_only(buffer: n.Buffer) -> None:
    """Layouts that swizzle, spread over threads or leave gaps have a meaning on their hardware only."""
    if isinstance(layout := buffer.layout, n.TileLayout | n.ComposeLayout) and not layout.is_row_major:
        message = f"the layout of {buffer.name!r} is not the row-major one, and no pure program has another."
        raise refuse("TL01", message, "leave the layout out, or write the places as indices.", at=layout.span)


@dataclass(slots=True)
class Scope:
    """Bindings of names while a function is read."""

    values: dict[n.Var, Lanes] = field(default_factory=dict[n.Var, Lanes])
    views: dict[n.Buffer, View] = field(default_factory=dict[n.Buffer, View])
    pointers: dict[n.Var, View] = field(default_factory=dict[n.Var, View])
    constants: Mapping[str, object] = field(default_factory=dict[str, object])
    exact: bool = False
    """Whether values are computed as the source does, NaN included."""
    exchanged: dict[int, Term] = field(default_factory=dict[int, Term])
    """What expressions give that were done before the statement that is read, by the identity of the expression."""
    notes: dict[str, None] = field(default_factory=dict[str, None])
    """What the report has to say of values."""
    functions: Mapping[str, object] = field(default_factory=dict[str, object])
    """Those of the module, by name."""
    called: tuple[str, ...] = ()
    """The functions whose value is computed here, the outermost first."""
    recursions: list[str] = field(default_factory=list[str])
    """Calls of functions from within themselves, so far: their names."""
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """The values of loops."""
    strides: Mapping[Buffer, tuple[int, ...]] = field(default_factory=dict[Buffer, tuple[int, ...]])
    """Those of arguments that do not lie row by row in memory."""

    def view(self, buffer: n.Buffer, span: Span = NOWHERE) -> View:
        """The memory of a buffer; one that no statement declared stands for what its pointer points to."""
        found = self.views.get(buffer)
        if found is None:
            base = self.pointers.get(buffer.data)
            if base is None:
                raise refuse("TL01", f"the buffer {buffer.name!r} has no memory here.", at=span)
            found = self.views[buffer] = self.alias(base, buffer)
        return found

    def alias(self, base: View, buffer: n.Buffer) -> View:
        """A buffer over memory that exists."""
        row_major_only(buffer)
        own, lanes = element_of(buffer.dtype, buffer.span), abs(buffer.dtype.lanes)
        shape = tuple(term(self, e) for e in buffer.shape)
        strides = tuple(term(self, e) for e in buffer.strides)
        offset = Number(0, INT32) if buffer.elem_offset is None else term(self, buffer.elem_offset)
        strange = self.strides.get(base.buffer)
        order = None if strange is None else _order(base, strange, buffer)
        if not _in_place(own, lanes, base):
            if order is not None:
                message = f"{buffer.name!r} shows elements of {base.buffer.name!r}, which do not lie row by row."
                raise refuse("TL01", message, "pass an array in C order: numpy.ascontiguousarray.", at=buffer.span)
            seen = recast(base, own, lanes, buffer.name, buffer.span)
            return scalar_view(seen.buffer, shape, strides, plus(seen.offset, offset), lanes)
        same = not strides and order is None and isinstance(offset, Number) and not offset.value
        if (
            same
            and isinstance(base.offset, Number)
            and not base.offset.value
            and _extents(shape) == _extents(base.shape)
        ):
            return base
        if base.buffer.memory is None:
            return linear_view(base.buffer, shape, strides, plus(base.offset, offset), base.lanes, order)
        return scalar_view(base.buffer, shape, strides, plus(base.offset, offset), base.lanes)


def _order(base: View, strides: tuple[int, ...], buffer: n.Buffer) -> tuple[int, ...]:
    """The axes of an argument as they lie in memory, the outermost first."""
    shape = base.buffer.shape
    order = tuple(sorted(range(len(shape)), key=lambda axis: (-strides[axis], -shape[axis])))
    step = 1
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != step:
            message = f"{buffer.name!r} shows the memory of {base.buffer.name!r}, which has gaps or repeats elements."
            raise refuse("TL01", message, "pass an array without: numpy.ascontiguousarray.", at=buffer.span)
        step *= shape[axis]
    return order


def _in_place(own: Scalar, lanes: int, base: View) -> bool:
    """True if elements of a view are those of its memory: the same bits, of an argument; the same type, elsewhere."""
    there = base.buffer.element
    if lanes != base.lanes:
        return False
    return own == there or (base.buffer.argument and BOOL not in (own, there) and own.bits == there.bits)


def recast(base: View, element: Scalar, lanes: int, name: str, span: Span) -> View:
    """The memory of a view as elements of another type, from the view's start on."""
    root = base.buffer.root
    for narrow in (root.element, element):
        if narrow.name in NARROW:
            message = f"{name!r} shows {root.element} as {element}, and where the bits of {narrow} lie is not said."
            raise refuse("TL01", message, "convert the elements: T.Cast.", at=span)
    before, after = bytes_of(base.buffer.element) * base.lanes, bytes_of(element) * lanes
    offset = scaled(base.offset, before, after)
    if offset is None:
        message = f"{name!r} may start in the midst of an element of {element}, {after} bytes wide."
        raise refuse("TL01", message, f"let it start at a multiple of {after} bytes.", at=span)
    size = bytes_of(root.element)
    for extent in root.shape:
        size *= extent
    made = Buffer(name, element, (size // bytes_of(element),), span=span, memory=root)
    return scalar_view(made, (), (), offset, lanes)


def as_stored(value: Term, element: Scalar) -> Term:
    """The bits of a value as an element of the memory where it is, or will be."""
    return value if value.element == element else Op("bitcast", (value,), element)


def _extents(shape: tuple[Term, ...]) -> tuple[object, ...]:
    return tuple(e.value if isinstance(e, Number) else e for e in shape)


def element_of(dtype: DataType, span: Span = NOWHERE) -> Scalar:
    """The element of a data type: the tensor IR's, or a narrow integer that a byte will hold."""
    return (_narrow(dtype) if dtype.lanes > 0 else None) or tensor_element_of(dtype, span)


@cache
def _narrow(dtype: DataType) -> Scalar | None:
    return NARROW.get(str(dtype.element))


@cache
def _of_numpy(dtype: DataType) -> Scalar | None:
    try:
        return scalar_of(dtype.element.numpy)
    except TypeError:
        return None


def tensor_element_of(dtype: DataType, span: Span = NOWHERE) -> Scalar:
    """The tensor IR's element of a data type."""
    if dtype.lanes < 0:
        message = f"{dtype} has as many lanes as the machine says, and no program has a machine."
        raise refuse("TL01", message, FIXED, at=span)
    found = _of_numpy(dtype)
    if found is None:
        help = "hold it in a wider type, such as float32 or int32."
        raise refuse("TL01", f"the tensor IR has no elements of type {dtype.element}.", help, at=span)
    return found


def truth(scope: Scope, node: n.Expr, lane: Term = ZERO) -> Term:
    """The value of a condition in one lane."""
    found = term(scope, node, lane)
    if found.element != BOOL and not isinstance(found, Number):
        message = f"the condition is {node.dtype}, not bool."
        raise refuse("T04", message, f"compare it: x != T.{node.dtype}(0).", at=node.span)
    return found


def term(scope: Scope, node: n.Expr, lane: Term = ZERO) -> Term:
    """The value of an expression in one lane."""
    match node:
        case n.Var():
            known = scope.values.get(node)
            if known is None:
                raise refuse("TL01", f"the variable {node.name!r} has no value here.", at=node.span)
            return known(lane)
        case n.IntImm(value, dtype) | n.FloatImm(value, dtype):
            return number(value, element_of(dtype, node.span))
        case n.Cast(value, dtype):
            return cast(term(scope, value, lane), element_of(dtype, node.span))
        case n.BinaryOp(a=a, b=b):
            x, y = term(scope, a, lane), term(scope, b, lane)
            return binary(type(node).__name__, x, y)
        case n.CmpOp(a=a, b=b):
            return comparison(type(node).__name__, term(scope, a, lane), term(scope, b, lane))
        case n.And() | n.Or() if id(node) in scope.exchanged:
            return scope.exchanged[id(node)]
        case n.And(a, b):
            x, y = truth(scope, a, lane), truth(scope, b, lane)
            return Op("if", (x, y, Number(False, BOOL)), BOOL) if loads(y) else Op("and", (x, y), BOOL)
        case n.Or(a, b):
            x, y = truth(scope, a, lane), truth(scope, b, lane)
            return Op("if", (x, Number(True, BOOL), y), BOOL) if loads(y) else Op("or", (x, y), BOOL)
        case n.Not(a):
            return Op("not", (truth(scope, a, lane),), BOOL)
        case n.Select(condition, yes, no):
            return _choice(scope, condition, yes, no, lane)
        case n.BufferLoad():
            return _load(scope, node, lane)
        case n.Ramp(base, stride):
            step = cast(lane, element_of(node.dtype, node.span))
            scaled = binary("Mul", term(scope, stride), step)
            return binary("Add", term(scope, base), scaled)
        case n.Broadcast(value):
            element_of(node.dtype, node.span)
            return term(scope, value)
        case n.Shuffle():
            return _shuffle(scope, node, lane)
        case n.Let(var, value, body):
            scope.values[var] = lambda at: term(scope, value, at)
            if value.dtype.lanes == 1:
                once = term(scope, value)
                scope.values[var] = lambda at: once
            return term(scope, body, lane)
        case n.Call():
            return _call(scope, node, lane)
        case _:
            raise refuse("TL01", f"a {type(node).__name__} cannot be lifted.", at=node.span)


def _choice(scope: Scope, condition: n.Expr, yes: n.Expr, no: n.Expr, lane: Term) -> Term:
    a, b = term(scope, yes, lane), term(scope, no, lane)
    return Op("if", (truth(scope, condition, lane), a, b), a.element)


def _taken(scope: Scope, condition: n.Expr, yes: n.Expr, no: n.Expr, lane: Term) -> Term:
    """A choice of which only one value is looked at: that of a recursion ends where its condition is decided."""
    decided = settled(truth(scope, condition, lane), scope.ranges) if scope.called else None
    if isinstance(decided, Number):
        return term(scope, yes if decided.value else no, lane)
    return _choice(scope, condition, yes, no, lane)


def vector_lane(view: View, last: n.Expr | None, lane: Term, lanes: int) -> tuple[Term, Term]:
    """Of a lane of an access: the lane of its last index, and the lane inside of the element."""
    if view.lanes == 1:
        return lane, ZERO
    if last is None or last.dtype.lanes == 1:
        return ZERO, lane
    size = Number(view.lanes, lane.element)
    return Op("floordiv", (lane, size), lane.element), Op("mod", (lane, size), lane.element)


def place(
    scope: Scope, buffer: n.Buffer, indices: tuple[n.Expr, ...], lane: Term, lanes: int, span: Span
) -> tuple[Buffer, tuple[Term, ...]]:
    """The memory and the indices into it that an access means in one lane."""
    view = scope.view(buffer, span)
    if len(indices) != len(view.shape):
        message = f"{buffer.name!r} has {len(view.shape)} dimensions, but is indexed by {len(indices)}."
        raise refuse("TL01", message, at=span)
    outer, inner = vector_lane(view, indices[-1] if indices else None, lane, lanes)
    own = tuple(term(scope, i, outer) for i in indices)
    return view.buffer, view.place((*own, inner) if view.lanes != 1 else own)


def _load(scope: Scope, node: n.BufferLoad, lane: Term) -> Term:
    buffer, indices = place(scope, node.buffer, node.indices, lane, node.dtype.lanes, node.span)
    found = as_stored(Load(buffer, indices, node.span), element_of(node.buffer.dtype, node.span))
    if node.predicate is None:
        return found
    return Op("if", (term(scope, node.predicate, lane), found, number(0, found.element)), found.element)


def _shuffle(scope: Scope, node: n.Shuffle, lane: Term) -> Term:
    parts: list[tuple[n.Expr, int]] = []
    for vector in node.vectors:
        parts += [(vector, k) for k in range(max(vector.dtype.lanes, 1))]
    chosen: list[Term] = []
    for index in node.indices:
        if not isinstance(index, n.IntImm):
            raise refuse("TL01", "a shuffle by an index that is no constant cannot be lifted.", at=node.span)
        vector, k = parts[index.value]
        chosen.append(term(scope, vector, Number(k, INT32)))
    return by_lane(lane, chosen)


def by_lane(lane: Term, values: list[Term]) -> Term:
    """One of the values, by lane."""
    result = values[-1]
    for k in reversed(range(len(values) - 1)):
        result = Op("if", (Op("eq", (lane, Number(k, lane.element)), BOOL), values[k], result), result.element)
    return result


def _call(scope: Scope, node: n.Call, lane: Term) -> Term:
    if id(node) in scope.exchanged:
        return scope.exchanged[id(node)]
    if (known := builtin_of(node)) is not None:
        return term(scope, known, lane)
    arguments = [a for a in node.args if isinstance(a, n.Expr)]
    name = node.op
    if isinstance(name, n.GlobalVar):
        return read_returned(scope, node, name.name, lane)
    if name == "if_then_else":
        return _taken(scope, *arguments, lane=lane)
    if name == "dp4a":
        return _dp4a(scope, node, arguments)
    if name in ("vectorlow", "vectorhigh", "vectorcombine"):
        return _halves(scope, node, arguments, lane)
    if name == "get_active_lane_mask":
        base, limit = (term(scope, a) for a in arguments)
        return Op("less", (binary("Add", base, cast(lane, base.element)), cast(limit, base.element)), BOOL)
    if name == "large_uint_imm":
        low, high = (a.value for a in arguments if isinstance(a, n.IntImm))
        return number((high << 32) | low, element_of(node.dtype))
    if name == "reinterpret" and arguments:
        given = arguments[0].dtype
        if message := other_bytes(given, node.dtype):
            hint = f"write T.Cast({str(node.dtype)!r}, ...) for the value as another type."
            raise refuse("TL01", message, hint, at=node.span)
        if given.lanes != node.dtype.lanes:
            message = f"T.reinterpret takes {given} for {node.dtype} here, which have other numbers of lanes."
            raise refuse("TL01", message, "lift it with as many lanes, each of as many bits.", at=node.span)
    if name.startswith("tvm_warp_"):
        raise refuse("TL01", f"T.{name} stands in no kernel.", "bind a loop to threadIdx.x.", at=node.span)
    if name == "masked_load" and isinstance(node.args[0], n.Buffer):
        *indices, mask = map(value_of, node.args[1:])
        return _load(scope, n.BufferLoad(node.args[0], tuple(indices), mask, node.span), lane)
    if name == "isnullptr" and _points(scope, node.args[0]):
        return Number(False, BOOL)
    if name == "buffer_offset" and isinstance(node.args[0], n.Buffer):
        from tensorir.tir.lift.memory import address_of

        view = scope.view(node.args[0], node.span)
        return address_of(view, [term(scope, a) for a in arguments]) if arguments else view.offset
    make = INTRINSICS.get(name)
    if make is None or len(arguments) != len(node.args):
        help = "write it with the builtins of TIR that compute a value."
        if name.startswith("atomic_"):
            message = f"the old value of T.{name} is used where no statement can stand before."
            help = f"give it a name in a statement before: old: T.{node.dtype} = T.{name}(...)."
            raise refuse("TL01", message, help, at=node.span)
        if node.args and isinstance(node.args[0], n.StringImm):
            raise refuse("TL01", f"the external function {node.args[0].value!r} is not known.", help, at=node.span)
        raise refuse("TL01", f"T.{name} has no meaning in a pure program.", help, at=node.span)
    try:
        return make(element_of(node.dtype, node.span), tuple(term(scope, a, lane) for a in arguments))
    except NotImplementedError as found:
        raise refuse("TL01", f"{found} cannot be lifted.", at=node.span) from None


def value_of(argument: n.Argument) -> n.Expr:
    """An argument that is a value."""
    if isinstance(argument, n.Expr):
        return argument
    message = "a buffer, or a region of one, stands where a value is needed."
    raise refuse("TL01", message, "read elements: A[T.Ramp(0, 1, 4)].", at=getattr(argument, "span", NOWHERE))


def _points(scope: Scope, pointer: n.Argument) -> bool:
    """True if a pointer is that of a buffer, and so none that points nowhere."""
    match pointer:
        case n.Buffer() | n.Call(op="buffer_data" | "address_of" | "access_ptr"):
            return True
        case n.Var():
            return pointer in scope.pointers
        case _:
            return False


def _dp4a(scope: Scope, node: n.Call, arguments: list[n.Expr]) -> Term:
    a, b, c = arguments
    element = element_of(node.dtype)
    total = term(scope, c)
    for k in range(a.dtype.lanes):
        at = Number(k, INT32)
        product = binary("Mul", cast(term(scope, a, at), element), cast(term(scope, b, at), element))
        total = binary("Add", total, product)
    return total


def _halves(scope: Scope, node: n.Call, arguments: list[n.Expr], lane: Term) -> Term:
    whole = [
        (vector, k)
        for vector in (arguments if node.op == "vectorcombine" else arguments[:1])
        for k in range(max(vector.dtype.lanes, 1))
    ]
    if node.op != "vectorcombine":
        half = len(whole) // 2
        whole = whole[:half] if node.op == "vectorlow" else whole[half:]
    return by_lane(lane, [term(scope, vector, Number(k, INT32)) for vector, k in whole])


# Whole numbers that a function compares sizes and indices with: on their other side it may do another thing.


def thresholds(func: n.PrimFunc) -> tuple[int, ...]:
    """The numbers in comparisons, and in the least and the largest of two, that do not look at data.

    >>> from tensorir.tir import parse
    >>> thresholds(parse('''
    ... @T.prim_func
    ... def main(a: T.handle):
    ...     n = T.int32()
    ...     A = T.match_buffer(a, (n,), "float32")
    ...     for i in range(n):
    ...         if n % 6 == 4 and A[i] < T.float32(3) and A[9] == A[i]:
    ...             A[i] = T.float32(0)
    ... ''')["main"])
    (4, 6)
    """
    compared = [list(walk(node)) for node in walk(func.body) if isinstance(node, (n.CmpOp, n.Min, n.Max))]
    indices = [inside for inside in compared if not any(isinstance(v, n.BufferLoad) for v in inside)]
    return tuple(sorted({abs(v.value) for inside in indices for v in inside if isinstance(v, n.IntImm)}))
