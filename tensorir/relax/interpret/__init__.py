"""Functions of Relax, interpreted: bindings in order, operators in NumPy, `call_tir` through the interpreter of TIR."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.relax import nodes as r
from tensorir.relax.calls import as_operator
from tensorir.relax.interpret.elements import Shape
from tensorir.relax.interpret.networks import MEANINGS
from tensorir.relax.operators import is_left_out
from tensorir.runtime.errors import NOWHERE, Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.interpret.arguments import give, scalar, take
from tensorir.tir.interpret.calls import RECURSION_LIMIT, invoke
from tensorir.tir.interpret.machine import Machine, compiled
from tensorir.tir.interpret.memory import Memory, Pointer
from tensorir.tir.interpret.values import KNOWN

__all__ = ["run_function"]

Item = Any
"""An array, a tuple of items, a shape (a tuple of int), a number, a string, a function."""


def run_function(m: Machine, func: r.Function, arguments: Sequence[object]) -> tuple[Any, ...]:
    """The returned values, tuples flattened."""
    m.module = func.module or n.IRModule({func.name: func})
    return tuple(_flat(_call(m, func, [np.array(a) if hasattr(a, "shape") else a for a in arguments])))


def _flat(value: Item) -> list[Any]:
    if isinstance(value, tuple) and not isinstance(value, Shape):
        items: tuple[Item, ...] = value
        return [leaf for item in items for leaf in _flat(item)]
    if isinstance(value, DataType):
        raise refuse("TR42", "a data type is no value, so it cannot be returned.")
    return [np.asarray(value) if not isinstance(value, np.ndarray | Shape | str) else value]


@dataclass(frozen=True, slots=True)
class _Closure:
    """A function that stands inside of another one, and what has a value around it."""

    function: r.Function
    values: dict[r.RelaxVar, Item]
    sizes: dict[Any, Any]


def _call(m: Machine, called: r.Function | _Closure, arguments: Sequence[Item], span: Span = NOWHERE) -> Item:
    around = called if isinstance(called, _Closure) else _Closure(called, {}, {})
    func = around.function
    if m.depth >= RECURSION_LIMIT:
        raise refuse("TR25", f"calls of {func.name!r} nest more than {RECURSION_LIMIT} deep.", at=span)
    if len(arguments) != len(func.params):
        names = ", ".join(param.name for param in func.params)
        message = f"{func.name!r} takes {len(func.params)} arguments ({names}), but got {len(arguments)}."
        raise refuse("TA02", message, at=func.span)
    frame = _Frame(m, dict(around.values))
    before, m.env = m.env, dict(around.sizes)
    m.depth += 1
    try:
        for param, value in zip(func.params, arguments, strict=True):
            frame.values[param] = frame.fitted(value, param.type, param.name, func.span)
        return frame.sequence(func.body)
    finally:
        m.depth -= 1
        m.env = before


class _Frame:
    """The values of one running function."""

    def __init__(self, m: Machine, values: dict[r.RelaxVar, Item]) -> None:
        self.m, self.values = m, values

    # ------------------------------------------------------------------------------------------------------------ types

    def fitted(self, value: Item, kind: r.RelaxType, name: str, span: Span) -> Item:
        """The value, once it is of the type; sizes that are not known yet are bound."""
        match kind:
            case r.TensorType(shape, dtype, ndim):
                array = np.asarray(value)
                if dtype is not None and array.dtype != dtype.numpy:
                    if array.dtype.kind == "u" and array.dtype.itemsize == dtype.numpy.itemsize and dtype.is_float:
                        array = array.view(dtype.numpy)
                    else:
                        raise refuse("TA05", f"{name!r} holds {dtype}, but the array holds {array.dtype}.", at=span)
                if ndim >= 0 and array.ndim != ndim:
                    raise refuse("TA03", f"{name!r} has {ndim} dimensions, but the array has {array.ndim}.", at=span)
                self.sizes(shape or (), array.shape, name, span)
                return array
            case r.TupleType(fields):
                return tuple(self.fitted(v, f, name, span) for v, f in zip(value, fields, strict=True))
            case r.ShapeType(values, _):
                self.sizes(values or (), tuple(value), name, span)
                return Shape(int(v) for v in value)
            case r.PrimValueType(dtype, n.Var() as var):
                self.m.env[var] = scalar(value, dtype, name, var)
                return self.m.env[var]
            case _:
                return value

    def sizes(self, declared: Sequence[n.Expr], found: Sequence[int], name: str, span: Span) -> None:
        """Bind what is new, check what is known."""
        for place, (size, extent) in enumerate(zip(declared, found, strict=False)):
            if isinstance(size, n.Var) and size not in self.m.env:
                self.m.env[size] = size.dtype.numpy.type(extent)
                continue
            known = compiled(size)(self.m)
            if known != extent:
                message = f"dimension {place} of {name!r} has {extent} elements, but must have {known}."
                raise refuse("TA03", message, at=span)

    def shape(self, values: Sequence[n.Expr]) -> Shape:
        return Shape(int(compiled(v)(self.m)) for v in values)

    # --------------------------------------------------------------------------------------------------------- bindings

    def sequence(self, body: r.SeqExpr) -> Item:
        for block in body.blocks:
            for binding in block.bindings:
                match binding:
                    case r.MatchCast(var, value, kind):
                        self.values[var] = self.fitted(self.of(value), kind, var.name, binding.span)
                    case r.VarBinding(r.RelaxVar(name, r.PrimValueType() as kind) as var, value):
                        self.values[var] = self.fitted(self.of(value), kind, name, binding.span)
                    case r.VarBinding(var, value):
                        self.values[var] = self.of(value)
        return self.of(body.body)

    def of(self, expr: Any) -> Item:
        """The value of an expression."""
        match expr:
            case r.RelaxVar():
                if expr not in self.values:
                    raise refuse("TR07", f"{expr.name!r} has no value here.", at=expr.span)
                return self.values[expr]
            case r.Constant(data, dtype):
                return np.asarray(data, np.float64 if dtype.is_float else None).astype(dtype.numpy)
            case r.MetadataConstant():
                return self.constant(expr)
            case r.Tuple(fields):
                return tuple(self.of(field) for field in fields)
            case r.TupleGetItem(value, index):
                return self.of(value)[index]
            case r.ShapeExpr(values):
                return self.shape(values)
            case r.PrimValue(value):
                return compiled(value)(self.m)
            case r.StringValue(value):
                return value
            case r.DataTypeValue(value):
                return value
            case r.FunctionRef() | r.ExternFunc():
                return expr
            case r.Function():
                return _Closure(expr, self.values, self.m.env)
            case r.If(condition, yes, no):
                found = np.asarray(self.of(condition))
                if found.size != 1:
                    message = f"the condition has the shape {found.shape}, and one truth value decides."
                    raise refuse("TR42", message, at=expr.span)
                return self.sequence(yes if bool(found) else no)
            case r.SeqExpr():
                return self.sequence(expr)
            case r.Call():
                return self.call(expr)
            case _:
                raise refuse("TR42", f"a {type(expr).__name__} is not run.", at=getattr(expr, "span", NOWHERE))

    def constant(self, expr: r.MetadataConstant) -> Item:
        module = self.m.module
        table = None if module is None else module.metadata
        if table is None or expr.key not in table:
            message = f'the constant metadata["{expr.key}"][{expr.index}] is not in the text, so this cannot be run.'
            raise refuse("TR43", message, "give it to parse: parse(text, metadata={...}).", at=expr.span)
        values: Any = table[expr.key]
        return np.array(values[expr.index])

    # ------------------------------------------------------------------------------------------------------------ calls

    def call(self, node: r.Call) -> Item:
        node = as_operator(node)
        match node.op:
            case "call_tir" | "call_tir_inplace" | "call_dps_packed" | "call_tir_with_grad":
                return self.destination(node)
            case "call_packed" | "call_pure_packed":
                return self.packed(node)
            case "invoke_closure":
                function, arguments = self.of(node.args[0]), self.of(node.args[1])
                return _call(self.m, self.function(function, node), list(arguments), node.span)
            case "print":
                print(self.message(node, node.args))
                return ()
            case "assert_op":
                if not np.all(self.of(node.args[0])):
                    raise refuse("TR10", self.message(node, node.args[1:]) or "Assertion Failed", at=node.span)
                return ()
            case str(name):
                return self.operator(name, node)
            case other:
                function = self.of(other)
                arguments = [self.of(a) for a in node.args]
                if isinstance(function, r.FunctionRef) and isinstance(self.named(function, node), n.PrimFunc):
                    # called directly, as after CallTIRRewrite, it fills the arrays that it is given
                    for array, filled in zip(
                        arguments, self.primitive(function, arguments, node, range(0)), strict=True
                    ):
                        if isinstance(array, np.ndarray):
                            np.copyto(array, filled)
                    return ()
                return _call(self.m, self.function(function, node), arguments, node.span)

    def named(self, ref: r.FunctionRef, node: r.Call) -> Any:
        functions: Mapping[str, Any] = {} if self.m.module is None else self.m.module.functions
        if ref.name not in functions:
            raise refuse("TR24", f"the function {ref.name!r} is not in the module.", at=node.span)
        return functions[ref.name]

    def function(self, value: Item, node: r.Call) -> r.Function | _Closure:
        found = self.named(value, node) if isinstance(value, r.FunctionRef) else value
        if not isinstance(found, r.Function | _Closure):
            raise refuse("TR24", "this is no function of Relax, so it cannot be called.", at=node.span)
        return found

    def operator(self, name: str, node: r.Call) -> Item:
        meaning = MEANINGS.get(name)
        if meaning is None:
            raise refuse("TR30", f"R.{name} has no meaning here, so it cannot be run.", _earlier(name), at=node.span)
        arguments = [None if is_left_out(name, k, a) else self.of(a) for k, a in enumerate(node.args)]
        attributes = {key: self.attribute(value) for key, value in node.attrs.items()}
        try:
            return meaning(*arguments, **attributes)
        except (ValueError, IndexError, TypeError, NotImplementedError) as problem:
            raise refuse("TR31", f"R.{name} cannot be applied: {problem}.", at=node.span) from problem

    def message(self, node: r.Call, arguments: Sequence[r.RelaxExpr]) -> str:
        """Values in the places of a format, or one after the other; nothing but `{}` is a place."""
        words = [str(self.of(argument)) for argument in arguments]
        form = node.attrs.get("format")
        if not isinstance(form, str) or not form:
            return (" " if node.op == "print" else ", ").join(words)
        pieces = form.split("{}")
        if len(pieces) - 1 > len(words):
            message = f"the format of R.{node.op} has {len(pieces) - 1} places for {len(words)} values."
            raise refuse("TR31", message, at=node.span)
        return "".join(piece + word for piece, word in zip(pieces, [*words, ""], strict=False))

    def attribute(self, value: Any) -> Any:
        if isinstance(value, n.Expr):
            return compiled(value)(self.m)
        if isinstance(value, tuple):
            return tuple(self.attribute(item) for item in value)  # type: ignore[arg-type]
        return value

    def destination(self, node: r.Call) -> Item:
        """call_tir and its kin: the results are made here, and the callee fills them."""
        function, given = self.of(node.args[0]), self.of(node.args[1])
        several = isinstance(given, tuple) and not isinstance(given, Shape)
        arguments: list[Item] = list(given) if several else [given]  # type: ignore[arg-type]
        sizes = list(self.of(node.args[2])) if len(node.args) > 2 else []
        results = [self.empty(kind, node) for kind in _leaves(node.types)]
        if isinstance(function, r.ExternFunc):
            known = KNOWN.get(function.name)
            if known is None:
                raise refuse("TR22", f"the external function {function.name!r} is not known.", at=node.span)
            self.external(known, [*arguments, *results], node)
            return results[0] if len(results) == 1 else tuple(results)
        inplace: Any = node.attrs.get("inplace_indices")
        if inplace is None:
            where = [-1] * len(results)
        else:
            where = [int(i) for i in (inplace if isinstance(inplace, tuple) else (inplace,))]
        outputs = [new for new, place in zip(results, where, strict=True) if place < 0]
        fresh = range(len(arguments), len(arguments) + len(outputs))
        filled = self.primitive(function, [*arguments, *outputs, *sizes], node, fresh)
        places = iter(fresh)
        chosen = [filled[place if place >= 0 else next(places)] for place in where]
        return chosen[0] if len(chosen) == 1 else tuple(chosen)

    def empty(self, kind: r.RelaxType, node: r.Call) -> Any:
        if not isinstance(kind, r.TensorType) or kind.shape is None or kind.dtype is None:
            raise refuse("TR32", "the type of a result of this call has no shape, so it cannot be made.", at=node.span)
        return np.zeros(self.shape(kind.shape), kind.dtype.numpy)

    def primitive(self, function: Item, arguments: list[Item], node: r.Call, fresh: range) -> list[Any]:
        """Run a PrimFunc on arrays; the arrays afterwards. Nobody has written the ones at `fresh` yet."""
        callee = self.named(function, node) if isinstance(function, r.FunctionRef) else function
        if not isinstance(callee, n.PrimFunc):
            raise refuse("TR24", "this is no PrimFunc, so it cannot be called.", at=node.span)
        values = take(callee, arguments)
        for value in values[fresh.start : fresh.stop]:
            if self.m.checked and isinstance(value, Pointer):
                _forget(value.memory)
        invoke(self.m, callee, values, node.span)
        return [give(v.view) if isinstance(v, Pointer) else v for v in values]

    def packed(self, node: r.Call) -> Item:
        function, *rest = (self.of(a) for a in node.args)
        name = function.name if isinstance(function, r.ExternFunc) else str(function)
        known = KNOWN.get(name)
        if known is None:
            message = f"the external function {name!r} is not known, so the call cannot be run."
            raise refuse("TR22", message, _earlier(name), at=node.span)
        return self.external(known, rest, node)

    def external(self, known: Callable[..., Any], arguments: Sequence[Item], node: r.Call) -> Any:
        """Call a known function, whose arguments nothing has looked at."""
        try:
            return known(*arguments)
        except (ValueError, IndexError, TypeError, AttributeError) as problem:
            name = getattr(self.of(node.args[0]), "name", "this")
            raise refuse("TR31", f"{name!r} cannot be applied to these arguments: {problem}", at=node.span) from problem


def _forget(memory: Memory) -> None:
    """Nobody has written this memory yet."""
    memory.allocated = True
    memory.known = None


def _leaves(types: Sequence[r.RelaxType]) -> list[r.RelaxType]:
    found: list[r.RelaxType] = []
    for kind in types:
        found.extend(_leaves(kind.fields) if isinstance(kind, r.TupleType) else [kind])
    return found


def _earlier(name: str) -> str:
    """The help for a call that only the end of TVM's pipeline makes."""
    late = name.startswith(("memory.", "vm.", "builtin.")) or name == "call_builtin_with_ctx"
    return "take the module as it is before CallTIRRewrite and StaticPlanBlockMemory." if late else ""
