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
    """By name, the value of each result in terms of the parameters that are passed; nothing is applied any more.

    >>> from tensorir.text import parse
    >>> f = parse("f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← x × x; y[I[1:3]] ← y + x; }")
    >>> print(whole_results(f)["y"])
    let t1 = x × x; update(t1, subset(t1 + x, I[1:3]))
    """
    held: dict[Var, Expr] = {}
    for c, value in zip(program.closures, inlined(values(program.closures)), strict=True):
        (now,) = substitute_all((value,), held)
        part, whole = coerced(now, c.target), c.output.type
        if c.target.dims != whole.dims:
            before = held.get(c.output)
            if before is None:  # of a buffer nothing is read that was not written
                before = c.output if c.output in program.inputs else coerced(zero(whole.element), whole)
            part = call("update", before, part, span=c.span)
        held[c.output] = part
    return {p.name: held[p] for p in program.results}


def zero(element: Element) -> Expr:
    """Zero, or false, of an element type."""
    match element:
        case Scalar():
            return literal(DTYPES[element].type(0).item(), element)
        case TupleElement(members):
            return call("make_tuple", *(zero(m) for m in members))


def single_results(program: Fencil) -> tuple[Fencil, dict[str, tuple[str, ...]]]:
    """The program with a result for each member of a tuple, and by result the names of its members in order.

    >>> from tensorir.text import parse
    >>> f = parse("f(y: tensor<(float, float), I[0:9]>, x: tensor<float, I[0:9]>) { y ← (x, x × x); }")
    >>> print(single_results(f)[0])
    f(y_0: tensor<float, I[0:9]>, y_1: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) {
      let t1 = (x, x × x);
      y_0 ← t1[0];
      y_1 ← t1[1];
    }
    """
    taken = {p.name for p in program.params}
    outputs: list[tuple[Var, Expr]] = []
    names: dict[str, tuple[str, ...]] = {}
    for name, value in whole_results(program).items():
        members = _members(value)
        single = [name] if len(members) == 1 else [free_name(f"{name}_{k}", taken) for k in range(len(members))]
        outputs += [(var(n, m.tensor.on(program[name].type.dims)), m) for n, m in zip(single, members, strict=True)]
        names[name] = tuple(single)
    read = frozenset[Var]().union(*(e.free for _, e in outputs))
    inputs = [p for p in program.params if p in read]
    params = [*(p for p, _ in outputs), *(p for p in inputs if p.name not in {v.name for v, _ in outputs})]
    return fencil(program.name, params, [closure(p, e) for p, e in outputs], program.span), names


def _members(value: Expr) -> list[Expr]:
    """The scalar members of a value, from the first to the last."""
    if not isinstance(value.tensor.element, TupleElement):
        return [value]
    parts = (call("tuple_get", value, static=(k,)) for k in range(len(value.tensor.element.members)))
    return [m for part in parts for m in _members(part)]


@dataclass(frozen=True, slots=True)
class Feedback:
    """The arrays of a state as parameters of a program, and the result that each comes from in the next one."""

    reads: Mapping[str, int]
    """By parameter, which array of the state it is; others are the same in all steps."""
    following: tuple[str | int, ...]
    """Of each array of the next state, the result that it is, or which array of this state."""


@dataclass(frozen=True, slots=True)
class Chained:
    """Several steps: a program, and where each array of the last state comes from."""

    program: Fencil
    reads: Mapping[str, int]
    following: tuple[str | int, ...]


def chained(program: Fencil, feedback: Feedback, steps: int) -> Chained | None:
    """So many steps as one; None where what a step gives is on other intervals than what the next one reads.

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
    whole = whole_results(program)
    constant = [p for p in program.inputs if p.name not in feedback.reads]
    now: list[Expr | int] = [slots.get(k, k) for k in range(len(feedback.following))]
    for _ in range(steps):
        arguments: dict[Var, Expr] = {}
        for name, k in feedback.reads.items():
            value = now[k]
            assert not isinstance(value, int)
            arguments[program[name]] = value
        results = dict(zip(whole, substitute_all(tuple(whole.values()), arguments), strict=True))
        now = [results[f] if isinstance(f, str) else now[f] for f in feedback.following]
    taken = {v.name for v in (*slots.values(), *constant)}
    outputs: list[tuple[Var, Expr]] = []
    following: list[str | int] = []
    given_back = {v: k for k, v in slots.items()}
    for value, f in zip(now, feedback.following, strict=True):
        if isinstance(value, int):
            following.append(value)
        elif isinstance(value, Var) and value in given_back:
            following.append(given_back[value])
        else:
            while isinstance(f, int):  # the result that it was, some steps before
                f = feedback.following[f]
            target = var(free_name(f, taken), program[f].type)
            outputs.append((target, value))
            following.append(target.name)
    expressions = inlined([e for _, e in outputs])
    read = frozenset[Var]().union(*(e.free for e in expressions))
    inputs = [v for v in (*slots.values(), *constant) if v in read]
    pairs = zip([p for p, _ in outputs], expressions, strict=True)
    several = fencil(
        f"{program.name}_{steps}_steps", [*(p for p, _ in outputs), *inputs], [closure(p, e) for p, e in pairs],
        program.span,
    )  # fmt: skip
    return Chained(several, {v.name: k for k, v in slots.items() if v in read}, tuple(following))


def state_variables(program: Fencil, feedback: Feedback) -> dict[int, Var] | None:
    """The parameter that each array of the state is: one that reads it, in this step or in one of those to come.

    None where what a step gives is on other intervals than what the next one reads, or of another type.
    """
    names: dict[int, str] = {}
    for name, k in feedback.reads.items():
        names.setdefault(k, name)
    kinds = {k: program[name].type for k, name in names.items()}
    for _ in feedback.following:
        for after, f in enumerate(feedback.following):
            if isinstance(f, int) and after in kinds:
                kinds.setdefault(f, kinds[after])
                names.setdefault(f, f"{names[after]}_before")
    for name, k in feedback.reads.items():
        if program[name].type.dims.items != kinds[k].dims.items:
            return None
    for after, f in enumerate(feedback.following):
        if after not in kinds:
            continue
        kind = program[f].type if isinstance(f, str) else kinds[f]
        if (kind.element, kind.dims.items) != (kinds[after].element, kinds[after].dims.items):
            return None
    taken = {p.name for p in program.inputs} - set(feedback.reads)
    return {k: var(free_name(names[k], taken), kinds[k]) for k in sorted(kinds)}


# Dims that go along one axis of a mesh, such as points and the faces between them: one name for both.
#
# A tensor has one of them, so a device has the same block of either, and what renames one to the other stays where it
# is. With one name it is no operation at all.

BOTH = "{} and {} are both to be distributed along '{}'."
APART = "give each dim an axis of its own."


def names_of_axes(axes: Mapping[str, str], owners: Collection[str] = ()) -> dict[str, str]:
    """The dims in blocks that go along the axis of an earlier one, each with the name of that one."""
    first: dict[str, str] = {}
    blocks = {d: a for d, a in axes.items() if d not in owners}
    return {d: first[a] for d, a in blocks.items() if first.setdefault(a, d) != d}


def check_named(name: str, have: Collection[str], axes: Mapping[str, str], owners: Collection[str] = ()) -> None:
    """Raise D02 for a dim that a program lacks, unless one that goes along its axis is there: it may have it within."""
    names = names_of_axes(axes, owners)
    there = {names.get(d, d) for d in have}
    check_dims(name, have, [d for d in axes if d in have or names.get(d, d) not in there])


def refuse_both(tensors: Iterable[Iterable[str]], axes: Mapping[str, str], owners: Collection[str] = ()) -> None:
    """Raise D05 where a tensor, whose dims these are, has two that are to go along one axis."""
    names = names_of_axes(axes, owners)
    for dims in tensors:
        if pair := _both(dims, names):
            raise refuse("D05", BOTH.format(*pair, axes[pair[1]]), APART)


def _both(dims: Iterable[str], names: Mapping[str, str]) -> tuple[str, str] | None:
    """Two dims that have one name, of these."""
    seen: dict[str, str] = {}
    return next(((seen[n], d) for d in dims if seen.setdefault(n := names.get(d, d), d) != d), None)


def under_one_name(
    program: Fencil, axes: Mapping[str, str], owners: Collection[str] = ()
) -> tuple[Fencil, dict[str, str]]:
    """The program with one name for the dims that go along an axis together, and the axes of those that are left.

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
    done: dict[int, Any] = {}
    have = dict.fromkeys(d for p in program.params for d in p.type.dims)

    def kind(tensor: TensorType) -> TensorType:
        return tensor.on(_dims(tensor.dims, names))

    def variable(v: Var) -> Var:
        return replace(v, type=kind(v.type))

    for node in postorder(*values(program.closures)):
        if isinstance(node.type, TensorType):
            have.update(dict.fromkeys(node.type.dims))
            if pair := _both(node.type.dims, names):
                raise refuse("D05", BOTH.format(*pair, axes[pair[1]]), APART, at=node.span)
        children = tuple([done[id(c)] for c in node.children])
        renamed: Any = node
        match node:
            case Var():
                renamed = variable(node)
            case Lambda():
                renamed = replace(node, params=tuple(map(variable, node.params)), results=children)
            case Operator():
                renamed = replace(node, params=tuple(map(kind, node.params)))
            case Apply():
                renamed = replace(node, function=children[0], args=children[1:])
            case Call():
                static = _static(node.static, names)
                unnamed = node.op == "rename" and not static[0]
                renamed = children[0] if unnamed else replace(node, args=children, static=static)
            case Literal():
                pass
            case _:
                raise AssertionError(node)
        done[id(node)] = renamed
    check_dims(program.name, have, [*names, *names.values()])
    closures = tuple(
        Closure(variable(c.output), done[id(c.value)], None if c.region is None else _dims(c.region, names), c.span)
        for c in program.closures
    )
    whole = Fencil(program.name, tuple(map(variable, program.params)), closures, program.span, program.buffers)
    return whole, {d: a for d, a in axes.items() if d not in names}


def _dims(dims: Dims, names: Mapping[str, str]) -> Dims:
    return Dims(tuple((names.get(d, d), i) for d, i in dims.items))


def _static(static: Any, names: Mapping[str, str]) -> Any:
    """The static parameters of a call, whose fields say which of them are names of dims."""

    def one(field: str, value: Any) -> Any:
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
    return type(static)(*map(one, fields, static)) if fields else static
