"""Rewrites of the whole program before it is distributed: results in one expression, steps in one, names of axes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tensorir.distribution.partition import check_dims
from tensorir.integers.dims import Dims
from tensorir.ir.build import call, closure, coerced, fencil, free_name, literal, var
from tensorir.ir.nodes import Apply, Call, Closure, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, substitute_all, values
from tensorir.ir.substitution import inlined
from tensorir.ir.types import DTYPES, Element, Scalar, TensorType, TupleElement
from tensorir.runtime.errors import refuse


def whole_results(program: Fencil) -> dict[str, Expr]:
    """By name, the final value of each result as one expression of the program's parameters; functions are inlined.

    Writes to a part of a target become `update` of the value before.

    >>> from tensorir.text import parse
    >>> f = parse("f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← x × x; y[I[1:3]] ← y + x; }")
    >>> print(whole_results(f)["y"])
    let t1 = x × x; update(t1, subset(t1 + x, I[1:3]))
    """
    values_by_target: dict[Var, Expr] = {}
    for c, value in zip(program.closures, inlined(values(program.closures)), strict=True):
        (value_now,) = substitute_all((value,), values_by_target)
        written, whole = coerced(value_now, c.target), c.output.type
        if c.target.dims != whole.dims:
            before = values_by_target.get(c.output)
            if before is None:  # of a buffer nothing is read that was not written
                before = c.output if c.output in program.inputs else coerced(zero(whole.element), whole)
            written = call("update", before, written, span=c.span)
        values_by_target[c.output] = written
    return {p.name: values_by_target[p] for p in program.results}


def zero(element: Element) -> Expr:
    """Zero, or false, of an element type."""
    match element:
        case Scalar():
            return literal(DTYPES[element].type(0).item(), element)
        case TupleElement(members):
            return call("make_tuple", *(zero(m) for m in members))


def single_results(program: Fencil) -> tuple[Fencil, dict[str, tuple[str, ...]]]:
    """Splits results of tuples into one scalar result per member; also the names of these by the original result.

    >>> from tensorir.text import parse
    >>> f = parse("f(y: tensor<(float, float), I[0:9]>, x: tensor<float, I[0:9]>) { y ← (x, x × x); }")
    >>> print(single_results(f)[0])
    f(y_0: tensor<float, I[0:9]>, y_1: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) {
      let t1 = (x, x × x);
      y_0 ← t1[0];
      y_1 ← t1[1];
    }
    """
    used_names = {p.name for p in program.params}
    outputs: list[tuple[Var, Expr]] = []
    names: dict[str, tuple[str, ...]] = {}
    for name, value in whole_results(program).items():
        members = _members(value)
        single = [name] if len(members) == 1 else [free_name(f"{name}_{k}", used_names) for k in range(len(members))]
        outputs += [(var(n, m.tensor.on(program[name].type.dims)), m) for n, m in zip(single, members, strict=True)]
        names[name] = tuple(single)
    read = frozenset[Var]().union(*(e.free for _, e in outputs))
    inputs = [p for p in program.params if p in read]
    params = [*(p for p, _ in outputs), *(p for p in inputs if p.name not in {v.name for v, _ in outputs})]
    return fencil(program.name, params, [closure(p, e) for p, e in outputs], program.span), names


def _members(value: Expr) -> list[Expr]:
    """The scalar members of a value in order, nested tuples flattened."""
    if not isinstance(value.tensor.element, TupleElement):
        return [value]
    members = (call("tuple_get", value, static=(k,)) for k in range(len(value.tensor.element.members)))
    return [m for part in members for m in _members(part)]


@dataclass(frozen=True, slots=True)
class Feedback:
    """The time loop around a program: the parameters that hold the state, and the results that form the next state."""

    reads: Mapping[str, int]
    """The index in the state by the name of a parameter; parameters without one are the same in all steps."""
    following: tuple[str | int, ...]
    """For each array of the next state, the name of a result, or the index of an array of this state."""


@dataclass(frozen=True, slots=True)
class Chained:
    """Several steps as one program; `reads` and `following` are as in `Feedback`, from the first state to the last."""

    program: Fencil
    reads: Mapping[str, int]
    following: tuple[str | int, ...]


def chained(program: Fencil, feedback: Feedback, steps: int) -> Chained | None:
    """Unrolls a number of steps into one program; None if the next step reads other intervals or types than a step
    gives.

    >>> from tensorir.text import parse
    >>> f = parse("f(y: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) { y ← x; y[I[1:9]] ← ⟪I, -1⟫(x); }")
    >>> print(chained(f, Feedback({"x": 0}, ("y",)), 2).program)
    f_2_steps(y: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) {
      y ← let t1 = update(x, subset(⟪I, -1⟫(x), I[1:9])); update(t1, subset(⟪I, -1⟫(t1), I[1:9]));
    }
    """
    slots = state_variables(program, feedback)
    if slots is None:
        return None
    results_of_step = whole_results(program)
    constant = [p for p in program.inputs if p.name not in feedback.reads]
    state: list[Expr | int] = [slots.get(k, k) for k in range(len(feedback.following))]
    for _ in range(steps):
        arguments: dict[Var, Expr] = {}
        for name, k in feedback.reads.items():
            value = state[k]
            assert not isinstance(value, int)
            arguments[program[name]] = value
        results = dict(zip(results_of_step, substitute_all(tuple(results_of_step.values()), arguments), strict=True))
        state = [results[f] if isinstance(f, str) else state[f] for f in feedback.following]
    used_names = {v.name for v in (*slots.values(), *constant)}
    outputs: list[tuple[Var, Expr]] = []
    following: list[str | int] = []
    index_of_variable = {v: k for k, v in slots.items()}
    for value, f in zip(state, feedback.following, strict=True):
        if isinstance(value, int):
            following.append(value)
        elif isinstance(value, Var) and value in index_of_variable:
            following.append(index_of_variable[value])
        else:
            while isinstance(f, int):  # the result that it was, some steps before
                f = feedback.following[f]
            target = var(free_name(f, used_names), program[f].type)
            outputs.append((target, value))
            following.append(target.name)
    expressions = inlined([e for _, e in outputs])
    free_variables = frozenset[Var]().union(*(e.free for e in expressions))
    inputs = [v for v in (*slots.values(), *constant) if v in free_variables]
    pairs = zip([p for p, _ in outputs], expressions, strict=True)
    unrolled = fencil(
        f"{program.name}_{steps}_steps", [*(p for p, _ in outputs), *inputs], [closure(p, e) for p, e in pairs],
        program.span,
    )  # fmt: skip
    return Chained(unrolled, {v.name: k for k, v in slots.items() if v in free_variables}, tuple(following))


def state_variables(program: Fencil, feedback: Feedback) -> dict[int, Var] | None:
    """For each index of the state, a variable that stands for the array: the parameter that reads it, or an invented
    name if it is only passed on to a later state.

    None if a step gives another type or other intervals than the next one reads.
    """
    names: dict[int, str] = {}
    for name, k in feedback.reads.items():
        names.setdefault(k, name)
    types = {k: program[name].type for k, name in names.items()}
    for _ in feedback.following:
        for k, f in enumerate(feedback.following):
            if isinstance(f, int) and k in types:
                types.setdefault(f, types[k])
                names.setdefault(f, f"{names[k]}_before")
    for name, k in feedback.reads.items():
        if program[name].type.dims.items != types[k].dims.items:
            return None
    for k, f in enumerate(feedback.following):
        if k not in types:
            continue
        kind = program[f].type if isinstance(f, str) else types[f]
        if (kind.element, kind.dims.items) != (types[k].element, types[k].dims.items):
            return None
    used_names = {p.name for p in program.inputs} - set(feedback.reads)
    return {k: var(free_name(names[k], used_names), types[k]) for k in sorted(types)}


# Dims that go along one axis of a mesh, such as points and the faces between them: one name for both.
#
# A tensor has one of them, so a device has the same block of either, and what renames one to the other stays where it
# is. With one name it is no operation at all.

BOTH = "{} and {} are both to be distributed along '{}'."
APART = "give each dim an axis of its own."


def names_of_axes(axes: Mapping[str, str], owners: Collection[str] = ()) -> dict[str, str]:
    """A renaming that merges dims distributed along one axis: each later dim to the first one.

    Dims with `owners` are those of an unstructured mesh and keep their names.
    """
    first_dim: dict[str, str] = {}
    blocks = {d: a for d, a in axes.items() if d not in owners}
    return {d: first_dim[a] for d, a in blocks.items() if first_dim.setdefault(a, d) != d}


def check_named(name: str, have: Collection[str], axes: Mapping[str, str], owners: Collection[str] = ()) -> None:
    """Raises D02 for a dim that the program lacks.

    It may lack one whose axis another dim shares: tensors inside of the program may have it.
    """
    names = names_of_axes(axes, owners)
    merged = {names.get(d, d) for d in have}
    check_dims(name, have, [d for d in axes if d in have or names.get(d, d) not in merged])


def refuse_both(tensors: Iterable[Iterable[str]], axes: Mapping[str, str], owners: Collection[str] = ()) -> None:
    """Raises D05 if a tensor has two dims that are distributed along one axis; `tensors` are the dims of each."""
    names = names_of_axes(axes, owners)
    for dims in tensors:
        if pair := _both(dims, names):
            raise refuse("D05", BOTH.format(*pair, axes[pair[1]]), APART)


def _both(dims: Iterable[str], names: Mapping[str, str]) -> tuple[str, str] | None:
    """The first two of the dims that `names` maps to one name, None if there are none."""
    seen: dict[str, str] = {}
    return next(((seen[n], d) for d in dims if seen.setdefault(n := names.get(d, d), d) != d), None)


def under_one_name(
    program: Fencil, axes: Mapping[str, str], owners: Collection[str] = ()
) -> tuple[Fencil, dict[str, str]]:
    """Renames dims that are distributed along one axis to one name; also the axes of the remaining names.

    A `rename` between two of them disappears. Raises D05 if a tensor has two of them, D02 for a dim that no expression
    has.

    >>> from tensorir.text import parse
    >>> f = parse('''f(d: tensor<float, F[1:4]>, x: tensor<float, I[0:4]>) {
    ...   d ← rename(I → F)(x) - rename(I → F)(⟪I, -1⟫(x));
    ... }''')
    >>> print(under_one_name(f, {"I": "px", "F": "px"})[0])
    f(d: tensor<float, I[1:4]>, x: tensor<float, I[0:4]>) {
      d ← x - ⟪I, -1⟫(x);
    }

    Raises D05 where a tensor has two of them, D02 for a dim that no expression has.
    """
    names = names_of_axes(axes, owners)
    if not names:
        return program, dict(axes)
    by_id: dict[int, Any] = {}
    all_dims = dict.fromkeys(d for p in program.params for d in p.type.dims)

    def renamed_type(tensor: TensorType) -> TensorType:
        return tensor.on(_dims(tensor.dims, names))

    def variable(v: Var) -> Var:
        return replace(v, type=renamed_type(v.type))

    for node in postorder(*values(program.closures)):
        if isinstance(node.type, TensorType):
            all_dims.update(dict.fromkeys(node.type.dims))
            if pair := _both(node.type.dims, names):
                raise refuse("D05", BOTH.format(*pair, axes[pair[1]]), APART, at=node.span)
        children = tuple([by_id[id(c)] for c in node.children])
        result: Any = node
        match node:
            case Var():
                result = variable(node)
            case Lambda():
                result = replace(node, params=tuple(map(variable, node.params)), results=children)
            case Operator():
                result = replace(node, params=tuple(map(renamed_type, node.params)))
            case Apply():
                result = replace(node, function=children[0], args=children[1:])
            case Call():
                static = _static(node.static, names)
                unnamed = node.op == "rename" and not static[0]
                result = children[0] if unnamed else replace(node, args=children, static=static)
            case Literal():
                pass
            case _:
                raise AssertionError(node)
        by_id[id(node)] = result
    check_dims(program.name, all_dims, [*names, *names.values()])
    closures = tuple(
        Closure(variable(c.output), by_id[id(c.value)], None if c.region is None else _dims(c.region, names), c.span)
        for c in program.closures
    )
    renamed = Fencil(program.name, tuple(map(variable, program.params)), closures, program.span, program.buffers)
    return renamed, {d: a for d, a in axes.items() if d not in names}


def _dims(dims: Dims, names: Mapping[str, str]) -> Dims:
    return Dims(tuple((names.get(d, d), i) for d, i in dims.items))


def _static(static: Any, names: Mapping[str, str]) -> Any:
    """The static parameters of a call with dims renamed; the names of their fields say which ones are dims."""

    def renamed_field(field: str, value: Any) -> Any:
        """The value of a static parameter with dims renamed, by the name of its field."""
        match field:
            case "dim" | "outer" | "inner":
                return names.get(value, value)
            case "dims" | "over":
                return tuple(names.get(d, d) for d in value)
            case "intervals":
                return _dims(value, names)
            case "pairs":
                pairs = tuple((names.get(a, a), names.get(b, b)) for a, b in value)
                return tuple((a, b) for a, b in pairs if a != b)
            case _:
                return value

    fields = getattr(static, "_fields", ())
    return type(static)(*map(renamed_field, fields, static)) if fields else static
