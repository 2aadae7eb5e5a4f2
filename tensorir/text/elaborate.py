"""Syntax trees to typed fencils: names are looked up, sizes put in, types of functions inferred.

Types are checked as nodes are built. An expression that is wrong is reported once and gives None; what contains it is
still looked at, and says nothing further about it. So several findings come at once and none is a consequence of
another. The types of a function's parameters, where the notation leaves them out, follow from what it is applied to.

>>> from tensorir.runtime.errors import Source
>>> from tensorir.text.parser import parse_programs
>>> (program,) = parse_programs(Source("p", "f(out: tensor<int, I[1:n]>, x: tensor<int, I[0:n]>) { out ← ⟪I, -1⟫(x) }"))
>>> elaborate(program, {"n": 5}).closures[0].value.type
tensor<int, I[1:6]>
>>> from tensorir.ir.types import FLOAT64, Dims
>>> x = TensorType(FLOAT64, Dims.of(V=(0, 5), _NB_0=(0, 7)))
>>> parameter_types("reduce", (None,), (TensorType(FLOAT64), x), ())
(tensor<float, V[0:5]>, tensor<float, V[0:5]>)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tensorir.integers.dims import Dims
from tensorir.ir import build, nodes
from tensorir.ir.builtins import TABLE, Control
from tensorir.ir.rewrite import rename_bound, with_label
from tensorir.ir.types import INT32, NEIGHBOUR, TensorType, bcast, neighbour_counter
from tensorir.ir.typing_rules import reduced_dim
from tensorir.ir.wellformed import check_closure
from tensorir.nodes import Rule, each, run
from tensorir.runtime.errors import DiagnosticError, Span, counted, did_you_mean, refuse
from tensorir.text import syntax
from tensorir.text.cursor import fix
from tensorir.text.lexer import MAX_BOUND, MAX_TUPLE_NESTING, OFFSET
from tensorir.text.scope import Elaboration, moved
from tensorir.text.syntax import inventory

Declared = Sequence[TensorType | None]


def function_count(op: str, operands: int) -> int:
    """The number of leading operands of a builtin that are functions.

    >>> function_count("reduce", 3), function_count("loop", 4), function_count("plus", 2)
    (1, 2, 0)
    """
    if (count := _FUNCTIONS.get(TABLE[op].control)) is not None:
        return min(count, operands)
    return sum(slot == "f" for group in TABLE[op].form for slot in group)


_FUNCTIONS: dict[Control | None, int] = {Control.LOOP: 2, Control.BRANCHES: 2, Control.BLOCKS: 1}
"""The leading functions of calls whose form has operands alone."""


def parameter_types(
    op: str, static: tuple[Any, ...], operands: Sequence[TensorType], declared: Declared
) -> tuple[TensorType, ...] | None:
    """The types for the parameters of a function operand, inferred from the other operands; None if they cannot be.

    `declared` are the types that its parameters declare, None for those without. Raises a DiagnosticError if operands
    do not fit each other, or there is no dim to fold.
    """
    builtin = TABLE[op]
    match builtin.control, operands:
        case Control.FOLD, (init, *args) if args:
            dim = builtin.static_of(static).dim or (_scanned(args, declared) if builtin.states else reduced_dim(args))
            args_at_level = [a.on(a.dims.without(dim or "")) for a in args]
            return None if dim is None else (init.on(bcast(args_at_level)), *args_at_level)
        case Control.UPDATES, (base, *_, updates):
            return TensorType(base.element), TensorType(updates.element)
        case Control.LOOP, carried:
            return TensorType(INT32), *carried
        case Control.BLOCKS, operands:
            return tuple(operands)
        case Control.BRANCHES, (_, *operands):
            return tuple(operands)
        case _:
            return None


def _scanned(args: Sequence[TensorType], declared: Declared) -> str | None:
    """The scanned dim: the one that arguments have and declared parameters (or the declared state) lack; with nothing
    declared, the only dim of the arguments. None if there is none; raises T20 for several.
    """
    declared_args = list(declared[1:])
    pairs = [(a, p) for a, p in zip(args, declared_args, strict=False) if p is not None]
    if pairs:
        candidates = {d for a, p in pairs for d in a.dims if d not in p.dims}
    elif declared and (state := declared[0]) is not None:
        candidates = {d for a in args for d in a.dims if d not in state.dims}
    else:
        candidates = {d for a in args for d in a.dims}
    if len(candidates) > 1:
        message = f"the scanned dim is not clear: the arguments have {', '.join(sorted(candidates))}."
        raise refuse("T20", message, "name it: scan(f, true, init, K)(x).")
    return next(iter(candidates), None)


def bound_value(e: Elaboration, name: str, node: syntax.Expression) -> Rule[nodes.Expr | None]:
    """The typed value of a `let`, labelled with its name unless the node has a label already."""
    e.defining.append(name)
    value: nodes.Expr | None = yield typed(e, node)
    e.defining.pop()
    # a second name of one node leaves it the first
    return with_label(value, name) if value is not None and not value.label else value


def typed(e: Elaboration, node: syntax.Expression) -> Rule[nodes.Expr | None]:
    """The typed node of a syntax tree, a tensor or function; None after an error, which has been reported."""
    match node:
        case syntax.Name():
            return _value_of(e, node)
        case syntax.Number():
            return e.attempt(lambda: _literal(node), node.span)
        case syntax.Call():
            return (yield _call(e, node))
        case syntax.Shift():
            return (yield _shift(e, node))
        case syntax.Apply():
            return (yield _apply(e, node))
        case syntax.Lambda():
            return (yield _lambda(e, node, _UNKNOWN))
        case syntax.Let():
            return (yield _let(e, node, typed))
        case syntax.Operator():
            return _operator(e, node, _UNKNOWN)
        case syntax.Results():
            hint = "they end a function that a loop repeats, λ(i, a, b) → {a + 1, b}; a tuple is written (a, b)."
            e.report("T14", "several results stand where one value is needed.", node.span, hint)
            return None


def _literal(node: syntax.Number) -> nodes.Literal:
    """The literal node; raises S12 for a finite number that its type rounds to infinity."""
    result = build.literal(node.value, node.element, node.span)
    if isinstance(node.value, float) and math.isfinite(node.value) and not math.isfinite(result.value):
        raise refuse("S12", f"{node.value} is larger than every {node.element}.", "use a wider type, such as float64.")
    return result


def _value_of(e: Elaboration, node: syntax.Name) -> nodes.Expr | None:
    """The node that a name is bound to, or a size as a literal.

    None for an unknown name, after a report that says if it is a dim, a builtin, out of date, or in its own definition.
    """
    name = node.name
    if name in e.scope:
        return e.scope[name]
    if name in e.sizes:
        return e.attempt(lambda: e.size(name, node.span), node.span)
    if name in e.defining:
        e.report("N06", f"'{name}' is used in its own definition.", node.span, "a let cannot refer to itself.")
    elif name in e.stale:
        message = f"'{name}' reads '{e.stale[name]}', into which a closure has stored since."
        e.report("N13", message, node.span, f"bind it again behind that closure: let {name} = ...;")
    elif name in e.dims:
        e.report("N01", f"'{name}' is a dim, not a value.", node.span, f"its coordinates are pos({name}, x).")
    elif name.removeprefix("__") in TABLE:
        e.report("T14", f"'{name}' is a function, and a tensor is needed here.", node.span, f"apply it: {name}(x).")
    else:
        e.report("N01", f"'{name}' is not known here.", node.span, did_you_mean(name, e.scope))
    return None


def _tensor(e: Elaboration, node: syntax.Expression) -> Rule[nodes.Expr | None]:
    """The typed node of an expression that must be a tensor; None after an error."""
    value: nodes.Expr | None = yield typed(e, node)
    if value is not None and not isinstance(value.type, TensorType):
        e.report("T14", "a function stands where a tensor is needed.", node.span, "apply it: f(x).")
        return None
    return value


T = TypeVar("T")


def _let(e: Elaboration, node: syntax.Let, body: Callable[[Elaboration, syntax.Expression], Rule[T]]) -> Rule[T]:
    """Elaborates a chain of bindings, and then the expression after it by `body`; restores shadowed names."""
    shadowed: list[tuple[str, Any]] = []
    rest: syntax.Expression = node
    while isinstance(rest, syntax.Let):
        value: nodes.Expr | None = yield bound_value(e, rest.name, rest.value)
        shadowed.append((rest.name, e.scope.get(rest.name, _MISSING)))
        e.scope[rest.name] = value
        rest = rest.body
    result: T = yield body(e, rest)
    _leave(e, shadowed)
    return result


_MISSING = object()


def _leave(e: Elaboration, shadowed: list[tuple[str, Any]]) -> None:
    """Restores the names that a scope shadowed; `_MISSING` marks those that did not exist."""
    for name, value in reversed(shadowed):
        if value is _MISSING:
            del e.scope[name]
        else:
            e.scope[name] = value


# Functions


@dataclass(frozen=True, slots=True)
class _Hint:
    """The argument types that a function will be applied to, None if unknown; `broken` if an argument had an error."""

    types: tuple[TensorType, ...] | None
    broken: bool = False


_UNKNOWN = _Hint(None)
_BROKEN = _Hint(None, broken=True)


def _function(e: Elaboration, node: syntax.Expression, hint: _Hint) -> Rule[nodes.Expr | None]:
    """The typed node of an expression that must be a function: λ, an operator, or a name of either.

    `hint` gives types to parameters without one. None after an error.
    """
    match node:
        case syntax.Lambda():
            return (yield _lambda(e, node, hint))
        case syntax.Operator():
            return _operator(e, node, hint)
        case syntax.Name(name):
            value = e.scope.get(name)
            is_tensor = value is not None and isinstance(value.type, TensorType)
            op = name.removeprefix("__")
            row = TABLE.get(op)
            if row is not None and row.elementwise and not row.static_slots and (name not in e.scope or is_tensor):
                return _operator(e, syntax.Operator(op, None, node.span), hint)
            if name not in e.scope and name not in e.defining and name not in e.stale:
                functions = [n for n, v in e.scope.items() if v is not None and not isinstance(v.type, TensorType)]
                e.report("N03", f"there is no function '{name}'.", node.span, did_you_mean(name, [*functions, *TABLE]))
                return None
            value = _value_of(e, node)
            if is_tensor:
                e.report("T14", f"'{name}' is a tensor, and a function is needed here.", node.span, "write λ(x) → e.")
                return None
            return value
        case _:
            value = yield typed(e, node)
            if value is not None and isinstance(value.type, TensorType):
                e.report(
                    "T14", "a tensor stands where a function is needed.", node.span, "functions are written λ(x) → e."
                )
                return None
            return value


def _operator(e: Elaboration, node: syntax.Operator, hint: _Hint) -> nodes.Expr | None:
    """An elementwise builtin as a function, with its declared types or those of the hint; reports T39 without
    either.
    """
    if hint.broken:
        return None
    types = hint.types
    if node.types is not None:
        declared = [e.tensor_type(t) for t in node.types]
        types = tuple(t for t in declared if t is not None)
        if len(types) != len(declared):
            return None
    if types is None:
        word = node.span.text or node.op
        message = f"it is not clear what '{word}' is applied to."
        e.report("T39", message, node.span, f"give its types: operator({word}, tensor<float>, tensor<float>).")
        return None
    return e.attempt(lambda: _typed_operator(node, types), node.span)


def _typed_operator(node: syntax.Operator, types: tuple[TensorType, ...]) -> nodes.Operator:
    """The operator node; diagnostics of its typing rule get a note with the types."""
    word = node.span.text or node.op
    (slots,) = TABLE[node.op].form
    if len(slots) != len(types):
        help = f"write a function that says what happens to all {len(types)}: λ(a, b, c) → a + b × c."
        raise refuse("T15", f"'{word}' takes {counted(len(slots), 'operand')}, and here it gets {len(types)}.", help)
    try:
        return nodes.Operator(node.op, types, node.span)
    except DiagnosticError as error:
        (refused,) = error.diagnostics
        applied = f"'{word}' is applied to {' and '.join(map(str, types))}."
        raise refuse(refused.code, refused.message, refused.help, notes=(*refused.notes, applied)) from None


def _lambda(e: Elaboration, node: syntax.Lambda, hint: _Hint) -> Rule[nodes.Expr | None]:
    """The typed node of λ; parameters without a type get that of the hint, or T38 is reported.

    Parameters get unique names. A function equal to one of an earlier closure keeps the names of that (its twin).
    """
    if hint.types is not None and len(hint.types) != len(node.params):
        message = f"this function takes {counted(len(node.params), 'argument')}, and here it gets {len(hint.types)}."
        e.report("T15", message, node.span, "give it as many arguments as parameters.")
        hint = _BROKEN
    types: list[TensorType | None] = []
    names: set[str] = set()
    for index, p in enumerate(node.params):
        if p.name in names:
            e.report("N02", f"two parameters of this function are named '{p.name}'.", p.span, "rename one.")
        names.add(p.name)
        param_type = e.tensor_type(p.type) if p.type is not None else None if hint.types is None else hint.types[index]
        if p.type is None and hint.types is None and not hint.broken:
            message = f"the type of '{p.name}' does not follow from anything here."
            e.report("T38", message, p.span, f"write it: {p.name}: tensor<float, I[0:5]>.")
        types.append(param_type)
    same_function = e.twin([p.name for p in node.params], types)
    params: list[nodes.Var | None] = []
    shadowed: list[tuple[str, Any]] = []
    for index, (p, param_type) in enumerate(zip(node.params, types, strict=True)):
        if same_function is not None:
            params.append(same_function.params[index])
        else:
            params.append(None if param_type is None else nodes.Var(e.unique(p.name), param_type, p.span))
        shadowed.append((p.name, e.scope.get(p.name, _MISSING)))
        e.scope[p.name] = params[-1]
    values: list[nodes.Expr | None] = yield _results(e, node.body)
    _leave(e, shadowed)
    typed_params = [p for p in params if p is not None]
    results = [r for r in values if r is not None]
    if len(results) != len(values) or hint.broken or len(typed_params) != len(params) or len(names) != len(params):
        return None
    function = e.attempt(lambda: build.function(typed_params, *results, span=node.span), node.span)
    if function is not None and same_function is not None and e.structure.of(function) != e.structure.of(same_function):
        function = rename_bound(function, {p.name: e.unique(p.name) for p in typed_params})
    if function is not None:
        e.following.update((p.name, function) for p in function.params)
    return function


def _results(e: Elaboration, node: syntax.Expression) -> Rule[list[nodes.Expr | None]]:
    """The typed results of a function's body, several after `{...}`; None for each with an error."""
    match node:
        case syntax.Let():
            return (yield _let(e, node, _results))
        case syntax.Results(values):
            return (yield from each(typed(e, value) for value in values))
        case _:
            return [(yield typed(e, node))]


def _apply(e: Elaboration, node: syntax.Apply) -> Rule[nodes.Expr | None]:
    """The typed application of a function that is no builtin."""
    args = yield from each(_tensor(e, a) for a in node.args)
    typed_args = [a for a in args if a is not None]
    types = tuple(a.type for a in typed_args if isinstance(a.type, TensorType))
    hint = _Hint(types) if len(types) == len(args) else _BROKEN
    function: nodes.Expr | None = yield _function(e, node.function, hint)
    if function is None or len(typed_args) != len(args):
        return None
    assert isinstance(function, (nodes.Lambda, nodes.Operator))
    uses = zip(typed_args, (a.span for a in node.args), strict=True)
    return e.attempt(lambda: build.apply(function, *typed_args, span=node.span), node.span, uses)


# Builtins


def _call(e: Elaboration, node: syntax.Call) -> Rule[nodes.Expr | None]:
    """The typed call of a builtin: tensors first, since their types give hints for the leading function operands.

    Diagnostics point to the operand at fault.
    """
    builtin = TABLE[node.op]
    functions_count = function_count(node.op, len(node.args))
    values = yield from each(_tensor(e, a) for a in node.args[functions_count:])
    static = e.attempt(lambda: _static(e, node), node.span)
    functions: list[nodes.Expr | None] = []
    for f in node.args[:functions_count]:
        hint = _BROKEN
        if static is not None and None not in values:
            hint = e.attempt(lambda f=f: _hint(e, node, static, values, f), node.span) or _BROKEN
        functions.append((yield _function(e, f, hint)))
    args = [a for a in (*functions, *values) if a is not None]
    if static is None or len(args) != len(node.args):
        return None
    spans = [a.span for a in node.args]
    if node.op == "subset":  # what it asks for is at fault, and not the operand
        (ranges,) = node.static
        spans = [ranges[0].span.to(ranges[-1].span)]
    uses = zip(args, spans, strict=True)
    make = _MAKERS.get(node.op)
    if make is not None:
        result = e.attempt(lambda: make(e, static, args, node.span), node.span, uses)
        if result is None and e.findings[-1].code == "T18":
            _point_to_capture(e, node.args[0])
        return result
    return e.attempt(lambda: build.call(builtin.name, *args, static=static, span=node.span), node.span, uses)


def _point_to_capture(e: Elaboration, function: syntax.Expression) -> None:
    """Moves the last finding, T18 (a captured variable), to the place in `function` where the variable is used."""
    last = e.findings[-1]
    for node in syntax.walk(function):
        if isinstance(node, syntax.Name):
            value = e.scope.get(node.name)
            if isinstance(value, nodes.Var) and f"'{value.name}'" in last.message:
                message, help_ = (t.replace(f"'{value.name}'", f"'{node.name}'") for t in (last.message, last.help))
                e.findings[-1] = dataclasses.replace(last, message=message, help=help_, span=node.span)
                return


def _static(e: Elaboration, node: syntax.Call) -> tuple[Any, ...]:
    """The static parameters at the given sizes; raises S10 for large numbers, T31 for intervals that stop before they
    start.
    """
    static = fix(TABLE[node.op], node.static, e.sizes)
    for value in static:
        numbers = [p for _, i in value.items for p in (i.start, i.stop)] if isinstance(value, Dims) else [value]
        for number in numbers:
            if isinstance(number, int) and abs(number) > MAX_BOUND:
                raise refuse("S10", f"{number} is too large.", "numbers here lie between -2^62 and 2^62.")
        for dim, i in value.items if isinstance(value, Dims) else ():
            if i.stop < i.start:
                raise refuse("T31", f"{dim}{i} stops before it starts.", "the smaller bound comes first.")
    return static


def _hint(
    e: Elaboration, node: syntax.Call, static: tuple[Any, ...], values: Sequence[nodes.Expr | None],
    function: syntax.Expression,
) -> _Hint:  # fmt: skip
    """The hint for a function operand: unknown if it declares all its types, otherwise inferred from the other
    operands.
    """
    declared = [p.type for p in function.params] if isinstance(function, syntax.Lambda) else [None]
    if declared and None not in declared:
        return _UNKNOWN
    types = [v.type for v in values if v is not None and isinstance(v.type, TensorType)]
    known = [None if t is None else e.tensor_type(t) for t in declared]
    try:
        return _Hint(parameter_types(node.op, static, types, known if isinstance(function, syntax.Lambda) else ()))
    except DiagnosticError:
        # a function with a name may say its types where it stands
        if isinstance(function, syntax.Name):
            return _UNKNOWN
        raise


def _make_cartesian_shift(e: Elaboration, static: tuple[Any, ...], args: Sequence[Any], span: Span) -> nodes.Expr:
    """A shift along a dim; raises N04 if no tensor of the program has it."""
    dim, offset = static
    (x,) = args
    if dim not in e.dims and neighbour_counter(dim) is None:
        raise refuse("N04", f"no dim of this program is named '{dim}'.", did_you_mean(dim, sorted(e.dims)))
    return build.cartesian_shift(x, dim, offset, span)


def _make_tuple(e: Elaboration, static: tuple[Any, ...], args: Sequence[Any], span: Span) -> nodes.Expr:
    """A tuple; raises S05 if tuples are nested too deep. Depths are cached by identity of the element."""
    depth = 1 + max((e.tuple_depths.get(id(a.type.element), (None, 0))[1] for a in args), default=0)
    if depth > MAX_TUPLE_NESTING:
        message = f"tuples are nested more than {MAX_TUPLE_NESTING} deep, which is the limit."
        raise refuse("S05", message, help="use fewer levels.")
    result = build.call("make_tuple", *args, span=span)
    assert isinstance(result.type, TensorType)
    element = result.type.element
    e.tuple_depths[id(element)] = element, depth
    return result


_MAKERS: dict[str, Callable[[Elaboration, tuple[Any, ...], Sequence[Any], Span], nodes.Expr]] = {
    "reduce": lambda e, static, args, span: build.reduce(*args, dim=static[0], span=span),
    "scan": lambda e, static, args, span: build.scan(args[0], static[0], *args[1:], dim=static[1], span=span),
    "cartesian_shift": _make_cartesian_shift,
    "make_tuple": _make_tuple,
}


# Shifts


def _shift(e: Elaboration, node: syntax.Shift) -> Rule[nodes.Expr | None]:
    """The typed shift; each part is a dim with distance, a table with slot, or a table alone."""
    operand: nodes.Expr | None = yield _tensor(e, node.operand)
    offsets: list[Any] = []
    uses: list[tuple[nodes.Expr, Span]] = []
    for offset in node.offsets:
        if (target := _target(e, offset)) is None:
            continue
        distance = None if offset.distance is None else e.bound(offset.distance, offset.span)
        if isinstance(target, str):
            if offset.distance is None:
                e.report(
                    "S14", f"how far along {target}?", offset.span, f"write ⟪{target}, 1⟫; tables may stand alone."
                )
                continue
            offsets.append((target, distance))
        else:
            uses.append((target, offset.span))
            offsets.append((target,) if offset.distance is None else (target, distance))
    if operand is None or len(offsets) != len(node.offsets):
        return None
    uses.append((operand, node.operand.span))
    return e.attempt(lambda: build.shift(operand, *offsets, span=node.span), node.span, uses)


def _target(e: Elaboration, offset: syntax.Offset) -> str | nodes.Expr | None:
    """The dim (a name) or table (a node) that a name in ⟪⟫ stands for, after the offset provider's renaming.

    Tables in scope come first, then dims; None after a report of N04.
    """
    unmarked = offset.name.removesuffix(OFFSET)
    candidates = (offset.name, e.offsets.get(unmarked, unmarked), unmarked)
    for name in candidates:
        value = e.scope.get(name)
        if value is not None and _is_table(value):
            return value
        if name in e.dims or neighbour_counter(name) is not None:
            return name
    for name in candidates:
        if name in e.scope:
            return e.scope[name]
    known_names = [*e.offsets, *sorted(e.dims), *(n for n, v in e.scope.items() if v is not None and _is_table(v))]
    what = "offset" if offset.name.endswith(OFFSET) else "dim or table"
    e.report("N04", f"there is no {what} '{offset.name}' here.", offset.span, did_you_mean(unmarked, known_names))
    return None


def _is_table(value: nodes.Expr) -> bool:
    """True if a node has the type of a neighbour table: with a dim tagged `_NB_` that no partial shift made."""
    kind = value.type
    return isinstance(kind, TensorType) and any(
        d.startswith(NEIGHBOUR) and neighbour_counter(d) is None for d in kind.dims
    )


def elaborate(program: syntax.Program, sizes: Mapping[str, int] | None = None) -> nodes.Fencil:
    """The typed fencil of a syntax tree at the given sizes; all diagnostics are raised at once."""
    e = Elaboration(frozenset(inventory(program).dims), dict(program.offsets), dict(sizes or {}))
    return nodes.Fencil(program.name, *elaborate_parts(program, e), program.span)


def elaborate_parts(program: syntax.Program, e: Elaboration) -> tuple[tuple[nodes.Var, ...], tuple[nodes.Closure, ...]]:
    """The typed parameters and closures of a syntax tree, with the state `e`; all diagnostics are raised at once.

    A `let` in front of a closure holds for later ones, until one of them stores into a parameter that it reads.
    """
    names = inventory(program)
    params = [e.declare(p) for p in program.params]
    for p in program.params:
        if p.name in names.sizes:
            hint = f"intervals depend on sizes, which are no parameters; rename '{p.name}' or the size."
            e.report("N10", f"'{p.name}' is a parameter, and an interval cannot depend on its value.", p.span, hint)
    if not program.closures:
        e.report("N05", f"'{program.name}' computes nothing.", program.span, "add a closure: out ← e;")
    closures: list[nodes.Closure | None] = []
    for written in program.closures:
        for binding in written.before:
            run(_binding(e, binding, program))
        closures.append(run(_closure(e, written, params)))
        e.functions.update(e.following)
        e.following.clear()
        for name in sorted(e.named):  # names do not reach behind a closure that stores into what they read
            value = e.scope[name]
            if value is not None and any(v.name == written.output for v in value.free):
                e.named.remove(name)
                del e.scope[name]
                e.stale[name] = written.output
    intact_params = [p for p in params if p is not None]
    intact_closures = [c for c in closures if c is not None]
    for written, closure in zip(program.closures, closures, strict=True):
        if closure is not None and closure.output in intact_params:
            uses = [(closure.value, written.value.span)]
            e.add(*(moved(d, uses) for d in check_closure((*intact_params, *e.variables.values()), closure)))
    e.finish()
    return tuple(intact_params), tuple(intact_closures)


def elaborate_expression(
    node: syntax.Expression, variables: Iterable[nodes.Var], dims: Iterable[str], sizes: Mapping[str, int] | None = None
) -> nodes.Expr:
    """The typed expression of a syntax tree over the given variables; `dims` are further dims that shifts may name."""
    variables = list(variables)
    all_dims = {*dims, *(d for v in variables for d in v.type.dims)}
    e = Elaboration(frozenset(all_dims), {}, dict(sizes or {}))
    for v in variables:
        e.scope[v.name] = v
        e.taken.add(v.name)
    result = run(typed(e, node))
    e.finish()
    assert result is not None
    return result


def _closure(e: Elaboration, written: syntax.Closure, params: Sequence[nodes.Var | None]) -> Rule[nodes.Closure | None]:
    """The typed closure; None after an error, such as N01 for an output that is no parameter."""
    output = e.scope.get(written.output)
    if written.output not in e.scope:
        names = [p.name for p in params if p is not None]
        help_ = did_you_mean(written.output, names)
        e.report("N01", f"'{written.output}' is not a parameter of this fencil.", written.span, help_)
    region = None if written.region is None else e.intervals(written.region)
    value: nodes.Expr | None = yield typed(e, written.value)
    if value is None or output is None or (region is None and written.region is not None):
        return None
    assert isinstance(output, nodes.Var)
    return build.closure(output, value, region, written.span)


def _binding(e: Elaboration, written: syntax.Binding, program: syntax.Program) -> Rule[None]:
    """Elaborates a `let` in front of a closure and binds its name for later closures; reports N02 for a parameter's
    name.
    """
    if any(p.name == written.name for p in program.params):
        e.report("N02", f"'{written.name}' is a parameter of this fencil.", written.span, "bind another name.")
        return
    value: nodes.Expr | None = yield bound_value(e, written.name, written.value)
    e.scope[written.name] = value
    e.named.add(written.name)
    e.stale.pop(written.name, None)
