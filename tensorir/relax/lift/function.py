"""A function of Relax at concrete sizes, with `call_tir` inlined."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.ir.build import call
from tensorir.ir.nodes import Expr, Lambda, Var
from tensorir.ir.rewrite import postorder, rename_bound, rewrite_all, substitute, with_label
from tensorir.ir.types import BOOL, INT32, Scalar
from tensorir.lifting.emission.tensors import cut, filled, spread
from tensorir.lifting.loops.report import Report
from tensorir.lifting.nests.terms import Number
from tensorir.relax import nodes as r
from tensorir.relax.calls import as_operator
from tensorir.relax.lift.convolutions import CONVOLUTIONS
from tensorir.relax.lift.elementwise import ELEMENTWISE, as_value, converted
from tensorir.relax.lift.grids import GRIDS, IMAGES
from tensorir.relax.lift.indexing import INDEXING
from tensorir.relax.lift.reductions import ATTENTION, NORMALISATION, PRODUCTS, REDUCTIONS
from tensorir.relax.lift.reshaping import RESHAPING
from tensorir.relax.lift.values import HOME, Shape, Value, apply, constant, dims_of, made, number, under
from tensorir.relax.lift.values import filled as function_filled
from tensorir.relax.operators import is_left_out
from tensorir.runtime.errors import NOWHERE, DiagnosticError, Span, refuse
from tensorir.runtime.print_formatting import PLACE
from tensorir.tir import nodes as n
from tensorir.tir.interpret.arguments import scalar
from tensorir.tir.interpret.machine import Machine, compiled
from tensorir.tir.lift.expressions import tensor_element_of as element_of
from tensorir.tir.trees import walk

# The operators of Relax by name: each takes the values of its arguments and its attributes, and gives values.

OPERATORS: dict[str, Callable[..., Any]] = {
    **ELEMENTWISE,
    **REDUCTIONS,
    **PRODUCTS,
    **RESHAPING,
    **NORMALISATION,
    **ATTENTION,
    **CONVOLUTIONS,
    **INDEXING,
    **IMAGES,
    **GRIDS,
}
"""Arguments are values, tuples of them, shapes, numbers or None; attributes come by name."""

# `call_tir`: the tensor program of the PrimFunc, with the arguments in place of its parameters.
#
# Closures run in order, so each written parameter is substituted by what was stored in it last; what nobody wrote is
# 0, as in the interpreter.


def inlined(
    callee: n.PrimFunc, arguments: Sequence[Value], report: Report, on_hazard: str, fresh: frozenset[int]
) -> list[Value]:
    """The parameters of a PrimFunc after a call, which passes nothing in those of `fresh`."""
    from tensorir.tir.lift import lift_prim_func

    home = HOME.get()
    shapes = tuple(
        None if callee.buffer_map.get(p) is None else v.shape for p, v in zip(callee.params, arguments, strict=True)
    )
    built = lift_prim_func(callee, shapes, home.checked, on_hazard, home.exact, undefined=home.undefined, fresh=fresh)
    home.unchecked |= built.unchecked
    for decision in built.report.decisions:
        report.add(decision)
    for note in built.report.notes:
        report.note(note)
    place = {name: k for k, name in enumerate(built.names)}
    params = {p.name: p for p in built.fencil.params}
    now: dict[Var, Expr] = {}
    for p in built.fencil.params:
        if p.name in place:
            now[p] = _passed(arguments[place[p.name]], p)
        else:
            now[p] = filled(0, _scalar(p), dict(p.type.dims.items))
    values = _own_names([c.value for c in built.fencil.closures])
    for closure, value in zip(built.fencil.closures, values, strict=True):
        stored = substitute(value, now)
        target = dict(closure.target.dims.items)
        stored = cut(stored, target)
        if closure.region is not None:
            stored = call("update", now[closure.output], spread(stored, dict(closure.region.items)))
        # variables of the next closures stand for whole tensors
        now[closure.output] = spread(stored, dict(closure.output.type.dims.items))
    return [_given(now[params[name]], params[name], v) for name, v in zip(built.names, arguments, strict=True)]


def _scalar(p: Var) -> Scalar:
    element = p.type.element
    assert isinstance(element, Scalar)
    return element


def _passed(value: Value, param: Var) -> Expr:
    """The value under the names of the parameter's dims."""
    return under(value.whole(), dict(zip(dims_of(value.rank), param.type.dims.names, strict=True)))


def _given(expr: Expr, param: Var, like: Value) -> Value:
    found = under(expr, dict(zip(param.type.dims.names, dims_of(like.rank), strict=True)))
    return Value(found, like.shape)


def _own_names(values: Sequence[Expr]) -> tuple[Expr, ...]:
    """The expressions with names of functions' parameters that no other program has, so that nothing is captured."""
    home = HOME.get()
    lambdas = [e for e in postorder(*values) if isinstance(e, Lambda)]
    if not lambdas:
        return tuple(values)

    def rule(e: Expr) -> Expr | None:
        return rename_bound(e, {p.name: home.fresh(p.name) for p in e.params}) if isinstance(e, Lambda) else None

    return rewrite_all(values, rule)


# A function of Relax at concrete sizes: bindings in order, each variable a value, each operator an expression.

# Attributes hold values of any type here.


Item = Any
"""A value, a tuple of items, a shape, a number, a string, a function."""
DEEPEST = 64
"""Calls of functions nest no deeper: what calls itself without end is no pure program."""


def flat(item: Item) -> list[Any]:
    """The leaves of nested tuples."""
    if isinstance(item, tuple) and not isinstance(item, Shape):
        items: tuple[Item, ...] = item
        return [leaf for part in items for leaf in flat(part)]
    return [item]


def mismatch(message: str, span: Span = NOWHERE) -> DiagnosticError:
    """The diagnostic for arguments that do not fit."""
    return refuse("TA03", message, at=span)


@dataclass(slots=True)
class Frame:
    """The values of one function while it is read."""

    module: n.IRModule | None
    report: Report
    on_hazard: str
    depth: int = 0
    machine: Machine = field(default_factory=Machine)
    values: dict[r.RelaxVar, Item] = field(default_factory=dict[r.RelaxVar, Item])

    # Types

    def fitted(self, value: Item, kind: r.RelaxType, name: str, span: Span) -> Item:
        """The value, once it is of the type; sizes that are not known yet are bound."""
        match kind:
            case r.TensorType(shape, dtype, ndim):
                if not isinstance(value, Value):
                    raise refuse("TL01", f"{name!r} is no tensor.", at=span)
                if dtype is not None and value.element != element_of(dtype, span):
                    message = f"{name!r} holds {dtype}, but the array holds {value.element}."
                    raise refuse("TA05", message, at=span)
                if ndim >= 0 and value.rank != ndim:
                    raise mismatch(f"{name!r} has {ndim} dimensions, but the array has {value.rank}.", span)
                self.sizes(shape or (), value.shape, name, span)
                return value
            case r.TupleType(fields):
                return tuple(self.fitted(v, f, name, span) for v, f in zip(value, fields, strict=True))
            case r.ShapeType(values, _):
                self.sizes(values or (), value, name, span)
                return Shape(int(v) for v in value)
            case r.PrimValueType(dtype, n.Var() as var) if not isinstance(value, Value):
                self.machine.env[var] = scalar(value, dtype, name, var)
                return self.machine.env[var]
            case _:
                return value

    def sizes(self, declared: Sequence[n.Expr], found: Sequence[int], name: str, span: Span) -> None:
        """Bind what is new, check what is known."""
        for place, (size, extent) in enumerate(zip(declared, found, strict=False)):
            if isinstance(size, n.Var) and size not in self.machine.env:
                self.machine.env[size] = size.dtype.numpy.type(extent)
                continue
            known = compiled(size)(self.machine)
            if known != extent:
                raise mismatch(f"dimension {place} of {name!r} has {extent} elements, but must have {known}.", span)

    def shape(self, values: Sequence[n.Expr]) -> Shape:
        return Shape(int(compiled(v)(self.machine)) for v in values)

    # Bindings

    def sequence(self, body: r.SeqExpr) -> Item:
        for block in body.blocks:
            for binding in block.bindings:
                match binding:
                    case r.MatchCast(var, value, kind):
                        self.values[var] = self.fitted(self.of(value), kind, var.name, binding.span)
                    case r.VarBinding(var, r.Function() as function):
                        self.values[var] = function
                    case r.VarBinding(r.RelaxVar(name, r.PrimValueType() as kind) as var, value):
                        self.values[var] = self.fitted(self.of(value), kind, name, binding.span)
                    case r.VarBinding(var, value):
                        self.values[var] = _named(self.of(value), var.name)
        return self.of(body.body)

    def of(self, expr: Any) -> Item:
        """The value of an expression."""
        match expr:
            case r.RelaxVar():
                if expr not in self.values:
                    raise refuse("TL01", f"{expr.name!r} has no value here.", at=expr.span)
                return self.values[expr]
            case r.Constant(data, dtype):
                array = np.asarray(data, np.float64 if dtype.is_float else None).astype(dtype.numpy)
                if array.ndim == 0:
                    return number(array.item(), element_of(dtype, expr.span))
                return constant(array)
            case r.MetadataConstant():
                return self.constant(expr)
            case r.Tuple(fields):
                return tuple(self.of(item) for item in fields)
            case r.TupleGetItem(value, index):
                return self.of(value)[index]
            case r.ShapeExpr(values):
                return self.shape(values)
            case r.PrimValue(value):
                return compiled(value)(self.machine)
            case r.StringValue(value) | r.DataTypeValue(value):
                return value
            case r.FunctionRef() | r.ExternFunc() | r.Function():
                return expr
            case r.If():
                return self.choice(expr)
            case r.SeqExpr():
                return self.sequence(expr)
            case r.Call():
                return self.call(expr)
            case _:
                raise refuse("TL01", f"a {type(expr).__name__} is not lifted.", at=getattr(expr, "span", NOWHERE))

    def constant(self, expr: r.MetadataConstant) -> Item:
        table = None if self.module is None else self.module.metadata
        if table is None or expr.key not in table:
            message = f'the constant metadata["{expr.key}"][{expr.index}] is not in the text, so this cannot be lifted.'
            help = "give it to parse: parse(text, metadata={...})."
            raise refuse("TR43", message, help, at=expr.span)
        values: Any = table[expr.key]
        return constant(np.array(values[expr.index]))

    def choice(self, node: r.If) -> Item:
        """Both branches are values, and the condition selects."""
        condition = self.of(node.condition)
        if not isinstance(condition, Value):
            return self.sequence(node.true_branch if condition else node.false_branch)
        if condition.size != 1:
            raise refuse(
                "TL01", f"the condition has the shape {condition.shape}, and one truth value decides.", at=node.span
            )
        scalar = converted(made((), lambda ix, read: read(*[Number(0, INT32)] * condition.rank), condition), BOOL)
        branches: list[Item] = []
        for branch, other in ((node.true_branch, apply("not", scalar)), (node.false_branch, scalar)):
            home = HOME.get()
            before, home.asserted = home.asserted, []
            said, home.shown = home.shown, []
            branches.append(self.sequence(branch))
            # what a branch asserts need not hold where the other one is taken, and what it prints is not shown there
            home.asserted = [*before, *((call("or", other.expr, holds), text) for holds, text in home.asserted)]
            home.shown = [*said, *((call("if", other.expr, plain, shown), plain) for shown, plain in home.shown)]
        yes, no = branches
        return _selected(scalar, yes, no, node.span)

    def asserted(self, node: r.Call) -> Item:
        """An error where a condition does not hold, in programs that check; it gives nothing."""
        condition = self.of(node.args[0])
        form = node.attrs.get("format")
        message = form if isinstance(form, str) and form else "Assertion Failed"
        HOME.get().asserted.append((converted(as_value(condition), BOOL).expr, message))
        return ()

    def printed(self, node: r.Call) -> Item:
        """One line: values in the places of the format, or one after the other; it gives nothing."""
        form = node.attrs.get("format")
        pieces = form.split(PLACE) if isinstance(form, str) and form else ["", *[" "] * (len(node.args) - 1), ""]
        if len(pieces) - 1 > len(node.args):
            message = f"the format of R.print has {len(pieces) - 1} places for {len(node.args)} values."
            raise refuse("TL01", message, "give a value for each {}.", at=node.span)
        words: list[str] = []
        values: list[Expr] = []
        for argument in node.args[: len(pieces) - 1]:
            said, shown = _shown(self.of(argument))
            words.append(said)
            values += shown
        if not words:
            help = "show one: R.print(x, format=...)."
            raise refuse(
                "TL01", "this R.print shows no value, and a pure program prints nothing else.", help, at=node.span
            )
        if not values:
            # a line is shown with a tensor: all are known, and the first is one
            known = self.of(node.args[0])
            words[0], values = PLACE, [constant(np.asarray(flat(known))).whole()]
        text = "".join(piece + word for piece, word in zip(pieces, [*words, ""], strict=True))
        HOME.get().shown.append((call("print", *values, static=(text,)), values[0]))
        return ()

    # Calls

    def call(self, node: r.Call) -> Item:
        node = as_operator(node)
        match node.op:
            case "call_tir" | "call_tir_inplace" | "call_tir_with_grad":
                return self.destination(node)
            case "call_dps_packed" | "call_packed" | "call_pure_packed":
                name = getattr(node.args[0], "name", "")
                help = "write it as a PrimFunc of the module, and use R.call_tir."
                raise refuse(
                    "TL01", f"the external function {name!r} has no meaning in a pure program.", help, at=node.span
                )
            case "assert_op":
                return self.asserted(node)
            case "print":
                return self.printed(node)
            case "invoke_closure":
                function, arguments = self.of(node.args[0]), self.of(node.args[1])
                return self.invoke(function, list(arguments), node.span)
            case str(name):
                return self.operator(name, node)
            case other:
                return self.invoke(self.of(other), [self.of(a) for a in node.args], node.span)

    def named(self, function: Item, span: Span) -> Any:
        if not isinstance(function, r.FunctionRef):
            return function
        functions: Mapping[str, Any] = {} if self.module is None else self.module.functions
        if function.name not in functions:
            raise refuse("TL01", f"the function {function.name!r} is not in the module.", at=span)
        return functions[function.name]

    def invoke(self, function: Item, arguments: list[Item], span: Span) -> Item:
        """A function of Relax on values; its own bindings, and those around it."""
        callee = self.named(function, span)
        if not isinstance(callee, r.Function):
            raise refuse("TL01", "this is no function of Relax, so it cannot be called.", at=span)
        if self.depth >= DEEPEST:
            help = "replace the recursion by a loop in a PrimFunc."
            raise refuse("TL01", f"calls of {callee.name!r} nest more than {DEEPEST} deep.", help, at=span)
        if len(arguments) != len(callee.params):
            message = f"{callee.name!r} takes {len(callee.params)} arguments, but is called with {len(arguments)}."
            raise refuse("TL01", message, at=span)
        inside = r.Function is type(function)
        inner = Frame(self.module, self.report, self.on_hazard, self.depth + 1)
        if inside:
            inner.values.update(self.values)
            inner.machine.env.update(self.machine.env)
        for param, value in zip(callee.params, arguments, strict=True):
            inner.values[param] = inner.fitted(value, param.type, param.name, span)
        return inner.sequence(callee.body)

    def operator(self, name: str, node: r.Call) -> Item:
        meaning = OPERATORS.get(name)
        arguments = [None if is_left_out(name, k, a) else self.of(a) for k, a in enumerate(node.args)]
        if meaning is None:
            if name in SHAPED_BY_DATA:
                message = f"the shape of what R.{name} gives depends on data, and shapes are known before data are."
                raise refuse("TL01", message, SHAPED_BY_DATA[name], at=node.span)
            help = "write it as a PrimFunc of the module, and use R.call_tir."
            raise refuse("TL01", f"R.{name} is not lifted.", help, at=node.span)
        attributes = {key: self.attribute(value) for key, value in node.attrs.items()}
        home = HOME.get()
        home.place = node.span
        home.places.add(node.span)
        try:
            return meaning(*arguments, **attributes)
        except (ValueError, IndexError, TypeError, NotImplementedError) as problem:
            help = "write it as a PrimFunc of the module, and use R.call_tir."
            raise refuse("TL01", f"R.{name} cannot be lifted here: {problem}.", help, at=node.span) from problem

    def attribute(self, value: Any) -> Any:
        if isinstance(value, n.Expr):
            return compiled(value)(self.machine)
        if isinstance(value, tuple):
            return tuple(self.attribute(item) for item in value)
        return value

    def destination(self, node: r.Call) -> Item:
        """call_tir and its kin: the results are zeros that the callee fills."""
        callee = self.named(self.of(node.args[0]), node.span)
        if not isinstance(callee, n.PrimFunc):
            raise refuse("TL01", "this is no PrimFunc, so it cannot be called.", at=node.span)
        given = self.of(node.args[1])
        values: list[Item] = list(given) if isinstance(given, tuple) and not isinstance(given, Shape) else [given]
        sizes = list(self.of(node.args[2])) if len(node.args) > 2 else []
        results = [self.empty(kind, node.span) for kind in _leaves(node.types)]
        inplace: Any = node.attrs.get("inplace_indices")
        where = [-1] * len(results)
        if inplace is not None:
            where = [int(i) for i in (inplace if isinstance(inplace, tuple) else (inplace,))]
        fresh = [new for new, place in zip(results, where, strict=True) if place < 0]
        arguments = [*values, *fresh, *sizes]
        if len(arguments) != len(callee.params):
            message = f"{callee.name!r} takes {len(callee.params)} arguments, but is called with {len(arguments)}."
            raise refuse("TL01", message, at=node.span)
        passed = [_argument(a, p, node.span) for a, p in zip(arguments, callee.params, strict=True)]
        self.fits(callee, arguments, node.span)
        made = range(len(values), len(values) + len(fresh))
        filled_in = inlined(callee, passed, self.report, self.on_hazard, frozenset(made))
        places = iter(made)
        chosen = tuple(filled_in[place if place >= 0 else next(places)] for place in where)
        return chosen[0] if len(chosen) == 1 else chosen

    def fits(self, callee: n.PrimFunc, arguments: Sequence[Item], span: Span) -> None:
        """Refuse arguments whose elements or extents are not those of the callee's buffers."""
        inner = Frame(self.module, self.report, self.on_hazard)
        pairs = [(callee.buffer_map.get(p), a) for p, a in zip(callee.params, arguments, strict=True)]
        buffers = [(b, a) for b, a in pairs if b is not None]
        for param, argument in zip(callee.params, arguments, strict=True):
            if isinstance(argument, int | np.integer):
                inner.machine.env[param] = param.dtype.numpy.type(int(argument))
        for buffer, argument in buffers:
            if isinstance(argument, Value):
                sizes = zip(buffer.shape, argument.shape, strict=False)
                new = {s: e for s, e in sizes if isinstance(s, n.Var) and s not in inner.machine.env}
                inner.machine.env.update({s: s.dtype.numpy.type(e) for s, e in new.items()})
        for buffer, argument in buffers:
            free = {v for e in buffer.shape for v in walk(e) if isinstance(v, n.Var)}
            if buffer.dtype.lanes == 1 and free <= inner.machine.env.keys():
                kind = r.TensorType(buffer.shape, buffer.dtype, len(buffer.shape))
                inner.fitted(argument, kind, buffer.name, span)

    def empty(self, kind: r.RelaxType, span: Span) -> Value:
        if not isinstance(kind, r.TensorType) or kind.shape is None or kind.dtype is None:
            raise refuse("TL01", "the type of a result of this call has no shape, so it cannot be made.", at=span)
        return function_filled(number(0, element_of(kind.dtype, span)), self.shape(kind.shape))


SHAPED_BY_DATA = {
    "nonzero": "keep the mask, and use R.where.",
    "unique": "use R.sort, and compare neighbours.",
    "dynamic_strided_slice": "use R.strided_slice with bounds that are numbers, or R.take at indices.",
    "tensor_to_shape": "pass the shape as a parameter: s: R.Shape(ndim=2).",
}
"""Operators whose results have shapes that only data tell, and what to write in their place."""


def _argument(value: Item, param: n.Var, span: Span) -> Value:
    if isinstance(value, Value):
        return value
    if isinstance(value, int | float | np.generic):
        return number(np.asarray(value).item(), element_of(param.dtype, span))
    raise refuse("TL01", f"{param.name!r} needs a tensor or a number.", at=span)


def _named(item: Item, name: str) -> Item:
    """The value under the name of its variable, for the text."""
    if isinstance(item, Value):
        return Value(with_label(item.expr, name), item.shape)
    return item


def _selected(condition: Value, yes: Item, no: Item, span: Span) -> Item:
    if isinstance(yes, tuple) and not isinstance(yes, Shape) and isinstance(no, tuple) and len(yes) == len(no):
        return tuple(_selected(condition, a, b, span) for a, b in zip(yes, no, strict=True))
    if isinstance(yes, Value) and isinstance(no, Value) and yes.shape == no.shape and yes.element == no.element:
        return apply("if", condition, yes, no)
    if yes == no:
        return yes
    help = "give both branches one type and shape."
    raise refuse("TL01", "the branches give values of different shapes, and only the data tell which.", help, at=span)


def _shown(item: Item) -> tuple[str, list[Expr]]:
    """A value as a printed text shows it: places for its tensors, known numbers as they are."""
    if isinstance(item, Value):
        return PLACE, [item.whole()]
    if isinstance(item, tuple) and not isinstance(item, Shape):
        parts = [_shown(part) for part in item]
        return f"({', '.join(words for words, _ in parts)})", [x for _, shown in parts for x in shown]
    return str(tuple(item)) if isinstance(item, Shape) else str(item), []


def _leaves(types: Sequence[r.RelaxType]) -> list[r.RelaxType]:
    found: list[r.RelaxType] = []
    for kind in types:
        found.extend(_leaves(kind.fields) if isinstance(kind, r.TupleType) else [kind])
    return found
